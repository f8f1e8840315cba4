"""transformers: `attn_implementation="anymask"`.

    import anymask as am
    am.integrations.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="anymask")

The library describes a layer's mask as a function of two positions, put together from a few it knows: causal, a window,
packed documents, padding. Those become expressions here, which cost what they keep; any other function is evaluated at
every pair, as the library itself does it. Rows of padding tokens keep nothing and give zeros.

Under `torch.compile` masks are made outside of the graphs, which break there and take them as inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._anymask import UnsupportedError
from .._attention import attention
from .._imports import from_padding, from_segment_ids, from_tensor
from .._mask import Mask, causal, full, window
from .._torch_like import _padded

_CAUSAL = causal()
_FULL = full()


class _Unknown(Exception):
    """A function that is not one of the known ones."""


class LayerMask(Mask):
    """The mask of one kind of layer, as the library passes it on: it asks for axes and shape where it would have a
    tensor, and takes one of four axes for finished."""

    __slots__ = ("shape",)
    shape: tuple[int, int, int, int]
    ndim = 4


def _finished(mask: Mask, batch: int, q_length: int, kv_length: int) -> LayerMask:
    made = LayerMask.__new__(LayerMask)
    made._set(mask._h)
    object.__setattr__(made, "shape", (batch, 1, q_length, kv_length))
    return made


def register(name: str = "anymask") -> None:
    """Adds the implementation to transformers' interfaces for attention and for masks."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, make_mask)


# ------------------------------------------------------------------ masks


@torch.compiler.disable(reason="masks are made outside of graphs")  # type: ignore[untyped-decorator]
def make_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] | None = None,
    attention_mask: Tensor | LayerMask | None = None,
    **options: Any,
) -> LayerMask:
    """The mask of one kind of layer for a forward pass: `mask_function(b, h, q, kv)` of places plus offsets.

    One that was made before, as `generate` does for caches of a fixed size, is `attention_mask` and returned.
    """
    if isinstance(attention_mask, LayerMask):
        return attention_mask
    mask = _mask(batch_size, q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask, options)
    return _finished(mask, batch_size, q_length, kv_length)


def _mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int,
    kv_offset: int,
    mask_function: Callable[..., Any] | None,
    attention_mask: Tensor | None,
    options: dict[str, Any],
) -> Mask:
    from transformers import masking_utils

    if mask_function is None:
        mask_function = masking_utils.causal_mask_function
    try:
        # Here a row stands at kv_length - q_length + q among the keys.
        if isinstance(q_offset, Tensor) or q_offset - kv_offset != kv_length - q_length:
            raise _Unknown
        mask = _expression(mask_function, masking_utils, packed=_has_packed(mask_function))
        padding = masking_utils.prepare_padding_mask(attention_mask, kv_length, kv_offset)
        if padding is not None:
            padding = padding[:, kv_offset : kv_offset + kv_length]
            if not bool(padding.all()):
                mask = mask & _padding(padding)
        return mask
    except _Unknown:
        options.update(allow_is_causal_skip=False, allow_is_bidirectional_skip=False)
        kept = masking_utils.sdpa_mask(
            batch_size=batch_size,
            q_length=q_length,
            kv_length=kv_length,
            q_offset=q_offset,
            kv_offset=kv_offset,
            mask_function=mask_function,
            attention_mask=attention_mask,
            **options,
        )
        return from_tensor(kept)


def _cells(function: Callable[..., Any]) -> dict[str, Any]:
    """What a function closes over, by name."""
    cells = getattr(function, "__closure__", None) or ()
    return dict(zip(function.__code__.co_freevars, (cell.cell_contents for cell in cells), strict=True))


def _maker(function: Callable[..., Any]) -> str:
    """`and_masks` for the function that `and_masks` returned."""
    return getattr(function, "__qualname__", "").partition(".")[0]


def _has_packed(function: Callable[..., Any]) -> bool:
    """Whether packed documents are among what must hold: then positions within documents differ as positions do."""
    if _maker(function) == "and_masks":
        return any(_has_packed(part) for part in _cells(function)["mask_functions"])
    return _maker(function) == "packed_sequence_mask_function"


def _expression(function: Callable[..., Any], known: Any, packed: bool) -> Mask:
    if function is known.causal_mask_function:
        return _CAUSAL
    if function is known.bidirectional_mask_function:
        return _FULL
    if getattr(function, "__module__", "") != known.__name__ or not hasattr(function, "__code__"):
        raise _Unknown
    cells = _cells(function)
    match _maker(function):
        case "and_masks":
            return _joined(cells["mask_functions"], Mask.__and__, known, packed)
        case "or_masks":
            return _joined(cells["mask_functions"], Mask.__or__, known, False)
        case "sliding_window_overlay":
            return window(int(cells["sliding_window"]) - 1, -1)
        case "sliding_window_bidirectional_overlay":
            return window(int(cells["sliding_window"]), int(cells["sliding_window"]))
        case "packed_sequence_mask_function":
            return from_segment_ids(cells["packed_sequence_mask"])
        case "remap_positions_for_packed_sequence" if packed:
            return _expression(cells["mask_function"], known, packed)
    raise _Unknown


def _joined(
    parts: tuple[Callable[..., Any], ...], join: Callable[[Mask, Mask], Mask], known: Any, packed: bool
) -> Mask:
    mask: Mask | None = None
    for part in parts:
        term = _expression(part, known, packed)
        mask = term if mask is None else join(mask, term)
    if mask is None:
        raise _Unknown
    return mask


def _padding(kept: Tensor) -> Mask:
    """Lengths where each row of `kept [b, s_kv]` is padded on one side, booleans otherwise."""
    kept = kept.cpu()
    lengths, s_kv = kept.sum(1), kept.shape[1]
    place = torch.arange(s_kv)
    if torch.equal(kept, place < lengths[:, None]):
        return from_padding(lengths)
    if torch.equal(kept, place >= s_kv - lengths[:, None]):
        return from_padding(lengths, s_kv, side="left")
    return from_tensor(kept[:, None, None])


# ------------------------------------------------------------------ attention


def attention_forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Mask | Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    is_causal: bool | None = None,
    **unused: Any,
) -> tuple[Tensor, None]:
    """transformers' attention function: `[b, h, s, d]` in, `[b, s, h, d]` out. Windows are in the mask."""
    if dropout:
        raise UnsupportedError(
            f"anymask: dropout is {dropout}; expected 0: set attention_dropout=0.0 in the configuration"
        )
    mask: Mask | None = None
    bias: Tensor | None = None
    if isinstance(attention_mask, Mask):
        mask = attention_mask
    elif attention_mask is None:
        causal_layer = getattr(module, "is_causal", True) if is_causal is None else is_causal
        mask = _CAUSAL if causal_layer and query.shape[2] > 1 else None
    elif attention_mask.dtype == torch.bool:
        mask = from_tensor(attention_mask[..., : key.shape[2]])
    else:
        bias = attention_mask[..., : key.shape[2]]
    d, d_v = query.shape[-1], value.shape[-1]
    q, k, v = (_padded(x).transpose(1, 2) for x in (query, key, value))
    out = attention(
        q,
        k,
        v,
        mask,
        bias=bias,
        scale=d**-0.5 if scaling is None else scaling,
        softcap=softcap or 0.0,
        sinks=s_aux,
    )
    return (out if out.shape[-1] == d_v else out[..., :d_v].contiguous()), None
