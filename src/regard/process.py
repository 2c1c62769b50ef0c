"""Further processes of a run, each started by the one that leads it.

python -m regard.process rank OUT START MEETING RANK SIZE     one more rank of a training
python -m regard.process train OPTIONS                        a training of a comparison, options as JSON
"""

import ctypes
import json
import signal
import sys
from contextlib import suppress
from pathlib import Path

from regard.errors import StoppedError, UserError
from regard.progress import warn

PR_SET_PDEATHSIG = 1
COMMAND = (sys.executable, "-m", "regard.process")


def rank(out: str, start: str, meeting: str, number: str, size: str) -> None:
    """Says nothing: the leading process has said why."""
    from regard.exchange import folders
    from regard.training.distributed import World
    from regard.training.run import follow

    with suppress(StoppedError):
        follow(Path(out), folders, Path(start) if start else None, World.join(meeting, int(number), int(size)))
        return
    sys.exit(1)


def train(options: str) -> None:
    """Ends when the process that compares has died, where the system can do that (Linux)."""
    from regard import api

    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        api.train(**json.loads(options))
    except (StoppedError, UserError) as error:
        warn(str(error))
        sys.exit(getattr(error, "exit_code", 2))


def main(action: str, *given: str) -> None:
    (rank if action == "rank" else train)(*given)


if __name__ == "__main__":
    main(*sys.argv[1:])
