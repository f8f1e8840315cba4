"""PyTorch: gradients, compilation, autocast. Imported when a PyTorch tensor is first met.

Three ways through, cheapest first. A plain call without gradients goes straight to the module, past the dispatcher.
A plain call with gradients is one node of the autograd graph around the same calls. Everything else (compilation,
fake tensors, subclasses, modes, transforms) goes through the operators `anymask::attention` and
`anymask::attention_backward`.

A mask is no tensor, and an operator's arguments that are no tensors are baked into a compiled graph. So a mask
travels as a tensor that holds its number (`Mask._token`): the graph sees an input like any other, new masks compile
nothing, and the tensor keeps the mask alive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.autograd.forward_ad as _forward_ad
from torch import Tensor

from . import _anymask as _c
from . import _attention, _mask
from ._mask import Mask

_PLAIN = (torch.Tensor, torch.nn.Parameter)

_is_compiling = torch.compiler.is_dynamo_compiling
_grad_enabled = torch.is_grad_enabled
_any_autocast = torch._C._is_any_autocast_enabled
_dispatch_modes = torch._C._len_torch_dispatch_stack
_transforms = torch._C._functorch.peek_interpreter_stack
_all_transforms = torch._C._functorch.get_interpreter_stack


def _token(handle: _c.Handle) -> Tensor:
    with torch._C._DisableTorchDispatch():
        return torch.frombuffer(_c.number_memory(handle), dtype=torch.int64)


def _token_of(mask: Mask | None) -> Tensor | None:
    if mask is None:
        return None
    if not isinstance(mask, Mask):
        raise TypeError(
            f"attention: mask is of type {type(mask).__name__}; expected a mask: am.causal(), am.parse(text), "
            "am.dense(array of booleans), or am.from_tensor(array)"
        )
    return mask._token


def _handle_of(token: Tensor | None) -> _c.Handle | None:
    return None if token is None else _c.handle_of(token.item())


# ------------------------------------------------------------------ operators

# One library object for the life of the process: its end would take the operators back.
_library = torch.library.Library("anymask", "DEF")
_OPTIONS = (
    "Tensor? mask, Tensor? bias, float? scale, float softcap, Tensor? sinks, Tensor? alibi_slopes, "
    "Tensor? cu_seqlens_q, Tensor? cu_seqlens_kv, bool deterministic, str? backend"
)
_library.define(f"attention(Tensor q, Tensor k, Tensor v, {_OPTIONS}) -> (Tensor, Tensor)")
# Gradients that are not wanted come back empty.
_library.define(
    f"attention_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, {_OPTIONS}, Tensor? dlse, "
    "bool need_dbias, bool need_dsinks) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)


def _forward_kernel(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *options: Any) -> tuple[Tensor, Tensor]:
    return _c.attention(q, k, v, _handle_of(mask), *options, True, None, None)  # type: ignore[no-any-return]


def _backward_kernel(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    mask: Tensor | None,
    *rest: Any,
) -> tuple[Tensor, ...]:
    *options, dlse, need_dbias, need_dsinks = rest
    dq, dk, dv, dbias, dsinks = _c.attention_backward(
        _dense_rows(dout), q, k, v, out, lse, _handle_of(mask), *options, dlse, need_dbias, need_dsinks,
        None, None, None, None, None,
    )  # fmt: skip
    return dq, dk, dv, q.new_empty(0) if dbias is None else dbias, q.new_empty(0) if dsinks is None else dsinks


def _dense_rows(dout: Tensor) -> Tensor:
    """Autograd hands in expanded gradients (of a sum, say); the kernel reads rows."""
    return dout if dout.stride(-1) == 1 else dout.contiguous()


for _key in ("CPU", "CUDA"):
    _library.impl("attention", _forward_kernel, _key)
    _library.impl("attention_backward", _backward_kernel, _key)


@torch.library.register_fake("anymask::attention", lib=_library)
def _forward_fake(q: Tensor, k: Tensor, v: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
    out = q.new_empty((*q.shape[:-1], v.shape[-1]))
    tokens, heads = q.shape[-3], q.shape[-2]
    return out, q.new_empty((*q.shape[:-3], heads, tokens), dtype=torch.float32)


@torch.library.register_fake("anymask::attention_backward", lib=_library)
def _backward_fake(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    bias, sinks, need_dbias, need_dsinks = rest[1], rest[4], rest[-2], rest[-1]
    return (
        q.new_empty(q.shape),
        k.new_empty(k.shape),
        v.new_empty(v.shape),
        bias.new_empty(bias.shape) if need_dbias and bias is not None else q.new_empty(0),
        sinks.new_empty(sinks.shape) if need_dsinks and sinks is not None else q.new_empty(0),
    )


_SECOND = (
    "attention: the gradient of a gradient is asked for, which is not defined here; expected a backward pass without "
    "create_graph=True: use torch's math backend for second derivatives"
)


def _refuse_forward_mode(*inputs: Tensor | None) -> None:
    if any(x is not None and _forward_ad.unpack_dual(x).tangent is not None for x in inputs):
        raise _c.UnsupportedError(
            "attention: an input carries a tangent of forward-mode differentiation, which is not defined here; "
            "expected plain tensors: use backward(), or torch's math backend"
        )


def _refuse_functional() -> None:
    """torch.vmap calls the operator once an entry; what differentiates a function has no rule for it."""
    kinds = torch._C._functorch.TransformType
    if any(level.key() in (kinds.Grad, kinds.Jvp) for level in _all_transforms() or ()):
        raise _c.UnsupportedError(
            "attention: torch.func.grad or another transform that differentiates is at work, which is not defined "
            "here; expected plain calls or torch.vmap: use backward() or torch.autograd.grad"
        )


def _refuse_alibi_gradient(alibi_slopes: Tensor | None) -> None:
    if alibi_slopes is not None and alibi_slopes.requires_grad:
        raise _c.UnsupportedError(
            "attention: alibi_slopes requires a gradient, which is not computed; expected constants: detach() them, or "
            "give the bias itself"
        )


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, mask, bias, scale, softcap, sinks, alibi, cu_q, cu_kv, deterministic, backend = inputs
    ctx.save_for_backward(q, k, v, *output, bias, sinks, alibi, cu_q, cu_kv, mask)
    ctx.options = (scale, softcap, deterministic, backend)
    ctx.set_materialize_grads(False)


def _operator_gradients(
    dout: Tensor | None, dlse: Tensor | None, saved: Any, mask: Tensor | None, options: Any, need: tuple[bool, bool]
) -> tuple[Any, ...]:
    """dq, dk, dv, dbias, dsinks by the operator; None for the last two where they are not needed."""
    q, k, v, out, lse, bias, sinks, alibi, cu_q, cu_kv = saved
    scale, softcap, deterministic, backend = options
    dq, dk, dv, dbias, dsinks = torch.ops.anymask.attention_backward(
        torch.zeros_like(out) if dout is None else dout, q, k, v, out, lse, mask, bias, scale, softcap, sinks, alibi,
        cu_q, cu_kv, deterministic, backend, dlse, *need,
    )  # fmt: skip
    return dq, dk, dv, dbias if need[0] else None, dsinks if need[1] else None


def _backward(ctx: Any, dout: Tensor | None, dlse: Tensor | None) -> tuple[Any, ...]:
    *saved, mask = ctx.saved_tensors
    need = (ctx.needs_input_grad[4], ctx.needs_input_grad[7])
    dq, dk, dv, dbias, dsinks = _operator_gradients(dout, dlse, saved, mask, ctx.options, need)
    return dq, dk, dv, None, dbias, None, None, dsinks, None, None, None, None, None


torch.library.register_autograd("anymask::attention", _backward, setup_context=_setup, lib=_library)


def _refuse_second(ctx: Any, *grads: Any) -> Any:
    raise _c.UnsupportedError(_SECOND)


torch.library.register_autograd("anymask::attention_backward", _refuse_second, lib=_library)


def _autocast_kernel(kind: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """Under autocast q, k and v are computed in its type, as scaled_dot_product_attention's are."""
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"Autocast{kind}"))

    def kernel(q: Tensor, k: Tensor, v: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
        dtype = torch.get_autocast_dtype(kind.lower())
        q, k, v = (x.to(dtype) if x.is_floating_point() and x.dtype != torch.float64 else x for x in (q, k, v))
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return torch.ops.anymask.attention(q, k, v, *options)  # type: ignore[no-any-return]

    return kernel


for _kind in ("CPU", "CUDA"):
    _library.impl("attention", _autocast_kernel(_kind), f"Autocast{_kind}")


# ------------------------------------------------------------------ one node of the graph, without the dispatcher


class _Attention(torch.autograd.Function):
    """The eager node: the operators' formula around the module's own calls."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        sinks: Tensor | None,
        mask: Mask | None,
        rest: tuple[Any, ...],
    ) -> tuple[Tensor, Tensor]:
        scale, softcap, alibi, cu_q, cu_kv, deterministic, backend = rest
        out, lse = _c.attention(
            q, k, v, mask, bias, scale, softcap, sinks, alibi, cu_q, cu_kv, deterministic, backend, True, None, None
        )
        # What is saved costs a microsecond or two, there or not: a plain call saves five.
        if bias is None and sinks is None and alibi is None and cu_q is None and cu_kv is None:
            ctx.save_for_backward(q, k, v, out, lse)
        else:
            ctx.save_for_backward(q, k, v, out, lse, bias, sinks, alibi, cu_q, cu_kv)
        ctx.options = (mask, scale, softcap, deterministic, backend)
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    def backward(ctx: Any, dout: Tensor | None, dlse: Tensor | None) -> tuple[Any, ...]:  # type: ignore[override]
        if _grad_enabled():  # create_graph=True: what comes out must refuse to be differentiated
            return _second(ctx, dout, dlse)
        saved = ctx.saved_tensors
        if len(saved) == 5:
            q, k, v, out, lse = saved
            bias = sinks = alibi = cu_q = cu_kv = None
            need_dbias = need_dsinks = False
        else:
            q, k, v, out, lse, bias, sinks, alibi, cu_q, cu_kv = saved
            _, _, _, need_dbias, need_dsinks, _, _ = ctx.needs_input_grad
        mask, scale, softcap, deterministic, backend = ctx.options
        dout = torch.zeros_like(out) if dout is None else _dense_rows(dout)
        dq, dk, dv, dbias, dsinks = _c.attention_backward(
            dout, q, k, v, out, lse, mask, bias, scale, softcap, sinks, alibi, cu_q, cu_kv, deterministic, backend,
            dlse, need_dbias, need_dsinks, None, None, None, None, None,
        )  # fmt: skip
        return dq, dk, dv, dbias, dsinks, None, None


# Function.apply without what it does for transforms of functions, which never come here.
_apply: Callable[..., tuple[Tensor, Tensor]] = super(torch.autograd.Function, _Attention).apply


def _second(ctx: Any, dout: Tensor | None, dlse: Tensor | None) -> tuple[Any, ...]:
    need = ctx.needs_input_grad[3:5]
    mask, *options = ctx.options
    saved = (*ctx.saved_tensors, *(None,) * 5)[:10]
    found = _operator_gradients(dout, dlse, saved, _token_of(mask), options, need)
    return *found, None, None


# ------------------------------------------------------------------ the call


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | None,
    bias: Tensor | None,
    scale: float | None,
    softcap: float,
    sinks: Tensor | None,
    alibi_slopes: Tensor | None,
    cu_seqlens_q: Tensor | None,
    cu_seqlens_kv: Tensor | None,
    deterministic: bool,
    backend: str | None,
    return_lse: bool,
    out: Tensor | None,
    lse: Tensor | None,
) -> Any:
    """`anymask.attention` where q is a PyTorch tensor."""
    if not _is_compiling():
        if _attention._torch_attention is None:
            take_over()
        try:
            needs_grad = _grad_enabled() and (
                q.requires_grad
                or k.requires_grad
                or v.requires_grad
                or (bias is not None and bias.requires_grad)
                or (sinks is not None and sinks.requires_grad)
            )
        except AttributeError:
            _one_library(q, k, v, bias, sinks, alibi_slopes, cu_seqlens_q, cu_seqlens_kv)
            raise
        plain = type(q) in _PLAIN and type(k) in _PLAIN and type(v) in _PLAIN
        if _forward_ad._current_level >= 0:
            _refuse_forward_mode(q, k, v, bias, sinks)
        # A bias may be the imaginary part of a conjugate, whose sign is a note beside its memory. No such view of q, k
        # or v has a contiguous last axis.
        if bias is not None and bias.is_neg():
            bias = bias.resolve_neg()
        if plain and not _any_autocast() and not _dispatch_modes() and _transforms() is None:
            if not needs_grad and not q.is_meta:
                return _c.attention(
                    q, k, v, mask, bias, scale, softcap, sinks, alibi_slopes, cu_seqlens_q, cu_seqlens_kv,
                    deterministic, backend, return_lse, out, lse,
                )  # fmt: skip
            if needs_grad and out is None and lse is None and not q.is_meta:
                _refuse_alibi_gradient(alibi_slopes)
                result = _apply(
                    q, k, v, bias, sinks, mask,
                    (scale, softcap, alibi_slopes, cu_seqlens_q, cu_seqlens_kv, deterministic, backend),
                )  # fmt: skip
                return result if return_lse else result[0]
        _refuse_functional()
    if out is not None or lse is not None:
        raise _c.UnsupportedError(
            "attention: out or lse is given where gradients, compilation or a mode of PyTorch is at work; expected "
            "neither: use what is returned, or call under torch.no_grad()"
        )
    _refuse_alibi_gradient(alibi_slopes)
    _one_library(q, k, v, bias, sinks, alibi_slopes, cu_seqlens_q, cu_seqlens_kv)
    token = _token_of(mask)
    if token is not None and not _is_compiling():
        token = _fake_beside(q, token)
    result = torch.ops.anymask.attention(
        q,
        k,
        v,
        token,
        bias,
        scale,
        softcap,
        sinks,
        alibi_slopes,
        cu_seqlens_q,
        cu_seqlens_kv,
        deterministic,
        backend,
    )
    return (result[0], result[1]) if return_lse else result[0]


def _fake_beside(q: Tensor, token: Tensor) -> Tensor:
    """Among tensors of shapes without data the token is one, too, unless they take real ones: torch.export makes a
    constant of the token, which keeps the mask alive, where it would refuse one without data."""
    mode = torch._guards.detect_fake_mode((q,))
    return token if mode is None or mode.allow_non_fake_inputs else mode.from_tensor(token)


_NAMES = ("q", "k", "v", "bias", "sinks", "alibi_slopes", "cu_seqlens_q", "cu_seqlens_kv")


def _one_library(*given: Any) -> None:
    for name, x in zip(_NAMES, given, strict=True):
        if x is not None and not isinstance(x, Tensor):
            raise TypeError(
                f"attention: {name} is of type {type(x).__name__} and q a PyTorch tensor; expected tensors of one "
                f"library: torch.as_tensor({name})"
            )


def take_over() -> None:
    """From now on calls with tensors come straight here. Never while a graph is traced, which watches these names."""
    _attention._torch_attention = attention
    _attention._tensors = frozenset(_PLAIN)


_mask._make_token = _token
for _early in list(_mask._without_token.values()):
    object.__setattr__(_early, "_token", _token(_early._h))
_mask._without_token.clear()
