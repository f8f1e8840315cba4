"""Plans: which tiles run, as NumPy arrays over the library's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

_PLANE = np.dtype(
    [
        ("rows", np.int64),
        ("cols", np.int64),
        ("m_blocks", np.int32),
        ("n_blocks", np.int32),
        ("first_row", np.int64),
        ("kept_pairs", np.int64),
        ("full_tiles", np.int64),
        ("partial_tiles", np.int64),
    ]
)
_RUN = np.dtype([("n_begin", np.int32), ("n_end", np.int32), ("kind", np.uint32), ("bits", np.int32)])
_WORK = np.dtype(
    [
        (name, np.int32)
        for name in ["plane", "m_block", "run_begin", "run_end", "n_begin", "n_end", "split", "num_splits"]
    ]
    + [("cost", np.float32)]
)


class Plan:
    """Which tiles of the score matrix run. Arrays are read-only and live as long as anything refers to them.

    `runs` of a row of tiles: `n_begin, n_end, kind (0 full, 1 partial with consecutive bit tiles, 2 partial with
    one for all), bits`. Statistics count all sequences and mask heads.
    """

    tile_m: int
    tile_n: int
    transposed: bool
    num_sequences: int
    heads: int
    kept_pairs: int
    pairs: int
    full_tiles: int
    partial_tiles: int
    empty_tiles: int
    bytes: int

    def __init__(self, data: dict[str, Any]) -> None:
        arrays = {name: data.pop(name) for name in ("planes", "plane_of", "row_begin", "runs", "bit_tiles", "work")}
        for name, value in data.items():
            setattr(self, name, value)
        self.planes: npt.NDArray[np.void] = np.frombuffer(arrays["planes"], _PLANE)
        self.plane_of: npt.NDArray[np.int32] = np.frombuffer(arrays["plane_of"], np.int32).reshape(
            self.num_sequences, self.heads
        )
        self.row_begin: npt.NDArray[np.int64] = np.frombuffer(arrays["row_begin"], np.int64)
        self.runs: npt.NDArray[np.void] = np.frombuffer(arrays["runs"], _RUN)
        self.bit_tiles: npt.NDArray[np.uint64] = np.frombuffer(arrays["bit_tiles"], np.uint64).reshape(
            -1, self.tile_m, self.tile_n // 64
        )
        self.work: npt.NDArray[np.void] = np.frombuffer(arrays["work"], _WORK)

    def row(self, plane: int, m_block: int) -> npt.NDArray[np.void]:
        """The runs of one row of tiles of a plane."""
        first = int(self.planes[plane]["first_row"]) + m_block
        return self.runs[self.row_begin[first] : self.row_begin[first + 1]]

    def __repr__(self) -> str:
        return (
            f"Plan(tiles of {self.tile_m} x {self.tile_n}: {self.full_tiles} full, {self.partial_tiles} partial, "
            f"{self.empty_tiles} empty; {len(self.runs)} runs, {len(self.planes)} planes, {self.bytes} bytes)"
        )
