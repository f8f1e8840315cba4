"""Verifying a tree of drafted tokens in one call: Medusa's fixed tree, and a random one as EAGLE grows them.

    python speculative_tree.py [FOLDER]     draws medusa.svg and eagle.svg into FOLDER
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np

import anymask as am


def medusa(choices: tuple[int, ...]) -> list[int]:
    """Parents of the tree of the first `choices[i]` guesses of head i, breadth first; node 0 is the root."""
    paths = [()] + [path for n in range(1, len(choices) + 1) for path in product(*(range(c) for c in choices[:n]))]
    index = {path: i for i, path in enumerate(paths)}
    return [-1] + [index[path[:-1]] for path in paths[1:]]


def eagle(nodes: int, rng: np.random.Generator) -> list[int]:
    """Parents of a tree that grows deeper more often than wider."""
    return [-1] + [int(rng.integers(max(0, i - 4), i)) for i in range(1, nodes)]


def ancestors(parents: list[int], node: int) -> list[int]:
    """A node's path from the root, itself included."""
    path = []
    while node >= 0:
        path.append(node)
        node = parents[node]
    return path[::-1]


def main(folder: Path) -> None:
    """Each node's row is that of its path alone, appended to the context as plain causal decoding would."""
    rng = np.random.default_rng(0)
    context, heads, d = 300, 8, 32
    for name, parents in (("medusa", medusa((4, 3, 2))), ("eagle", eagle(48, rng))):
        n = len(parents)
        q = rng.standard_normal((1, n, heads, d), np.float32)
        k, v = rng.standard_normal((2, 1, context + n, 2, d), np.float32)
        mask = am.tree(am.named(np.array(parents), "parents"))
        out = am.attention(q, k, v, mask)
        for node in range(n):
            path = ancestors(parents, node)
            seen = [*range(context), *(context + i for i in path)]
            alone = am.attention(q[:, path], k[:, seen], v[:, seen], am.causal())
            np.testing.assert_allclose(out[:, node], alone[:, -1], rtol=1e-4, atol=1e-5)
        mask.show(n, n + 16).save(folder / f"{name}.svg")
        print(f"{name}: {n} nodes over {context} keys in one call, each as its path gives alone")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
