"""What stands along the sides of a map: pieces of a text, steps of a series, frames of sound, patches or nodes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """A label for each place, and the number of the word that it belongs to."""

    labels: list[str]
    groups: list[int]
    period: int = 1  # where not all labels have room, those at multiples of it are shown

    @property
    def kind(self) -> str:
        return type(self).__name__.lower()

    @property
    def words(self) -> list[str]:
        """Labels of the groups."""
        words: dict[int, str] = {}
        for label, group in zip(self.labels, self.groups, strict=True):
            words[group] = words.get(group, "") + label
        return [word.replace("▁", " ").strip() or word for word in words.values()]


class Text(Axis):
    """Pieces of a text, and which word each belongs to."""


class Nodes(Axis):
    """Nodes of a graph; as all but pieces of a text, each is a group of its own."""

    def __init__(self, names: list[str], period: int = 1) -> None:
        super().__init__(names, list(range(len(names))), period)


class Times(Nodes):
    """Steps of a series of numbers, so far apart in some unit."""

    def __init__(self, count: int, step: float = 1, unit: str = "") -> None:
        super().__init__([f"{i * step:g}{unit}" for i in range(count)])


class Frames(Nodes):
    """Frames of a recording, so many in a second."""

    def __init__(self, count: int, rate: float) -> None:
        super().__init__([f"{i / rate:.2f}s" for i in range(count)])


class Grid(Nodes):
    """Patches of an image, row after row."""

    def __init__(self, height: int, width: int) -> None:
        super().__init__([f"{row},{column}" for row in range(height) for column in range(width)], width)
