"""Further processes of a run, each started by the one that leads it.

python -m regard.process rank OUT START MEETING RANK SIZE     one more rank of a training
python -m regard.process train OPTIONS                        a training of a comparison, options as JSON
"""

from __future__ import annotations

import ctypes
import json
import signal
import sys
from contextlib import suppress
from pathlib import Path

from regard.errors import UserError
from regard.progress import warn

PR_SET_PDEATHSIG = 1
COMMAND = (sys.executable, "-m", "regard.process")


def rank(out: str, start: str, meeting: str, number: str, size: str) -> None:
    """Says nothing: the leading process has said why."""
    from regard.exchange import folders
    from regard.train.distributed import LostRankError, World
    from regard.train.loop import InterruptedTrainingError
    from regard.train.run import follow

    try:
        follow(Path(out), folders, Path(start) if start else None, World.join(meeting, int(number), int(size)))
    except (InterruptedTrainingError, LostRankError):
        sys.exit(1)


def train(options: str) -> None:
    """Ends when the process that compares has died, where the system can do that (Linux)."""
    from regard import api
    from regard.train.distributed import LostRankError
    from regard.train.loop import InterruptedTrainingError

    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    given = json.loads(options)
    settings = [*given["settings"], f"train.seed={given['seed']}"]
    try:
        api.train(
            given["recipe"], out=given["out"], minutes=given["minutes"], threads=given["threads"], settings=settings
        )
    except InterruptedTrainingError as stopped:
        sys.exit(stopped.exit_code)
    except LostRankError:
        sys.exit(1)
    except UserError as error:
        warn(str(error))
        sys.exit(2)


def main(action: str, *given: str) -> None:
    if action == "rank":
        rank(*given)
    else:
        train(*given)


if __name__ == "__main__":
    main(*sys.argv[1:])
