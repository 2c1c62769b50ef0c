"""Models that `write_onnx` wrote, run by onnxruntime and numpy: no torch."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.exchange.installed import installed

SETTINGS, FORMAT, VERSION, NEXT = "regard-onnx.json", "regard-onnx", 1, "next."
Values = dict[str, NDArray[Any]]


class OnnxModel:
    """Greedy decoding over the graphs of a folder that was just written."""

    def __init__(self, folder: Path) -> None:
        settings, session = json.loads((folder / SETTINGS).read_bytes()), installed("onnxruntime").InferenceSession
        self.start, self.end, self.longest = settings["start"], settings["end"], settings["longest"]
        self.zeros, self.decoder = settings["zeros"], session(folder / "decoder.onnx")
        self.encoder = session(folder / "encoder.onnx") if (folder / "encoder.onnx").exists() else None

    def greedy(self, rows: list[list[int]], longest: int) -> list[list[int]]:
        """The likeliest tokens after each source or prompt; the end among them."""
        return [self._walk(row, longest) for row in rows]

    def _walk(self, row: list[int], longest: int) -> list[int]:
        tokens, said = np.array([row]), list[int]()
        state = {name: np.zeros((1, *shape), np.float32) for name, shape in self.zeros.items()}
        if self.encoder is not None:
            given = {"tokens": tokens, "lengths": np.array([len(row)])}
            state |= {**self.run(self.encoder, given), "lengths": given["lengths"]}
            tokens = np.array([[self.start]])
        elif self.longest is not None:  # the words that there are positions for, but one always
            longest = max(1, min(longest, self.longest + 1 - len(row)))
        while len(said) < longest and said[-1:] != [self.end]:
            step = self.run(self.decoder, {"tokens": tokens, **state})
            tokens = step.pop("logits").argmax(-1)[None]
            said += tokens[0].tolist()
            state |= {name.removeprefix(NEXT): x for name, x in step.items()}
        return said

    def run(self, session: Any, values: Values) -> Values:
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, values), strict=True))
