"""Attention and its gradients on NumPy arrays, against the reference backend and against NumPy itself."""

from __future__ import annotations

import array
import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import anymask as am
from conftest import Problem, by_numpy

BOUND = {"float32": 2e-6, "float16": 4e-3, "bfloat16": 3e-2}


def largest(x: Any, y: Any) -> float:
    return float(np.abs(np.asarray(x, np.float64) - np.asarray(y, np.float64)).max(initial=0))


MASKS = [
    None,
    am.causal(),
    am.causal() & am.window(7, 0),
    am.documents([0, 9, 9, 20, 37]),
    am.random_mask(5, 37, 37, batch=2, h_q=4, h_kv=2),
    am.none(),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_forward_and_backward_against_the_reference(dtype: Any, mask: am.Mask | None) -> None:
    p = Problem(dtype=dtype)
    bias = p.rng.standard_normal((1, 4, 37, 37)).astype(np.float32)
    sinks = p.rng.standard_normal(4).astype(np.float32)
    slopes = np.array([0.5, 0.25, 0.125, 0.0625], np.float32)
    options: dict[str, Any] = {"bias": bias, "sinks": sinks, "alibi_slopes": slopes, "softcap": 20.0, "scale": 0.3}
    out, lse = am.attention(p.q, p.k, p.v, mask, return_lse=True, **options)
    want, want_lse = am.attention(p.q, p.k, p.v, mask, return_lse=True, backend="reference", **options)
    bound = BOUND[np.dtype(dtype).name]
    assert out.dtype == p.q.dtype and lse.dtype == np.float32
    assert np.isfinite(np.asarray(out, np.float32)).all()
    assert largest(out, want) <= bound and largest(lse, want_lse) <= 1e-4
    got = am.attention_backward(p.dout, p.q, p.k, p.v, out, lse, mask, **options)
    ref = am.attention_backward(p.dout, p.q, p.k, p.v, want, want_lse, mask, backend="reference", **options)
    for name, a, b in zip(got._fields, got, ref, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert largest(a, b) <= 20 * bound, name
    if mask is not None and str(mask) == "none":
        assert not np.asarray(out, np.float32).any() and not np.asarray(got.dq, np.float32).any()
    else:
        assert largest(got.dk, 0) > 0.1


def test_against_numpy() -> None:
    p = Problem(s_q=20, s_kv=33, d=24, d_v=8)
    mask = am.causal() | am.keys(0, 3)
    bias = p.rng.standard_normal((20, 33)).astype(np.float32)
    sinks = p.rng.standard_normal(4).astype(np.float32)
    out, lse = am.attention(p.q, p.k, p.v, mask, bias=bias, softcap=5, sinks=sinks, return_lse=True)
    want, want_lse = by_numpy(p.q, p.k, p.v, mask.dense(20, 33), bias=bias, softcap=5.0, sinks=sinks)
    assert out.shape == (2, 20, 4, 8) and lse.shape == (2, 4, 20)
    assert largest(out, want) < 2e-6 and largest(lse, want_lse) < 1e-5


def test_rows_that_keep_nothing() -> None:
    p = Problem(s_q=9, s_kv=5)
    out, lse = am.attention(p.q, p.k, p.v, am.causal(), return_lse=True)
    assert not out[:, :4].any() and np.isneginf(lse[..., :4]).all() and np.isfinite(lse[..., 4:]).all()


def test_text_is_parsed() -> None:
    p = Problem()
    np.testing.assert_array_equal(am.attention(p.q, p.k, p.v, "causal"), am.attention(p.q, p.k, p.v, am.causal()))


def test_one_mask_expressed_three_ways_is_the_same_bit_for_bit() -> None:
    p = Problem()
    want = am.attention(p.q, p.k, p.v, am.causal())
    for other in (
        am.dense(am.causal().dense(37)),
        am.row_intervals(np.zeros(37, int), np.arange(1, 38)),
        ~am.row_intervals(np.arange(1, 38), np.full(37, 37)),
    ):
        np.testing.assert_array_equal(am.attention(p.q, p.k, p.v, other), want)


def test_views_are_taken_without_copies() -> None:
    p = Problem()
    want = am.attention(p.q, p.k, p.v)
    heads_first = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3) for x in (p.q, p.k, p.v)]
    np.testing.assert_array_equal(am.attention(*heads_first), want)
    packed = np.zeros((2, 37, 8, 40), np.float32)[:, :, ::2]
    packed[..., 16:32] = p.q
    np.testing.assert_array_equal(am.attention(packed[..., 16:32], p.k, p.v), want)
    flipped = p.k[:, ::-1], p.v[:, ::-1]
    assert largest(am.attention(p.q, *flipped), want) < 2e-6


def test_read_only_and_broadcast_arrays() -> None:
    p = Problem()
    for x in (p.q, p.k, p.v):
        x.flags.writeable = False
    want = am.attention(p.q, p.k, p.v)
    one_head = np.broadcast_to(p.k[:, :, :1], p.k.shape)
    expected = am.attention(p.q, np.ascontiguousarray(one_head), p.v)
    np.testing.assert_array_equal(am.attention(p.q, one_head, p.v), expected)
    assert want.flags.writeable


def test_outputs_that_are_given() -> None:
    p = Problem()
    want, want_lse = am.attention(p.q, p.k, p.v, return_lse=True)
    out, lse = np.full_like(want, np.nan), np.full_like(want_lse, np.nan)
    assert am.attention(p.q, p.k, p.v, out=out, lse=lse) is out
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(lse, want_lse)
    strided = np.full((2, 4, 37, 16), np.nan, np.float32).transpose(0, 2, 1, 3)
    result = am.attention(p.q, p.k, p.v, out=strided, return_lse=True)
    assert result[0] is strided
    np.testing.assert_array_equal(strided, want)
    dq = np.full_like(p.q, np.nan)
    gradients = am.attention_backward(p.dout, p.q, p.k, p.v, out, lse, dq=dq)
    assert gradients.dq is dq and np.isfinite(dq).all() and gradients.dbias is None and gradients.dsinks is None


def test_packed_sequences_equal_separate_ones() -> None:
    lengths = [5, 0, 17, 15]
    cu = np.cumsum([0, *lengths], dtype=np.int32)
    p = Problem(b=1)
    q, k, v, dout = (x[0] for x in (p.q, p.k, p.v, p.dout))
    out, lse = am.attention(q, k, v, "causal", cu_seqlens_q=cu, return_lse=True)
    assert out.shape == q.shape and lse.shape == (4, 37)
    got = am.attention_backward(dout, q, k, v, out, lse, "causal", cu_seqlens_q=cu, cu_seqlens_kv=cu.astype(np.int64))
    for begin, end in itertools.pairwise(cu):
        part = [x[None, begin:end] for x in (q, k, v)]
        one, one_lse = am.attention(*part, "causal", return_lse=True)
        assert largest(one[0], out[begin:end]) < 2e-6 and largest(one_lse[0], lse[:, begin:end]) < 1e-5
        alone = am.attention_backward(dout[None, begin:end], *part, one, one_lse, "causal")
        assert largest(alone.dk[0], got.dk[begin:end]) < 1e-5
    both = am.attention(p.q, p.k, p.v, am.causal() & am.documents(cu))
    assert largest(both[0], out) < 2e-6


@pytest.mark.parametrize("shape", [(0, 5, 5), (2, 0, 5), (2, 5, 0)])
def test_empty_axes(shape: tuple[int, int, int]) -> None:
    b, s_q, s_kv = shape
    p = Problem(b=b, s_q=s_q, s_kv=s_kv)
    out, lse = am.attention(p.q, p.k, p.v, return_lse=True)
    assert out.shape == p.q.shape and not out.any() and np.isneginf(lse).all()
    gradients = am.attention_backward(p.dout, p.q, p.k, p.v, out, lse)
    assert gradients.dk.shape == p.k.shape and not gradients.dk.any()


def test_lse_gradient() -> None:
    p = Problem(s_q=6, s_kv=7, d=8)
    out, lse = am.attention(p.q, p.k, p.v, return_lse=True)
    dlse = p.rng.standard_normal(lse.shape).astype(np.float32)
    got = am.attention_backward(p.dout, p.q, p.k, p.v, out, lse, dlse=dlse)
    step = 1e-3
    for index in [(0, 0, 0, 0), (1, 5, 3, 7)]:
        up, down = p.q.copy(), p.q.copy()
        up[index] += step
        down[index] -= step
        values = []
        for q in (up, down):
            o, s = by_numpy(q, p.k, p.v)
            values.append((o * p.dout).sum() + (s * dlse).sum())
        slope = (values[0] - values[1]) / (float(up[index]) - float(down[index]))
        assert abs(got.dq[index] - slope) < 1e-3


def test_only_the_gradients_asked_for() -> None:
    p = Problem()
    bias, sinks = np.zeros((37, 37), np.float32), np.zeros(4, np.float32)
    out, lse = am.attention(p.q, p.k, p.v, bias=bias, sinks=sinks, return_lse=True)
    both = am.attention_backward(p.dout, p.q, p.k, p.v, out, lse, bias=bias, sinks=sinks)
    assert both.dbias.shape == (37, 37) and both.dsinks.shape == (4,)
    neither = am.attention_backward(
        p.dout, p.q, p.k, p.v, out, lse, bias=bias, sinks=sinks, need_dbias=False, need_dsinks=False
    )
    assert neither.dbias is None and neither.dsinks is None
    np.testing.assert_array_equal(neither.dq, both.dq)


def test_results_do_not_depend_on_threads() -> None:
    p = Problem(s_q=300, s_kv=300)
    before = am.get_num_threads()
    try:
        results = []
        for n in (1, 2, 0):
            am.set_num_threads(n)
            assert am.get_num_threads() == n
            results.append(am.attention(p.q, p.k, p.v, "causal"))
    finally:
        am.set_num_threads(before)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


def test_explain_and_backends() -> None:
    p = Problem(s_q=256, s_kv=256)
    told = am.explain(p.q, p.k, p.v, "causal & documents([0, 100, 256])")
    assert told["backend"] == "cpu" and 0 < told["kept_share"] < 0.5 and told["tiles"]["empty"] > 0
    assert am.explain(p.q, p.k, p.v, backward=True)["kernel"]
    assert am.backends()["cpu"]["available"] and am.backends()["reference"]["available"]


def test_the_plan_cache_counts() -> None:
    p = Problem()
    mask = am.dense(p.rng.random((37, 37)) < 0.5)
    am.attention(p.q, p.k, p.v, mask)
    before = am.plan_cache_stats()["hits"]
    am.attention(p.q, p.k, p.v, mask)
    assert am.plan_cache_stats()["hits"] > before
    assert am.plan_cache_stats()["limit_bytes"] > 0


class Foreign:
    """An array of no library known here: DLPack alone, of version 0 or 1."""

    def __init__(self, data: Any, versioned: bool) -> None:
        self.data = data
        self.versioned = versioned

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.data.__dlpack_device__()  # type: ignore[no-any-return]

    def __dlpack__(self, **keywords: Any) -> Any:
        if not self.versioned and "max_version" in keywords:
            raise TypeError("unexpected keyword max_version")
        return self.data.__dlpack__(**keywords)


@pytest.mark.parametrize("versioned", [False, True])
def test_any_array_with_dlpack(versioned: bool) -> None:
    p = Problem()
    want = am.attention(p.q, p.k, p.v)
    out = np.empty_like(want)
    q, k, v, given = (Foreign(x, versioned) for x in (p.q, p.k, p.v, out))
    assert am.attention(q, k, v, out=given) is given
    np.testing.assert_array_equal(out, want)
    assert am.documents(Foreign(np.array([0, 5, 9]), versioned)) == am.documents([0, 5, 9])


def test_a_foreign_output_comes_from_its_own_library() -> None:
    p = Problem()
    out = am.attention(Foreign(p.q, True), p.k, p.v, out=np.empty_like(p.q))
    np.testing.assert_array_equal(out, am.attention(p.q, p.k, p.v))
    with pytest.raises(AttributeError, match="empty"):  # this file has no `empty`
        am.attention(Foreign(p.q, True), p.k, p.v)


def test_plain_buffers() -> None:
    p = Problem()
    q = memoryview(p.q)
    np.testing.assert_array_equal(am.attention(q, p.k, p.v), am.attention(p.q, p.k, p.v))
    assert am.documents(array.array("q", [0, 5, 9])) == am.documents([0, 5, 9])


def test_nothing_is_left_behind() -> None:
    import sys

    p = Problem()
    cu = np.array([0, 10, 37])
    counted = (p.q, p.k, p.v, cu)
    before = [sys.getrefcount(x) for x in counted]
    for _ in range(10):
        out, lse = am.attention(p.q, p.k, p.v, am.documents(cu), return_lse=True)
        am.attention_backward(p.dout, p.q, p.k, p.v, out, lse)
        with pytest.raises(ValueError):
            am.attention(p.q, p.k, p.v[:, :3])
    assert [sys.getrefcount(x) for x in counted] == before
    assert sys.getrefcount(out) == 2
