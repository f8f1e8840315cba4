#!/usr/bin/env python3
"""Three reports of users, measured again in the form their authors used, beside what PyTorch offers.

    python3 bench/reports.py                    on the CPU
    python3 bench/reports.py --device cuda      on a GPU
    python3 bench/reports.py --report topk      one of topk, bits, small

topk   "Building a top-k window mask takes longer than the attention": bias kind x mask kind x window; ms for the mask,
       the attention, both.
bits   "A custom mask runs at half the speed of the causal kernel": bits against causal, a prefix shared by 50 segments,
       a speculative tree; ms of a call whose mask is new, and of one whose mask was seen before.
small  "The wrapper costs more than the kernel": forward and backward of (512 or 2, 50 to 300, 16 heads, 256 wide).

Each result is checked on sampled rows in double precision before it is timed. Times are the wall's, with the device
synchronised before and after each call. JSON lines, with the fields of `anymask bench`, go to standard output, tables
to standard error. Run nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import anymask as am
import measuring
from measuring import Run, line, say

# [rows] -> what those rows keep, broadcastable to [b, h_q, rows, s_kv]; None: everything.
Keep = Callable[[torch.Tensor], torch.Tensor] | None


class Bench:
    """One run: where, for how long, and what its lines share."""

    def __init__(self, device: str, seconds: float, commit: str | None, flex: bool) -> None:
        self.device, self.seconds, self.flex = device, seconds, flex
        self.common = measuring.about(device, commit)
        self.dtype = torch.float16 if device == "cuda" else torch.float32
        self.dtype_name = str(self.dtype).split(".")[1]
        self.wrong = 0

    def tensors(self, b: int, s_q: int, s_kv: int, h: int, h_kv: int, d: int, grad: bool = False) -> list[torch.Tensor]:
        """q, k, v."""
        shapes = ((b, s_q, h, d), (b, s_kv, h_kv, d), (b, s_kv, h_kv, d))
        return [torch.randn(s, device=self.device, dtype=self.dtype, requires_grad=grad) for s in shapes]

    def right(
        self, case: str, who: str, out: torch.Tensor, qkv: list[torch.Tensor], keep: Keep, bias: torch.Tensor | None
    ) -> bool:
        """Whether sampled rows of out [b, s, h, d] are those of double precision."""
        q, k, v = (x.detach().double().transpose(1, 2) for x in qkv)
        rows = torch.unique(torch.linspace(0, q.shape[2] - 1, 12, device=self.device).long())
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scores = q[:, :, rows] @ k.transpose(2, 3) / math.sqrt(q.shape[3])
        if bias is not None:
            wide = bias.double()
            wide = wide if wide.shape[2] == 1 else wide[:, :, rows]
            if wide.shape[1] not in (1, q.shape[1]):
                wide = wide.repeat_interleave(group, 1)
            scores = scores + wide
        if keep is not None:
            scores = scores.masked_fill(~keep(rows), -math.inf)
        want = scores.softmax(-1).nan_to_num(0) @ v
        error = (out.detach().double().transpose(1, 2)[:, :, rows] - want).abs().max() / want.abs().max()
        fine = bool(error < (0.02 if self.dtype == torch.float16 else 1e-4))
        if not fine:
            self.wrong += 1
            say(f"{case}: {who} is off by {float(error):.3g} of the largest value; it is not timed")
        return fine

    def write(
        self, report: str, case: str, who: str, part: str, ms: list[float] | None, note: str = ""
    ) -> float | None:
        """One line; its median."""
        fields = {"suite": f"report-{report}", "case": case, "who": who, "direction": part, "dtype": self.dtype_name}
        if note:
            fields["note"] = note
        found: float | None = line(self.common, ms, **fields)["ms"]
        return found


def cell(ms: float | None) -> str:
    """Milliseconds for a table."""
    return "       -" if ms is None else f"{ms:8.3f}"


# ------------------------------------------------------------------ the top-k grid


def topk_report(bench: Bench) -> None:
    """mask, attention and total ms, ours and what one writes with torch.topk."""
    cuda = bench.device == "cuda"
    b, h, h_kv, d, s = (2, 8, 4, 64, 4096) if cuda else (1, 8, 4, 64, 1024)
    say(f"\n(a) top-k windows: b{b} h{h} (kv {h_kv}) d{d} s{s} {bench.dtype_name}; ms for mask + attention = total")
    say(f"{'bias':10} {'mask':8} {'window':>6}  {'anymask':^28}  {'torch.topk, then SDPA':^28}")
    biases = {"(b,h)": (b, h, s), "(b,kvh)": (b, h_kv, s), "(b,1)": (b, 1, s), "(1,h)": (1, h, s)}
    biases["(b,kvh)row"] = (b, h_kv, 1)
    for bias_kind, (bias_b, bias_h, bias_q) in biases.items():
        for mask_kind in ("none", "causal", "given"):
            for window in (256, 1024) if cuda else (64, 256):
                torch.manual_seed(1)
                qkv = bench.tensors(b, s, s, h, h_kv, d)
                bias = torch.randn(bias_b, bias_h, bias_q, s, device=bench.device, dtype=bench.dtype)
                topk_case(bench, f"{bias_kind} {mask_kind} window {window}", mask_kind, window, qkv, bias)


def topk_case(
    bench: Bench, case: str, mask_kind: str, window: int, qkv: list[torch.Tensor], bias: torch.Tensor
) -> None:
    """One row of the grid."""
    q, k, v = qkv
    s = q.shape[1]
    group = q.shape[2] // k.shape[2]
    among, candidates = {
        "none": (am.full(), None),
        "causal": (am.causal(), torch.ones(s, s, dtype=torch.bool, device=bench.device).tril()),
        "given": (None, torch.rand(q.shape[0], 1, s, s, device=bench.device) < 0.7),
    }[mask_kind]
    if among is None:
        among = am.dense(candidates)

    def per_q_head(x: torch.Tensor) -> torch.Tensor:
        return x.repeat_interleave(group, 1) if x.shape[1] not in (1, q.shape[2]) else x

    def keep(rows: torch.Tensor) -> torch.Tensor:
        """By a stable sort: ties keep the lower key."""
        wide = bias if bias.shape[2] == 1 else bias[:, :, rows]
        allowed = torch.ones((), dtype=torch.bool, device=bench.device)
        if candidates is not None:
            allowed = candidates[..., rows, :]
        found = torch.where(allowed, wide.double(), -math.inf)
        order = found.argsort(dim=-1, descending=True, stable=True)[..., :window]
        kept = torch.zeros_like(found, dtype=torch.bool).scatter_(-1, order, True)
        return per_q_head(kept & found.isfinite())

    ours: dict[str, float | None] = dict.fromkeys(("mask", "fwd", "total"))
    note = ""
    try:
        mask = am.topk(bias, window, among)
        out = am.attention(q, k, v, mask, bias=bias)
        if bench.right(case, "anymask", out, qkv, keep, bias):
            runs: list[Run] = [lambda: am.topk(bias, window, among), lambda: am.attention(q, k, v, mask, bias=bias),
                               lambda: am.attention(q, k, v, am.topk(bias, window, among), bias=bias)]
            for part, ms in zip(ours, measuring.timed(runs, bench.device, bench.seconds), strict=True):
                ours[part] = bench.write("topk", case, "anymask", part, ms)
        else:
            note = "wrong"
    except NotImplementedError as refusal:
        note = str(refusal)
    if note:
        bench.write("topk", case, "anymask", "total", None, note)

    def mask_of_torch() -> torch.Tensor:
        found = bias if candidates is None else bias.masked_fill(~candidates, -math.inf)
        kept = torch.full_like(found, -math.inf)
        index = found.topk(window, dim=-1).indices
        return per_q_head(kept.scatter_(-1, index, found.gather(-1, index)))

    theirs: dict[str, float | None] = dict.fromkeys(ours)
    additive = mask_of_torch().expand(q.shape[0], q.shape[2], s, s)
    views = [x.transpose(1, 2) for x in (q, k.repeat_interleave(group, 2), v.repeat_interleave(group, 2))]
    best = None
    for name, run in measuring.kernels_of_torch(bench.device, views, {"attn_mask": additive}).items():
        took = statistics.median(measuring.timed([run], bench.device, bench.seconds / 4)[0])
        if best is None or took < best[0]:
            best = (took, name, run)
    if best is not None:
        _, name, run = best
        make, attend = measuring.timed([mask_of_torch, run], bench.device, bench.seconds)
        both = [x + y for x, y in zip(make, attend, strict=True)]
        for part, ms in (("mask", make), ("fwd", attend), ("total", both)):
            theirs[part] = bench.write("topk", case, name, part, ms)
    say(f"{case.split()[0]:10} {mask_kind:8} {window:6}  {' '.join(cell(x) for x in ours.values())}    "
        f"{' '.join(cell(x) for x in theirs.values())}  {note}")


# ------------------------------------------------------------------ bits, a shared prefix, a tree


def bits_report(bench: Bench) -> None:
    """ms of a call with a new mask, and with one seen before."""
    cuda = bench.device == "cuda"
    h, h_kv, d = (32, 8, 128) if cuda else (8, 2, 64)
    say(f"\n(b) custom masks: h{h} (kv {h_kv}) d{d} {bench.dtype_name}; ms of a call, its mask new / seen before")
    say(f"{'case':38} {'new':>8} {'seen':>8}   PyTorch")
    for s in (4096, 8192, 16384) if cuda else (1024, 2048):
        below = torch.ones(s, s, dtype=torch.bool, device=bench.device).tril()
        some = torch.rand(s, s, generator=torch.Generator(bench.device).manual_seed(7), device=bench.device) < 0.1
        shape = (1, s, s, h, h_kv, d)
        bits_case(bench, f"causal s{s}", am.causal, rows_of(bench, below), shape, {"is_causal": True})
        bits_case(bench, f"causal as bits s{s}", partial(am.dense, below), rows_of(bench, below), shape)
        bits_case(bench, f"10% random bits s{s}", partial(am.dense, some), rows_of(bench, some), shape)
    n, segment = (24000, 100) if cuda else (2400, 10)
    total = n + 50 * segment
    lengths = [segment] * 50

    def shared(shift: int) -> Keep:
        keys = torch.arange(total, device=bench.device)[None, :]

        def keep(rows: torch.Tensor) -> torch.Tensor:
            p = rows[:, None] + shift
            return (keys <= p) & ((keys < n) | ((p - n) // segment == (keys - n) // segment))

        return keep

    name = f"prefix {n} + 50 x {segment}"
    mask = partial(am.shared_prefix, n, lengths)
    bits_case(bench, f"{name}, all rows", mask, shared(0), (1, total, total, h, h_kv, d))
    bits_case(bench, f"{name}, segments", mask, shared(n), (1, 50 * segment, total, h, h_kv, d))
    generator = torch.Generator().manual_seed(7)
    parents = [-1] + [int(torch.randint(max(0, i - 8), i, (1,), generator=generator)) for i in range(1, 64)]
    ancestor = torch.eye(64, dtype=torch.bool)
    for i in range(1, 64):
        ancestor[i] |= ancestor[parents[i]]
    context = 8192 if cuda else 2048
    visible = torch.cat([torch.ones(64, context, dtype=torch.bool), ancestor], 1)
    bits_case(bench, f"tree of 64 over {context}", partial(am.tree, parents), rows_of(bench, visible),
              (16 if cuda else 1, 64, context + 64, h, h_kv, d))


def rows_of(bench: Bench, kept: torch.Tensor) -> Keep:
    """The rows of a boolean matrix."""
    on_device = kept.to(bench.device)
    return lambda rows: on_device[rows]


def bits_case(
    bench: Bench,
    case: str,
    make: Callable[[], am.Mask],
    keep: Keep,
    shape: tuple[int, int, int, int, int, int],
    plain: dict[str, Any] | None = None,
) -> None:
    """One row: ours with a new and a known mask, and PyTorch's kernels with a boolean mask, or `plain`."""
    torch.manual_seed(1)
    _, s_q, _, h, h_kv, _ = shape
    q, k, v = qkv = bench.tensors(*shape)
    mask, note = make(), ""
    fresh = known = None
    try:
        if bench.right(case, "anymask", am.attention(q, k, v, mask), qkv, keep, None):
            known, = measuring.timed([lambda: am.attention(q, k, v, mask)], bench.device, bench.seconds)
            limit = am.plan_cache_stats()["limit_bytes"]
            am.set_plan_cache_limit(0)
            fresh, = measuring.timed([lambda: am.attention(q, k, v, make())], bench.device, bench.seconds)
            am.set_plan_cache_limit(limit)
    except NotImplementedError as refusal:
        note = str(refusal)
    medians = [bench.write("bits", case, "anymask", part, ms, note) for part, ms in (("new", fresh), ("fwd", known))]

    views = [x.transpose(1, 2) for x in qkv]
    arguments: dict[str, Any] = {"enable_gqa": h != h_kv, **(plain or {})}
    if plain is None and keep is not None:
        arguments["attn_mask"] = torch.cat([keep(rows) for rows in torch.arange(s_q, device=bench.device).split(1024)])
    runs = measuring.kernels_of_torch(bench.device, views, arguments)
    if bench.flex and keep is not None and plain is None:
        runs["flex"] = flex_of(bench, views, arguments["attn_mask"], h != h_kv)
    said = []
    for name, run in runs.items():
        if bench.right(case, name, run().transpose(1, 2), qkv, keep, None):
            ms, = measuring.timed([run], bench.device, bench.seconds)
            said.append(f"{name} {cell(bench.write('bits', case, name, 'fwd', ms)).strip()}")
    say(f"{case:38} {cell(medians[0])} {cell(medians[1])}   {', '.join(said)}  {note}")


def flex_of(bench: Bench, views: list[torch.Tensor], kept: torch.Tensor, gqa: bool) -> Callable[[], torch.Tensor]:
    """FlexAttention, compiled, its block mask made beforehand."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    compiled = torch.compile(flex_attention, dynamic=False)
    blocks = create_block_mask(lambda b, h, q, kv: kept[q, kv], None, None, *kept.shape, device=bench.device)
    return lambda: compiled(*views, block_mask=blocks, enable_gqa=gqa)


# ------------------------------------------------------------------ small inputs


def small_report(bench: Bench) -> None:
    """Forward and backward, each synchronised."""
    say(f"\n(c) (b, s, 16 heads, 256 wide) {bench.dtype_name}: ms forward, backward")
    say(f"{'case':16} {'anymask':^17}   PyTorch")
    for b in (2, 512):
        for s in (50, 150, 300):
            small_case(bench, b, s)


def small_case(bench: Bench, b: int, s: int) -> None:
    """One shape."""
    torch.manual_seed(1)
    case, note = f"b{b} s{s} h16 d16", ""
    qkv = bench.tensors(b, s, s, 16, 16, 16, grad=True)
    dout = torch.randn(qkv[0].shape, device=bench.device, dtype=bench.dtype)
    # Both write out as [b, s, h, d], or as a view of it.
    forwards: dict[str, Run] = {"anymask": partial(am.attention, *qkv)}
    forwards.update(measuring.kernels_of_torch(bench.device, [x.transpose(1, 2) for x in qkv]))
    usable: dict[str, Run] = {}
    backwards: list[Run] = []
    for name, run in forwards.items():
        try:
            out = run()
            gradient = dout if name == "anymask" else dout.transpose(1, 2)
            backward: Run = partial(torch.autograd.grad, out, qkv, gradient, retain_graph=True)
            backward()
        except NotImplementedError as refusal:
            note = str(refusal)
            bench.write("small", case, name, "fwd", None, note)
            continue
        if bench.right(case, name, out if name == "anymask" else out.transpose(1, 2), qkv, None, None):
            usable[name] = run
            backwards.append(backward)
    forward = measuring.timed(list(usable.values()), bench.device, bench.seconds)
    said = {}
    for name, f, g in zip(usable, forward, measuring.timed(backwards, bench.device, bench.seconds), strict=True):
        said[name] = (bench.write("small", case, name, "fwd", f), bench.write("small", case, name, "bwd", g))
    ours = said.pop("anymask", (None, None))
    others = ", ".join(f"{name} {cell(f).strip()} {cell(g).strip()}" for name, (f, g) in said.items())
    say(f"{case:16} {cell(ours[0])} {cell(ours[1])}   {others}  {note}")


def main() -> int:
    """Prints the reports; the exit status is 1 when a result was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--report", action="append", choices=("topk", "bits", "small"), help="all by default")
    parser.add_argument("--seconds", type=float, default=0.3, help="of timed calls a figure")
    parser.add_argument("--flex", action="store_true", help="FlexAttention too: compiles for seconds a case")
    parser.add_argument("--commit", help="what to record; asked of git by default")
    given = parser.parse_args()
    bench = Bench(given.device, given.seconds, given.commit, given.flex)
    say(f"{bench.common['device']}; {bench.common['versions']}")
    for name, report in (("topk", topk_report), ("bits", bits_report), ("small", small_report)):
        if not given.report or name in given.report:
            report(bench)
    return 1 if bench.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
