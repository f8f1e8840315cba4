"""Top-k windows: each row attends to the keys that a cheap indexer scores highest, at the cost of what is kept.

    python topk_windows.py [FOLDER]     draws the masks, topk_rows.svg and topk_keys.svg, into FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import anymask as am


def main(folder: Path) -> None:
    """64 tokens, 10 keys a row: chosen for each row by an indexer of eight numbers a token, or once for all rows."""
    rng = np.random.default_rng(0)
    s, heads, d, window = 64, 4, 32, 10
    q, k, v, dout = rng.standard_normal((4, 1, s, heads, d), np.float32)
    ask, answer = rng.integers(-3, 4, (2, s, 8)).astype(np.float32)  # integers: these scores are exact everywhere
    distance = np.abs(np.arange(s)[:, None] - np.arange(s)).astype(np.float32)
    chosen_by_row = (ask @ answer.T - distance / 2) / 8  # [s, s]
    chosen_once = rng.integers(0, 1024, (1, s)).astype(np.float32) / 256  # [1, s]

    for name, bias in (("topk_rows", chosen_by_row), ("topk_keys", chosen_once)):
        mask = am.topk(bias, window, among=am.causal())
        out, lse = am.attention(q, k, v, mask, bias=bias, return_lse=True)
        kept = np.zeros((s, s), bool)
        for row in range(s):  # by hand: the largest among the keys a causal row sees, the lower key of equal ones
            kept[row, np.argsort(-bias[row % len(bias), : row + 1], kind="stable")[:window]] = True
        np.testing.assert_array_equal(mask.dense(s), kept)

        for row, head in ((0, 0), (9, 1), (40, 2), (63, 3)):
            seen = np.flatnonzero(kept[row])
            scores = k[0, seen, head] @ q[0, row, head] / np.sqrt(d) + bias[row % len(bias), seen]
            weights = np.exp(scores - scores.max())
            np.testing.assert_allclose(out[0, row, head], weights @ v[0, seen, head] / weights.sum(), 1e-3, 1e-5)

        # The indexer learns through the bias: from the keys it chose, and from no others.
        dbias = am.attention_backward(dout, q, k, v, out, lse, mask, bias=bias).dbias
        learns = kept if len(bias) == s else kept.any(0, keepdims=True)
        assert np.count_nonzero(dbias[learns]) > 0.9 * learns.sum() and not dbias[~learns].any()
        mask.show(s).save(folder / f"{name}.svg")
        print(f"{name}: {mask.density(s):.1%} of the pairs are kept, causal keeps {am.causal().density(s):.1%}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
