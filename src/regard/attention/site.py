"""Where a pass through a model is: the names that place dropout masks and attention maps."""

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from regard.rng import Key, dropped

Axes = tuple[str, str]  # the sequences that queries and keys come from: rows and columns of a map
ACROSS: Axes = ("target", "source")


@dataclass
class Trace:
    """Collects the attention weights of one pass, by site; no module stores anything."""

    records: dict[str, list[Tensor]] = field(default_factory=dict)
    axes: dict[str, Axes] = field(default_factory=dict)
    muted: tuple[str, int] | None = None  # a site, and the head there that shall say nothing
    inputs: dict[str, Tensor] | None = None
    """Where it is wanted, the vectors of words, by site, to be differentiated by."""

    def record(self, site: "Site", weights: Tensor) -> None:
        self.records.setdefault(site.path, []).append(weights)
        self.axes[site.path] = site.axes

    def heads(self, path: str, out: Tensor) -> Tensor:
        """What the heads of a site say (B, H, T, E), without the one that is muted."""
        if self.muted is None or self.muted[0] != path:
            return out
        return out * (torch.arange(out.shape[1], device=out.device) != self.muted[1])[:, None, None]

    def words(self, path: str, x: Tensor) -> Tensor:
        if self.inputs is None:
            return x
        self.inputs[path] = x.detach().requires_grad_()
        return self.inputs[path]

    def maps(self) -> dict[str, Tensor]:
        """Weights (B, H, T, S) by site; the steps of a recurrent decoder are joined along T."""
        return {path: torch.cat(steps, dim=2) if len(steps) > 1 else steps[0] for path, steps in self.records.items()}


@dataclass(frozen=True)
class Site:
    """A named place in one pass; `site / "self"` is a place below it.

    With a key, dropout is on and its masks are a function of the key and the place. Without, it is off: there is
    no training mode to forget. With a trace, attention weights are recorded there.
    """

    key: Key | None = None
    trace: Trace | None = None
    path: str = ""
    losses: dict[str, Tensor] | None = None
    """Where a pass is to be learned from, the losses that parts have of their own, by site."""
    axes: Axes = ("target", "taken")  # each step of an output, and what it was given of the output so far

    def __truediv__(self, name: str | int) -> "Site":
        return Site(self.key, self.trace, f"{self.path}.{name}" if self.path else str(name), self.losses, self.axes)

    def over(self, name: str) -> "Site":
        """The same place, where a sequence of that name attends to itself."""
        return Site(self.key, self.trace, self.path, self.losses, (name, name))  # `replace` takes six times as long

    def onto(self, name: str) -> "Site":
        """The same place, where keys come from a sequence of that name."""
        return Site(self.key, self.trace, self.path, self.losses, (self.axes[0], name))

    def add_loss(self, loss: Tensor) -> None:
        """What a part loses besides the task, such as the balance of experts, for each token or example."""
        if self.losses is not None:
            self.losses[self.path] = loss

    def at(self, step: int) -> "Site":
        """The same place at another step of a loop: other masks, one map."""
        return self if self.key is None else replace(self, key=self.key.fold(step))

    def dropout(self, x: Tensor, rate: float) -> Tensor:
        return x if self.key is None else dropout(x, rate, self.key.fold(self.path))


def dropout(x: Tensor, rate: float, key: Key) -> Tensor:
    """Zero each element with probability `rate` and scale the rest to keep the expectation [Srivastava+ 2014]."""
    if rate == 0.0:
        return x
    stays, scale = dropped(key, rate, x.numel())
    kind = np.float64 if x.dtype == torch.float64 else np.float32
    mask = np.multiply(stays, scale, dtype=kind)  # from truths to numbers, NumPy takes a third of PyTorch's time
    return x * torch.from_numpy(mask).view(x.shape).to(x.device, x.dtype)
