"""Around every command: standard streams that may be closed or full, and errors as a user wants to read them."""

import io
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from regard.errors import StoppedError, UserError

OPTIONS = {"goes_on": "continue", "start": "from", "settings": "set", "num_best": "nbest"}  # of other names
SETTING = re.compile("`([a-z_]+)`")
EXTRAS = dict.fromkeys(("torch", "sacrebleu", "scipy"), "train")
EXTRAS |= dict.fromkeys(("starlette", "uvicorn", "prometheus_client"), "serve")


@contextmanager
def guarded() -> Iterator[None]:
    """User mistakes give one or two sentences and exit code 2, never a traceback."""
    _open_streams()
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except UserError as error:
        _fail(str(error))
    except StoppedError as stopped:
        _fail(str(stopped), stopped.exit_code)
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        _fail(f"{error.name} is not installed; pip install 'regard[{EXTRAS[error.name]}]'")
    except KeyboardInterrupt:
        sys.exit(130)
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # typer makes 1 of it
            _drop_output()
            sys.exit(141)
        raise
    except OSError as error:
        _drop_output()
        if isinstance(error, BrokenPipeError):  # the reader of our output has gone
            sys.exit(141)
        place = error.filename or "the output"
        _fail(f"{place}: {error.strerror or error}; check that there is room, and that you may write or read it")


def _fail(message: str, code: int = 2) -> None:
    if os.environ.get("REGARD_DEBUG"):
        traceback.print_exc()
    print(f"regard: {message}", file=sys.stderr)
    sys.exit(code)


def _drop_output() -> None:
    """What is left in the buffer is not tried again when the program ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


class _Messages(io.TextIOWrapper):
    """What cannot be written is dropped: a full disk under a log ends no training. Settings, which messages name in
    backticks, become options."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            super().write(SETTING.sub(lambda named: f"--{OPTIONS.get(named[1], named[1].replace('_', '-'))}", text))
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def _open_streams() -> None:
    """Closed standard streams are opened on nothing, lest a file takes their number and what is written to them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # Writing results to a stream opened for reading fails, and that is said; messages have nowhere to go.
            os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stderr, io.TextIOWrapper):
        encoding = sys.stderr.encoding
        sys.stderr = _Messages(sys.stderr.detach(), encoding, "backslashreplace", line_buffering=True)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # results are UTF-8 wherever they go
