"""Problems of the data, by kind, file and line, before hours go into them."""

from collections import defaultdict

SHOWN = 8  # lines of a problem that are shown on a terminal
FATAL = ("not UTF-8", "NUL bytes", "over 1 MB", "without a counterpart")  # `train` refuses these and minds no others


class Report:
    """Problems by kind: the file and line of each."""

    def __init__(self) -> None:
        self.problems: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self.rows: dict[str, str] = {}
        """What there is, and what training on it would take."""

    def add(self, kind: str, file: str, line: int) -> None:
        self.problems[kind].append((file, line))

    @property
    def fatal(self) -> bool:
        return any(kind in FATAL for kind in self.problems)

    def text(self) -> str:
        """A line for each kind and file."""
        rows = []
        for kind, places in self.problems.items():
            for file in dict.fromkeys(file for file, _ in places):
                numbers = [line for name, line in places if name == file]
                shown = ", ".join(map(str, numbers[:SHOWN]))
                rest = f" and {len(numbers) - SHOWN:,} more (all as JSON)" if len(numbers) > SHOWN else ""
                rows.append(f"{kind}: {file}, line {shown}{rest}")
        return "\n".join(rows)
