"""What the tests share: inputs from a seed, and attention in double precision by NumPy alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


class Problem:
    """q, k, v, dout from a seed."""

    def __init__(
        self,
        seed: int = 0,
        b: int = 2,
        s_q: int = 37,
        s_kv: int = 37,
        h_q: int = 4,
        h_kv: int = 2,
        d: int = 16,
        d_v: int | None = None,
        dtype: Any = np.float32,
    ) -> None:
        rng = np.random.default_rng(seed)
        d_v = d if d_v is None else d_v
        self.rng = rng
        self.q, self.k, self.v, self.dout = (
            rng.standard_normal(shape).astype(dtype)
            for shape in ((b, s_q, h_q, d), (b, s_kv, h_kv, d), (b, s_kv, h_kv, d_v), (b, s_q, h_q, d_v))
        )


def by_numpy(
    q: Any,
    k: Any,
    v: Any,
    kept: Any = True,
    *,
    bias: Any = 0.0,
    scale: float | None = None,
    softcap: float = 0.0,
    sinks: Any = None,
) -> tuple[Any, Any]:
    """out and lse as the table of the design says them, in double; `kept` broadcasts to [b, h, s_q, s_kv]."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    group = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, group, 2), np.repeat(v, group, 2)
    s = np.einsum("bqhd,bkhd->bhqk", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        s = softcap * np.tanh(s / softcap)
    s = np.where(kept, s + np.asarray(bias, np.float64), -np.inf)
    if sinks is not None:
        s = np.concatenate(
            [s, np.broadcast_to(np.asarray(sinks, np.float64)[None, :, None, None], (*s.shape[:3], 1))], -1
        )
    top = s.max(-1, keepdims=True, initial=-np.inf)
    p = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = p.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + np.where(np.isfinite(top), top, 0))[..., 0]
    p = p / np.where(total > 0, total, 1)
    return np.einsum("bhqk,bkhd->bqhd", p[..., : v.shape[1]], v), lse


@pytest.fixture
def problem() -> Problem:
    return Problem()
