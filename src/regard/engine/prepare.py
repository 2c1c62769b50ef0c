"""Weights as the native engine holds them: in panels of 16 columns, in float32 or in bytes, without torch."""

import ctypes as c
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from regard.attention.config import PositionConfig, alibi_slopes
from regard.bounds import memory
from regard.errors import UserError
from regard.files import SUM, open_regular, write
from regard.models.config import GptConfig, ModelConfig, TransformerConfig

Array = NDArray[Any]
NATIVE = "native.safetensors"
ACTIVATIONS = {"relu": 0, "gelu": 1, "gelu_tanh": 2, "silu": 3}
GATED = {"reglu": "relu", "geglu": "gelu", "swiglu": "silu"}
PLACEMENTS = {"pre": 0, "post": 1, "none": 2}
POSITIONS = ("none", "sinusoid", "learned", "rotary", "alibi")
ORDER = "order"  # of the tensors of a file, by their numbers
NativeConfig = TransformerConfig | GptConfig


class UnfitError(Exception):
    """Weights that do not belong to the settings."""


class Settings(c.Structure):
    """What the engine is told of a model; native/model.hpp has the same fields, in this order."""

    _fields_ = [
        *((name, c.c_int64) for name in ("width", "hidden", "heads", "groups", "head", "encoder_layers")),
        *((name, c.c_int64) for name in ("decoder_layers", "source_words", "target_words", "end", "activation")),
        *((name, c.c_int64) for name in ("gated", "rms", "placement", "embedding_norm", "rotary", "context", "bytes")),
        *((name, c.c_double) for name in ("eps", "scale", "source_scale", "target_scale")),
    ]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A model for the native engine: arrays in the order in which it takes them, and learned positions of each side."""

    settings: Settings
    start: int
    position: PositionConfig
    arrays: list[Array] = field(repr=False)
    places: dict[str, Array] = field(default_factory=dict, repr=False)


def refusal(config: ModelConfig) -> str | None:
    """Why the native engine cannot have a model, or None."""
    if not isinstance(config, TransformerConfig | GptConfig):
        return f"kind: {config.kind}, only transformer and gpt"
    if isinstance(config, TransformerConfig) and config.front is not None:
        return f"front: {config.front.kind}, only text"
    if config.end < 0:
        return "end: none, only a token"
    scores, activations = ("scaled_dot", "dot"), (*ACTIVATIONS, *GATED)
    known = {"activation": activations, "norm": ("layer", "rms"), "placement": PLACEMENTS, "score": scores}
    return next(refusals(config, {**known, "position.kind": POSITIONS, "position.place": ("embedding",)}), None)


def refusals(config: ModelConfig, known: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Why an engine or a tool cannot have a model: settings with a value that is none of the known ones."""
    for name, values in known.items():
        if (value := attrgetter(name)(config)) not in values:
            yield f"{name}: {value}, only {', '.join(values)}"


def prepare(config: ModelConfig, weights: Mapping[str, Array], *, small: bool = False) -> Prepared:
    """From weights as they are stored; `small` makes bytes of them."""
    config = _checked(config)
    preparation = Preparation(config, weights, settings := _settings(config, small))
    slopes = alibi_slopes(config.num_heads) if config.position.kind == "alibi" else np.zeros(config.num_heads)
    arrays = [_row(slopes), *preparation.all()]
    return Prepared(settings, config.start, config.position, arrays, preparation.places())


def prepared_of(model: Any, *, small: bool = False) -> Prepared:
    """The same of a model that PyTorch holds."""
    weights = {name: p.detach().float().numpy() for name, p in model.named_parameters()}
    return prepare(model.config, weights, small=small)


def write_prepared(path: Path, prepared: Prepared) -> None:
    """Tables that are one are stored once."""
    numbers = {id(array): number for number, array in reversed(list(enumerate(prepared.arrays)))}
    arrays = {str(number): prepared.arrays[number] for number in numbers.values()}
    order = " ".join(str(numbers[id(array)]) for array in prepared.arrays)
    write(path, packed(arrays | prepared.places, {ORDER: order}))


def read_prepared(path: Path, config: ModelConfig) -> Prepared:
    config = _checked(config)
    arrays, notes = read_arrays(path, ("F32", "I8"))
    order = notes.get(ORDER, "").split()
    for name in {*order, *arrays}:
        if name not in arrays or arrays[name].ndim != 2 or np.isnan(arrays[name]).any():
            raise UserError(f"{path}: {name} is no matrix of numbers; export the model again")
    found = [arrays[number] for number in order]
    places = {str(side): arrays[side] for side in ("source", "target") if side in arrays}
    if any(places.shape[1] != _up(config.width) or places.dtype != np.float32 for places in places.values()):
        raise UserError(f"{path}: positions do not fit the model; export it again")
    small = any(array.dtype == np.int8 for array in found)
    return Prepared(_settings(config, small), config.start, config.position, found, places)


def packed(arrays: Mapping[str, Array], notes: Mapping[str, str] | None = None) -> bytes:
    """The content of a safetensors file, with the sum of its tensors, which `read_arrays` checks."""
    return save(dict(arrays), {**(notes or {}), SUM: _sum(arrays, notes or {})})


def _sum(arrays: Mapping[str, Array], notes: Mapping[str, str]) -> str:
    total = sha256(repr(sorted(notes.items())).encode())
    for name, array in sorted(arrays.items()):
        total.update(f"{name} {array.dtype.name} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


def read_arrays(path: Path, kinds: tuple[str, ...]) -> tuple[dict[str, Array], dict[str, str]]:
    """The tensors of a file, and its notes; nothing is read of a file that memory cannot hold."""
    open_regular(path, memory() // 2).close()
    try:
        with safe_open(path, "np") as file:
            for name in file.keys():  # noqa: SIM118
                kind, shape = (part := file.get_slice(name)).get_dtype(), part.get_shape()
                if kind not in kinds or 0 in shape:
                    raise ValueError(f"{name} is of {kind} {shape}, and only {', '.join(kinds)} with numbers are read")
            arrays, notes = {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
        if (stored := notes.pop(SUM, None)) is not None and stored != _sum(arrays, notes):
            raise ValueError(f"its numbers do not fit its {SUM}: the file is damaged")
        return arrays, notes
    except (OSError, SafetensorError, ValueError, TypeError, MemoryError) as error:
        raise UserError(f"{path}: cannot be read ({error}); copy the folder again") from error


def _checked(config: ModelConfig) -> NativeConfig:
    if reason := refusal(config):
        raise UserError(f"the native engine cannot have model.{reason}; use `engine` torch")
    return cast(NativeConfig, config)


def _settings(config: NativeConfig, small: bool) -> Settings:
    attention, root = config.attention, config.width**0.5 if config.scaled_embedding else 1.0
    return Settings(
        width=config.width, hidden=config.hidden, heads=config.num_heads, groups=attention.groups,
        head=attention.head_width, encoder_layers=config.encoder_layers, decoder_layers=config.decoder_layers,
        source_words=config.source_vocabulary, target_words=config.target_vocabulary, end=config.end,
        activation=ACTIVATIONS[GATED.get(config.activation, config.activation)], placement=PLACEMENTS[config.placement],
        gated=int(config.activation in GATED), rms=int(config.norm == "rms"), embedding_norm=int(config.embedding_norm),
        rotary=int(config.position.kind == "rotary"), context=config.context or 0, bytes=1 if small else 4,
        eps=config.norm_eps, scale=attention.head_width**-0.5 if config.score == "scaled_dot" else 1.0,
        source_scale=root, target_scale=root,
    )  # fmt: skip


class Preparation:
    """Takes weights by name, in the order of native/model.hpp."""

    def __init__(self, config: NativeConfig, weights: Mapping[str, Array], settings: Settings) -> None:
        self.config, self.weights, self.settings = config, weights, settings
        self.two = settings.encoder_layers > 0
        self.own = "target_embedding" if self.two else "embedding"
        self.tables: dict[str, list[Array]] = {}

    def places(self) -> dict[str, Array]:
        longest = self.config.position.max_length
        if longest is None:
            return {}
        sides = {"source": "source_embedding", "target": self.own} if self.two else {"target": self.own}
        shape, table = (longest, self.settings.width), "position.encoding.table"
        return {side: _filled(self._take(f"{own}.{table}", *shape), but=0) for side, own in sides.items()}

    def all(self) -> Iterator[Array]:
        settings, normed = self.settings, self.settings.embedding_norm
        if self.two:
            yield from self._table(settings.source_words, ["source_embedding.table"])
            yield from self._norm("source_embedding.norm" if normed else "")
            yield from self._stack("encoder", settings.encoder_layers, cross=False)
        # Tables that are one have the first's name.
        names = ["source_embedding.table", f"{self.own}.table", "head.table"]
        yield from self._table(settings.target_words, names[:2])
        yield from self._norm(f"{self.own}.norm" if normed else "")
        yield from self._stack("decoder", settings.decoder_layers, cross=self.two)
        yield from self._table(settings.target_words, names, "head.bias")

    def _take(self, name: str, *shape: int) -> Array:
        found = self.weights.get(name)
        if found is None or found.shape != shape or found.dtype.kind != "f":
            told = "missing" if found is None else f"{found.dtype} {found.shape}"
            raise UnfitError(f"{name} is {told}, where {shape} is expected")
        return found

    def _bias(self, name: str, size: int) -> Array:
        return self._take(name, size) if name in self.weights else np.zeros(size, np.float32)

    def _stack(self, name: str, layers: int, *, cross: bool) -> Iterator[Array]:
        config, settings, placed = self.config, self.settings, self.config.placement != "none"
        heads, groups = settings.heads, settings.groups
        turned = config.position.kind == "rotary" and config.position.layout == "interleaved"
        for i in range(layers):
            block = f"{name}.blocks.{i}"
            own, across, think = f"{block}.self_attention", f"{block}.cross_attention", f"{block}.feedforward"
            yield from self._norm(f"{block}.self_residual.norm" if placed else "")
            maps = [(f"{own}.to_q", heads, turned), (f"{own}.to_k", groups, turned), (f"{own}.to_v", groups, False)]
            yield from self._maps(*maps, size=settings.head)
            yield from self._out(f"{own}.to_out")
            if cross:
                yield from self._norm(f"{block}.cross_residual.norm" if placed else "")
                both = (f"{across}.to_k", groups, False), (f"{across}.to_v", groups, False)
                yield from self._maps((f"{across}.to_q", heads, False), size=settings.head)
                yield from self._maps(*both, size=settings.head)
                yield from self._out(f"{across}.to_out")
            yield from self._norm(f"{block}.feedforward_residual.norm" if placed else "")
            ups = ("gate", "up") if settings.gated else ("up",)
            yield from self._maps(*((f"{think}.{up}", 1, False) for up in ups), size=settings.hidden)
            yield from self._maps((f"{think}.down", 1, False), size=settings.width, depth=settings.hidden)
        yield from self._norm(f"{name}.norm" if config.placement == "pre" else "")

    def _maps(self, *maps: tuple[str, int, bool], size: int, depth: int | None = None) -> Iterator[Array]:
        """Linear maps to some heads of a size, each filled up to 16s; turned ones have pairs apart, first halves first.
        They are of the model's width, or of another depth."""
        weights, biases = list[Array](), list[Array]()
        for name, heads, turned in maps:
            weight = self._take(f"{name}.weight", heads * size, depth or self.settings.width)
            bias = self._bias(f"{name}.bias", heads * size)
            for one, to in ((weight, weights), (bias, biases)):
                split = one.reshape(heads, size, *one.shape[1:])
                if turned:
                    split = np.concatenate((split[:, 0::2], split[:, 1::2]), 1)
                to.append(_filled(split, but=0).reshape(heads * _up(size), -1))
        yield from self._panels(np.concatenate(weights))
        yield _row(np.concatenate(biases))

    def _out(self, name: str) -> Iterator[Array]:
        width, heads, head = self.settings.width, self.settings.heads, self.settings.head
        split = self._take(f"{name}.weight", width, heads * head).reshape(width, heads, head)
        yield from self._panels(_filled(split, but=1).reshape(_up(width), -1))
        yield _row(_filled(self._bias(f"{name}.bias", width)))

    def _norm(self, name: str) -> Iterator[Array]:
        """None where it has no name."""
        if name:
            yield _row(_filled(self._take(f"{name}.weight", self.settings.width)))
            yield _row(_filled(self._bias(f"{name}.bias", self.settings.width)))

    def _table(self, words: int, names: list[str], bias: str = "") -> Iterator[Array]:
        """Of words; those that fill it up can never be said."""
        name = next((name for name in reversed(names) if name in self.weights), names[0])
        if name not in self.tables:
            self.tables[name] = list(self._panels(_filled(self._take(name, words, self.settings.width))))
        yield from self.tables[name]
        told = np.full(_up(words), -np.inf, np.float32)
        told[:words] = self._bias(bias, words)
        yield _row(told)

    def _panels(self, weight: Array) -> Iterator[Array]:
        """(columns, depth) by panels of 16 columns: numbers (depth, 16), bytes (depth / 4, 16, 4) and their scales."""
        columns, depth = weight.shape
        if self.settings.bytes == 4:
            numbers = weight.reshape(-1, 16, depth).swapaxes(1, 2)
            yield np.ascontiguousarray(numbers, np.float32).reshape(columns, depth)
            return
        scales = np.abs(weight).max(1) / 127
        rounded = np.rint(weight / np.where(scales > 0, scales, 1)[:, None]).astype(np.int8)
        yield np.ascontiguousarray(rounded.reshape(-1, 16, depth // 4, 4).swapaxes(1, 2)).reshape(columns, depth)
        yield _row(scales)


def _up(size: int) -> int:
    return -(-size // 16) * 16


def _filled(x: Array, but: int | None = None) -> Array:
    """With zeros up to 16s along all axes but one."""
    return np.pad(x, [(0, 0 if axis == but else _up(size) - size) for axis, size in enumerate(x.shape)])


def _row(x: Array) -> Array:
    return np.ascontiguousarray(x, np.float32).reshape(1, -1)


def sinusoids(rows: int, width: int, layout: str, base: float) -> Array:
    """Vectors of the first positions, filled up to 16s."""
    if width % 2:
        raise UserError(f"sinusoids come in pairs, so width {width} must be even; export the model again")
    turns = _turns(rows, width, base)
    pairs = np.stack((np.sin(turns), np.cos(turns)), 2 if layout == "interleaved" else 1)
    return _filled(pairs.reshape(rows, width).astype(np.float32), but=0)


def rotations(rows: int, width: int, base: float) -> Array:
    """Cosines and sines of the first positions."""
    turns = _turns(rows, width, base)
    return np.ascontiguousarray(np.concatenate((np.cos(turns), np.sin(turns)), 1), np.float32)


def _turns(rows: int, width: int, base: float) -> Array:
    return np.arange(rows)[:, None] * base ** (-np.arange(0, width, 2) / width)
