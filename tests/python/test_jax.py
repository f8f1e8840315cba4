"""JAX on the CPU: values and gradients against JAX's own operators and against the same calls from NumPy, through
every transformation, and the calls of the handlers themselves."""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import anymask as am

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax import export  # noqa: E402
from jax.experimental import serialize_executable  # noqa: E402

import anymask.jax  # noqa: E402  (registers the handlers, which some tests call by name)

jax.config.update("jax_default_device", jax.devices("cpu")[0])

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
    with pytest.raises(TypeError, match="cu_seqlens_q is traced; expected numbers known when the call is traced"):
        jax.jit(lambda cu: am.jax.attention(q[0], k[0], v[0], cu_seqlens_q=cu))(np.array([0, 21]))
    for offsets in (np.array([0, 2.5, 21]), np.array([[0, 21]])):
        with pytest.raises(TypeError, match=r"cu_seqlens_q is of type .*; expected integers \[n \+ 1\]"):
            am.jax.attention(q[0], k[0], v[0], cu_seqlens_q=offsets, cu_seqlens_kv=(0, 21))


def test_the_library_explains_what_a_compiled_call_did_wrong() -> None:
    q, k, v, _, _ = arrays()
    for call in (am.jax.attention, jax.jit(am.jax.attention)):
        with pytest.raises(
            jax.errors.JaxRuntimeError, match=r"attention: k has shape \[2, 21, 3, 16\]; h_kv must divide"
        ):
            jax.block_until_ready(call(q, jnp.zeros((2, 21, 3, 16)), jnp.zeros((2, 21, 3, 16))))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"INVALID_ARGUMENT.* has elements of XLA's type 2"):
        jax.block_until_ready(am.jax.attention(*(x.astype(jnp.int8) for x in (q, k, v))))
    with pytest.raises(jax.errors.JaxRuntimeError, match='attention: backend is "tpu"; expected one of'):
        jax.block_until_ready(am.jax.attention(q, k, v, backend="tpu"))


def test_derivatives_that_are_not_computed() -> None:
    q, k, v, _, _ = arrays()
    with pytest.raises(am.UnsupportedError, match="a gradient of alibi_slopes is asked for"):
        jax.grad(lambda x: am.jax.attention(q, k, v, alibi_slopes=x).sum())(jnp.ones(4))
    with pytest.raises(am.UnsupportedError, match="a derivative of its gradient is asked for"):
        jax.grad(lambda x: jax.grad(lambda y: am.jax.attention(y, k, v).sum())(x).sum())(q)


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "options": {"scale": 0.5, "softcap": 3.0, "deterministic": True},
    "slopes": {"alibi_slopes": np.array([0.5, 0.25, 0.0, 1.0], np.float32)},
    "packed": {"cu_seqlens_q": (0, 5, 21), "mask": "causal"},
    "packed keys": {"cu_seqlens_q": (0, 5, 21), "cu_seqlens_kv": (0, 2, 21), "mask": "causal"},
    "reference": {"backend": "reference"},
}


@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, "float32") for name in OPTIONS), ("plain", "float16"), ("plain", "bfloat16")]
)
def test_bit_for_bit_what_numpy_gets(name: str, dtype: str) -> None:
    options = {"mask": MASK, **OPTIONS[name]}
    rng = np.random.default_rng()
    q, k, v, dout = (
        np.asarray(jnp.asarray(rng.standard_normal(shape), dtype))
        for shape in ((2, 21, 4, 16), (2, 21, 2, 16), (2, 21, 2, 24), (2, 21, 4, 24))
    )
    if "packed" in name:
        q, k, v, dout = (x[0] for x in (q, k, v, dout))
    as_numpy = {key: np.array(x) if key.startswith("cu_") else x for key, x in options.items()}
    out, lse = am.attention(q, k, v, return_lse=True, **as_numpy)
    dlse = rng.standard_normal(lse.shape).astype(np.float32)
    want = am.attention_backward(dout, q, k, v, out, lse, dlse=dlse, **as_numpy)
    primal, pull = jax.vjp(lambda *x: am.jax.attention(*x, return_lse=True, **options), q, k, v)
    for a, b in zip((*primal, *pull((dout, dlse))), (out, lse, *want[:3]), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    # through out alone and through lse alone
    for a, b, tangent in ((np.zeros_like(dout), dlse, dlse), (dout, None, dout)):
        want = am.attention_backward(a, q, k, v, out, lse, dlse=b, **as_numpy)
        index = int(tangent is dlse)
        _, pull = jax.vjp(lambda *x, i=index: am.jax.attention(*x, return_lse=True, **options)[i], q, k, v)  # type: ignore[misc]
        for x, y in zip(pull(tangent), want[:3], strict=True):
            np.testing.assert_array_equal(x, y)


def test_no_keys_and_no_rows() -> None:
    q, k, v, _, _ = arrays()
    out, lse = am.jax.attention(q, k[:, :0], v[:, :0], return_lse=True)
    assert not np.any(out) and np.all(np.isneginf(lse))
    assert am.jax.attention(q[:, :0], k, v).shape == (2, 0, 4, 16)


def test_only_gradients_that_are_asked_for_are_computed() -> None:
    inputs = arrays()
    gradient = jax.jit(jax.grad(loss(ours), argnums=(0, 3))).lower(*inputs).as_text()
    assert 'results = "dq dk dv dbias"' in gradient
    without = jax.jit(jax.grad(lambda q, *rest: am.jax.attention(q, *rest).sum())).lower(*inputs[:3]).as_text()
    assert 'results = "dq dk dv"' in without and "dlse" not in without


def test_equal_masks_share_a_trace() -> None:
    q, k, v, _, _ = arrays()
    traces = []

    def call(q: Any, mask: am.Mask) -> Any:
        traces.append(mask)
        return am.jax.attention(q, k, v, mask)

    jitted = jax.jit(call, static_argnames="mask")
    documents = [am.causal() & am.documents(np.array([0, n, 21])) for n in (5, 5, 6)]
    for mask in documents:
        np.testing.assert_array_equal(jitted(q, mask=mask), am.attention(*map(np.asarray, (q, k, v)), mask))
    assert len(traces) == 2


def test_more_masks_than_a_handler_keeps() -> None:
    x = jax.random.normal(jax.random.key(1), (1, 80, 1, 8))
    masks = [am.window(i, 0) for i in range(80)]
    call = jax.jit(lambda x: [am.jax.attention(x, x, x, mask) for mask in masks])
    for _ in range(2):
        for got, mask in zip(call(x), masks, strict=True):
            np.testing.assert_array_equal(got, am.attention(*[np.asarray(x)] * 3, mask))


def test_two_threads() -> None:
    q, k, v, _, _ = arrays()
    calls = [jax.jit(jax.grad(lambda x, m=mask: am.jax.attention(x, k, v, m).sum())) for mask in (MASK, "causal")]  # type: ignore[misc]
    want = [np.asarray(call(q)) for call in calls]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda i: np.asarray(calls[i % 2](q)), range(200))
        for i, got in enumerate(results):
            np.testing.assert_array_equal(got, want[i % 2])


def test_checkpoint_and_scan() -> None:
    q, k, v, _, _ = arrays()

    def layer(x: Any, _: Any) -> Any:
        return x + am.jax.attention(x, k, v, MASK), None

    def value(x: Any, step: Any) -> Any:
        return (jax.lax.scan(step, x, None, length=3)[0] ** 2).sum()

    plain, checkpointed = (jax.grad(lambda x, s=step: value(x, s))(q) for step in (layer, jax.checkpoint(layer)))  # type: ignore[misc]
    np.testing.assert_allclose(plain, checkpointed, rtol=1e-6)
    mapped = jax.vmap(jax.grad(lambda x: am.jax.attention(x[None], k[:1], v[:1], MASK).sum()))(q)
    for i in range(2):
        alone = jax.grad(lambda x: am.jax.attention(x[None], k[:1], v[:1], MASK).sum())(q[i])
        np.testing.assert_array_equal(mapped[i], alone)


ELSEWHERE = """
import pickle, sys
import numpy as np
import anymask.jax
from jax.experimental import serialize_executable
call = serialize_executable.deserialize_and_load(*pickle.load(open(sys.argv[1], "rb")))
np.save(sys.argv[2], call(np.load(sys.argv[3])))
"""


def test_a_computation_holds_its_mask_wherever_it_goes(tmp_path: pathlib.Path) -> None:
    _, k, v, _, _ = arrays()
    q = np.random.default_rng().standard_normal((2, 21, 4, 16)).astype(np.float32)
    mask = am.dense(np.random.default_rng().random((21, 21)) < 0.3) & am.documents([0, 5, 21])
    gradient = jax.jit(jax.grad(lambda x: am.jax.attention(x, k, v, mask, scale=0.3).sum()))
    want = gradient(q)
    names = ("anymask_attention", "anymask_attention_backward")
    exported = export.export(gradient, disabled_checks=[export.DisabledSafetyCheck.custom_call(x) for x in names])(q)
    assert all(name.encode() in exported.mlir_module_serialized for name in names)
    np.testing.assert_array_equal(exported.call(q), want)

    compiled = gradient.lower(q).compile()
    (tmp_path / "compiled").write_bytes(pickle.dumps(serialize_executable.serialize(compiled)))
    np.save(tmp_path / "q.npy", q)
    files = [str(tmp_path / name) for name in ("compiled", "dq.npy", "q.npy")]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", ELSEWHERE, *files], check=True, env=environment)
    np.testing.assert_array_equal(np.load(tmp_path / "dq.npy"), want)


GOOD = {"operands": "q k v", "results": "out lse"}


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "attention: an attribute is missing: operands"),
        ({**GOOD, "operands": "q k w"}, "no buffer, or no argument, called w"),
        ({**GOOD, "operands": "q k v bias"}, "no buffer, or no argument, called bias"),
        ({**GOOD, "operands": "q k"}, "buffers without a name in operands"),
        ({**GOOD, "mask": b"causal"}, "16 bytes are expected of mask_key"),
        ({**GOOD, "mask": b"causal", "mask_key": b"0123456789abcdef"}, "mask bytes"),
        ({**GOOD, "scale": "1"}, "another kind than expected: scale"),
        ({**GOOD, "scale": np.float32(1)}, "another type than expected: scale"),
        ({**GOOD, "cu_seqlens_q": np.zeros(2, np.int32)}, "no int64 array is cu_seqlens_q"),
    ],
)
def test_calls_by_other_hands(attributes: dict[str, Any], message: str) -> None:
    q, k, v, _, _ = arrays()
    results = (jax.ShapeDtypeStruct(q.shape, q.dtype), jax.ShapeDtypeStruct((2, 4, 21), jnp.float32))
    call = jax.ffi.ffi_call("anymask_attention", results)
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        jax.block_until_ready(call(q, k, v, **attributes))


def test_layouts_are_those_of_the_installed_jaxlib() -> None:
    compiler = shutil.which("c++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("needs a C++ compiler, to compile jaxlib's header beside ours")
    here = pathlib.Path(__file__).parent
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I", here / "../../python/src"]
    done = subprocess.run(
        [*command, "-isystem", jax.ffi.include_dir(), here / "xla_ffi_abi.cc"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
