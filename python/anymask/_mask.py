"""Masks: what is kept, as values. `causal() & documents(cu) | keys(0, 4)`.

A mask carries no lengths: they arrive where it is used. Row `q` of a call stands at position `p = q + s_kv - s_q`,
or at `p = q` with `align="top_left"`. True means attend.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from . import _anymask as _c

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ._picture import Picture
    from ._plan import Plan

# Integers, nested sequences of them, or any array of integers. Those on a GPU stay there.
Integers = Any
Array = Any
Align = Literal["bottom_right", "top_left"]


class Named:
    """An array with the name under which a mask's text shows it: `named(cu, "cu")` prints as `@cu`."""

    __slots__ = ("array", "name")

    def __init__(self, array: Array, name: str) -> None:
        self.array = array
        self.name = name


def named(array: Array, name: str) -> Named:
    """`array` under a name: `str(documents(named(cu, "cu")))` is `documents(@cu)`, and `parse` takes it back as
    `cu=cu`."""
    return Named(array, name)


class Lengths(TypedDict, total=False):
    """The lengths a mask is looked at with, beside `s_q` and `s_kv`."""

    batch: int
    h_q: int
    h_kv: int
    cu_seqlens_q: Integers
    cu_seqlens_kv: Integers


def _lengths(
    s_q: int | None, s_kv: int | None, batch: int, h_q: int, h_kv: int, cu_seqlens_q: Integers, cu_seqlens_kv: Integers
) -> tuple[int, int, int, int, int, Any, Any]:
    if s_kv is None:
        s_kv = s_q
    if s_q is None and cu_seqlens_q is None:
        raise TypeError("mask: no lengths are given; expected s_q and s_kv, or cu_seqlens_q: m.dense(128, 128)")
    return (batch, s_q or 0, s_kv or 0, h_q, h_kv, _offsets(cu_seqlens_q), _offsets(cu_seqlens_kv))


def _offsets(cu: Integers) -> Array:
    if isinstance(cu, list | tuple):
        import numpy as np

        return np.asarray(cu, np.int64)
    return cu


# PyTorch's side, set when PyTorch is in use (anymask._torch): makes the tensor that stands for a mask in a graph.
_make_token: Any = None
# Masks made before that, by identity: they get theirs then.
_without_token: weakref.WeakValueDictionary[int, Mask] = weakref.WeakValueDictionary()


class Mask:
    """What is kept, as a value: immutable, hashable, safe to share between threads. Made by the functions of this
    module."""

    __slots__ = ("__weakref__", "_h", "_token")
    _h: _c.Handle
    _token: Any

    def __init__(self, text: str = "full", /, **arrays: Array) -> None:
        self._set(parse(text, **arrays)._h)

    def _set(self, handle: _c.Handle) -> None:
        object.__setattr__(self, "_h", handle)
        if _make_token is None:
            object.__setattr__(self, "_token", None)
            _without_token[id(self)] = self
        else:
            object.__setattr__(self, "_token", _make_token(handle))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"mask: {name} cannot be set; masks are values: make another one")

    def __and__(self, other: Mask) -> Mask:
        return _made(_c.mask_and(self, other)) if isinstance(other, Mask) else NotImplemented

    def __or__(self, other: Mask) -> Mask:
        return _made(_c.mask_or(self, other)) if isinstance(other, Mask) else NotImplemented

    def __invert__(self) -> Mask:
        return _made(_c.mask_not(self))

    def __eq__(self, other: object) -> bool:
        """The same expression and the same contents of its arrays; names do not matter."""
        return _c.equal(self, other) if isinstance(other, Mask) else NotImplemented

    def __hash__(self) -> int:
        return hash(_c.digest(self))

    def __bool__(self) -> bool:
        raise TypeError("mask: a mask is neither true nor false; use &, | and ~ instead of and, or and not")

    def __str__(self) -> str:
        """Text that parses back to an equal mask, given its named arrays."""
        return _c.text(self)

    def __repr__(self) -> str:
        return _c.text(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return from_bytes, (self.to_bytes(),)

    def to_bytes(self) -> bytes:
        """Versioned bytes, arrays contained; `from_bytes` reads them. Pickling uses them."""
        return _c.to_bytes(self)

    def digest(self) -> str:
        """128 bits over the expression and the contents of its arrays, as 32 hexadecimal digits."""
        low, high = _c.digest(self)
        return f"{high:016x}{low:016x}"

    def count(
        self,
        s_q: int | None = None,
        s_kv: int | None = None,
        *,
        batch: int = 1,
        h_q: int = 1,
        h_kv: int = 1,
        cu_seqlens_q: Integers = None,
        cu_seqlens_kv: Integers = None,
    ) -> tuple[int, int]:
        """Pairs kept, and pairs in all, over every sequence and query head."""
        return _c.count(self, _lengths(s_q, s_kv, batch, h_q, h_kv, cu_seqlens_q, cu_seqlens_kv))

    def density(
        self,
        s_q: int | None = None,
        s_kv: int | None = None,
        *,
        batch: int = 1,
        h_q: int = 1,
        h_kv: int = 1,
        cu_seqlens_q: Integers = None,
        cu_seqlens_kv: Integers = None,
    ) -> float:
        """The share of pairs kept, 0 to 1; 0 when there are none."""
        kept, pairs = _c.count(self, _lengths(s_q, s_kv, batch, h_q, h_kv, cu_seqlens_q, cu_seqlens_kv))
        return kept / pairs if pairs else 0.0

    def select(
        self,
        s_q: int | None = None,
        s_kv: int | None = None,
        *,
        batch: int = 1,
        h_q: int = 1,
        h_kv: int = 1,
        cu_seqlens_q: Integers = None,
        cu_seqlens_kv: Integers = None,
    ) -> Mask:
        """The same mask, holding what its `topk` selects at these lengths: for selecting at a time of one's choosing.
        Any mask holds what it selected in a call, so a backward never selects again."""
        return _made(_c.select(self, _lengths(s_q, s_kv, batch, h_q, h_kv, cu_seqlens_q, cu_seqlens_kv)))

    def dense(
        self,
        s_q: int | None = None,
        s_kv: int | None = None,
        *,
        sequence: int = 0,
        head: int = 0,
        batch: int = 1,
        h_q: int = 1,
        h_kv: int = 1,
        cu_seqlens_q: Integers = None,
        cu_seqlens_kv: Integers = None,
    ) -> npt.NDArray[np.bool_]:
        """One plane as booleans `[s_q, s_kv]`, of batch entry (or packed sequence) `sequence` and query head `head`."""
        import numpy as np

        lengths = _lengths(s_q, s_kv, batch, h_q, h_kv, cu_seqlens_q, cu_seqlens_kv)
        out = np.empty(_plane_shape(lengths, sequence), np.bool_)
        _c.dense(self, lengths, sequence, head, 0, 0, out)
        return out

    def show(
        self,
        s_q: int | None = None,
        s_kv: int | None = None,
        *,
        sequence: int = 0,
        head: int = 0,
        batch: int = 1,
        h_q: int = 1,
        h_kv: int = 1,
        cu_seqlens_q: Integers = None,
        cu_seqlens_kv: Integers = None,
        size: int = 64,
    ) -> Picture:
        """One plane as a picture of at most `size` cells a side: drawn in a notebook, text in a terminal, `.svg`
        for a file."""
        import numpy as np

        from ._picture import Picture

        lengths = _lengths(s_q, s_kv, batch, h_q, h_kv, cu_seqlens_q, cu_seqlens_kv)
        rows, keys = _plane_shape(lengths, sequence)
        cells = np.zeros((max(1, min(size, rows)), max(1, min(size, keys))), np.float32)
        whole = np.zeros((1, 1), np.float32)
        if rows and keys:
            _c.coverage(self, lengths, sequence, head, cells)
            _c.coverage(self, lengths, sequence, head, whole)
        return Picture(str(self), cells, rows, keys, float(whole[0, 0]))

    def plan(
        self,
        s_q: int | None = None,
        s_kv: int | None = None,
        *,
        batch: int = 1,
        h_q: int = 1,
        h_kv: int = 1,
        cu_seqlens_q: Integers = None,
        cu_seqlens_kv: Integers = None,
        tile_m: int = 0,
        tile_n: int = 0,
        transposed: bool = False,
        split_cost: float = 0.0,
    ) -> Plan:
        """Which tiles run, as plain arrays; for those who write kernels, and for the curious."""
        from ._plan import Plan

        lengths = _lengths(s_q, s_kv, batch, h_q, h_kv, cu_seqlens_q, cu_seqlens_kv)
        return Plan(_c.plan(self, lengths, tile_m, tile_n, transposed, split_cost))


def _plane_shape(lengths: tuple[int, int, int, int, int, Any, Any], sequence: int) -> tuple[int, int]:
    _, s_q, s_kv, _, _, cu_q, cu_kv = lengths
    if cu_q is None:
        return s_q, s_kv
    if not 0 <= sequence < len(cu_q) - 1:
        raise ValueError(
            f"mask: sequence is {sequence}; expected 0 to {len(cu_q) - 2}: cu_seqlens_q holds {len(cu_q) - 1} sequences"
        )
    keys = cu_q if cu_kv is None else cu_kv
    return int(cu_q[sequence + 1]) - int(cu_q[sequence]), int(keys[sequence + 1]) - int(keys[sequence])


def _made(handle: _c.Handle) -> Mask:
    mask = Mask.__new__(Mask)
    mask._set(handle)
    return mask


def _leaf(kind: str, *values: Any, align: Align = "bottom_right", **by_name: Any) -> Mask:
    given: list[tuple[str | None, Any]] = [(None, value) for value in values]
    given += [(name, value) for name, value in by_name.items() if value is not None]
    if align != "bottom_right":
        given.append(("align", align))
    if all(_is_constant(value) for _, value in given):
        return _constant_leaf(kind, [(name, _constant(value)) for name, value in given])
    return _any_leaf(kind, given)


def _any_leaf(kind: str, given: list[tuple[str | None, Any]]) -> Mask:
    return _made(_c.leaf(kind, tuple(_argument(name, value) for name, value in given)))


def _is_constant(value: Any) -> bool:
    return isinstance(value, int | str) or (isinstance(value, list | tuple) and all(isinstance(x, int) for x in value))


def _constant(value: Any) -> Any:
    """A number that torch.compile takes for a variable becomes one that it compiles for."""
    if isinstance(value, list | tuple):
        return [index(x) for x in value]
    return index(value) if isinstance(value, int) else value


def _constant_leaf(kind: str, given: list[tuple[str | None, Any]]) -> Mask:
    return _any_leaf(kind, given)


def _constant_text(text: str) -> Mask:
    return _made(_c.parse(text, {}))


# torch.compile calls these while it traces, and keeps what they return: their arguments are numbers and texts, never
# tensors, whose contents would be kept too.
_constant_leaf._dynamo_marked_constant = _constant_text._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _argument(name: str | None, value: Any) -> tuple[str | None, Any, str | None]:
    array_name = None
    if isinstance(value, Named):
        value, array_name = value.array, value.name
    # A flat list of integers goes as one; anything deeper, of booleans or of floats, as an array.
    if isinstance(value, list | tuple) and (array_name or not all(type(x) is int for x in value)):
        import numpy as np

        value = np.asarray(value)
    return name, value, array_name


def parse(text: str, /, **arrays: Array) -> Mask:
    """Text to mask: `parse("causal & documents(@cu)", cu=cu)`. `~` binds first, then `&`, then `|`."""
    if not isinstance(text, str):
        raise TypeError(
            f"parse: text is of type {type(text).__name__}; expected text such as 'causal & window(127, 0)'"
        )
    if not arrays:
        return _constant_text(text)
    given = {name: _argument(None, value)[1] for name, value in arrays.items()}
    if any(isinstance(value, list | tuple) for value in given.values()):
        import numpy as np

        given = {n: np.asarray(v, np.int64) if isinstance(v, list | tuple) else v for n, v in given.items()}
    return _made(_c.parse(text, given))


def from_bytes(data: bytes, /) -> Mask:
    """The mask of `Mask.to_bytes`. Unknown versions and corrupt bytes are refused."""
    return _made(_c.from_bytes(data))


def full() -> Mask:
    """Keeps every pair."""
    return _leaf("full")


def none() -> Mask:
    """Keeps nothing."""
    return _leaf("none")


def causal(align: Align = "bottom_right") -> Mask:
    """`kv <= p`."""
    return _leaf("causal", align=align)


def window(left: int, right: int, align: Align = "bottom_right") -> Mask:
    """`p - left <= kv <= p + right`; -1 leaves a side open."""
    return _leaf("window", left, right, align=align)


def keys(begin: int, end: int) -> Mask:
    """`begin <= kv < end`."""
    return _leaf("keys", begin, end)


def positions(begin: int, end: int, align: Align = "bottom_right") -> Mask:
    """`begin <= p < end`."""
    return _leaf("positions", begin, end, align=align)


def prefix(n: Integers) -> Mask:
    """`kv < n`; `n` one number, or one for each batch entry. `causal() | prefix(n)` is prefix-LM."""
    return _leaf("prefix", n)


def documents(cu: Integers, cu_kv: Integers = None, align: Align = "bottom_right") -> Mask:
    """The same document: offsets `[n + 1]` over positions, or one array over rows and one over keys.

    `[b, n + 1]` gives each batch entry its own; with fewer documents its last offset repeats.
    """
    return _leaf("documents", cu, cu_kv=cu_kv, align=align)


def chunked(size: int, align: Align = "bottom_right") -> Mask:
    """`p / size == kv / size`, rounding down."""
    return _leaf("chunked", size, align=align)


def stride(n: int, align: Align = "bottom_right") -> Mask:
    """`(p - kv) mod n == 0`; with `window`, dilated windows."""
    return _leaf("stride", n, align=align)


def shared_prefix(n: int, lengths: Integers, align: Align = "bottom_right") -> Mask:
    """`kv <= p` and (`kv < n`, or `p` and `kv` lie in the same segment): a prefix all see, segments blind to each
    other."""
    return _leaf("shared_prefix", n, lengths, align=align)


def tree(parents: Integers, prefix: int | None = None, align: Align = "bottom_right") -> Mask:
    """A tree of candidates after a context: each node sees the context, its ancestors and itself.

    `parents[i] < i`, or -1 for a root; `[b, n]` gives each batch entry its own tree. `prefix` defaults to
    `s_kv - len(parents)`.
    """
    return _leaf("tree", parents, prefix=prefix, align=align)


def blocks(map: Array, tile_q: int, tile_kv: int) -> Mask:
    """`map[q / tile_q, kv / tile_kv]`; with `[b | 1, heads | 1]` before them, by batch entry and head."""
    return _leaf("blocks", map, tile_q, tile_kv)


def bits(packed: Array) -> Mask:
    """Packed bits: uint8 `[s_q | 1, ceil(s_kv / 8)]`, little-endian in a byte, or with `[b | 1, heads | 1]` before
    them."""
    return _leaf("bits", packed)


def dense(array: Array) -> Mask:
    """Booleans: bool or uint8 `[s_q | 1, s_kv]`, or with `[b | 1, heads | 1]` before them. True = attend."""
    return _leaf("dense", array)


def row_intervals(begin: Integers, end: Integers) -> Mask:
    """`begin[q, i] <= kv < end[q, i]` for some `i`; `[s_q]`, `[s_q, n]`, or 4-d with `[b | 1, heads | 1]` before
    them."""
    return _leaf("row_intervals", begin, end)


def col_intervals(begin: Integers, end: Integers) -> Mask:
    """`begin[kv, i] <= q < end[kv, i]` for some `i`; `[s_kv]`, `[s_kv, n]`, or 4-d with `[b | 1, heads | 1]` before
    them."""
    return _leaf("col_intervals", begin, end)


def neighborhood(shape: Integers, kernel: Integers, dilation: Integers = None, align: Align = "bottom_right") -> Mask:
    """NATTEN's: exactly `kernel` (odd) neighbours an axis of a 1-3-d grid, the window shifted inward at the edges."""
    return _leaf("neighborhood", shape, kernel, dilation=dilation, align=align)


def block_diffusion(seq: int, block: int, align: Align = "bottom_right") -> Mask:
    """The noisy + clean mask of block diffusion training over `2 * seq` positions."""
    return _leaf("block_diffusion", seq, block, align=align)


def threshold(bias: Array, t: float) -> Mask:
    """`bias >= t`; a NaN is never kept. `bias` floating, `[s_q | 1, s_kv]` or with `[b | 1, heads | 1]` before them."""
    return _leaf("threshold", bias, float(t))


def topk(bias: Array, window: int, among: Mask | None = None) -> Mask:
    """Among the keys that `among` keeps (all by default), the `window` largest biases of each row. Ties keep the lower
    key, NaN and -inf are never kept, and with fewer candidates than `window` all are. `bias` as for `threshold`; it may
    be the bias of the call, too."""
    return _leaf("topk", bias, window, among=among)


def per_batch(masks: Sequence[Mask]) -> Mask:
    """Its own mask for each batch entry, or each packed sequence. Equal ones share their plan."""
    return _made(_c.per_batch(_mask_list("per_batch", masks)))


def per_head(masks: Sequence[Mask]) -> Mask:
    """Its own mask for each head: `h_q` or `h_kv` of them. Equal ones share their plan."""
    return _made(_c.per_head(_mask_list("per_head", masks)))


def _mask_list(kind: str, masks: Sequence[Mask]) -> list[Mask]:
    if isinstance(masks, Mask):
        raise TypeError(f"{kind}: masks is one mask; expected a list of them: {kind}([mask, ...])")
    return list(masks)


def random_mask(
    seed: int,
    s_q: int,
    s_kv: int | None = None,
    *,
    batch: int = 1,
    h_q: int = 1,
    h_kv: int = 1,
    leaves: int = 4,
) -> Mask:
    """A random valid mask of every kind for those lengths, for tests: the same seed gives the same mask."""
    return _made(_c.random(seed, _lengths(s_q, s_kv, batch, h_q, h_kv, None, None), leaves))


class KindArgument(TypedDict):
    """One argument of a kind."""

    name: str
    type: str
    required: bool
    default: str
    doc: str


class Kind(TypedDict):
    """One kind of mask, as the registry describes it."""

    name: str
    keeps: str
    summary: str
    example: str
    arguments: list[KindArgument]


def mask_kinds() -> list[Kind]:
    """Every kind of mask with its rule, an example and its arguments."""
    return cast("list[Kind]", json.loads(_c.kinds()))
