"""Masks as values: each kind against its rule, the algebra, text and bytes, pictures and plans."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anymask as am

S_Q, S_KV = 12, 16
SHIFT = S_KV - S_Q
_rng = np.random.default_rng(0)
_booleans = _rng.random((S_Q, S_KV)) < 0.4
_map = _rng.random((3, 4)) < 0.5
_bias = _rng.standard_normal((S_Q, S_KV)).astype(np.float32)
_parents = [-1, 0, 0, 1, 1, 2, 5]
_begin = _rng.integers(0, 10, (S_Q, 2))
_columns = _rng.integers(0, 8, (S_KV, 2))


def _document(cu: list[int], x: int) -> int:
    return int(np.searchsorted(cu, x, "right"))


def _rank(q: int, kv: int, candidates: int) -> int:
    """How many of the first keys of row q come before kv: larger biases, and lower keys among equal ones."""
    return int((_bias[q, :candidates] > _bias[q, kv]).sum() + (_bias[q, :kv] == _bias[q, kv]).sum())


def _in_tree(p: int, kv: int) -> bool:
    first = S_KV - len(_parents)
    if kv < first:
        return kv <= p
    node, wanted = p - first, kv - first
    while node >= 0:
        if node == wanted:
            return True
        node = _parents[node]
    return False


def _neighbours(p: int, kv: int) -> bool:
    def axis(a: int, b: int, n: int, kernel: int) -> bool:
        begin = min(max(a - kernel // 2, 0), n - kernel)
        return begin <= b < begin + kernel

    return axis(p // 4, kv // 4, 4, 3) and axis(p % 4, kv % 4, 4, 3)


def _diffusion(p: int, kv: int) -> bool:
    seq, block = S_KV // 2, 3
    if p < seq:
        return (kv < seq and p // block == kv // block) or (kv >= seq and (kv - seq) // block < p // block)
    return kv >= seq and (kv - seq) // block <= (p - seq) // block


# name, mask, rule(q, p, kv)
RULES: list[tuple[str, am.Mask, Callable[[int, int, int], Any]]] = [
    ("full", am.full(), lambda q, p, kv: True),
    ("none", am.none(), lambda q, p, kv: False),
    ("causal", am.causal(), lambda q, p, kv: kv <= p),
    ("causal", am.causal(align="top_left"), lambda q, p, kv: kv <= q),
    ("window", am.window(3, 1), lambda q, p, kv: p - 3 <= kv <= p + 1),
    ("window", am.window(-1, 2, align="top_left"), lambda q, p, kv: kv <= q + 2),
    ("keys", am.keys(2, 5), lambda q, p, kv: 2 <= kv < 5),
    ("positions", am.positions(6, 9), lambda q, p, kv: 6 <= p < 9),
    ("prefix", am.prefix(5), lambda q, p, kv: kv < 5),
    ("prefix", am.prefix([7]), lambda q, p, kv: kv < 7),
    (
        "documents",
        am.documents([0, 5, 9, 16]),
        lambda q, p, kv: _document([0, 5, 9, 16], p) == _document([0, 5, 9, 16], kv),
    ),
    (
        "documents",
        am.documents([0, 4, 12], [0, 10, 16]),
        lambda q, p, kv: _document([0, 4, 12], q) == _document([0, 10, 16], kv),
    ),
    ("chunked", am.chunked(5), lambda q, p, kv: p // 5 == kv // 5),
    ("stride", am.stride(3), lambda q, p, kv: (p - kv) % 3 == 0),
    (
        "shared_prefix",
        am.shared_prefix(6, [4, 6]),
        lambda q, p, kv: kv <= p and (kv < 6 or (p >= 6 and (p < 10) == (kv < 10))),
    ),
    ("tree", am.tree(_parents), lambda q, p, kv: _in_tree(p, kv)),
    ("tree", am.tree(np.array(_parents, np.int32), prefix=9), lambda q, p, kv: _in_tree(p, kv)),
    ("blocks", am.blocks(_map, 4, 4), lambda q, p, kv: _map[q // 4, kv // 4]),
    ("bits", am.bits(np.packbits(_booleans, axis=1, bitorder="little")), lambda q, p, kv: _booleans[q, kv]),
    ("dense", am.dense(_booleans), lambda q, p, kv: _booleans[q, kv]),
    ("dense", am.dense([[True, False] * 8]), lambda q, p, kv: kv % 2 == 0),
    (
        "row_intervals",
        am.row_intervals(_begin, _begin + 3),
        lambda q, p, kv: any(_begin[q, i] <= kv < _begin[q, i] + 3 for i in range(2)),
    ),
    (
        "col_intervals",
        am.col_intervals(_columns, _columns + 2),
        lambda q, p, kv: any(_columns[kv, i] <= q < _columns[kv, i] + 2 for i in range(2)),
    ),
    ("neighborhood", am.neighborhood([4, 4], 3), lambda q, p, kv: _neighbours(p, kv)),
    ("block_diffusion", am.block_diffusion(8, 3), lambda q, p, kv: _diffusion(p, kv)),
    ("threshold", am.threshold(_bias, 0.25), lambda q, p, kv: _bias[q, kv] >= 0.25),
    ("topk", am.topk(_bias, 5), lambda q, p, kv: _rank(q, kv, S_KV) < 5),
    ("topk", am.topk(_bias, 3, among=am.causal()), lambda q, p, kv: kv <= p and _rank(q, kv, p + 1) < 3),
    ("per_batch", am.per_batch([am.causal()]), lambda q, p, kv: kv <= p),
    ("per_head", am.per_head([am.keys(0, 3)]), lambda q, p, kv: kv < 3),
]


@pytest.mark.parametrize(("name", "mask", "rule"), RULES, ids=[f"{i}-{r[0]}" for i, r in enumerate(RULES)])
def test_a_kind_keeps_what_its_rule_says(name: str, mask: am.Mask, rule: Callable[[int, int, int], Any]) -> None:
    want = np.array([[bool(rule(q, q + SHIFT, kv)) for kv in range(S_KV)] for q in range(S_Q)])
    np.testing.assert_array_equal(mask.dense(S_Q, S_KV), want)
    assert mask.count(S_Q, S_KV) == (want.sum(), want.size)
    assert mask.density(S_Q, S_KV) == want.mean()
    assert name in str(mask)


def test_every_kind_of_the_registry_has_a_function_and_a_rule() -> None:
    kinds = {kind["name"] for kind in am.mask_kinds()}
    assert kinds == {name for name, _, _ in RULES}
    for kind in am.mask_kinds():
        assert callable(getattr(am, kind["name"])), kind["name"]
        assert kind["keeps"] and kind["example"]


def test_algebra_is_that_of_booleans() -> None:
    a, b, c = am.causal(), am.documents([0, 5, 9, 16]), am.keys(0, 3)
    x, y, z = (m.dense(S_Q, S_KV) for m in (a, b, c))
    np.testing.assert_array_equal((a & b | c).dense(S_Q, S_KV), x & y | z)
    np.testing.assert_array_equal((a & (b | c)).dense(S_Q, S_KV), x & (y | z))
    np.testing.assert_array_equal((~(a & ~b)).dense(S_Q, S_KV), ~(x & ~y))
    assert str(~(a & b) | c) == "~(causal & documents([0, 5, 9, 16])) | keys(0, 3)"


@pytest.mark.parametrize("seed", range(40))
def test_text_bytes_and_pickles_come_back_equal(seed: int) -> None:
    mask = am.random_mask(seed, 20, 24, batch=2, h_q=4, h_kv=2)
    for other in (am.from_bytes(mask.to_bytes()), pickle.loads(pickle.dumps(mask)), copy.deepcopy(mask)):
        assert other == mask and hash(other) == hash(mask) and other.digest() == mask.digest()
        np.testing.assert_array_equal(
            other.dense(20, 24, batch=2, h_q=4, h_kv=2, sequence=1, head=3),
            mask.dense(20, 24, batch=2, h_q=4, h_kv=2, sequence=1, head=3),
        )
    if "@" not in str(mask):
        assert am.parse(str(mask)) == mask and repr(mask) == str(mask)


def test_named_arrays_print_and_parse() -> None:
    cu = np.arange(0, 101, 4)
    mask = am.causal() & am.documents(am.named(cu, "cu"))
    assert str(mask) == "causal & documents(@cu)"
    assert am.parse(str(mask), cu=cu) == mask
    assert am.parse(str(mask), cu=cu.tolist()) == mask
    assert am.Mask("causal & documents(@cu)", cu=cu) == mask


def test_masks_are_values() -> None:
    a = am.causal() & am.window(3, 0)
    assert a == am.parse("causal & window(3, 0)") and a != am.causal() and a != "causal"
    assert len({a, am.causal() & am.window(3, 0), am.causal()}) == 2
    with pytest.raises(AttributeError, match="masks are values"):
        a.name = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="use &, "):
        bool(a)
    with pytest.raises(TypeError, match="unsupported operand"):
        a & 1  # type: ignore[operator]


def test_arrays_are_copied_when_a_mask_is_made() -> None:
    kept = np.eye(4, dtype=bool)
    mask = am.dense(kept)
    kept[:] = True
    assert mask.count(4) == (4, 16)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integer_arrays_of_either_size_and_any_stride(dtype: type) -> None:
    cu = np.array([0, -7, 5, -7, 9, -7, 16], dtype)[::2]
    cu.flags.writeable = False
    assert am.documents(cu) == am.documents([0, 5, 9, 16])


def test_planes_differ_by_batch_and_head() -> None:
    mask = am.per_batch([am.causal(), am.full()]) & am.per_head([am.keys(0, 4), am.full()])
    planes = [[mask.dense(6, batch=2, h_q=2, sequence=b, head=h).sum() for h in range(2)] for b in range(2)]
    assert planes == [[1 + 2 + 3 + 4 + 4 + 4, 21], [24, 36]]


def test_packed_lengths() -> None:
    cu = np.array([0, 3, 3, 8])
    assert am.causal().count(cu_seqlens_q=cu) == (6 + 15, 9 + 25)
    assert am.causal().dense(cu_seqlens_q=[0, 3, 3, 8], sequence=2).shape == (5, 5)
    with pytest.raises(ValueError, match="cu_seqlens_q holds 3 sequences"):
        am.causal().dense(cu_seqlens_q=cu, sequence=3)
    with pytest.raises(TypeError, match="no lengths are given"):
        am.causal().dense()


def test_pictures() -> None:
    picture = (am.causal() & am.window(2, 0)).show(8)
    lines = str(picture).splitlines()
    assert lines[0] == "causal & window(2, 0)   8 queries x 8 keys, 32.8% kept"
    assert lines[1] == "██" and lines[4] == "  ██████" and len(lines) == 9
    assert picture._repr_svg_().startswith("<svg") and "32.8% kept" in picture.svg
    large = am.causal().show(1000, 700, size=16)
    assert large.cells.shape == (16, 16)
    assert f"{am.causal().density(1000, 700):.1%} kept" in str(large)
    assert "0.0% kept" in str(am.full().show(0, 0))


def test_plans_cover_what_the_mask_keeps() -> None:
    mask = am.causal() & am.documents([0, 100, 101, 300]) | am.keys(0, 2)
    plan = mask.plan(300, tile_m=32, tile_n=64)
    kept = mask.dense(300)
    covered = np.zeros_like(kept)
    for m in range(plan.planes[0]["m_blocks"]):
        for run in plan.row(0, m):
            for n in range(run["n_begin"], run["n_end"]):
                rows, cols = slice(32 * m, min(32 * m + 32, 300)), slice(64 * n, min(64 * n + 64, 300))
                if run["kind"] == 0:
                    covered[rows, cols] = True
                    continue
                bits = plan.bit_tiles[run["bits"] + (n - run["n_begin"] if run["kind"] == 1 else 0)]
                unpacked = np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little").astype(bool)
                covered[rows, cols] = unpacked[: rows.stop - rows.start, : cols.stop - cols.start]
    np.testing.assert_array_equal(covered, kept)
    assert plan.kept_pairs == kept.sum() and plan.full_tiles + plan.partial_tiles + plan.empty_tiles == 10 * 5
    assert repr(plan).startswith("Plan(tiles of 32 x 64: ")
    runs = plan.runs
    del plan
    gc.collect()
    assert runs["n_end"].max() == 5  # the arrays keep the plan alive


def test_masks_die_with_their_last_reference() -> None:
    mask = am.causal() & am.keys(0, 4)
    gone = weakref.ref(mask)
    del mask
    assert gone() is None


def test_many_threads_make_and_read_masks() -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for i in range(100):
                m = am.random_mask(seed * 100 + i, 10, 10, h_q=2, h_kv=2)
                assert am.from_bytes(m.to_bytes()) == m
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
