import subprocess
import sys

from regard.data.axes import Axis, Frames, Grid, Nodes, Text, Times


def test_words_of_a_text_are_their_pieces_together() -> None:
    text = Text(["▁ei", "ne", "▁Katze", "</s>"], [0, 0, 1, 2])
    assert text.words == ["eine", "Katze", "</s>"]
    assert text.labels == ["▁ei", "ne", "▁Katze", "</s>"]


def test_each_place_of_all_else_has_a_label_and_is_a_group_of_its_own() -> None:
    axes: dict[str, tuple[Axis, list[str]]] = {
        "times": (Times(3, 0.5, "h"), ["0h", "0.5h", "1h"]),
        "frames": (Frames(3, 50), ["0.00s", "0.02s", "0.04s"]),
        "grid": (Grid(2, 3), ["0,0", "0,1", "0,2", "1,0", "1,1", "1,2"]),
        "nodes": (Nodes(["a", "b"]), ["a", "b"]),
    }
    for kind, (axis, labels) in axes.items():
        assert axis.kind == kind
        assert axis.labels == axis.words == labels
        assert axis.groups == list(range(len(labels)))
    assert Grid(2, 3) == Grid(2, 3) != Grid(3, 2)


def test_axes_need_no_torch() -> None:
    subprocess.run(
        [sys.executable, "-c", "import sys; sys.modules['torch'] = None; import regard.data.axes"], check=True
    )
