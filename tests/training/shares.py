"""A few updates of toys in float64, as one process of several; the leading one prints what each lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import torch

from regard.exchange import folders
from regard.tasks.registry import read_recipe
from regard.training.distributed import ALONE, World
from regard.training.run import Run


def losses(recipes: list[Path], steps: int, size: int) -> list[list[float]]:
    """Of each recipe, by so many processes."""
    meeting = recipes[0].with_suffix(f".{size}")
    command = [sys.executable, "-m", "tests.training.shares", str(meeting)]
    runs = [
        subprocess.Popen([*command, str(rank), str(size), str(steps), *map(str, recipes)], stdout=subprocess.PIPE)
        for rank in range(size)
    ]
    said = [run.communicate(timeout=120)[0] for run in runs]
    assert [run.returncode for run in runs] == [0] * size
    found: list[list[float]] = json.loads(said[0])
    return found


def main(meeting: str, rank: str, size: str, steps: str, *recipes: str) -> None:
    torch.set_num_threads(1)
    world = World.join(meeting, int(rank), int(size)) if size != "1" else ALONE
    torch.set_default_dtype(torch.float64)
    found = []
    for path in map(Path, recipes):
        out = path.with_suffix("")
        out.mkdir(exist_ok=True)
        recipe = read_recipe(path)
        trainer = Run(recipe, out, folders).trainer(world=world)
        found.append([trainer.update(trainer.weights, step).loss for step in range(int(steps))])
    rows = torch.arange(2 * 7.0).view(7, 2)
    assert torch.equal(world.rows(world.share(rows)), rows)
    if world.leads:
        print(json.dumps(found))
    world.leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
