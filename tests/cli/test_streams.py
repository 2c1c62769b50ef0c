"""Standard streams that are closed, full or gone, and outputs that are taken up again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.errors import UserError
from tests.cli.reading import regard
from tests.fixtures.make import MODELS

TRANSLATOR = MODELS / "transformer"
PROGRAM = f"{sys.executable} -c 'from regard.cli.main import main; main()'"
LINES = b"rot\ngr\xc3\xbcn blau\n"


def shell(command: str, stdin: bytes = LINES, **env: str) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        ["bash", "-c", command], input=stdin, capture_output=True, env={**os.environ, **env}, check=False
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done


def test_messages_never_get_into_the_output() -> None:
    closed = shell(f"{PROGRAM} run {TRANSLATOR} 2>&-")
    whole = shell(f"{PROGRAM} run {TRANSLATOR}")
    assert b"engine" in whole.stderr
    assert closed.stdout == whole.stdout
    assert closed.stdout.count(b"\n") == 2
    assert shell(f"{PROGRAM} run {TRANSLATOR} 2>/dev/full").stdout == whole.stdout


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("run MODEL >&-", 2, "Bad file descriptor"),
        ("run MODEL >/dev/full", 2, "No space left on device"),
        ("init >/dev/full", 2, "No space left on device"),
        ("--help >/dev/full", 2, "No space left on device"),
        ("run MODEL <&-", 0, ""),
        ("init translation | true; exit ${PIPESTATUS[0]}", 128 + signal.SIGPIPE, ""),
    ],
)
def test_closed_and_full_streams_are_told(command: str, code: int, message: str) -> None:
    done = shell(f"{PROGRAM} {command.replace('MODEL', str(TRANSLATOR))}")
    assert done.returncode == code, done.stderr.decode()
    assert message in done.stderr.decode()


def test_a_reader_that_has_enough_ends_the_program_as_a_pipe_does() -> None:
    many = b"rot blau\n" * 20_000
    done = shell(f"{PROGRAM} run {TRANSLATOR} --beam 1 | head -n 1; exit ${{PIPESTATUS[0]}}", many)
    assert done.returncode == 128 + signal.SIGPIPE
    assert done.stdout.count(b"\n") == 1


def test_results_are_utf8_whatever_the_locale_says() -> None:
    generate = f"{PROGRAM} run {MODELS / 'gpt'} --prompt grün --max-tokens 2"
    assert shell(generate, PYTHONIOENCODING="ascii").stdout.decode().startswith("grün")


def test_a_pipe_is_read_once_by_run_and_refused_by_train(tmp_path: Path) -> None:
    assert shell(f"{PROGRAM} run {TRANSLATOR} <(printf 'rot\\nblau\\n')", b"").stdout.count(b"\n") == 2
    done = shell(f"{PROGRAM} train --source <(echo rot) --target <(echo tor) --out {tmp_path / 'run'}", b"")
    assert done.returncode == 2
    assert re.search(b"/dev/fd/.*pipe", done.stderr)
    (tmp_path / "a.yaml").write_text("data: {train: [{source: /dev/zero, target: /dev/zero}]}\ntrain: {steps: 1}\n")
    with pytest.raises(UserError, match="/dev/zero.*pipe"):
        regard("train", tmp_path / "a.yaml", "--out", tmp_path / "run")


def test_an_unfinished_output_is_taken_up_by_the_same_input_alone(tmp_path: Path) -> None:
    out, text = tmp_path / "out", b"".join(b"rot %d\n" % i for i in range(9))
    (tmp_path / "out").mkdir()  # in the place of the output, so that the end fails and the work is kept
    with pytest.raises(UserError, match=r"/out\b.*Is a directory"):
        regard("run", TRANSLATOR, "--output", out, stdin=text)
    (partial,) = tmp_path.glob("out.*.partial")
    whole = partial.read_bytes()
    (sums,) = tmp_path.glob("out.*.inputs")
    assert sums.stat().st_size == 9 * 8
    partial.write_bytes(b"".join(whole.splitlines(keepends=True)[:5]) + b"half a li")
    out.rmdir()
    for other, told in ((text.replace(b"rot 3", b"blau 3"), "line 4"), (text[: text.index(b"rot 4")], "4 .*5")):
        with pytest.raises(UserError, match=rf"{told} .*\.partial"):
            regard("run", TRANSLATOR, "--output", out, stdin=other)
    _, messages = regard("run", TRANSLATOR, "--output", out, stdin=text)
    assert re.search(r"\.partial .*\b5 ", messages)
    assert out.read_bytes() == whole
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_two_processes_do_not_write_one_output(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", "from regard.cli.main import main; main()", "run", TRANSLATOR, "--output", out]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as first:
        assert first.stdin is not None
        first.stdin.write(LINES)
        first.stdin.flush()
        while not any(path.stat().st_size for path in tmp_path.glob("out.*.partial")):
            assert first.poll() is None
            time.sleep(0.02)
        with pytest.raises(UserError, match=r"\.partial.*process.*--output"):
            regard("run", TRANSLATOR, "--output", out, stdin=LINES)
        first.stdin.close()
    assert out.read_bytes().count(b"\n") == 2


def test_a_file_of_a_byte_order_mark_is_one_blank_line(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"\xef\xbb\xbf")
    assert regard("run", TRANSLATOR, tmp_path / "in")[0] == "\n"
    assert regard("run", TRANSLATOR, stdin=b"\xef\xbb\xbf")[0] == "\n"


def test_no_output_line_holds_a_carriage_return(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.tasks.lm.runtime.Generator.text", lambda self, hypothesis, stop=(): "one\rtwo\nthree")
    output, _ = regard("run", MODELS / "gpt", "--beam", "1", "--max-tokens", "2", stdin=b"rot\n")
    assert output == "one two three\n"
