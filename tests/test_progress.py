import io
import math
import re
import subprocess
import sys

import pytest

from regard.progress import Progress, duration


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """Counts how often something is drawn."""

    writes = 0

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.writes += bool(text)
        return super().write(text)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("regard.progress.monotonic", clock)
    return clock


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    return Terminal()


def lines(told: str) -> list[str]:
    """What was told; of the last part of a line the time alone, without the words around it."""
    return [re.sub(r"[^·]*?((?:\d+:)+\d\d)[^·]*$", r" \1", line) for line in told.splitlines()]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (192.9, "3:12"), (3727, "1:02:07"), (360_000, "100:00:00"), (-1, "0:00"), (math.nan, "?")],
)
def test_durations_read_as_clocks(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_plain_lines_come_every_ten_seconds_and_at_the_end(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress(100, "train", stream) as bar:
        for step in range(1, 101):
            bar.update(step, loss=4 - step / 100, speed="5,120 tokens/s")
            clock.now += 0.25
    assert lines(stream.getvalue()) == [
        "train 41 % · loss 3.59 · 5,120 tokens/s · 0:14",
        "train 81 % · loss 3.19 · 5,120 tokens/s · 0:04",
        "train 100 % · loss 3 · 5,120 tokens/s · 0:25",
    ]


def test_the_time_left_of_a_resumed_job_counts_only_its_own_work(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress(1000, "train", stream) as bar:
        bar.update(900)
        clock.now += 10
        bar.update(910)
    assert lines(stream.getvalue())[0] == "train 91 % · 1:30"


def test_a_job_without_a_known_end_shows_its_count(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress(None, "read", stream) as bar:
        bar.update(5)
        clock.now += 10
        bar.update(12_345)
    assert lines(stream.getvalue()) == ["read 12,345", "read 12,345 · 0:10"]


def test_a_job_that_fails_says_where_it_stopped(clock: Clock) -> None:
    stream = io.StringIO()
    with pytest.raises(KeyError), Progress(8, "test", stream) as bar:  # noqa: PT012
        bar.update(3)
        clock.now += 61
        raise KeyError
    assert lines(stream.getvalue()) == ["test 37 % · 1:01"]
    assert "stopped" in stream.getvalue()


@pytest.mark.parametrize(("total", "done", "text"), [(0, 0, "100 %"), (3, 4, "100 %"), (1000, 999.9, "99 %")])
def test_a_hundred_percent_means_finished(total: float, done: float, text: str) -> None:
    stream = io.StringIO()
    with Progress(total, "x", stream) as bar:
        bar.update(done)
    assert lines(stream.getvalue()) == [f"x {text} · 0:00"]


@pytest.mark.parametrize(
    ("value", "text"), [(math.nan, "nan"), (math.inf, "inf"), (0.00031, "0.00031"), (2, "2"), (5119.6, "5,120")]
)
def test_numbers_are_short(value: float, text: str) -> None:
    stream = io.StringIO()
    with Progress(1, "x", stream) as bar:
        bar.update(0, loss=value)
    assert f"· loss {text} ·" in stream.getvalue()


def test_lines_are_printed_at_once() -> None:
    stream = io.StringIO()
    with Progress(1, "x", stream) as bar:
        bar.line("bleu [bold]31.2[/bold]")
        assert stream.getvalue() == "bleu [bold]31.2[/bold]\n"


def test_a_terminal_gets_a_bar(terminal: Terminal, clock: Clock) -> None:
    with Progress(100, "train [x]", terminal) as bar:
        bar.update(1)
        clock.now += 60
        bar.update(42, loss=3.21, speed="[5,120] tokens/s")
        bar.line("bleu [bold]31.2[/bold]")
    drawn = terminal.getvalue()
    for part in ("train [x]", "42 %", "loss 3.21", "[5,120] tokens/s", "1:00", "1:24", "bleu [bold]31.2[/bold]\n"):
        assert part in drawn
    assert "\x1b[" in drawn
    assert "done" in drawn


def test_a_bar_is_drawn_at_most_five_times_a_second(terminal: Terminal, clock: Clock) -> None:
    with Progress(100_000, "train", terminal) as bar:
        bar.update(0)
        before = terminal.writes
        bar.update(1)
        assert terminal.writes == before, "too soon after the first"
        draws = 0
        for step in range(10_000):
            clock.now += 1 / 1000
            bar.update(step)
            draws += terminal.writes > before
            before = terminal.writes
    assert 45 <= draws <= 50, "ten seconds"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_that_wants_no_bar_gets_lines(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with Progress(1, "x", terminal) as bar:
        bar.update(1)
    assert lines(terminal.getvalue()) == ["x 100 % · 0:00"]


def test_the_default_stream_is_the_stderr_of_the_moment(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(1, "x"):
        pass
    captured = capsys.readouterr()
    assert (captured.out, lines(captured.err)) == ("", ["x 0 % · 0:00"])


def test_plain_lines_cost_no_rich() -> None:
    code = "import sys; sys.modules['rich'] = None\nfrom regard.progress import Progress\nwith Progress(1, 'x'): pass"
    subprocess.run([sys.executable, "-c", code], check=True, stderr=subprocess.DEVNULL)
