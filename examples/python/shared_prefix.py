"""Many continuations of one prefix, scored in one call; the prefix is held once.

    python shared_prefix.py [FOLDER] [PREFIX COUNT LENGTH]     draws shared_prefix.svg into FOLDER

24000 50 100 is the size of a recommender's request: as large as that, it takes a minute on two cores.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import anymask as am


def main(folder: Path, prefix: int = 1200, count: int = 10, length: int = 20) -> None:
    """The continuations' rows alone are queries: the prefix is in the cache."""
    rng = np.random.default_rng(0)
    heads, d, rows = 4, 32, count * length
    q = rng.standard_normal((1, rows, heads, d), np.float32)
    k, v = rng.standard_normal((2, 1, prefix + rows, 2, d), np.float32)
    mask = am.shared_prefix(prefix, [length] * count)

    began = time.perf_counter()
    out = am.attention(q, k, v, mask)
    together = time.perf_counter() - began
    began = time.perf_counter()
    alone = []
    for begin in range(0, rows, length):
        keys = np.r_[0:prefix, prefix + begin : prefix + begin + length]
        alone.append(am.attention(q[:, begin : begin + length], k[:, keys], v[:, keys], am.causal()))
    apart = time.perf_counter() - began
    np.testing.assert_allclose(out, np.concatenate(alone, axis=1), rtol=1e-4, atol=1e-5)

    mask.show(prefix + rows).save(folder / "shared_prefix.svg")
    print(f"{count} continuations of {length} after {prefix}: {1000 * together:.1f} ms in one call, "
          f"{1000 * apart:.1f} ms one by one, with copies of the prefix")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."), *map(int, sys.argv[2:]))
