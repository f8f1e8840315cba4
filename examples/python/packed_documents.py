"""Training on packed documents: one call for all of them, with the loss and the gradients of each by itself.

    python packed_documents.py [FOLDER]     draws packed_documents.svg into FOLDER
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import torch

import anymask as am


def main(folder: Path) -> None:
    """A step on three documents in a row of 384 positions, against three steps."""
    torch.manual_seed(0)
    width, heads, d = 64, 4, 16
    lengths = [120, 64, 200]
    cu = torch.tensor([0, *lengths]).cumsum(0)
    projection = torch.nn.Linear(width, 3 * heads * d)
    x = torch.randn(int(cu[-1]), width)

    def loss_of(x: torch.Tensor, mask: am.Mask) -> torch.Tensor:
        q, k, v = projection(x).view(1, len(x), 3, heads, d).unbind(2)
        return am.attention(q, k, v, mask).square().sum() / 1000

    mask = am.causal() & am.documents(am.named(cu.numpy(), "cu"))
    packed = loss_of(x, mask)
    (packed_gradient,) = torch.autograd.grad(packed, projection.weight)
    apart = sum(loss_of(x[a:b], am.causal()) for a, b in pairwise(cu))
    (apart_gradient,) = torch.autograd.grad(apart, projection.weight)
    torch.testing.assert_close(packed, apart)
    torch.testing.assert_close(packed_gradient, apart_gradient, rtol=1e-4, atol=1e-5)

    mask.show(int(cu[-1])).save(folder / "packed_documents.svg")
    print(f"{mask}: loss {packed.item():.4f}, document by document {apart.item():.4f}; "
          f"{mask.density(int(cu[-1])):.0%} of the pairs are kept")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
