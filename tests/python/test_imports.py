"""Masks from other libraries' forms, each against that form's own definition in plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anymask as am

rng = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(7, 13), (1, 13), (2, 1, 7, 13), (2, 4, 7, 13)])
def test_boolean_and_additive_tensors(shape: tuple[int, ...]) -> None:
    kept = rng.random(shape) < 0.5
    full = np.broadcast_to(kept.reshape((1,) * (4 - kept.ndim) + kept.shape), (2, 4, 7, 13))
    for tensor in (
        kept,
        kept.astype(np.uint8),
        np.where(kept, 0, -np.inf).astype(np.float32),
        np.where(kept, 0, np.finfo(np.float16).min).astype(np.float16),
        np.where(kept, 0, np.finfo(np.float32).min).astype(np.float32),
    ):
        mask = am.from_tensor(tensor)
        for b in range(2):
            for h in range(4):
                got = mask.dense(7, 13, batch=2, h_q=4, h_kv=4, sequence=b, head=h)
                np.testing.assert_array_equal(got, full[b, h])


def test_tensors_that_are_no_mask() -> None:
    with pytest.raises(ValueError, match=r"an additive tensor holds 0\.5; .* give numbers like this as bias=tensor"):
        am.from_tensor(np.array([[0.0, 0.5]]))
    with pytest.raises(ValueError, match="tensor holds int64; expected booleans or floats"):
        am.from_tensor(np.array([[0, 1]]))
    with pytest.raises(ValueError, match=r"tensor has shape \[5\]"):
        am.from_tensor(np.ones(5, bool))


def test_padding() -> None:
    right, left = am.from_padding([3, 0, 5]), am.from_padding(np.array([3, 0, 5]), 5, side="left")
    for b, n in enumerate([3, 0, 5]):
        np.testing.assert_array_equal(right.dense(2, 5, batch=3, sequence=b)[0], np.arange(5) < n)
        np.testing.assert_array_equal(left.dense(2, 5, batch=3, sequence=b)[1], np.arange(5) >= 5 - n)
    with pytest.raises(ValueError, match="side is left and s_kv is not given"):
        am.from_padding([3], side="left")
    with pytest.raises(ValueError, match="lengths holds float64; expected integers"):
        am.from_padding([0.5])


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("cross", [True, False])
def test_segment_ids(ordered: bool, batched: bool, cross: bool) -> None:
    q, k = (rng.integers(0, 4, (2, n)) for n in (9, 12))
    if ordered:
        q, k = np.sort(q, 1), np.sort(k, 1)
    if not batched:
        q, k = q[:1], k[:1]
    keys = k if cross else q
    mask = am.from_segment_ids(q if batched else q[0], (k if batched else k[0]) if cross else None)
    assert str(mask).startswith("documents" if ordered else "dense")
    for b in range(len(q)):
        got = mask.dense(q.shape[1], keys.shape[1], batch=len(q), sequence=b)
        np.testing.assert_array_equal(got, q[b][:, None] == keys[b][None])


def test_position_ids() -> None:
    ids = np.array([[0, 1, 2, 0, 1, 0, 5, 6], [0, 1, 2, 3, 4, 5, 6, 7]])
    mask = am.from_position_ids(ids)
    for b in range(2):
        document = np.cumsum(np.diff(ids[b], prepend=-1) != 1)
        np.testing.assert_array_equal(mask.dense(8, batch=2, sequence=b), document[:, None] == document)
    assert am.from_position_ids(ids[0]) == am.documents([0, 3, 5, 6, 8])
    assert am.from_position_ids(ids[:1]) == am.documents([0, 3, 5, 6, 8])


def test_slices() -> None:
    q_ranges, k_ranges = [[0, 4], [4, 10], [4, 10], [10, 14]], [[0, 4], [0, 3], [6, 12], [2, 9]]
    for kinds in ([1, 0, 2, 3], ["causal", "full", "inv_causal", "bi_causal"], [3, 3, 1, 0], None):
        want = np.zeros((15, 12), bool)
        numbers = {"full": 0, "causal": 1, "inv_causal": 2, "bi_causal": 3}
        for (q0, q1), (k0, k1), kind in zip(q_ranges, k_ranges, kinds or [0] * 4, strict=True):
            n = numbers.get(kind, kind)  # type: ignore[call-overload]
            for q in range(q0, q1):
                for kv in range(k0, k1):
                    below = n in (0, 2) or kv - k1 <= q - q1
                    above = n in (0, 1) or kv - k0 >= q - q0
                    want[q, kv] |= below and above
        np.testing.assert_array_equal(am.from_slices(q_ranges, k_ranges, kinds, s_q=15).dense(15, 12), want)
    with pytest.raises(ValueError, match=r"rows \[3, 1\)"):
        am.from_slices([[3, 1]], [[0, 1]])
    with pytest.raises(ValueError, match="a kind is unknown"):
        am.from_slices([[0, 1]], [[0, 1]], [4])


def test_block_sparse_rows() -> None:
    indptr, indices = [0, 2, 2, 3], [0, 2, 1]
    inner = rng.random((3, 4, 5)) < 0.5
    for mask in (None, inner):
        want = np.zeros((12, 15), bool)
        for row in range(3):
            for at in range(indptr[row], indptr[row + 1]):
                block = np.ones((4, 5), bool) if mask is None else mask[at]
                want[4 * row : 4 * row + 4, 5 * indices[at] : 5 * indices[at] + 5] = block
        got = am.from_bsr(indptr, indices, 4, 5, 11, 13, mask).dense(11, 13)
        np.testing.assert_array_equal(got, want[:11, :13])
    with pytest.raises(ValueError, match="indices reach 3; expected 0 to 2"):
        am.from_bsr([0, 1], [3], 4, 5, 4, 13)
    with pytest.raises(ValueError, match="one offset more than rows of blocks"):
        am.from_bsr([0, 1], [0], 4, 5, 8, 13)


def test_flashinfer() -> None:
    """`packbits(mask.flatten())`; several requests as `segment_packbits`, each from a byte of its own."""
    planes = [rng.random(shape) < 0.5 for shape in ((3, 7), (1, 1), (5, 9))]
    packed = [np.packbits(p.reshape(-1), bitorder="little") for p in planes]
    np.testing.assert_array_equal(am.from_flashinfer(packed[0], 3, 7).dense(3, 7), planes[0])
    mask = am.from_flashinfer(np.concatenate(packed), [3, 1, 5], [7, 1, 9])
    lengths: dict[str, Any] = {"cu_seqlens_q": [0, 3, 4, 9], "cu_seqlens_kv": [0, 7, 8, 17]}
    for i, plane in enumerate(planes):
        np.testing.assert_array_equal(mask.dense(**lengths, sequence=i), plane)
    with pytest.raises(ValueError, match="packed has 3 bytes; expected 2"):
        am.from_flashinfer(packed[0], 2, 7)


def _flashmask(table: Any, causal: bool) -> Any:
    """Rows that each key drops, as FlashMask's documentation lists the forms."""
    b, h, s, n = table.shape
    kept = np.ones((b, h, s, s), bool)
    for bi, hi, j in np.ndindex(b, h, s):
        column = kept[bi, hi, :, j]
        numbers = table[bi, hi, j]
        if causal:
            column[:j] = False
            column[numbers[0] : (numbers[1] if n == 2 else s)] = False
        elif n == 2:
            column[numbers[0] :] = False
            column[: numbers[1]] = False
        else:
            column[numbers[0] : numbers[1]] = False
            column[numbers[2] : numbers[3]] = False
    return kept


@pytest.mark.parametrize(("causal", "n"), [(True, 1), (True, 2), (False, 2), (False, 4)])
def test_flashmask(causal: bool, n: int) -> None:
    table = rng.integers(0, 13, (2, 3, 12, n)).astype(np.int32)
    want = _flashmask(table, causal)
    mask = am.from_flashmask(table, causal)
    for b, h in np.ndindex(2, 3):
        got = mask.dense(12, batch=2, h_q=3, h_kv=3, sequence=b, head=h)
        np.testing.assert_array_equal(got, want[b, h])
    with pytest.raises(ValueError, match="startend_row_indices has shape"):
        am.from_flashmask(table, not causal if n != 2 else causal) if n != 2 else am.from_flashmask(table[0], causal)


def test_flex() -> None:
    torch = pytest.importorskip("torch")
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    document = torch.tensor([0] * 70 + [1] * 100 + [2] * 30)

    def causal_documents(b: Any, h: Any, q: Any, kv: Any) -> Any:
        return (q >= kv) & (document[q] == document[kv])

    def by_head(b: Any, h: Any, q: Any, kv: Any) -> Any:
        return (q - kv).abs() <= 10 * h + b

    for mod, b, h in ((causal_documents, None, None), (by_head, 2, 3)):
        want = flex.create_mask(mod, b or 1, h or 1, 200, 200, device="cpu").numpy()
        block = flex.create_block_mask(mod, b, h, 200, 200, device="cpu", BLOCK_SIZE=32)
        for mask in (am.from_flex(mod, 200, 200, batch=b, heads=h), am.from_flex(block)):
            for i, j in np.ndindex(b or 1, h or 1):
                got = mask.dense(200, batch=b or 1, h_q=h or 1, h_kv=h or 1, sequence=i, head=j)
                np.testing.assert_array_equal(got, want[i, j])
    with pytest.raises(ValueError, match="a function says nothing of lengths"):
        am.from_flex(causal_documents)
