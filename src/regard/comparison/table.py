"""The table and the picture of `regard compare`."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import inf, isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

from regard.errors import UserError
from regard.files import write
from regard.look.charts import NoMatplotlibError, Row, forest
from regard.metrics.resample import SAMPLES, Estimate, Floats, Gap, System, estimate, gap, resampled
from regard.progress import say
from regard.tasks.judging import Judge, Judged


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run."""

    judged: Judged
    parameters: int
    flops: float | None
    seconds: float


Runs = Mapping[str, Mapping[int, Run]]  # by name and seed, seeds being counted from 0
Drawn = dict[tuple[str, int], Floats]  # likewise: scores on drawn test sets, which are worth keeping


@dataclass(frozen=True)
class Line:
    """One system."""

    name: str
    runs: Mapping[int, Run]
    quality: Estimate
    speed: float | None
    ahead: Gap | None  # of the next one

    @property
    def values(self) -> list[float]:
        return [run.judged.value for run in self.runs.values()]

    @property
    def means(self) -> dict[str, Any]:
        return {"mean": self.quality.value, "low": self.quality.low, "high": self.quality.high}

    @property
    def flops(self) -> float | None:
        counted = [run.flops for run in self.runs.values() if run.flops is not None]
        return fmean(counted) if counted else None

    @property
    def minutes(self) -> float:
        return fmean(run.seconds for run in self.runs.values()) / 60

    @property
    def parameters(self) -> int:
        return next(iter(self.runs.values())).parameters


@dataclass(frozen=True, kw_only=True)
class Table:
    """Systems of one task, the best first."""

    judge: Judge
    num_seeds: int
    lines: list[Line]

    @staticmethod
    def of(judge: Judge, num_seeds: int, runs: Runs, speeds: Mapping[str, float], drawn: Drawn) -> "Table":
        """Of the runs that are there; what is drawn for one is added to `drawn`."""
        _check_alike(runs)
        systems = {name: _system(name, runs[name], drawn, judge) for name in judge.recipes if runs.get(name)}
        higher = next(run.judged.higher for each in runs.values() for run in each.values())
        low, high = judge.limits.get(judge.metric, (0.0, 100.0))
        quality = {name: estimate(system).within(low, high) for name, system in systems.items()}
        sign = -1 if higher else 1  # the best first, and what is no number last
        order = sorted(systems, key=lambda name: sign * quality[name].value if isfinite(quality[name].value) else inf)
        ahead = {one: gap(systems[one], systems[two]).within(low - high, high - low) for one, two in pairwise(order)}
        lines = [Line(name, runs[name], quality[name], speeds.get(name), ahead.get(name)) for name in order]
        return Table(judge=judge, num_seeds=num_seeds, lines=lines)

    @property
    def judged(self) -> Judged:
        """Of any run: all are judged alike."""
        return next(iter(self.lines[0].runs.values())).judged

    @property
    def on(self) -> str:
        return self.judge.chosen or "validation data"

    @property
    def timed(self) -> bool:
        return any(line.speed is not None for line in self.lines)

    def save(self, out: Path) -> None:
        """As compare.md, compare.json and compare.svg."""
        for ending, text in {"md": self.markdown(), "json": self.json()}.items():
            write(out / f"compare.{ending}", text.encode("utf-8", "replace"))
        try:
            write(out / "compare.svg", self.picture(f"{out.resolve().name}: {self.on}").encode())
        except NoMatplotlibError as error:
            say(f"compare.svg is left out: {error}")

    def markdown(self) -> str:
        heads = ["", f"{self.judged.metric} (95 %)", "seeds", "parameters", "training FLOPs", "time"]
        heads += [f"{self.judge.items}/s"] * self.timed + ["better than the next"]
        rows = [heads, ["---"] * len(heads), *map(self._cells, self.lines)]
        return "\n".join(["| " + " | ".join(row) + " |" for row in rows] + ["", *self.notes()]) + "\n"

    def _cells(self, line: Line) -> list[str]:
        digits = 2 if any(abs(each.quality.value) >= 10 for each in self.lines) else 4
        low, high = (f"{end(line.values):.{digits}f}" for end in (min, max))
        spread = f"{len(line.values)}: {low} to {high}" if len(line.values) > 1 else "1"
        cells = [line.name.replace("|", "\\|"), f"{line.quality:.{digits}f}", spread, _count(line.parameters)]
        cells += [_power(line.flops), _time(line.minutes)]
        cells += [_speed(line.speed)] * self.timed
        if line.ahead is None:
            return [*cells, "–"]
        p = line.ahead.p_value
        sure = "" if p is None else ", p < 0.001" if p < 0.001 else f", p = {p:.3f}"
        return [*cells, f"{line.ahead:+.{digits}f}{sure}"]

    def notes(self) -> list[str]:
        """What one has to know to read the table."""
        judged, items, few = self.judged, self.judge.items, min(len(line.runs) for line in self.lines)
        better, count = "higher" if judged.higher else "lower", len(judged.wanted)
        signed = f" ({judged.signature})" if judged.signature else ""
        on = self.on + ("" if self.judge.chosen else ", by which the best step of each run was chosen too")
        notes = [f"{judged.metric}{signed}, {better} is better, on {f'{count:,} {items} of ' * bool(count)}{on}."]
        if count:
            notes[0] += f" Mean over seeds; 95 % and p by bootstrap over {items} and seeds, {SAMPLES:,} samples."
            if few == 1:
                notes.append("Where there is one seed, they tell nothing of the luck of another.")
        elif few > 1:
            notes[0] += " Mean over seeds; 95 % by Student's t over seeds, p by Welch's test."
        else:
            notes.append("One seed, and no items to draw again: so there are no intervals. More seeds give some.")
        notes.append("Costs are means over seeds: FLOPs of matrix products; time of training with its evaluations.")
        if timed := [name for name, recipe in self.judge.recipes.items() if recipe.train.minutes is not None]:
            notes.append(f"Trained for a given time, so the machine mattered: {', '.join(timed)}.")
        if begun := [name for name, recipe in self.judge.recipes.items() if recipe.takes_weights]:
            notes.append(f"Began with another model, whose training is not counted: {', '.join(begun)}.")
        every = ((name, seed) for seed in range(self.num_seeds) for name in self.judge.recipes)
        there = {(line.name, seed) for line in self.lines for seed in line.runs}
        if missing := [f"{name} {seed}" for name, seed in every if (name, seed) not in there]:
            notes.append(f"Not there yet: {', '.join(missing)}.")
        return notes

    def json(self) -> str:
        """Everything, as exact as it is known; null for what is not finite."""
        judged = self.judged
        head = {"metric": judged.metric, "higher": judged.higher, "signature": judged.signature}
        head |= {"judged_on": self.on, "items": len(judged.wanted)}
        systems = [self._described(line) for line in self.lines]
        exact = json.dumps({**head, "systems": systems, "notes": self.notes()})
        return json.dumps(json.loads(exact, parse_constant=lambda name: None), indent=1, ensure_ascii=False)

    def _described(self, line: Line) -> dict[str, Any]:
        first = self.judge.recipes[line.name].train.seed
        runs = [
            {"seed": first + i, "value": run.judged.value, "flops": run.flops, "seconds": run.seconds}
            for i, run in line.runs.items()
        ]
        costs = {"parameters": line.parameters, "flops": line.flops, "minutes": line.minutes, "speed": line.speed}
        ahead = None if line.ahead is None else asdict(line.ahead)
        return {"name": line.name, **line.means, **costs, "ahead_of_next": ahead, "runs": runs}

    def picture(self, title: str) -> str:
        rows = []
        for line in self.lines:
            columns = (_count(line.parameters), *[_speed(line.speed)] * self.timed)
            rows.append(Row(name=line.name, **line.means, seeds=line.values, flops=line.flops, columns=columns))
        better = "higher" if self.judged.higher else "lower"
        quality = f"{self.judged.metric}, {better} is better; small dots: seeds"
        return forest(rows, title, quality, ["parameters", *[f"{self.judge.items}/s"] * self.timed])


def _check_alike(runs: Runs) -> None:
    every = [(name, seed, run.judged.wanted) for name, each in runs.items() for seed, run in each.items()]
    for name, seed, wanted in every:
        if wanted != every[0][2]:
            raise UserError(
                f"{name}/{seed} was judged by other data than {every[0][0]}/{every[0][1]}, as the files have changed; "
                "remove the judged.json of both, and run the same command"
            )


def _system(name: str, runs: Mapping[int, Run], drawn: Drawn, judge: Judge) -> System:
    for seed, run in runs.items():
        if run.judged.wanted and (name, seed) not in drawn:
            drawn[name, seed] = resampled(judge.score(run.judged), len(run.judged.wanted))
    values = [run.judged.value for run in runs.values()]
    return System(name, values, [drawn[name, seed] for seed in runs if (name, seed) in drawn])


def _count(number: int) -> str:
    return f"{number / 1e6:,.1f} M" if number >= 1e6 else f"{number / 1e3:.1f} k" if number >= 1e3 else str(number)


def _power(value: float | None) -> str:
    number, _, power = f"{value or 0:.1e}".partition("e")
    return f"{number}e{int(power)}" if value is not None else "–"


def _time(minutes: float) -> str:
    return f"{minutes:,.1f} min" if minutes >= 1 else f"{60 * minutes:.0f} s"


def _speed(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
