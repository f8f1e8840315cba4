"""attention and its gradients, for arrays of every framework: one C call each.

PyTorch tensors take a path of their own (`anymask._torch`: autograd, compilation), as JAX arrays do (`anymask.jax`).
Their modules are imported when such arrays are first met, never by `import anymask` alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from . import _anymask as _c
from ._mask import Mask, parse

Array = Any

# PyTorch's tensor classes and their way through, set by anymask._torch. Looked up by class: its isinstance is slow.
_tensors: frozenset[type] = frozenset()
_torch_attention: Any = None
# Array types that go straight to the module.
_direct: set[type] = set()


def _other_route(kind: type) -> Callable[..., Any] | None:
    """The function that serves arrays of this type, met for the first time; None for the module itself."""
    origin = (getattr(kind, "__module__", "") or "").partition(".")[0]
    if origin == "torch" or any(c.__module__ == "torch" and c.__name__ == "Tensor" for c in kind.__mro__):
        from . import _torch

        return cast("Callable[..., Any]", _torch.attention)
    if origin in ("jax", "jaxlib"):
        from . import jax

        return cast("Callable[..., Any]", jax._attention)
    _direct.add(kind)
    return None


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
    cu_seqlens_q: Array | None = None,
    cu_seqlens_kv: Array | None = None,
    return_lse: bool = False,
    out: Array | None = None,
    lse: Array | None = None,
    deterministic: bool = False,
    backend: str | None = None,
) -> Any:
    """Exact softmax attention under any mask, at the cost of what the mask keeps.

    Args:
        q: `[b, s_q, h_q, d]`, any strides with a contiguous last axis; with `cu_seqlens_q`, `[total, heads, d]`.
        k: `[b, s_kv, h_kv, d]` of q's type; `h_q % h_kv == 0`.
        v: `[b, s_kv, h_kv, d_v]` of q's type.
        mask: what is kept; all by default. A text is parsed.
        bias: added after the softcap: `[b | 1, h_q | h_kv | 1, s_q | 1, s_kv]`, or `[s_q | 1, s_kv]`.
        scale: `1 / sqrt(d)` by default.
        softcap: 0 for none; else `s = softcap * tanh(s / softcap)`.
        sinks: `[h_q]`, a logit in the denominator only.
        alibi_slopes: `[h_q]` or `[b, h_q]`; adds `-slope * |p - kv|`.
        cu_seqlens_q: offsets `[n + 1]` of packed sequences. On a GPU they are read there, for masks of causal, window
            and stride where keys have no other offsets, and for full ones.
        cu_seqlens_kv: those of the keys, where they differ.
        return_lse: also return the natural logarithm of the denominator, `[b, h_q, s_q]` float32.
        out: memory to write into; a new array of q's library by default.
        lse: the same for the lse.
        deterministic: a backward pass that is the same bit for bit; a CPU's always is.
        backend: "cpu", "cuda" or "reference" (double precision); by the arrays' device by default.

    Returns:
        `out [b, s_q, h_q, d_v]`, or `(out, lse)`. Rows that keep nothing are 0, their lse `-inf`.

    >>> import numpy as np, anymask as am
    >>> q = k = v = np.ones((1, 6, 2, 8), np.float32)
    >>> am.attention(q, k, v, am.causal() & am.documents([0, 2, 6])).shape
    (1, 6, 2, 8)
    """
    if type(mask) is str:
        mask = parse(mask)
    kind = type(q)
    if kind in _tensors:
        return _torch_attention(
            q, k, v, mask, bias, scale, softcap, sinks, alibi_slopes, cu_seqlens_q, cu_seqlens_kv,
            deterministic, backend, return_lse, out, lse,
        )  # fmt: skip
    if kind not in _direct:
        route = _other_route(kind)
        if route is not None:
            return route(
                q, k, v, mask, bias, scale, softcap, sinks, alibi_slopes, cu_seqlens_q, cu_seqlens_kv,
                deterministic, backend, return_lse, out, lse,
            )  # fmt: skip
    return _c.attention(
        q, k, v, mask, bias, scale, softcap, sinks, alibi_slopes, cu_seqlens_q, cu_seqlens_kv,
        deterministic, backend, return_lse, out, lse,
    )  # fmt: skip


class Gradients(NamedTuple):
    """What `attention_backward` returns; `dbias` and `dsinks` are None where the call has no bias or sinks."""

    dq: Array
    dk: Array
    dv: Array
    dbias: Array | None
    dsinks: Array | None


def attention_backward(
    dout: Array,
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    lse: Array,
    mask: Mask | str | None = None,
    *,
    bias: Array | None = None,
    scale: float | None = None,
    softcap: float = 0.0,
    sinks: Array | None = None,
    alibi_slopes: Array | None = None,
    cu_seqlens_q: Array | None = None,
    cu_seqlens_kv: Array | None = None,
    dlse: Array | None = None,
    need_dbias: bool = True,
    need_dsinks: bool = True,
    dq: Array | None = None,
    dk: Array | None = None,
    dv: Array | None = None,
    dbias: Array | None = None,
    dsinks: Array | None = None,
    deterministic: bool = False,
    backend: str | None = None,
) -> Gradients:
    """Gradients of `sum(dout * out) + sum(dlse * lse)`, given the forward's `out` and `lse` and its other arguments.

    `dbias` is summed over the axes that the bias broadcasts. `dq`, `dk`, `dv`, `dbias`, `dsinks` are memory to
    write into.
    """
    if type(mask) is str:
        mask = parse(mask)
    return Gradients(
        *_c.attention_backward(
            dout,
            q,
            k,
            v,
            out,
            lse,
            mask,
            bias,
            scale,
            softcap,
            sinks,
            alibi_slopes,
            cu_seqlens_q,
            cu_seqlens_kv,
            deterministic,
            backend,
            dlse,
            need_dbias,
            need_dsinks,
            dq,
            dk,
            dv,
            dbias,
            dsinks,
        )
    )


def explain(
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
    cu_seqlens_q: Array | None = None,
    cu_seqlens_kv: Array | None = None,
    deterministic: bool = False,
    backend: str | None = None,
    backward: bool = False,
) -> dict[str, Any]:
    """What a call would run and why: backend, kernel, share kept, tiles by kind, and what was refused and why."""
    if type(mask) is str:
        mask = parse(mask)
    text = _c.explain(
        q, k, v, mask, bias, scale, softcap, sinks, alibi_slopes, cu_seqlens_q, cu_seqlens_kv,
        deterministic, backend, backward,
    )  # fmt: skip
    return cast("dict[str, Any]", json.loads(text))


def backends() -> dict[str, Any]:
    """Which backends can run here; for those that cannot, why."""
    return cast("dict[str, Any]", json.loads(_c.backends()))


def set_num_threads(number: int) -> None:
    """Threads a call on a CPU may use from now on; 0, the default, for all that this process may. Results do not
    depend on it."""
    _c.set_num_threads(number)


def get_num_threads() -> int:
    """What `set_num_threads` was given last, 0 at first."""
    return _c.get_num_threads()


def plan_cache_stats() -> dict[str, int]:
    """Entries, bytes, hits and misses of the cache of plans, and its limit in bytes."""
    return _c.plan_cache_stats()


def set_plan_cache_limit(limit: int) -> None:
    """Bytes the cache of plans may hold; 0 empties and disables it."""
    _c.plan_cache_limit(limit)
