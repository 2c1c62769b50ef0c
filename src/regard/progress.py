"""What a user is told on stderr: lines, and how far a long job is, by a bar on a terminal."""

import math
import os
import sys
from time import monotonic
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import rich.progress

BAR_SECONDS = 0.2  # between two drawings of the bar
LINE_SECONDS = 10.0  # between two plain lines, and before the first


def say(text: str) -> None:
    """A line for the user, beside the results."""
    print(text, file=sys.stderr, flush=True)


def warn(text: str) -> None:
    say(f"regard: {text}")


class Progress:
    """Shows how far `what` has come; `total` is None where the end is not known. The stream is stderr by default."""

    def __init__(self, total: float | None, what: str, stream: TextIO | None = None) -> None:
        self.total, self.what = total, what
        self.stream = sys.stderr if stream is None else stream
        self.done, self.shown = 0.0, dict[str, float | str]()
        self._first: tuple[float, float] | None = None  # work done and time at the first update: a resumed job has some
        self._bar: rich.progress.Progress | None = None

    def __enter__(self) -> "Progress":
        self._begun = monotonic()
        if self.stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
            self._bar = _bar(self.stream, self.total, self.what)
            self._bar.start()
        self._next = self._begun + (LINE_SECONDS if self._bar is None else 0.0)
        return self

    def __exit__(self, kind: object, error: object, at: object) -> None:
        self._draw(f"{'done in' if kind is None else 'stopped after'} {duration(monotonic() - self._begun)}")
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def update(self, done: float, **shown: float | str) -> None:
        """Work done so far, and what to show beside it: numbers with their names, texts as they are."""
        now = monotonic()
        self.done, self.shown = done, shown
        if self._first is None:
            self._first = (done, now)
        if now >= self._next:
            self._next = now + (LINE_SECONDS if self._bar is None else BAR_SECONDS)
            left = ""
            if self.total is not None and done > self._first[0]:  # at the speed since the first update
                seconds = (self.total - done) / (done - self._first[0]) * max(now - self._first[1], 1e-9)
                left = f"{duration(seconds)} left"
            self._draw(left)

    def line(self, text: str) -> None:
        """Print a line; a bar stays below it."""
        if self._bar is None:
            print(text, file=self.stream, flush=True)
        else:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _draw(self, ending: str) -> None:
        share = _number(self.done)
        if self.total is not None:  # rounded down: 100 % means finished
            share = f"{int(100 * min(self.done / self.total, 1.0)) if self.total > 0 else 100} %"
        fields = [value if isinstance(value, str) else f"{name} {_number(value)}" for name, value in self.shown.items()]
        if self._bar is None:
            self.line(" · ".join(filter(None, [f"{self.what} {share}", *fields, ending])))
        else:
            text = " · ".join(filter(None, [share, *fields, duration(monotonic() - self._begun), ending]))
            self._bar.update(self._bar.task_ids[0], completed=self.done, text=text)
            self._bar.refresh()


def duration(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any: "3:12", "1:02:07"."""
    if not math.isfinite(seconds):
        return "?"
    minutes, second = divmod(int(max(seconds, 0.0)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or float(value).is_integer() else f"{value:.3g}"


def _bar(stream: TextIO, total: float | None, what: str) -> "rich.progress.Progress":
    from rich.console import Console  # here, so that naming the type costs no rich
    from rich.progress import BarColumn, Progress, TextColumn

    left, right = (TextColumn(f"{{task.{name}}}", markup=False) for name in ("description", "fields[text]"))
    # Without a thread of its own: updates draw, so nothing runs while the job forks or computes.
    bar = Progress(left, BarColumn(), right, console=Console(file=stream, force_terminal=True), auto_refresh=False)
    bar.add_task(what, total=total, text="")
    return bar
