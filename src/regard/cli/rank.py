"""`python -m regard.cli.rank`: one more process of a run, started by the one that leads it."""

from __future__ import annotations

import sys
from pathlib import Path

from regard.cli.train import follow
from regard.train.distributed import LostRankError, World


def main(meeting: str, rank: str, size: str, out: str, start: str) -> None:
    try:
        world = World.join(meeting, int(rank), int(size))
    except LostRankError:
        sys.exit(1)
    follow(Path(out), Path(start) if start else None, world)


if __name__ == "__main__":
    main(*sys.argv[1:])
