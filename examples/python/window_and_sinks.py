"""A sliding window with attention sinks, in a prefill, in chunks and token by token: one mask serves all three.

    python window_and_sinks.py [FOLDER]     draws window_and_sinks.svg into FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import anymask as am


def main(folder: Path) -> None:
    """256 positions, a window of 64, the first 4 keys always seen, and a learned logit in the denominator."""
    rng = np.random.default_rng(0)
    s, heads, d = 256, 4, 32
    q = rng.standard_normal((1, s, heads, d), np.float32)
    k, v = rng.standard_normal((2, 1, s, 2, d), np.float32)
    sinks = rng.standard_normal(heads).astype(np.float32)
    mask = am.causal() & am.window(63, 0) | am.keys(0, 4) & am.causal()

    whole = am.attention(q, k, v, mask, sinks=sinks)
    # A chunk's rows are the last positions of the keys it is given: the mask needs no word about it.
    for step in (64, 1):
        for begin in range(0, s, step):
            rows = slice(begin, begin + step)
            chunk = am.attention(q[:, rows], k[:, : begin + step], v[:, : begin + step], mask, sinks=sinks)
            np.testing.assert_allclose(chunk, whole[:, rows], rtol=1e-4, atol=1e-5)

    mask.show(s).save(folder / "window_and_sinks.svg")
    print(f"{mask}: {mask.density(s):.0%} of the pairs are kept; chunks of 64 and of 1 give what the whole gives")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
