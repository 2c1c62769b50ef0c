"""Input: what turns raw items into the arrays that a model reads, and is saved with the model."""

import json
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from regard import files
from regard.data.axes import Axis
from regard.data.config import INPUTS, InputConfig
from regard.errors import UserError
from regard.shapes import Row

FILE = "input.json"


class Input(Protocol):
    """An item is a line of text: of text itself, of others what names a file, or holds the numbers. A Tokenizer is an
    Input that also turns ids into text."""

    vocabulary: int
    """Ids that there are; 0 where items become vectors."""
    tags: tuple[str, ...]
    """Directions that a model can be asked for."""

    @property
    def front(self) -> InputConfig | None:
        """Settings of the front that takes what is read; None is an Embedding."""

    def lines(self, path: Path) -> Iterator[str]:
        """The items of a file that `run` is given."""

    def read(self, items: Sequence[str], tag: str | None = None) -> list[Row]:
        """Of each item what an encoder takes, T long, led by a tag."""

    def axis(self, row: Any) -> Axis:
        """How views label what is read."""

    def closed(self) -> Self:
        """The same for requests, whose items name no files of this machine."""

    def save(self, path: Path) -> None: ...


class FileInput(Input, Protocol):
    """An Input whose items are files; training asks the class before there is one."""

    many: ClassVar[tuple[str, ...]]
    """Endings of files that hold many items."""

    @classmethod
    def items(cls, path: Path) -> Iterator[tuple[str, Any]]:
        """The items of a file that holds many, of one that is an item, or of a list of names; and their labels, None
        where there are none."""

    @classmethod
    def learned(cls, settings: Any, items: Iterable[str]) -> Self:
        """From the items to train on."""

    @classmethod
    def parsed(cls, content: dict[str, Any]) -> Self:
        """From what `save` wrote; may raise anything."""


def kind_of(name: str) -> type[FileInput]:
    module, _, name = INPUTS[name].partition(":")
    kind: type[FileInput] = getattr(import_module(module), name)
    return kind


def load_input(path: Path) -> FileInput:
    try:
        content = files.unsealed(json.loads(files.read_regular(path)))
        return kind_of(content["kind"]).parsed(content)
    except Exception as error:
        raise UserError(f"{path}: no input of Regard ({error}); copy it again from where it came") from error


def beside(item: str, path: Path) -> str:
    """An item as a list at `path` names it: files lie beside the list."""
    inline = item.lstrip().startswith("[")
    return item if inline or not item.strip() else str((path.parent / item.strip()).resolve())


def named(items: Iterable[str]) -> list[Path]:
    """The files that items name."""
    names = {item.rpartition("#")[0] if "#" in item else item for item in items if not item.lstrip().startswith("[")}
    return [Path(name) for name in sorted(names) if name.strip()]
