"""A vision transformer whose patches see their neighbours: NATTEN's neighbourhood as a mask, dilated in one head.

    python image_neighbourhood.py [FOLDER]     draws the mask, image_neighbourhood.svg, into FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import anymask as am


def neighbours(at: int, size: int, kernel: int) -> range:
    """`kernel` positions around `at`, shifted inward at the edges."""
    begin = min(max(at - kernel // 2, 0), size - kernel)
    return range(begin, begin + kernel)


def main(folder: Path) -> None:
    """16 x 20 patches, 5 x 5 neighbours; the second half of the heads sees every other patch of twice the distance."""
    rng = np.random.default_rng(0)
    rows, columns, heads, d = 16, 20, 4, 32
    q, k, v = rng.standard_normal((3, 1, rows * columns, heads, d), np.float32)
    near, far = am.neighborhood([rows, columns], 5), am.neighborhood([rows, columns], 5, dilation=2)
    mask = am.per_head([near, near, far, far])
    out = am.attention(q, k, v, mask)

    for y, x in ((0, 0), (7, 9), (15, 19), (3, 18)):  # by hand, head 0
        seen = [i * columns + j for i in neighbours(y, rows, 5) for j in neighbours(x, columns, 5)]
        scores = k[0, seen, 0] @ q[0, y * columns + x, 0] / np.sqrt(d)
        weights = np.exp(scores - scores.max())
        want = weights @ v[0, seen, 0] / weights.sum()
        np.testing.assert_allclose(out[0, y * columns + x, 0], want, rtol=1e-3, atol=1e-5)

    near.show(rows * columns).save(folder / "image_neighbourhood.svg")
    print(f"{rows} x {columns} patches: {near.density(rows * columns):.1%} of the pairs are kept, 25 a row")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
