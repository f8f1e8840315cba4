"""anymask: exact attention under any mask, at the cost of what the mask keeps.

    import anymask as am
    out = am.attention(q, k, v, am.causal() & am.documents(cu))

Arrays may be of NumPy, PyTorch, JAX or CuPy. Masks are expressions: `am.mask_kinds()` lists what they are made of.
"""

from __future__ import annotations

import sys as _sys
from typing import TYPE_CHECKING, Any

from ._anymask import UnsupportedError, __version__
from ._attention import (
    Gradients,
    attention,
    attention_backward,
    backends,
    explain,
    get_num_threads,
    plan_cache_stats,
    set_num_threads,
    set_plan_cache_limit,
)
from ._mask import (
    Mask,
    bits,
    block_diffusion,
    blocks,
    causal,
    chunked,
    col_intervals,
    dense,
    documents,
    from_bytes,
    full,
    keys,
    mask_kinds,
    named,
    neighborhood,
    none,
    parse,
    per_batch,
    per_head,
    positions,
    prefix,
    random_mask,
    row_intervals,
    shared_prefix,
    stride,
    threshold,
    topk,
    tree,
    window,
)

if TYPE_CHECKING:
    from . import integrations, jax
    from ._imports import (
        from_bsr,
        from_flashinfer,
        from_flashmask,
        from_flex,
        from_padding,
        from_position_ids,
        from_segment_ids,
        from_slices,
        from_tensor,
    )
    from ._picture import Picture
    from ._plan import Plan
    from ._torch_like import flash_attn_func, flash_attn_varlen_func, scaled_dot_product_attention

# Imported when first asked for, so that `import anymask` costs little.
_LATER = {
    **dict.fromkeys(
        (
            "from_bsr",
            "from_flashinfer",
            "from_flashmask",
            "from_flex",
            "from_padding",
            "from_position_ids",
            "from_segment_ids",
            "from_slices",
            "from_tensor",
        ),
        "_imports",
    ),
    **dict.fromkeys(
        ("scaled_dot_product_attention", "flash_attn_func", "flash_attn_varlen_func"),
        "_torch_like",
    ),
    "Picture": "_picture",
    "Plan": "_plan",
    "integrations": "integrations",
    "jax": "jax",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _LATER:
        raise AttributeError(f"module 'anymask' has no attribute {name!r}")
    module = importlib.import_module(f".{_LATER[name]}", __name__)
    value = module if name == _LATER[name] else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "Gradients",
    "Mask",
    "Picture",
    "Plan",
    "UnsupportedError",
    "__version__",
    "attention",
    "attention_backward",
    "backends",
    "bits",
    "block_diffusion",
    "blocks",
    "causal",
    "chunked",
    "col_intervals",
    "dense",
    "documents",
    "explain",
    "flash_attn_func",
    "flash_attn_varlen_func",
    "from_bsr",
    "from_bytes",
    "from_flashinfer",
    "from_flashmask",
    "from_flex",
    "from_padding",
    "from_position_ids",
    "from_segment_ids",
    "from_slices",
    "from_tensor",
    "full",
    "get_num_threads",
    "integrations",
    "jax",
    "keys",
    "mask_kinds",
    "named",
    "neighborhood",
    "none",
    "parse",
    "per_batch",
    "per_head",
    "plan_cache_stats",
    "positions",
    "prefix",
    "random_mask",
    "row_intervals",
    "scaled_dot_product_attention",
    "set_num_threads",
    "set_plan_cache_limit",
    "shared_prefix",
    "stride",
    "threshold",
    "topk",
    "tree",
    "window",
]

if "torch" in _sys.modules:  # in use already: make its operators known before anything is compiled
    from . import _torch as _torch

    _torch.take_over()
