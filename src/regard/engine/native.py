"""The native engine: a small C++ one that searches by itself, and equals the torch engine."""

import ctypes as c
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import lru_cache
from itertools import count
from typing import Any
from weakref import finalize

import numpy as np

from regard.decode.config import Beam, Hypothesis, Sample, Search
from regard.engine.build import library
from regard.engine.engine import Heard, Rows, Sources, Tick
from regard.engine.prepare import Array, Prepared, Settings, rotations, sinusoids
from regard.errors import UserError
from regard.rng import Key

LEVELS = ("portable", "AVX2", "AVX-512")
TOGETHER = 16  # sentences that a thread steps at once: more leave the second cache
LINE = 64  # bytes of a cache line
ROWS = 512  # positions that are made at first
SIZES = {"source_places": "source_rows", "target_places": "target_rows", "turns": "turn_rows"}
SIZES |= {"tokens": "token_room", "scores": "output_room", "norms": "norm_room"}  # how long what is passed is
CHeard = c.CFUNCTYPE(c.c_int32, c.c_int64, c.POINTER(c.c_int32), c.c_int64)
CTold = c.CFUNCTYPE(None, c.c_int64)


class CTensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("rows", c.c_int64), ("columns", c.c_int64), ("bytes", c.c_int64)]


class CJob(c.Structure):
    """native/worker.hpp has the same fields, in this order."""

    _fields_ = [
        *((name, c.c_int64) for name in ("sentences", "beam", "num_best", "ahead", "threads", "batch", "longest")),
        *((name, c.c_void_p) for name in ("source", "prompt", "forced", "source_ends", "prompt_ends", "forced_ends")),
        *((name, c.c_void_p) for name in ("limits", "norms", "never", "source_places", "target_places", "turns")),
        *((name, c.c_int64) for name in ("source_rows", "target_rows", "turn_rows", "top_k")),
        *((name, c.c_double) for name in ("temperature", "top_p")),
        ("seed", c.c_uint64),
        ("heard", CHeard),
        ("told", CTold),
        *((name, c.c_void_p) for name in ("cancelled", "tokens", "lengths", "log_probs", "scores")),
        *((name, c.c_int64) for name in ("token_room", "output_room", "norm_room")),
    ]


def together(arrays: Sequence[Array]) -> list[Array]:
    """Copies in one block, each on a cache line of its own: numpy asks for large pages where a block is large."""
    ends = np.cumsum([0, *(-(-a.nbytes // LINE) * LINE for a in arrays)])
    block = np.empty(ends[-1] + LINE, np.uint8)
    block = block[-block.ctypes.data % LINE :]
    found: dict[int, Array] = {}
    for a, start in zip(arrays, ends, strict=False):
        if id(a) not in found:
            found[id(a)] = block[start : start + a.nbytes].view(a.dtype).reshape(a.shape)
            found[id(a)][...] = a
    return [found[id(a)] for a in arrays]


class NativeEngine:
    """Sentences are divided among threads; what a sentence becomes depends on nothing beside it."""

    def __init__(self, model: Prepared, *, threads: int = 1, batch_size: int | None = None) -> None:
        self.model = replace(model, arrays=together(model.arrays))
        self.threads, self.batch_size = threads, batch_size
        self.library = library(*map(c.sizeof, (Settings, CTensor, CJob)))
        self.level = self.library.regard_level()
        self.made: Array | None = None
        arrays, self.handle = self.model.arrays, c.c_void_p()
        tensors = (CTensor * len(arrays))(*(CTensor(a.ctypes.data, *a.shape, a.itemsize) for a in arrays))
        self._call(self.library.regard_open, c.byref(model.settings), tensors, len(arrays), c.byref(self.handle))
        finalize(self.model, self.library.regard_close, self.handle).atexit = False  # when no copy has it any more

    def on_one_thread(self) -> "NativeEngine":
        """The same model; several such can decode at once."""
        made = copy(self)
        made.threads = 1
        return made

    @property
    def about(self) -> str:
        small = "int8" if self.model.settings.bytes == 1 else "float32"
        return f"native, {small}, {LEVELS[self.level]}, {self.threads} thread{'s'[: self.threads > 1]}"

    def decode(
        self, sources: Sources, search: Search, *, tick: Tick = None, heard: Heard = None, prefixes: Rows | None = None
    ) -> list[list[Hypothesis]]:
        if not sources:
            return []
        translates = self.model.settings.encoder_layers > 0
        prompts = [[self.model.start]] * len(sources) if translates else sources
        positions = len(self.model.places["target"]) if "target" in self.model.places else None
        limits = search.limits(len(sources), [*map(len, sources)], positions, [*map(len, prompts)])
        longest = int(limits.max())
        beam, best = (search.size, search.num_best) if isinstance(search, Beam) else (1, 1)
        rooms = np.repeat(limits, best)  # of each hypothesis
        tokens, lengths = np.empty(int(rooms.sum()), np.int32), np.zeros(len(rooms), np.int64)
        log_probs, scores = np.empty(len(rooms)), np.empty(len(rooms))
        given: dict[str, Array] = {
            **_ragged("prompt", prompts),
            **(_ragged("source", sources) if translates else {}),
            **dict(limits=limits, tokens=tokens, lengths=lengths, log_probs=log_probs, scores=scores),
            **self._places(max(map(len, sources)), int((limits + [len(prompt) - 1 for prompt in prompts]).max())),
            "norms": _norms(Search(length_penalty=search.length_penalty, length_rule=search.length_rule), longest),
        }
        if prefixes is not None:
            given |= _ragged("forced", prefixes)
        if search.never:
            given["never"] = np.isin(np.arange(self.model.settings.target_words), search.never).astype(np.uint8)
        batch = self.batch_size or min(TOGETHER, -(-len(sources) // self.threads))
        ahead = min(search.ahead, longest) if isinstance(search, Beam) else 0
        how = dict[str, Any](sentences=len(sources), beam=beam, num_best=best, ahead=ahead, longest=longest)
        if isinstance(search, Sample):
            how |= {"temperature": search.temperature, "top_p": search.top_p, "top_k": search.top_k or 0}
            how["seed"] = Key(search.seed, ("sample",)).word()
        how |= {size: len(given[name]) for name, size in SIZES.items() if name in given}
        how |= {name: array.ctypes.data for name, array in given.items()}
        with _callbacks(tick, heard) as calls:
            job = CJob(threads=self.threads, batch=batch, **calls, **how)
            self._call(self.library.regard_decode, self.handle, c.byref(job), self.level)
        starts = (np.cumsum(rooms) - rooms).tolist()
        rows = zip(starts, lengths.tolist(), log_probs.tolist(), scores.tolist(), strict=True)
        found = [Hypothesis(tokens[at : at + n].tolist(), p, score) if n else None for at, n, p, score in rows]
        return [[h for h in found[i : i + best] if h] for i in range(0, len(found), best)]

    def _places(self, source: int, target: int) -> dict[str, Array]:
        """Vectors of positions for texts of so many tokens."""
        position, settings = self.model.position, self.model.settings
        if position.kind == "learned":
            return {f"{side}_places": table for side, table in self.model.places.items()}
        if position.kind not in ("sinusoid", "rotary"):
            return {}
        if self.made is None or len(self.made) < max(source, target):
            rows = max(ROWS, 1 << max(source, target).bit_length())
            if position.kind == "sinusoid":
                self.made = sinusoids(rows, settings.width, position.layout, position.base)
            else:
                self.made = rotations(rows, settings.head, position.base)
        names = ("source_places", "target_places") if position.kind == "sinusoid" else ("turns",)
        return dict.fromkeys(names, self.made)

    def _call(self, function: Any, *given: Any) -> None:
        error = c.create_string_buffer(256)
        if function(*given, error, len(error)):
            raise UserError(f"the native engine: {error.value.decode()}")


@contextmanager
def _callbacks(tick: Tick, heard: Heard) -> Iterator[dict[str, Any]]:
    """What the engine calls back; an exception there, or Ctrl-C, ends the work and is raised after it."""
    failures: list[BaseException] = []
    cancelled, done = c.c_int32(0), count(1)

    def kept(function: Callable[..., Any]) -> Callable[..., int]:
        def call(*given: Any) -> int:
            try:
                return int(function(*given) or 0)
            except BaseException as error:
                failures.append(error)
                cancelled.value = 1
                return 1

        return call

    calls: dict[str, Any] = {"cancelled": c.addressof(cancelled)}
    calls["told"] = CTold(kept(lambda sentence: None if tick is None else tick(next(done))))
    if heard is not None:
        calls["heard"] = CHeard(kept(lambda sentence, tokens, length: heard(tokens[:length])))
    try:
        yield calls
    finally:
        if failures:
            raise failures[0]


@lru_cache(maxsize=32)
def _norms(search: Search, longest: int) -> Array:
    """What log-probabilities are divided by, for each length."""
    return np.array([1.0, *(search.normaliser(n) for n in range(1, longest + 1))])


def _ragged(name: str, rows: Sequence[Sequence[int] | Array]) -> dict[str, Array]:
    """Tokens of all, one after the other, and where each ends."""
    flat = np.concatenate([np.asarray(row, np.int32) for row in rows])
    return {name: flat, f"{name}_ends": np.cumsum([len(row) for row in rows], dtype=np.int64)}
