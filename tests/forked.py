"""The program in a process of its own without seconds of imports: forked from one that has imported everything.

That process reads a request a line from its standard input (arguments, folder, environment, where the streams are) and
answers with the exit code. It has computed nothing, so the forks begin as a new process does.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

COMMANDS = ("answer", "attend", "check", "compare", "demo", "evaluate", "init", "main", "run", "train")
STREAMS = ("stdin", "stdout", "stderr")


def run(arguments: list[str], stdin: bytes, env: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in STREAMS]
        paths[0].write_bytes(stdin)
        request = {"arguments": arguments, "cwd": os.getcwd(), "env": env, "streams": [*map(str, paths)]}
        parent = _parent()
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.write(json.dumps(request).encode() + b"\n")
        parent.stdin.flush()
        code = int(parent.stdout.readline())
        return subprocess.CompletedProcess(arguments, code, paths[1].read_bytes(), paths[2].read_bytes())


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
    for name in COMMANDS:
        importlib.import_module(f"regard.cli.{name}")
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            _become(request)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(request: dict[str, Any]) -> None:
    """Never returns."""
    code = 70
    try:
        for number, path in enumerate(request["streams"]):
            os.dup2(os.open(path, os.O_CREAT | (os.O_WRONLY if number else os.O_RDONLY), 0o600), number)
        sys.stdin, sys.stdout = open(0, encoding="utf-8"), open(1, "w", encoding="utf-8")  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        sys.argv = ["regard", *request["arguments"]]
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
