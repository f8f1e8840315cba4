"""JAX on the CPU: values and gradients against JAX's own operators, eagerly and jitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anymask as am

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

MASK = am.causal() & am.documents([0, 5, 21]) | am.keys(0, 2)


def arrays() -> list[Any]:
    keys = jax.random.split(jax.random.key(0), 5)
    shapes = [(2, 21, 4, 16), (2, 21, 2, 16), (2, 21, 2, 16), (1, 4, 21, 21), (4,)]
    return [jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True)]


def by_jax(q: Any, k: Any, v: Any, bias: Any, sinks: Any) -> Any:
    k, v = jnp.repeat(k, 2, 2), jnp.repeat(v, 2, 2)
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 4 + bias
    s = jnp.where(MASK.dense(21), s, -jnp.inf)
    s = jnp.concatenate([s, jnp.broadcast_to(sinks[None, :, None, None], (*s.shape[:3], 1))], -1)
    out = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s, -1)[..., :-1], v)
    return out, jax.nn.logsumexp(s, -1)


def ours(q: Any, k: Any, v: Any, bias: Any, sinks: Any) -> Any:
    return am.jax.attention(q, k, v, MASK, bias=bias, sinks=sinks, return_lse=True)


def loss(function: Any) -> Any:
    def value(*inputs: Any) -> Any:
        out, lse = function(*inputs)
        return (out * jnp.arange(out.size).reshape(out.shape) / out.size).sum() + (lse * lse).sum() * 0.01

    return value


@pytest.mark.parametrize("jitted", [False, True])
def test_values_and_gradients(jitted: bool) -> None:
    wrap = jax.jit if jitted else lambda f: f
    inputs = arrays()
    for a, b in zip(wrap(ours)(*inputs), by_jax(*inputs), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)
    got, want = (wrap(jax.grad(loss(f), argnums=(0, 1, 2, 3, 4)))(*inputs) for f in (ours, by_jax))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, atol=5e-5)


def test_am_attention_takes_jax_arrays() -> None:
    q, k, v, _, _ = arrays()
    out = am.attention(q, k, v, MASK)
    assert isinstance(out, jax.Array)
    np.testing.assert_array_equal(out, am.attention(*map(np.asarray, (q, k, v)), MASK))
    half = am.attention(*(x.astype(jnp.bfloat16) for x in (q, k, v)), "causal")
    assert half.dtype == jnp.bfloat16
    with pytest.raises(am.UnsupportedError, match="JAX arrays are never written into"):
        am.attention(q, k, v, out=out)


def test_packed_sequences_and_vmap() -> None:
    q, k, v, _, _ = arrays()
    out = am.jax.attention(q[0], k[0], v[0], "causal", cu_seqlens_q=[0, 5, 21])
    np.testing.assert_allclose(out, am.attention(q, k, v, am.causal() & am.documents([0, 5, 21]))[0], atol=2e-6)
    mapped = jax.vmap(lambda a, b, c: am.jax.attention(a[None], b[None], c[None], MASK)[0])(q, k, v)
    np.testing.assert_allclose(mapped, am.attention(q, k, v, MASK), atol=2e-6)


def test_bad_input() -> None:
    q, k, v, _, _ = arrays()
    with pytest.raises(ValueError, match=r"q has shape \[16\]"):
        am.jax.attention(q[0, 0, 0], k, v)
    with pytest.raises(TypeError, match="mask is of type ndarray"):
        am.jax.attention(q, k, v, np.ones((21, 21), bool))
