"""`regard compare`: several recipes on the same data, in one table and one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard import api

DEFAULT = Path("runs/compare")


def compare(
    recipes: Annotated[list[Path], typer.Argument(help="Recipes (YAML) for the same data.", show_default=False)],
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each recipe, each of its own seed.")] = 3,
    out: Annotated[Path, typer.Option(help="Folder of the runs, the table and the picture.")] = DEFAULT,
    minutes: Annotated[float | None, typer.Option(help="Time budget of each run. Default: the recipe's.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Override in all recipes, such as train.lr=1e-3.")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Sentences to judge by. Default: validation data.")] = None,
    target: Annotated[Path | None, typer.Option(help="Their references.")] = None,
    data: Annotated[
        str | None, typer.Option(help="Or a corpus such as multi30k-tok/en-de/test, or a file of pairs or examples.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Processor threads. Default: all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The table as JSON.")] = False,
) -> None:
    """Train several recipes on the same data; one table, one picture.

    Quality with its interval, parameters, FLOPs, time, speed. The same command again goes on where it stopped.
    """
    table = api.compare(
        recipes, seeds=seeds, out=out, minutes=minutes, settings=setting or [], source=source, target=target,
        data=data, threads=threads,
    )  # fmt: skip
    print(table.json() if as_json else table.markdown().rstrip())
