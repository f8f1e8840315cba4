"""The speculative-decoding tree of Medusa (Cai et al., 2024, arXiv:2401.10774), as data.

`mc_sim_7b_63` is the published list for a 7B model (github.com/FasterDecoding/Medusa, medusa/model/medusa_choices.py):
63 nodes, each named by its path: [0, 2] is the third candidate of the second head after the first of the first head.
"""

from __future__ import annotations

MC_SIM_7B_63: list[list[int]] = [
    [0], [0, 0], [1], [0, 1], [2], [0, 0, 0], [1, 0], [0, 2], [3], [0, 3], [4], [0, 4], [2, 0], [0, 5], [0, 0, 1], [5],
    [0, 6], [6], [0, 7], [0, 1, 0], [1, 1], [7], [0, 8], [0, 0, 2], [3, 0], [0, 9], [8], [9], [1, 0, 0], [0, 2, 0],
    [1, 2], [0, 0, 3], [4, 0], [2, 1], [0, 0, 4], [0, 0, 5], [0, 0, 0, 0], [0, 1, 1], [0, 0, 6], [0, 3, 0], [5, 0],
    [1, 3], [0, 0, 7], [0, 0, 8], [0, 0, 9], [6, 0], [0, 4, 0], [1, 4], [7, 0], [0, 1, 2], [2, 0, 0], [3, 1], [2, 2],
    [8, 0], [0, 5, 0], [1, 5], [1, 0, 1], [0, 2, 1], [9, 0], [0, 6, 0], [0, 0, 0, 1], [1, 6], [0, 7, 0],
]  # fmt: skip


def nodes() -> list[tuple[int, ...]]:
    """The root, (), then every node, parents first: by depth, then by path."""
    return sorted({(), *map(tuple, MC_SIM_7B_63)}, key=lambda path: (len(path), path))


def parents(paths: list[tuple[int, ...]]) -> list[int]:
    """Index of each node's parent; -1 for the root."""
    index = {path: i for i, path in enumerate(paths)}
    return [index[path[:-1]] if path else -1 for path in paths]


def ancestors(parent: list[int], node: int) -> list[int]:
    """The nodes from the root to `node`, both included."""
    line = [node]
    while parent[line[-1]] >= 0:
        line.append(parent[line[-1]])
    return line[::-1]
