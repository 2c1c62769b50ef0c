"""What a user gives to be trained on: a recipe, or files, from which one is made; and what is wrong with the data."""

import json
import resource
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.config import PairsConfig, RunningText
from regard.errors import UserError
from regard.progress import duration
from regard.tasks.config import BUDGETS, BaseRecipe
from regard.tasks.lm.config import LM
from regard.tasks.lm.starter import text_starter
from regard.tasks.registry import TASKS, parse_recipe, read_recipe
from regard.tasks.report import Report
from regard.tasks.spec import TaskSpec
from regard.tasks.translation.config import TRANSLATION
from regard.tasks.translation.starter import starter
from regard.training.launch import plan_for
from regard.training.run import Models, Run


@dataclass(frozen=True)
class Asked:
    """What the command line says of data and settings: a recipe, two files and perhaps two to validate on, or text."""

    path: Path | None = None
    source: Path | None = None
    target: Path | None = None
    valid_source: Path | None = None
    valid_target: Path | None = None
    text: Path | None = None
    minutes: float | None = None
    settings: Sequence[str] = ()

    def __post_init__(self) -> None:
        files = {"text": self.text, "source": self.source, "target": self.target}
        files |= {"valid_source": self.valid_source, "valid_target": self.valid_target}
        given = [f"`{name}`" for name, file in files.items() if file is not None]
        if self.path is not None and given:
            raise UserError(f"a recipe and {' and '.join(given)}; the recipe names its files, so give one or the other")
        if self.path is None and not given:
            raise UserError("nothing to train on; give a recipe, or files as `source` and `target`, or one as `text`")
        if self.text is not None and len(given) > 1:
            raise UserError(f"`text` and {given[1]}; a language model learns from `text`, a translator from the others")
        if self.path is None and self.text is None and (self.source is None or self.target is None):
            lacks = "source" if self.source is None else "target"
            raise UserError(f"`{lacks}` is missing; `source` and `target` belong together, line by line")
        if self.source is not None and self.source == self.target:
            raise UserError(f"`source` and `target` are both {self.source}; give the text and its translation")
        if self.minutes is not None and self.minutes <= 0:
            raise UserError(f"`minutes` {self.minutes:g} leaves no time; give 1 or more")
        if (self.valid_source is None) != (self.valid_target is None):
            raise UserError("one of `valid_source` and `valid_target` is missing; give both")

    @staticmethod
    def of(recipe: Any, files: Mapping[str, Any], minutes: float | None, settings: Sequence[str]) -> "Asked":
        paths = {name: Path(file) for name, file in {"path": recipe, **files}.items() if file is not None}
        return Asked(**paths, minutes=minutes, settings=settings)

    @property
    def folder(self) -> Path:
        """Where the run goes if nobody says so."""
        given = (self.path, self.text, self.source, self.target)
        return Path("runs") / "-".join(path.stem for path in given if path)

    @property
    def spec(self) -> TaskSpec:
        """Of the task that is meant."""
        if self.path is not None:
            return TASKS[self.recipe()[0].task]
        return TRANSLATION if self.text is None else LM

    def corpora(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """To train on, and to validate on; of files, no line is read."""
        if self.path is not None:
            return self.recipe()[0].corpora
        if self.text is not None:
            return [RunningText(file=str(self.text))], []
        pairs = ((self.source, self.target), (self.valid_source, self.valid_target))
        train, valid = ([PairsConfig(source=str(one), target=str(two))] if one else [] for one, two in pairs)
        return train, valid

    def recipe(self) -> tuple[BaseRecipe, list[str]]:
        """The recipe, and what was decided in it and why."""
        if self.path is not None:
            others = [f"train.{name}=null" for name in BUDGETS if name != "minutes"]
            budget = [] if self.minutes is None else [f"train.minutes={self.minutes}", *others]
            return read_recipe(self.path, [*self.settings, *budget]), []
        if self.text is not None:
            chosen, reasons = text_starter(self.text, self.minutes)
        else:
            train, valid = self.corpora()
            chosen, reasons = starter(train[0], valid[0] if valid else None, self.minutes)
        return parse_recipe(json.dumps(chosen), "the command line", self.settings), reasons


def check(asked: Asked, models: Models) -> Report:
    """Every problem; time and memory are measured, with the largest batch tried, unless the data are refused."""
    report = asked.spec.inspect(*asked.corpora())
    if not report.fatal:
        with tempfile.TemporaryDirectory() as folder:
            run = Run(asked.recipe()[0], Path(folder), models)
            run.save_tokenizers()
            report.rows |= run.task.summary(run.recipe, report)
            plan = plan_for(run.trainer())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << (20 if sys.platform != "darwin" else 30))
        report.rows |= {"parameters": f"{plan.parameters:,}", "updates": f"{plan.steps:,}"}
        memory = f"about {peak:.1f} GiB; the largest batch fits"
        report.rows |= {"time": f"about {duration(plan.seconds)}", "memory": memory}
    return report
