"""JAX: `am.jax.attention`, differentiable and jittable; `am.attention` comes here with JAX arrays.

A compiled computation calls the library through XLA's foreign function interface, on a CPU, without
Python: the handlers are registered when this module is imported. Masks, scales and offsets are attributes of the call,
so another one traces again, an equal one does not, and a computation that is cached or exported holds them.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from . import _anymask as _c
from ._mask import Mask, parse

Array = Any

# Names of the handlers: what jax.export is told to let through.
_FORWARD, _BACKWARD = "anymask_attention", "anymask_attention_backward"

for _platform, (_forward_handler, _backward_handler) in _c.xla_handlers().items():
    jax.ffi.register_ffi_target(_FORWARD, _forward_handler, platform=_platform)
    jax.ffi.register_ffi_target(_BACKWARD, _backward_handler, platform=_platform)


class _Static(NamedTuple):
    """What is baked into a trace: hashable, compared by value."""

    mask: Mask | None
    scale: float | None
    softcap: float
    cu_q: tuple[int, ...] | None
    cu_kv: tuple[int, ...] | None
    deterministic: bool
    backend: str | None


@functools.lru_cache(maxsize=8)  # bytes of masks are kept
def _attributes(static: _Static) -> Mapping[str, Any]:
    """The attributes of a call, those left out that have their defaults."""
    found: dict[str, Any] = {}
    if static.mask is not None:
        found["mask"] = static.mask.to_bytes()
        found["mask_key"] = hashlib.blake2b(found["mask"], digest_size=16).digest()
    if static.scale is not None:
        found["scale"] = np.float64(static.scale)
    if static.softcap != 0:
        found["softcap"] = np.float64(static.softcap)
    if static.deterministic:
        found["deterministic"] = np.bool_(True)
    for name, offsets in (("cu_seqlens_q", static.cu_q), ("cu_seqlens_kv", static.cu_kv)):
        if offsets is not None:
            found[name] = np.asarray(offsets, np.int64)
    if static.backend is not None:
        found["backend"] = static.backend
    return found


def _offsets(name: str, given: Any) -> tuple[int, ...] | None:
    if given is None:
        return None
    if isinstance(given, jax.core.Tracer):
        raise TypeError(
            f"attention: {name} is traced; expected numbers known when the call is traced: give a NumPy array or a "
            "tuple, or make the argument static"
        )
    offsets = np.asarray(given)
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu":
        raise TypeError(
            f"attention: {name} is of type {offsets.dtype} and shape {list(offsets.shape)}; expected integers [n + 1]: "
            "offsets of n sequences in their packed tensor"
        )
    return tuple(offsets.tolist())


def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Mask | str | None = None,
    *,
    bias: Array | None = None,
    scale: float | None = None,
    softcap: float = 0.0,
    sinks: Array | None = None,
    alibi_slopes: Array | None = None,
    cu_seqlens_q: Sequence[int] | None = None,
    cu_seqlens_kv: Sequence[int] | None = None,
    return_lse: bool = False,
    deterministic: bool = False,
    backend: str | None = None,
) -> Any:
    """`anymask.attention` of JAX arrays, on a CPU: gradients of q, k, v, bias and sinks, and through lse."""
    if isinstance(mask, str):
        mask = parse(mask)
    if mask is not None and not isinstance(mask, Mask):
        raise TypeError(
            f"attention: mask is of type {type(mask).__name__}; expected a mask: am.causal(), am.parse(text), "
            "or am.from_tensor(array)"
        )
    static = _Static(
        mask,
        None if scale is None else float(scale),
        float(softcap),
        _offsets("cu_seqlens_q", cu_seqlens_q),
        _offsets("cu_seqlens_kv", cu_seqlens_kv),
        bool(deterministic),
        backend,
    )
    out, lse = _differentiable(static, q, k, v, bias, sinks, alibi_slopes)
    return (out, lse) if return_lse else out


def _attention(*given: Any) -> Any:
    """The arguments of `anymask.attention`, by position."""
    (q, k, v, mask, bias, scale, softcap, sinks, alibi, cu_q, cu_kv, deterministic, backend, return_lse, out, lse) = (
        given
    )
    if out is not None or lse is not None:
        raise _c.UnsupportedError("attention: out or lse is given; expected neither: JAX arrays are never written into")
    return attention(
        q,
        k,
        v,
        mask,
        bias=bias,
        scale=scale,
        softcap=softcap,
        sinks=sinks,
        alibi_slopes=alibi,
        cu_seqlens_q=cu_q,
        cu_seqlens_kv=cu_kv,
        return_lse=return_lse,
        deterministic=deterministic,
        backend=backend,
    )


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _call(target: str, static: _Static, results: Sequence[tuple[str, Any]], operands: Mapping[str, Any]) -> Any:
    """One call of a handler, operands and results by name; operands that are None are left out. jax.vmap runs it once
    for each element: a mask's batch axis is the call's own, so that elements of another axis cannot share a call."""
    given = {name: x for name, x in operands.items() if x is not None}
    names = {"operands": " ".join(given), "results": " ".join(name for name, _ in results)}
    function = jax.ffi.ffi_call(target, tuple(shape for _, shape in results), vmap_method="sequential")
    return tuple(function(*given.values(), **names, **_attributes(static)))  # JAX before 0.6 gives a list


@_call.defjvp
def _refuse_second_derivative(*_: Any) -> Any:
    raise _c.UnsupportedError(
        "attention: a derivative of its gradient is asked for, which is not computed; expected first derivatives: "
        "jax.lax.stop_gradient(gradient), or write attention with JAX's own operators"
    )


def _forward(static: _Static, q: Any, k: Any, v: Any, bias: Any, sinks: Any, alibi: Any) -> Any:
    if q.ndim < 3 or v.ndim != q.ndim:  # the shapes of results need as much; the library checks the rest
        raise ValueError(
            f"attention: q has shape {list(q.shape)} and v {list(v.shape)}; expected [b, s, h, d] both: add axes"
        )
    results = (
        ("out", jax.ShapeDtypeStruct((*q.shape[:-1], v.shape[-1]), q.dtype)),
        ("lse", jax.ShapeDtypeStruct((*q.shape[:-3], q.shape[-2], q.shape[-3]), jnp.float32)),
    )
    operands = {"q": q, "k": k, "v": v, "bias": bias, "sinks": sinks, "alibi_slopes": alibi}
    return _call(_FORWARD, static, results, operands)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(static: _Static, q: Any, k: Any, v: Any, bias: Any, sinks: Any, alibi: Any) -> Any:
    return _forward(static, q, k, v, bias, sinks, alibi)


class _Saved(NamedTuple):
    """From the forward to the backward pass. `need_*` is () or None: what a tree of arrays can hold of a flag."""

    q: Any
    k: Any
    v: Any
    out: Any
    lse: Any
    bias: Any
    sinks: Any
    alibi: Any
    need_dbias: tuple[()] | None
    need_dsinks: tuple[()] | None


def _vjp_forward(static: _Static, *inputs: Any) -> Any:
    if inputs[5] is not None and inputs[5].perturbed:
        raise _c.UnsupportedError(
            "attention: a gradient of alibi_slopes is asked for, which is not computed; expected constants: "
            "jax.lax.stop_gradient(alibi_slopes), or give the same as a bias"
        )
    q, k, v, bias, sinks, alibi = (None if x is None else x.value for x in inputs)
    need_dbias, need_dsinks = (() if x is not None and x.perturbed else None for x in inputs[3:5])
    out, lse = _forward(static, q, k, v, bias, sinks, alibi)
    return (out, lse), _Saved(q, k, v, out, lse, bias, sinks, alibi, need_dbias, need_dsinks)


def _vjp_backward(static: _Static, saved: _Saved, cotangents: Any) -> Any:
    dout, dlse = cotangents
    if isinstance(dout, SymbolicZero):
        dout = jnp.zeros(dout.shape, dout.dtype)
    if isinstance(dlse, SymbolicZero):
        dlse = None
    q, k, v, out, lse, bias, sinks, alibi, need_dbias, need_dsinks = saved
    like = {"dq": q, "dk": k, "dv": v}
    if need_dbias is not None:
        like["dbias"] = bias
    if need_dsinks is not None:
        like["dsinks"] = sinks
    results = tuple((name, jax.ShapeDtypeStruct(x.shape, x.dtype)) for name, x in like.items())
    operands = {"dout": dout, "q": q, "k": k, "v": v, "out": out, "lse": lse}
    operands |= {"bias": bias, "sinks": sinks, "alibi_slopes": alibi, "dlse": dlse}
    found = dict(zip(like, _call(_BACKWARD, static, results, operands), strict=True))
    return *(found.get(name) for name in ("dq", "dk", "dv", "dbias", "dsinks")), None


_attend.defvjp(_vjp_forward, _vjp_backward, symbolic_zeros=True)
# So that calls outside of a trace find what was compiled for them.
_differentiable = jax.jit(_attend, static_argnums=0)
