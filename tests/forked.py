"""The program in a process of its own without seconds of imports: forked from one that has imported everything.

That process reads a request a line from its standard input (arguments, folder, environment, where the streams are) and
answers with the number of the fork, and, when it is asked for that, with its exit code. It has computed nothing, so the
forks begin as a new process does.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

COMMANDS = ("attend", "demo", "main", "run")
LIBRARIES = ("torch._dynamo", "torch.utils.flop_counter", "sacrebleu.metrics", "sklearn.metrics", "scipy.stats",
             "matplotlib.figure", "matplotlib.font_manager", "matplotlib.backends.backend_svg", "regard.engine.native",
             "regard.tasks.mlm.runtime", "regard.tasks.labelled.runtime", "regard.training.run",
             "regard.comparison.runs")  # fmt: skip
EXPORT = (
    "transformers",
    "ctranslate2",
    "onnx",
    "onnxruntime",
    "regard.exchange.export",
)  # by the first that needs them
STREAMS = ("stdin", "stdout", "stderr")


def run(arguments: list[str], stdin: bytes, env: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "stdin").write_bytes(stdin)
        process = Process(arguments, Path(folder), env)
        return subprocess.CompletedProcess(arguments, process.wait(), process.read("stdout"), process.read("stderr"))


class Process:
    """One that was started and is at work; what it says is in files of its folder."""

    def __init__(self, arguments: list[str], folder: Path, env: dict[str, str]) -> None:
        self.paths = {name: folder / name for name in STREAMS}
        self.paths["stdin"].touch()
        for name in STREAMS[1:]:  # of one that ran here before
            self.paths[name].unlink(missing_ok=True)
        streams = [str(path) for path in self.paths.values()]
        self.pid = _ask({"arguments": arguments, "cwd": os.getcwd(), "env": env, "streams": streams})

    def read(self, stream: str) -> bytes:
        return self.paths[stream].read_bytes() if self.paths[stream].exists() else b""

    def wait(self) -> int:
        """Its exit code, which can be had once."""
        return _ask({"wait": self.pid})

    def kill(self, signum: int = signal.SIGKILL) -> None:
        os.kill(self.pid, signum)

    def wait_for(self, word: bytes) -> None:
        """Until it has said so to stderr."""
        for _ in range(6000):
            if word in self.read("stderr"):
                return
            assert is_alive(self.pid), self.read("stderr").decode()
            time.sleep(0.01)
        raise AssertionError(self.read("stderr").decode())


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()]


def wait_for_the_end_of(pid: int) -> None:
    for _ in range(3000):
        if not is_alive(pid):
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} lives on")


def _ask(request: dict[str, Any]) -> int:
    parent = _parent()
    assert parent.stdin is not None
    assert parent.stdout is not None
    parent.stdin.write(json.dumps(request).encode() + b"\n")
    parent.stdin.flush()
    return int(parent.stdout.readline())


@cache
def _parent() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", f"from {__name__} import serve; serve()"]
    root = Path(__file__).parent.parent
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root)
    atexit.register(parent.communicate)  # the end of its input is its end
    return parent


def serve() -> None:
    import torch

    torch.set_num_threads(1)
    for name in (*(f"regard.cli.{name}" for name in COMMANDS), *LIBRARIES):
        importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            print(os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1]), flush=True)
            continue
        if request["arguments"][:1] == ["export"]:
            for name in EXPORT:
                importlib.import_module(name)
        child = os.fork()
        if not child:
            _become(request)
        print(child, flush=True)


def _become(request: dict[str, Any]) -> None:
    """Never returns."""
    code = 70
    try:
        os.setsid()  # a group of its own, as a shell gives it
        for number, path in enumerate(request["streams"]):
            os.dup2(os.open(path, os.O_CREAT | (os.O_WRONLY if number else os.O_RDONLY), 0o600), number)
        sys.stdin, sys.stdout = open(0, encoding="utf-8"), open(1, "w", encoding="utf-8")  # noqa: SIM115
        sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        sys.argv = ["regard", *request["arguments"]]
        if sys.argv[1] == "-m":  # another process of a run
            from regard import process

            process.main(*sys.argv[2:])
        else:
            from regard.cli.main import main

            main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
