"""Signatures people already call: PyTorch's `scaled_dot_product_attention`, FlashAttention's functions.

Shapes and meaning are those of the originals; what is asked of them that is not exact attention (dropout) is refused.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import _torch as _torch  # the operators
from ._anymask import UnsupportedError
from ._attention import attention
from ._mask import Mask, causal, window
from ._mask import dense as dense_mask

_CAUSAL = causal()
_CAUSAL_TOP_LEFT = causal(align="top_left")
_windows: dict[tuple[int, int], Mask | None] = {(-1, -1): None, (-1, 0): _CAUSAL}


def _no_dropout(operation: str, p: float) -> None:
    if p != 0.0:
        raise UnsupportedError(
            f"{operation}: dropout_p is {p}; expected 0: attention is exact here, use 0 or torch's own"
        )


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | Mask | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`torch.nn.functional.scaled_dot_product_attention`: `[..., h, s, d]`, boolean or additive `attn_mask`,
    top-left causal.

    `attn_mask` may also be a mask of this package, which costs what it keeps. Rows that keep nothing give 0. Head
    dimensions that are no multiple of 8 are padded, which copies.
    """
    _no_dropout("scaled_dot_product_attention", dropout_p)
    if is_causal and attn_mask is not None:
        raise ValueError(
            "scaled_dot_product_attention: both attn_mask and is_causal are given; expected one of them: for both, "
            "give attn_mask=am.causal(align='top_left') & am.dense(attn_mask)"
        )
    if query.dim() < 2 or key.dim() != query.dim() or value.dim() != query.dim():
        raise ValueError(
            "scaled_dot_product_attention: query, key and value have "
            f"{query.dim()}, {key.dim()} and {value.dim()} axes; expected "
            "the same number, [..., h, s, d]: add axes of size 1"
        )
    lead = _broadcast_lead(query, key, value)
    q, k, v = (_four(x, lead) for x in (query, key, value))
    if not enable_gqa and not (q.shape[1] == k.shape[1] == v.shape[1]):
        heads = max(q.shape[1], k.shape[1], v.shape[1])
        if any(x.shape[1] not in (1, heads) for x in (q, k, v)):
            raise ValueError(
                "scaled_dot_product_attention: query, key and value have "
                f"{q.shape[1]}, {k.shape[1]} and {v.shape[1]} heads; expected as many: set "
                "enable_gqa=True where the query has a multiple of them"
            )
        q, k, v = (x.expand(-1, heads, -1, -1) for x in (q, k, v))
    mask: Mask | None = _CAUSAL_TOP_LEFT if is_causal else None
    bias: Tensor | None = None
    if isinstance(attn_mask, Mask):
        mask = attn_mask
    elif attn_mask is not None:
        mask, bias = _mask_or_bias(attn_mask, q, k, lead)
    d, d_v = q.shape[-1], v.shape[-1]
    if scale is None:
        scale = float(d) ** -0.5
    q, k, v = (_padded(x) for x in (q, k, v))
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    out = attention(q, k, v, mask, bias=bias, scale=scale).transpose(1, 2)
    out = out[..., :d_v] if out.shape[-1] != d_v else out
    result: Tensor = out.reshape(*lead, *out.shape[1:]) if query.dim() != 4 else out
    return result.squeeze(-3) if query.dim() == 2 else result


def _broadcast_lead(*tensors: Tensor) -> tuple[int, ...]:
    """Batch axes: all before the heads. Three axes are `[b, s, d]`: one head each."""
    return tuple(torch.broadcast_shapes(*(x.shape[:-3] for x in tensors)))


def _four(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    """`[b, h, s, d]`."""
    if x.dim() == 4:
        return x.expand(*lead, -1, -1, -1)
    if x.dim() < 4:
        return x.reshape(1, x.shape[0] if x.dim() == 3 else 1, *x.shape[-2:])
    return x.expand(*lead, *x.shape[-3:]).reshape(-1, *x.shape[-3:])


def _padded(x: Tensor) -> Tensor:
    missing = -x.shape[-1] % 8
    if missing:
        return torch.nn.functional.pad(x, (0, missing))
    return x if x.stride(-1) == 1 else x.contiguous()


def _mask_or_bias(given: Tensor, q: Tensor, k: Tensor, lead: tuple[int, ...]) -> tuple[Mask | None, Tensor | None]:
    """A boolean becomes a mask, read where it lies; anything else is added."""
    if given.dim() > 3 and len(lead) > 1:
        given = given.expand(*lead, *given.shape[-3:]).reshape(-1, *given.shape[-3:])
    while given.dim() < 4:
        given = given.unsqueeze(0)
    if given.shape[-1] != k.shape[-2]:
        given = given.expand(*given.shape[:-1], k.shape[-2])
    if given.dtype != torch.bool:
        return None, given
    if not torch.compiler.is_compiling():
        return dense_mask(given), None
    return None, torch.zeros((), dtype=q.dtype, device=given.device).masked_fill(~given, -torch.inf)


def _window_mask(causal: bool, window_size: tuple[int, int]) -> Mask | None:
    left, right = (side if side >= 0 else -1 for side in window_size)
    key = (left, 0) if causal else (left, right)
    if torch.compiler.is_compiling() and key not in _windows:
        return window(*key)
    if key not in _windows:
        _windows[key] = window(*key)
    return _windows[key]


def _flash(return_attn_probs: bool, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, **options: Any) -> Any:
    d, d_v = q.shape[-1], v.shape[-1]
    if options["scale"] is None:
        options["scale"] = float(d) ** -0.5
    out, lse = attention(_padded(q), _padded(k), _padded(v), mask, **options, return_lse=True)
    out = out[..., :d_v] if out.shape[-1] != d_v else out
    return (out, lse, None) if return_attn_probs else out


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """FlashAttention's `flash_attn_func`: `[b, s, h, d]`, causal from the bottom right, windows as `(left, right)`.

    Head dimensions that are no multiple of 8 are padded, which copies, as FlashAttention does.
    With `return_attn_probs` it returns `(out, lse, None)`: probabilities are nowhere held.
    """
    _no_dropout("flash_attn_func", dropout_p)
    return _flash(
        return_attn_probs, q, k, v, _window_mask(causal, window_size), scale=softmax_scale, softcap=softcap,
        alibi_slopes=alibi_slopes, deterministic=deterministic,
    )  # fmt: skip


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Tensor | None = None,
) -> Any:
    """FlashAttention's `flash_attn_varlen_func`: packed `[total, h, d]`.

    Offsets on a GPU stay there where queries and keys share them (one tensor given twice), or the mask is full:
    nothing waits, and a captured graph reads new ones. Otherwise they are copied to the CPU, which waits for the GPU.
    The longest lengths are not asked for; what is given for them is not read.
    """
    _no_dropout("flash_attn_varlen_func", dropout_p)
    if block_table is not None:
        raise UnsupportedError(
            "flash_attn_varlen_func: block_table is given; expected none: gather the pages into k and v first"
        )
    mask = _window_mask(causal, window_size)
    same = cu_seqlens_q is cu_seqlens_k or (
        not torch.compiler.is_compiling()  # addresses are nothing a graph holds
        and cu_seqlens_q.data_ptr() == cu_seqlens_k.data_ptr()
        and cu_seqlens_q.dtype == cu_seqlens_k.dtype
        and cu_seqlens_q.shape == cu_seqlens_k.shape
        and cu_seqlens_q.stride() == cu_seqlens_k.stride()
    )
    if not same and (mask is not None or alibi_slopes is not None):
        cu_seqlens_q, cu_seqlens_k = cu_seqlens_q.cpu(), cu_seqlens_k.cpu()
    return _flash(
        return_attn_probs, q, k, v, mask, scale=softmax_scale, softcap=softcap, alibi_slopes=alibi_slopes,
        cu_seqlens_q=cu_seqlens_q, cu_seqlens_kv=None if same else cu_seqlens_k, deterministic=deterministic,
    )  # fmt: skip
