"""`regard train`: exit codes of a run that was stopped."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from regard.progress import warn
from regard.train.distributed import LostRankError
from regard.train.loop import InterruptedTrainingError


@contextmanager
def exit_codes() -> Iterator[None]:
    try:
        yield
    except InterruptedTrainingError as stopped:
        warn(f"{stopped}; run the same command to go on")
        sys.exit(stopped.exit_code)
    except LostRankError as error:
        warn(f"{error}; run the same command to go on")
        sys.exit(1)
