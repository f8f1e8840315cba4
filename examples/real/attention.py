"""Attention in plain NumPy, as the models compute it and as the demo checks anymask: no mask expression anywhere.

Shapes: q [s_q, h_q, d], k and v [s_kv, h_kv, d]; h_kv divides h_q. The arrays' own type is computed in: float32 inside
the models, float64 in the checks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
ROWS = 256  # rows of one block of causal attention: bounds memory to h_q * ROWS * s_kv scores


def probabilities(q: Array, k: Array, keep: NDArray[np.bool_] | None = None) -> Array:
    """softmax(q k^T / sqrt(d)) as [h_kv, group, s_q, s_kv]; `keep` [s_q, s_kv] is True where a row may look."""
    s_q, h_q, d = q.shape
    h_kv = k.shape[1]
    heads_q = q.reshape(s_q, h_kv, h_q // h_kv, d).transpose(1, 2, 0, 3)
    scores = heads_q @ k.transpose(1, 2, 0)[:, None] * q.dtype.type(d**-0.5)
    if keep is not None:
        np.putmask(scores, np.broadcast_to(~keep, scores.shape), -np.inf)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


def attend(q: Array, k: Array, v: Array, keep: NDArray[np.bool_] | None = None) -> Array:
    """softmax(q k^T / sqrt(d)) v: [s_q, h_q, d]."""
    p = probabilities(q, k, keep)
    return (p @ v.transpose(1, 0, 2)[:, None]).transpose(2, 0, 1, 3).reshape(q.shape)


def causal_keep(s_q: int, s_kv: int) -> NDArray[np.bool_]:
    """Rows are the last s_q positions of s_kv."""
    return np.arange(s_kv)[None, :] <= (np.arange(s_q) + s_kv - s_q)[:, None]


def causal(q: Array, k: Array, v: Array) -> Array:
    """Causal attention; q holds the last rows of the sequence."""
    s_q, s_kv = len(q), len(k)
    out = np.empty_like(q)
    for begin in range(0, s_q, ROWS):
        end = min(begin + ROWS, s_q)
        seen = s_kv - s_q + end
        out[begin:end] = attend(q[begin:end], k[:seen], v[:seen], causal_keep(end - begin, seen))
    return out


def causal_gradients(dout: Array, q: Array, k: Array, v: Array) -> tuple[Array, Array, Array]:
    """dq, dk, dv of sum(dout * causal(q, k, v)) for one short sequence, s_q == s_kv."""
    s, h_q, d = q.shape
    h_kv = k.shape[1]

    def by_kv_head(x: Array) -> Array:  # [h_kv, group, s, d]
        return x.reshape(s, h_kv, h_q // h_kv, d).transpose(1, 2, 0, 3)

    p = probabilities(q, k, causal_keep(s, s))
    do, hq = by_kv_head(dout), by_kv_head(q)
    hk, hv = k.transpose(1, 0, 2)[:, None], v.transpose(1, 0, 2)[:, None]  # [h_kv, 1, s, d]
    dp = do @ hv.swapaxes(-1, -2)
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) * d**-0.5
    dq = (ds @ hk).transpose(2, 0, 1, 3).reshape(q.shape)
    dk = (ds.swapaxes(-1, -2) @ hq).sum(axis=1).transpose(1, 0, 2)
    dv = (p.swapaxes(-1, -2) @ do).sum(axis=1).transpose(1, 0, 2)
    return dq, dk, dv
