"""Attention, written once: queries looking at a memory.

Names are loaded on first use, so that `regard.attention.config` stays free of torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.attention.cache import KV as KV
    from regard.attention.kernels import Attended as Attended
    from regard.attention.kernels import attend as attend
    from regard.attention.kernels import attend_with_weights as attend_with_weights
    from regard.attention.mask import Mask as Mask
    from regard.attention.multihead import MultiheadAttention as MultiheadAttention
    from regard.attention.site import Site as Site
    from regard.attention.site import Trace as Trace

_HOMES = {
    "KV": "cache",
    "Attended": "kernels",
    "attend": "kernels",
    "attend_with_weights": "kernels",
    "Mask": "mask",
    "MultiheadAttention": "multihead",
    "Site": "site",
    "Trace": "site",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
