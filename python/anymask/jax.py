"""JAX: `am.jax.attention`, differentiable and jittable; `am.attention` comes here with JAX arrays.

The call is a host callback (`jax.pure_callback`) with a gradient of its own (`jax.custom_vjp`), not an FFI handler:
one wheel then serves every JAX, and nothing of JAX is needed to build it. On a CPU a callback reads and writes host
memory, which the library works on anyway. Masks, scales and offsets are static: another one traces again.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import _anymask as _c
from ._mask import Mask, parse

Array = Any


class _Static(NamedTuple):
    """What is baked into a trace: hashable, compared by value."""

    mask: Mask | None
    scale: float | None
    softcap: float
    cu_q: tuple[int, ...] | None
    cu_kv: tuple[int, ...] | None
    backend: str | None

    def options(self, bias: Any, sinks: Any, alibi: Any) -> tuple[Any, ...]:
        cu_q, cu_kv = (None if cu is None else np.asarray(cu, np.int64) for cu in (self.cu_q, self.cu_kv))
        return self.mask, bias, self.scale, self.softcap, sinks, alibi, cu_q, cu_kv, True, self.backend


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
    backend: str | None = None,
) -> Any:
    """`anymask.attention` of JAX arrays, on a CPU: gradients of q, k, v, bias and sinks, and through lse."""
    cu_q, cu_kv = (
        None if cu is None else tuple(int(x) for x in np.asarray(cu)) for cu in (cu_seqlens_q, cu_seqlens_kv)
    )
    if isinstance(mask, str):
        mask = parse(mask)
    if mask is not None and not isinstance(mask, Mask):
        raise TypeError(
            f"attention: mask is of type {type(mask).__name__}; expected a mask: am.causal(), am.parse(text), "
            "or am.from_tensor(array)"
        )
    static = _Static(mask, None if scale is None else float(scale), float(softcap), cu_q, cu_kv, backend)
    out, lse = _differentiable(static, q, k, v, bias, sinks, alibi_slopes)
    return (out, lse) if return_lse else out


def _attention(*given: Any) -> Any:
    """The arguments of `anymask.attention`, by position."""
    (q, k, v, mask, bias, scale, softcap, sinks, alibi, cu_q, cu_kv, _, backend, return_lse, out, lse) = given
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
        backend=backend,
    )


def _host(x: Any) -> Any:
    return None if x is None else np.asarray(x)


def _forward_host(static: _Static, q: Any, k: Any, v: Any, bias: Any, sinks: Any, alibi: Any) -> Any:
    q, k, v, bias, sinks, alibi = map(_host, (q, k, v, bias, sinks, alibi))
    return _c.attention(q, k, v, *static.options(bias, sinks, alibi), True, None, None)


def _backward_host(
    static: _Static, dout: Any, dlse: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, *rest: Any
) -> Any:
    dout, dlse, q, k, v, out, lse, bias, sinks, alibi = map(_host, (dout, dlse, q, k, v, out, lse, *rest))
    gradients = _c.attention_backward(
        dout, q, k, v, out, lse, *static.options(bias, sinks, alibi), dlse, True, True, None, None, None, None, None
    )
    return tuple(x for x in gradients if x is not None)


def _forward(static: _Static, q: Any, k: Any, v: Any, bias: Any, sinks: Any, alibi: Any) -> Any:
    if q.ndim < 3 or v.ndim != q.ndim:  # the shapes of results need as much; the library checks the rest
        raise ValueError(
            f"attention: q has shape {list(q.shape)} and v {list(v.shape)}; expected [b, s, h, d] both: add axes"
        )
    shapes = (
        jax.ShapeDtypeStruct((*q.shape[:-1], v.shape[-1]), q.dtype),
        jax.ShapeDtypeStruct((*q.shape[:-3], q.shape[-2], q.shape[-3]), jnp.float32),
    )
    call = functools.partial(_forward_host, static)
    return jax.pure_callback(call, shapes, q, k, v, bias, sinks, alibi, vmap_method="sequential")


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _differentiable(static: _Static, q: Any, k: Any, v: Any, bias: Any, sinks: Any, alibi: Any) -> Any:
    return _forward(static, q, k, v, bias, sinks, alibi)


def _vjp_forward(static: _Static, q: Any, k: Any, v: Any, bias: Any, sinks: Any, alibi: Any) -> Any:
    out, lse = _forward(static, q, k, v, bias, sinks, alibi)
    return (out, lse), (q, k, v, out, lse, bias, sinks, alibi)


def _vjp_backward(static: _Static, saved: Any, cotangents: Any) -> Any:
    q, k, v, out, lse, bias, sinks, alibi = saved
    dout, dlse = cotangents
    like = [x for x in (q, k, v, bias, sinks) if x is not None]
    shapes = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in like)
    call = functools.partial(_backward_host, static)
    found = list(
        jax.pure_callback(call, shapes, dout, dlse, q, k, v, out, lse, bias, sinks, alibi, vmap_method="sequential")
    )
    dq, dk, dv = found[:3]
    dbias = None if bias is None else found[3]
    dsinks = None if sinks is None else found[-1]
    # The gradient of slopes is not computed: NaN, so that whoever uses it notices.
    return dq, dk, dv, dbias, dsinks, None if alibi is None else jnp.full_like(alibi, jnp.nan)


_differentiable.defvjp(_vjp_forward, _vjp_backward)
