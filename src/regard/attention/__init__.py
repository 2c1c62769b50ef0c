"""Attention, written once: queries looking at a memory.

Names are loaded on first use, so that `regard.attention.config` stays free of torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.attention.cache import KV
    from regard.attention.kernels import Attended, attend, attend_with_weights
    from regard.attention.mask import Mask
    from regard.attention.multihead import MultiheadAttention
    from regard.attention.site import Site, Trace

__all__ = ["KV", "Attended", "Mask", "MultiheadAttention", "Site", "Trace", "attend", "attend_with_weights"]
_HOMES = {"KV": "cache", "Mask": "mask", "MultiheadAttention": "multihead", "Site": "site", "Trace": "site"}
_HOMES |= dict.fromkeys(("Attended", "attend", "attend_with_weights"), "kernels")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
