"""T5's relative position bias, learned through the attention, and ALiBi, which needs no tensor of pairs.

    python position_bias.py [FOLDER]     draws the learned bias, position_bias.svg, into FOLDER
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import torch

import anymask as am


def buckets(s: int, number: int = 32, furthest: int = 128) -> torch.Tensor:
    """[s, s]: T5's bucket of each distance, causal: one for each of the near ones, then logarithmic."""
    distance = (torch.arange(s)[:, None] - torch.arange(s)[None, :]).clamp(min=0)
    near = number // 2
    far = near + (torch.log(distance.clamp(min=1) / near) / math.log(furthest / near) * (number - near)).long()
    return torch.where(distance < near, distance, far.clamp(max=number - 1))


def main(folder: Path) -> None:
    """Learns the 32 numbers a head of a bias that was hidden, from the outputs alone."""
    torch.manual_seed(0)
    s, heads, d = 96, 2, 16
    q, k, v = (torch.randn(4, s, heads, d) for _ in range(3))
    bucket = buckets(s)
    hidden = torch.linspace(2, -2, 32)[:, None] * torch.tensor([1.0, 0.4])
    table = torch.zeros(32, heads, requires_grad=True)

    def attend(table: torch.Tensor) -> torch.Tensor:
        bias = table[bucket].permute(2, 0, 1)[None].contiguous()  # [1, heads, s, s]
        return am.attention(q, k, v, am.causal(), bias=bias)

    wanted = attend(hidden)
    optimiser = torch.optim.Adam([table], lr=0.1)
    losses = []
    for _ in range(80):
        loss = (attend(table) - wanted).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 50, losses

    slopes = torch.tensor([0.25, 0.0625])
    distance = torch.arange(s)[:, None] - torch.arange(s)[None, :]
    bias = -slopes[None, :, None, None] * distance.abs()
    torch.testing.assert_close(am.attention(q, k, v, am.causal(), alibi_slopes=slopes),
                               am.attention(q, k, v, am.causal(), bias=bias), rtol=1e-4, atol=1e-5)

    write_curves(folder / "position_bias.svg", [table.detach()[:, h].tolist() for h in range(heads)])
    print(f"T5 bias: loss {losses[0]:.2e} to {losses[-1]:.2e} in {len(losses)} steps; ALiBi equals its bias")


def write_curves(path: Path, curves: list[list[float]]) -> None:
    """A line a head over the buckets of distance, and a line at zero."""
    top = max(abs(y) for curve in curves for y in curve)
    parts = [
        f'<text x="{x}" y="{y}" font-family="monospace" font-size="11" fill="{fill}">{text}</text>'
        for x, y, fill, text in (
            (10, 16, "#000", "learned bias of a head"), (220, 16, "#3949ab", "head 0"), (280, 16, "#c62828", "head 1"),
            (10, 214, "#555", "bucket 0: no distance"), (200, 214, "#555", f"{len(curves[0]) - 1}: far away"),
            (316, 124, "#555", "0"), (10, 36, "#555", f"{top:.1f}"),
        )
    ]  # fmt: skip
    parts.append('<path stroke="#bbb" d="M10 120H310"/>')
    step = 300 / (len(curves[0]) - 1)
    parts += [
        f'<polyline fill="none" stroke="{colour}" points="'
        + " ".join(f"{10 + step * i:.1f},{120 - 80 * y / top:.1f}" for i, y in enumerate(curve)) + '"/>'
        for colour, curve in zip(("#3949ab", "#c62828"), curves, strict=True)
    ]
    path.write_text('<svg xmlns="http://www.w3.org/2000/svg" width="340" height="222">'
                    '<rect width="340" height="222" fill="#fff"/>' + "".join(parts) + "</svg>\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
