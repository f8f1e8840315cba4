"""Masks from other libraries' forms. Each function's document is the form's own definition, which its test evaluates.

Arrays may be of any library and device: they are read once, on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from ._mask import Mask, bits, blocks, col_intervals, dense, documents, per_batch, prefix, row_intervals
from ._mask import causal as causal_mask

if TYPE_CHECKING:
    import numpy.typing as npt

Array = Any


def _numpy(array: Array) -> npt.NDArray[Any]:
    """Any array or sequence, on the CPU."""
    if hasattr(array, "detach"):
        array = array.detach().cpu()
        if str(array.dtype) == "torch.bfloat16":
            array = array.float()
        return cast("npt.NDArray[Any]", array.numpy())
    if hasattr(array, "get") and not isinstance(array, dict):  # CuPy
        array = array.get()
    return np.asarray(array)


def _integers(operation: str, argument: str, array: Array) -> npt.NDArray[np.int64]:
    result = _numpy(array)
    if result.size and not np.issubdtype(result.dtype, np.integer):
        raise ValueError(f"{operation}: {argument} holds {result.dtype}; expected integers: convert it")
    return result.astype(np.int64)


def _fail(operation: str, problem: str, expected: str, way_out: str) -> ValueError:
    return ValueError(f"{operation}: {problem}; expected {expected}: {way_out}")


def from_tensor(tensor: Array) -> Mask:
    """A boolean tensor, true where a pair is kept; or an additive one of zeros and `-inf` (or a type's lowest number).

    `[s_q | 1, s_kv]`, `[b, s_q | 1, s_kv]` or `[b | 1, heads | 1, s_q | 1, s_kv]`. A tensor with other numbers in
    it is a bias: give it as one.
    """
    array = _numpy(tensor)
    if np.issubdtype(array.dtype, np.floating) or array.dtype.name == "bfloat16":
        values = array.astype(np.float32)
        kept = values == 0
        # What libraries write for "dropped": -inf, or the lowest number of a float type (float16's is -65504).
        if not bool(np.all(kept | (values <= -65504))):
            odd = values[~(kept | (values <= -65504))].flat[0]
            raise _fail(
                "from_tensor",
                f"an additive tensor holds {odd:g}",
                "0 where a pair is kept, and -inf or a type's lowest number where it is dropped",
                "give numbers like this as bias=tensor",
            )
        array = kept
    elif array.dtype != np.bool_ and array.dtype != np.uint8:
        raise _fail("from_tensor", f"tensor holds {array.dtype}", "booleans or floats", "compare it first")
    if array.ndim == 3:
        array = array[:, None]
    if array.ndim not in (2, 4):
        raise _fail(
            "from_tensor",
            f"tensor has shape {list(array.shape)}",
            "[s_q | 1, s_kv], or with [b | 1, heads | 1] before it",
            "add or drop axes",
        )
    return dense(np.ascontiguousarray(array))


def from_padding(lengths: Array, s_kv: int | None = None, side: Literal["right", "left"] = "right") -> Mask:
    """Padded batches: batch entry `i` keeps its first `lengths[i]` keys; with `side="left"`, its last of `s_kv`."""
    values = _integers("from_padding", "lengths", lengths)
    if values.ndim != 1:
        raise _fail("from_padding", f"lengths has shape {list(values.shape)}", "[b]", "one length a batch entry")
    if side == "right":
        return prefix(values)
    if s_kv is None:
        raise _fail("from_padding", "side is left and s_kv is not given", "the padded length", "pass s_kv")
    begin = (s_kv - values).reshape(-1, 1, 1, 1)
    return row_intervals(begin, np.full_like(begin, s_kv))


def from_segment_ids(ids: Array, ids_kv: Array | None = None) -> Mask:
    """Row `q` keeps the keys of its own segment: `ids[q] == ids_kv[kv]`; `[s]`, or `[b, s]` for each batch entry.

    Ids that never decrease become documents, which cost nothing to store; others become booleans.
    """
    q = _integers("from_segment_ids", "ids", ids)
    k = q if ids_kv is None else _integers("from_segment_ids", "ids_kv", ids_kv)
    if q.ndim not in (1, 2) or k.ndim != q.ndim or (q.ndim == 2 and q.shape[0] != k.shape[0]):
        raise _fail(
            "from_segment_ids",
            f"ids have shapes {list(q.shape)} and {list(k.shape)}",
            "[s] or [b, s] both",
            "reshape them",
        )
    rows_q, rows_k = np.atleast_2d(q), np.atleast_2d(k)
    if all(bool(np.all(np.diff(rows) >= 0)) for rows in (rows_q, rows_k)):
        offsets = [_offsets_of_ids(a, b) for a, b in zip(rows_q, rows_k, strict=True)]
        cu_q, cu_k = (_padded_rows([pair[i] for pair in offsets]) for i in (0, 1))
        if q.ndim == 1:
            cu_q, cu_k = cu_q[0], cu_k[0]
        return documents(cu_q) if ids_kv is None else documents(cu_q, cu_k)
    same = rows_q[:, :, None] == rows_k[:, None, :]
    return dense(same[0] if q.ndim == 1 else same[:, None])


def _offsets_of_ids(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], ...]:
    """Offsets of the same segments in two ascending lists of ids."""
    names = np.union1d(a, b)
    return tuple(np.append(np.searchsorted(ids, names), len(ids)) for ids in (a, b))


def _padded_rows(rows: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """One array; the last number of a shorter row repeats."""
    longest = max((len(row) for row in rows), default=1)
    return np.stack([np.concatenate([row, np.full(longest - len(row), row[-1])]) for row in rows])


def from_position_ids(position_ids: Array) -> Mask:
    """Packed documents by positions that restart, `[s]` or `[b, s]`: a new one begins where a position is not the
    last plus one.

    This is transformers' reading of `position_ids`. It keeps whole documents: `causal() & from_position_ids(ids)`
    for a decoder.
    """
    ids = _integers("from_position_ids", "position_ids", position_ids)
    if ids.ndim not in (1, 2):
        raise _fail("from_position_ids", f"position_ids has shape {list(ids.shape)}", "[s] or [b, s]", "reshape it")
    rows = np.atleast_2d(ids)
    cu = [np.concatenate([[0], 1 + np.flatnonzero(np.diff(row) != 1), [len(row)]]) for row in rows]
    padded = _padded_rows(cu)
    return documents(padded[0] if ids.ndim == 1 or len(padded) == 1 else padded)


def from_slices(
    q_ranges: Array,
    k_ranges: Array,
    kinds: Sequence[int | str] | None = None,
    s_q: int | None = None,
) -> Mask:
    """A list of slices, as MagiAttention writes masks: rows `[q0, q1)` keep keys of `[k0, k1)`, by kind:

    - 0 `"full"`: all of them,
    - 1 `"causal"`: `kv - k1 <= q - q1`, the diagonal ends in the bottom right corner,
    - 2 `"inv_causal"`: `kv - k0 >= q - q0`, it begins in the top left corner,
    - 3 `"bi_causal"`: both.

    What any slice keeps is kept. `s_q` is where the last slice ends by default.
    """
    names = {"full": 0, "causal": 1, "inv_causal": 2, "bi_causal": 3}
    q = _integers("from_slices", "q_ranges", q_ranges).reshape(-1, 2)
    k = _integers("from_slices", "k_ranges", k_ranges).reshape(-1, 2)
    n = len(q)
    chosen = [names.get(kind, -1) if isinstance(kind, str) else int(kind) for kind in (kinds or [0] * n)]
    if len(k) != n or len(chosen) != n:
        raise _fail(
            "from_slices",
            f"there are {n} q_ranges, {len(k)} k_ranges and {len(chosen)} kinds",
            "as many of each",
            "pair them",
        )
    rows = int(q[:, 1].max(initial=0)) if s_q is None else s_q
    lines: list[list[tuple[int, int]]] = [[] for _ in range(rows)]
    for (q0, q1), (k0, k1), kind in zip(q.tolist(), k.tolist(), chosen, strict=True):
        if not (0 <= q0 <= q1 <= rows and 0 <= k0 <= k1):
            raise _fail(
                "from_slices",
                f"a slice has rows [{q0}, {q1}) and keys [{k0}, {k1})",
                f"ranges within {rows} rows",
                "order them",
            )
        if kind not in (0, 1, 2, 3):
            raise _fail("from_slices", "a kind is unknown", "0 to 3, or " + ", ".join(names), "use one of them")
        for row in range(q0, q1):
            begin = max(k0, k0 + row - q0) if kind & 2 else k0
            end = min(k1, k1 + row - q1 + 1) if kind & 1 else k1
            if begin < end:
                lines[row].append((begin, end))
    most = max((len(line) for line in lines), default=0) or 1
    table = np.zeros((2, rows, most), np.int64)
    for row, line in enumerate(lines):
        for i, (begin, end) in enumerate(line):
            table[:, row, i] = begin, end
    return row_intervals(table[0], table[1])


def from_bsr(
    indptr: Array, indices: Array, tile_q: int, tile_kv: int, s_q: int, s_kv: int, mask: Array | None = None
) -> Mask:
    """Block sparse rows: row `i` of blocks keeps the blocks `indices[indptr[i]:indptr[i + 1]]`, of `tile_q x
    tile_kv` pairs.

    `mask [len(indices), tile_q, tile_kv]` keeps only some pairs of each block, as FlashInfer's does.
    """
    starts, columns = _integers("from_bsr", "indptr", indptr), _integers("from_bsr", "indices", indices)
    rows, cols = -(-s_q // tile_q), -(-s_kv // tile_kv)
    if (
        starts.shape != (rows + 1,)
        or columns.ndim != 1
        or starts[0] != 0
        or starts[-1] != len(columns)
        or (np.diff(starts) < 0).any()
    ):
        raise _fail(
            "from_bsr",
            f"indptr has shape {list(starts.shape)} for {len(columns)} indices",
            f"[{rows + 1}], offsets from 0 to {len(columns)}, for s_q = {s_q} in blocks of {tile_q}",
            "one offset more than rows of blocks",
        )
    if len(columns) and not (columns.min() >= 0 and columns.max() < cols):
        raise _fail("from_bsr", f"indices reach {columns.max()}", f"0 to {cols - 1}", "they count blocks of keys")
    owner = np.repeat(np.arange(rows), np.diff(starts))
    kept = np.zeros((rows, cols), np.bool_)
    kept[owner, columns] = True
    if mask is None:
        return blocks(kept, tile_q, tile_kv)
    inner = _numpy(mask).astype(np.bool_)
    if inner.shape != (len(columns), tile_q, tile_kv):
        raise _fail(
            "from_bsr",
            f"mask has shape {list(inner.shape)}",
            f"[{len(columns)}, {tile_q}, {tile_kv}]",
            "one entry a block",
        )
    plane = np.zeros((rows, tile_q, cols, tile_kv), np.bool_)
    plane[owner, :, columns] = inner
    return bits(_packed(plane.reshape(rows * tile_q, cols * tile_kv)[:s_q, :s_kv]))


def _packed(kept: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    return np.packbits(kept, axis=-1, bitorder="little")


def from_flashinfer(packed: Array, s_q: int | Sequence[int], s_kv: int | Sequence[int]) -> Mask:
    """FlashInfer's packed custom mask: the bits of each request's `[s_q, s_kv]` plane, flattened, little-endian in
    a byte.

    One request: two numbers, the plane's `s_q * s_kv` bits. Several: their lengths in lists; each request begins at
    a byte of its own (`segment_packbits`). They become the masks of packed sequences.
    """
    data = _numpy(packed).reshape(-1)
    if data.dtype != np.uint8:
        raise _fail(
            "from_flashinfer", f"packed holds {data.dtype}", "uint8", "use flashinfer's packbits or np.packbits"
        )
    rows = [s_q] if isinstance(s_q, int) else [int(x) for x in _numpy(s_q)]
    keys = [s_kv] if isinstance(s_kv, int) else [int(x) for x in _numpy(s_kv)]
    if len(rows) != len(keys):
        raise _fail(
            "from_flashinfer", f"s_q has {len(rows)} lengths and s_kv {len(keys)}", "as many", "one of each a request"
        )
    need = [-(-m * n // 8) for m, n in zip(rows, keys, strict=True)]
    if sum(need) != len(data):
        raise _fail(
            "from_flashinfer",
            f"packed has {len(data)} bytes",
            f"{sum(need)} for these lengths",
            "pack with little-endian bits",
        )
    planes, at = [], 0
    for m, n, size in zip(rows, keys, need, strict=True):
        plane = np.unpackbits(data[at : at + size], count=m * n, bitorder="little").reshape(m, n)
        planes.append(bits(_packed(plane.astype(np.bool_))))
        at += size
    return planes[0] if isinstance(s_q, int) else per_batch(planes)


def from_flashmask(startend_row_indices: Array, causal: bool = True) -> Mask:
    """FlashMask's `startend_row_indices [b, heads, s_kv, 1 | 2 | 4]`: for each key, the rows that do not see it.

    Causal: `[start]` drops rows from `start` on, `[start, end]` those of `[start, end)`; and all rows before the
    key. Not causal: `[start, end]` drops rows from `start` on and those before `end`; four numbers drop the rows of
    both ranges.
    """
    table = _integers("from_flashmask", "startend_row_indices", startend_row_indices)
    allowed = (1, 2) if causal else (2, 4)
    if table.ndim != 4 or table.shape[3] not in allowed:
        raise _fail(
            "from_flashmask",
            f"startend_row_indices has shape {list(table.shape)} with causal={causal}",
            f"[b | 1, heads | 1, s_kv, {allowed[0]} or {allowed[1]}]",
            "add axes of size 1",
        )
    far = np.full_like(table[..., :1], 2**31 - 1)
    if table.shape[3] == 4:
        begin, end = table[..., 0::2], table[..., 1::2]
    elif causal:
        begin, end = table[..., :1], far if table.shape[3] == 1 else table[..., 1:]
    else:
        begin = np.concatenate([table[..., :1], np.zeros_like(far)], axis=-1)
        end = np.concatenate([far, table[..., 1:]], axis=-1)
    end = np.maximum(begin, end)  # a range that ends before it starts drops nothing
    dropped = ~col_intervals(np.ascontiguousarray(begin), end)
    return causal_mask(align="top_left") & dropped if causal else dropped


def from_flex(
    mask: Callable[..., Any] | Any,
    s_q: int | None = None,
    s_kv: int | None = None,
    *,
    batch: int | None = None,
    heads: int | None = None,
    device: str = "cpu",
) -> Mask:
    """FlexAttention's `mask_mod(b, h, q_idx, kv_idx)`, evaluated at every pair; or a `BlockMask`, whose lengths are
    its own.

    A `BlockMask` keeps its full blocks whole, of its partial blocks what its `mask_mod` keeps, and nothing else.
    `batch` and `heads` are how many the function tells apart; None for one that ignores them.
    """
    if hasattr(mask, "kv_num_blocks"):
        return _from_block_mask(mask, device)
    if s_q is None or s_kv is None:
        raise _fail(
            "from_flex", "s_q or s_kv is not given", "both, for a mask_mod", "a function says nothing of lengths"
        )
    return _dense_or_bits(_evaluate(mask, batch or 1, heads or 1, s_q, s_kv, device))


def _dense_or_bits(kept: npt.NDArray[np.bool_]) -> Mask:
    return bits(_packed(kept if kept.shape[:2] != (1, 1) else kept[0, 0]))


def _evaluate(mask_mod: Callable[..., Any], b: int, h: int, s_q: int, s_kv: int, device: str) -> npt.NDArray[np.bool_]:
    """Rows in stripes of about four million pairs; indices are tensors, as the function expects."""
    import torch

    kept = np.empty((b, h, s_q, s_kv), np.bool_)
    stripe = max(1, (1 << 22) // max(1, s_kv))
    over_pairs = torch.vmap(torch.vmap(mask_mod, in_dims=(None, None, None, 0)), in_dims=(None, None, 0, None))
    keys = torch.arange(s_kv, device=device)
    for i in range(b):
        for j in range(h):
            for begin in range(0, s_q, stripe):
                rows = torch.arange(begin, min(begin + stripe, s_q), device=device)
                index = [torch.tensor(x, device=device) for x in (i, j)]
                result = over_pairs(*index, rows, keys)
                kept[i, j, begin : begin + len(rows)] = result.expand(len(rows), s_kv).cpu().numpy()
    return kept


def _from_block_mask(block_mask: Any, device: str) -> Mask:
    s_q, s_kv = (int(x) for x in block_mask.seq_lengths)
    tile_q, tile_kv = (int(x) for x in block_mask.BLOCK_SIZE)
    partial = _block_map(block_mask.kv_num_blocks, block_mask.kv_indices)
    if block_mask.full_kv_num_blocks is None:
        whole = np.zeros_like(partial)
    else:
        whole = _block_map(block_mask.full_kv_num_blocks, block_mask.full_kv_indices)
    shape = (slice(None), slice(None), slice(0, s_q), slice(0, s_kv))
    spread = [m.repeat(tile_q, axis=2).repeat(tile_kv, axis=3)[shape] for m in (partial, whole)]
    inside = _evaluate(block_mask.mask_mod, partial.shape[0], partial.shape[1], s_q, s_kv, device)
    return _dense_or_bits((spread[0] & inside) | spread[1])


def _block_map(counts: Any, indices: Any) -> npt.NDArray[np.bool_]:
    """`[b, heads, rows, cols]`: the first `counts` of each row's indices."""
    n, columns = _numpy(counts), _numpy(indices)
    used = np.arange(columns.shape[-1]) < n[..., None]
    kept = np.zeros(columns.shape, np.bool_)
    b, h, r, i = np.nonzero(used)
    kept[b, h, r, columns[b, h, r, i]] = True
    return kept
