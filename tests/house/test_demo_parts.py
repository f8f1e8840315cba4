"""The parts of the demo that can be wrong without looking it: packing, the tree, NumPy's attention and gradients."""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "real"))

import numpy as np

import attention
import documents
import medusa_tree


class Documents(unittest.TestCase):
    def test_whole_documents_while_they_fit(self) -> None:
        packed = documents.pack([[1, 2, 3], [4], [], [5, 6], [7, 8, 9]], capacity=7)
        self.assertEqual(packed.tokens.tolist(), [1, 2, 3, 4, 5, 6])
        self.assertEqual(packed.cu.tolist(), [0, 3, 4, 6])
        self.assertEqual(packed.positions.tolist(), [0, 1, 2, 0, 0, 1])
        self.assertEqual(documents.spans(packed.cu), [(0, 3), (3, 4), (4, 6)])

    def test_nothing_fits(self) -> None:
        with self.assertRaisesRegex(SystemExit, "no document fits"):
            documents.pack([[1, 2, 3]], capacity=2)

    def test_long_documents_are_cut(self) -> None:
        self.assertEqual(list(documents.pieces([[1, 2, 3, 4, 5], [6]], 2)), [[1, 2], [3, 4], [5], [6]])

    def test_a_folder_of_texts(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "inner").mkdir()
            (root / "a.txt").write_text("first")
            (root / "inner" / "b.txt").write_text("second")
            (root / "c.bin").write_bytes(b"\0\1")
            (root / "d.txt").write_text("  \n")
            self.assertEqual(documents.read(root), ["first", "second"])
            with self.assertRaisesRegex(SystemExit, "holds no text"):
                documents.read(root / "missing")


class MedusaTree(unittest.TestCase):
    def test_the_published_tree_has_63_nodes_below_its_root(self) -> None:
        self.assertEqual(len({tuple(path) for path in medusa_tree.MC_SIM_7B_63}), 63)
        paths = medusa_tree.nodes()
        self.assertEqual(len(paths), 64)
        self.assertEqual([sum(len(path) == depth for path in paths) for depth in range(6)], [1, 10, 28, 23, 2, 0])

    def test_parents_come_first_and_are_the_paths_own(self) -> None:
        paths = medusa_tree.nodes()
        parent = medusa_tree.parents(paths)
        self.assertEqual(parent[0], -1)
        for i in range(1, len(paths)):
            self.assertLess(parent[i], i)
            self.assertEqual(paths[parent[i]], paths[i][:-1])
            line = [paths[i][:n] for n in range(len(paths[i]) + 1)]
            self.assertEqual([paths[a] for a in medusa_tree.ancestors(parent, i)], line)


class Attention(unittest.TestCase):
    def setUp(self) -> None:
        random = np.random.default_rng(7)
        self.q, self.dout = random.normal(size=(2, 300, 6, 8))
        self.k, self.v = random.normal(size=(2, 300, 2, 8))

    def test_causal_is_softmax_row_by_row(self) -> None:
        out = attention.causal(self.q[-290:], self.k, self.v)
        for row, head in [(0, 0), (255, 3), (256, 5), (289, 2)]:
            seen = row + 11
            scores = self.k[:seen, head // 3] @ self.q[row + 10, head] / np.sqrt(8)
            weights = np.exp(scores) / np.exp(scores).sum()
            np.testing.assert_allclose(out[row, head], weights @ self.v[:seen, head // 3], rtol=1e-12)

    def test_gradients_are_the_finite_differences(self) -> None:
        tensors = [self.q[:7], self.k[:7], self.v[:7]]
        gradients = attention.causal_gradients(self.dout[:7], *tensors)
        step = 1e-5
        for which, gradient in enumerate(gradients):
            for at in [(0, 0, 0), (3, 1, 5), (6, 1, 7)]:
                sums = []
                for sign in (1, -1):
                    moved = [tensor.copy() for tensor in tensors]
                    moved[which][at] += sign * step
                    sums.append((self.dout[:7] * attention.causal(*moved)).sum())
                self.assertAlmostEqual((sums[0] - sums[1]) / (2 * step), gradient[at], delta=1e-8)


if __name__ == "__main__":
    unittest.main()
