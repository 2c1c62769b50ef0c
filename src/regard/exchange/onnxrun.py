"""Models that `write_onnx` wrote, run by onnxruntime and numpy: no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError
from regard.exchange.installed import installed

SETTINGS, FORMAT, VERSION, NEXT = "regard-onnx.json", "regard-onnx", 1, "next."
KEYS = {"start", "end", "longest", "zeros"}
MOST_SETTINGS = 1 << 20  # bytes of them that are read
Values = dict[str, NDArray[Any]]


class OnnxModel:
    """Greedy decoding over the graphs of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, settings = folder, _settings(folder)
        self.start, self.end, self.longest = settings["start"], settings["end"], settings["longest"]
        self.zeros = settings["zeros"]
        self.decoder = self._session("decoder.onnx")
        self.encoder = self._session("encoder.onnx") if (folder / "encoder.onnx").exists() else None

    def greedy(self, rows: list[list[int]], longest: int) -> list[list[int]]:
        """The likeliest tokens after sources, which share a batch, or prompts, one by one; the end among them."""
        if not rows or not all(rows):
            raise UserError("a batch without sentences, or an empty one in it; give each an end mark at least")
        if self.encoder is None:
            return [said for row in rows for said in self._walk(np.array([row]), {}, self._limit(row, longest))]
        lengths = np.array([len(row) for row in rows])
        tokens = np.array([row + [0] * (lengths.max() - len(row)) for row in rows])
        state = self.run(self.encoder, {"tokens": tokens, "lengths": lengths})
        return self._walk(np.full((len(rows), 1), self.start), {**state, "lengths": lengths}, longest)

    def _limit(self, prompt: list[int], longest: int) -> int:
        """The words that there are positions for, but one always."""
        return longest if self.longest is None else max(1, min(longest, self.longest + 1 - len(prompt)))

    def _walk(self, tokens: NDArray[Any], state: Values, longest: int) -> list[list[int]]:
        said: list[list[int]] = [[] for _ in tokens]
        rows = np.arange(len(tokens))  # those that have not ended
        state |= {name: np.zeros((len(rows), *shape), np.float32) for name, shape in self.zeros.items()}
        for _ in range(longest):
            found = self.run(self.decoder, {"tokens": tokens, **state})
            words = found.pop("logits").argmax(-1)
            for row, word in zip(rows, words.tolist(), strict=True):
                said[row].append(word)
            state |= {name.removeprefix(NEXT): x for name, x in found.items()}
            going = words != self.end
            if not going.all():
                rows, words, state = rows[going], words[going], {name: x[going] for name, x in state.items()}
            if not len(rows):
                break
            tokens = words[:, None]
        return said

    def run(self, session: Any, values: Values) -> Values:
        """What a graph gives, by name."""
        names = [output.name for output in session.get_outputs()]
        try:
            return dict(zip(names, session.run(names, values), strict=True))
        except Exception as error:  # the library raises its own kinds, which it does not name
            raise UserError(
                f"{self.folder}: onnxruntime gave up ({error}); are words in the vocabulary, and texts short enough?"
            ) from error

    def _session(self, name: str) -> Any:
        runtime, path = installed("onnxruntime"), self.folder / name
        options = runtime.SessionOptions()
        options.log_severity_level = 4  # what goes wrong is raised, and told once
        try:
            return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise UserError(f"{path}: cannot be read ({error}); export the model again") from error


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / SETTINGS
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(MOST_SETTINGS))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read ({error}); give a folder of `regard export --to onnx`") from error
    wanted = {"format": FORMAT, "version": VERSION}
    if not isinstance(found, dict) or not wanted.items() <= found.items() or not found.keys() >= KEYS:
        raise UserError(f"{path}: is not of format {FORMAT} {VERSION}; export the model again")
    return found
