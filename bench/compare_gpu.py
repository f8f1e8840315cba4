#!/usr/bin/env python3
"""Times anymask on a GPU beside PyTorch's attention kernels, on the same tensors in the same minutes.

    python3 bench/compare_gpu.py --library build/release/lib/libanymask.so [--suite dense] [--filter causal] >out.json

Contenders: PyTorch's cuDNN, flash and efficient backends of scaled_dot_product_attention, and FlexAttention compiled
(--flex). Each result is checked on sampled rows in double precision before anything is timed. Rounds are interleaved:
every contender once a round, so that clocks and temperature are shared. Small calls are replays of CUDA graphs: the
host's part is not in them. One JSON object a line, with the fields of `anymask bench`; a table goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import library
import topk_suite

Keep = Callable[[Any, Any], Any]  # (rows, keys) -> bool, elementwise; rows are query indices
SDPA = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION}


@dataclass
class Case:
    """A mask in anymask's words and as a predicate, with shapes. Calls find its arrays on the device."""

    suite: str
    name: str
    mask: str
    keep: Keep | None  # None: everything
    s_q: int
    s_kv: int
    d: int = 128
    d_v: int = 0
    b: int = 1
    h_q: int = 32
    h_kv: int = 32
    arrays: dict[str, torch.Tensor] = field(default_factory=dict)
    causal: bool = False  # PyTorch's is_causal says the same
    dtype: torch.dtype = torch.bfloat16
    bias: bool = False  # dense, [b, h_q, s_q, s_kv], of the tensors' type
    softcap: float = 0.0
    sinks: bool = False
    alibi: bool = False
    lengths: list[int] = field(default_factory=list)  # one packed sequence of causal documents; s_q is their sum

    def plain_scores(self) -> bool:
        """Whether PyTorch computes the same without a score function of its own."""
        return not (self.softcap or self.sinks or self.alibi or self.lengths)


def causal_from(shift: int) -> Keep:
    """Bottom-right."""
    return lambda q, kv: kv <= q + shift


def cases() -> list[Case]:
    """All of them, by suite."""
    found: list[Case] = []
    for s in (4096, 16384):
        for d in (64, 128):
            b = 16384 // s
            found.append(Case("dense", f"full-s{s}-b{b}-h32-d{d}", "full", None, s, s, d, b=b))
            name = f"causal-s{s}-b{b}-h32-d{d}"
            found.append(Case("dense", name, "causal", causal_from(0), s, s, d, b=b, causal=True))
    for d, d_v in ((96, 96), (192, 128), (256, 256)):
        for name in ("full", "causal"):
            keep = causal_from(0) if name == "causal" else None
            title = f"{name}-s16384-h16-d{d}x{d_v}"
            found.append(Case("dims", title, name, keep, 16384, 16384, d, d_v, h_q=16, h_kv=16,
                              causal=name == "causal"))
    s = 16384
    generator = torch.Generator().manual_seed(7)

    def add(name: str, mask: str, keep: Keep | None, shape: tuple[int, int] = (s, s), h_kv: int = 32, b: int = 1,
            arrays: dict[str, torch.Tensor] | None = None, causal: bool = False) -> None:
        found.append(Case("masks", name, mask, keep, *shape, b=b, h_kv=h_kv, arrays=arrays or {}, causal=causal))

    below_diagonal = causal_from(0)
    add("causal-s16384-h32-d128", "causal", below_diagonal, causal=True)
    add("window1024-s16384-h32-d128", "causal & window(1023, 0)", lambda q, kv: (kv <= q) & (kv > q - 1024))
    ends = [0, 500, 1700, 3100, 3900, 6100, 7000, 9300, 10000, 12100, 13000, 14900, s]
    cuts = torch.tensor(ends, dtype=torch.int32)
    document = torch.bucketize(torch.arange(s), cuts[1:].long(), right=True).cuda()
    add("documents12-s16384-h32-d128", "causal & documents(@cu)",
        lambda q, kv: (kv <= q) & (document[q] == document[kv]), arrays={"cu": cuts})
    add("prefix-lm4096-s16384-h32-d128", "causal | prefix(4096)", lambda q, kv: (kv <= q) | (kv < 4096))
    blocks = torch.rand(s // 128, s // 128, generator=generator) < 0.1
    blocks_gpu = blocks.cuda()
    add("blocks128-keep10-s16384-h32-d128", "blocks(@map, 128, 128)", lambda q, kv: blocks_gpu[q // 128, kv // 128],
        arrays={"map": blocks})
    n, tail = 24000, torch.full((50,), 100, dtype=torch.int32)
    total = n + 5000

    def shared(shift: int) -> Keep:
        return lambda q, kv: (kv <= q + shift) & ((kv < n) | ((q + shift - n) // 100 == (kv - n) // 100))

    shared_text = f"shared_prefix({n}, @lengths)"
    add("shared-prefix24k-50x100-h32x8-d128", shared_text, shared(0), (total, total), h_kv=8,
        arrays={"lengths": tail})
    add("shared-prefix24k-50x100-tail-h32x8-d128", shared_text, shared(n), (5000, total), h_kv=8,
        arrays={"lengths": tail})
    eighth = 8192
    bits = torch.rand(eighth, eighth, generator=generator) < 0.1
    bits_gpu = bits.cuda()
    add("full-s8192-h32x8-d128", "full", None, (eighth, eighth), h_kv=8)
    add("bits10-s8192-h32x8-d128", "dense(@bits)", lambda q, kv: bits_gpu[q, kv], (eighth, eighth), h_kv=8,
        arrays={"bits": bits})
    below = torch.ones(eighth, eighth, dtype=torch.bool).tril()
    add("causal-s8192-h32x8-d128", "causal", below_diagonal, (eighth, eighth), h_kv=8, causal=True)
    add("causal-as-bits-s8192-h32x8-d128", "dense(@bits)", below_diagonal, (eighth, eighth), h_kv=8,
        arrays={"bits": below})
    nodes = [-1] + [int(torch.randint(max(0, i - 8), i, (1,), generator=generator)) for i in range(1, 64)]
    parents = torch.tensor(nodes, dtype=torch.int32)
    ancestor = torch.eye(64, dtype=torch.bool)
    for i in range(1, 64):
        ancestor[i] |= ancestor[int(parents[i])]
    ancestor = ancestor.cuda()
    add("tree64-over-8192-b16-h32x8-d128", "tree(@parents)",
        lambda q, kv: (kv < 8192) | ancestor[q, (kv - 8192).clamp(min=0)], (64, 8192 + 64), b=16, h_kv=8,
        arrays={"parents": parents})
    add("causal-s65536-h32x8-d128", "causal", below_diagonal, (65536, 65536), h_kv=8, causal=True)
    for s_q, s_kv, b in ((1, 8192, 16), (1, 131072, 1), (16, 32768, 1)):
        found.append(Case("short", f"full-q{s_q}-s{s_kv}-b{b}-h32x8-d128", "full", None, s_q, s_kv, b=b, h_kv=8))
    eight = Case("options", "causal-s8192-h32-d128", "causal", below_diagonal, eighth, eighth, causal=True)
    found += [
        eight,
        replace(eight, name="causal-fp16-s8192-h32-d128", dtype=torch.float16),
        replace(eight, name="causal-softcap30-s8192-h32-d128", softcap=30.0),
        replace(eight, name="causal-softcap1-s8192-h32-d128", softcap=1.0),  # scores near the cap and beyond
        replace(eight, name="causal-sinks-s8192-h32-d128", sinks=True),
        replace(eight, name="causal-alibi-s8192-h32-d128", alibi=True),
        replace(eight, name="causal-s2048-b8-h32-d128", s_q=2048, s_kv=2048, b=8),
    ]
    plain = Case("options", "full-s4096-b2-h8-d64", "full", None, 4096, 4096, 64, b=2, h_q=8, h_kv=8,
                 dtype=torch.float16)
    found += [plain, replace(plain, name="bias-s4096-b2-h8-d64", bias=True)]
    lengths = [2048] * 8
    place = torch.bucketize(torch.arange(s), torch.tensor(lengths).cumsum(0), right=True).cuda()
    found.append(Case("options", "causal-packed-8x2048-h32-d128", "causal",
                      lambda q, kv: (kv <= q) & (place[q] == place[kv]), s, s, lengths=lengths))
    for b in (2, 512):
        for length in (50, 150, 300):
            found.append(Case("small", f"full-b{b}-s{length}-h16-d16", "full", None, length, length, 16, b=b, h_q=16,
                              h_kv=16, dtype=torch.float16))
    return found


class Contender:
    """A name and what it runs; None where it cannot."""

    def __init__(self, name: str, forward: Callable[[], torch.Tensor], backward: Callable[[], Any] | None) -> None:
        self.name, self.forward, self.backward = name, forward, backward


def peers_of(case: Case, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None,
             dout: torch.Tensor | None, flex: bool) -> list[Contender]:
    """PyTorch's kernels for this case, on [b, h, s, d] views of our tensors."""
    found = []
    views = [t.detach().transpose(1, 2).requires_grad_(dout is not None) for t in (q, k, v)]
    d = None if dout is None else dout.transpose(1, 2)
    if not case.plain_scores():
        return []
    arguments: dict[str, Any] = {"enable_gqa": case.h_q != case.h_kv}
    if case.causal and case.s_q == case.s_kv:
        arguments["is_causal"] = True
        plain = True
    elif bias is not None:
        arguments["attn_mask"] = bias
        plain = False
    else:
        plain = case.keep is None
        if case.keep is not None and case.s_q * case.s_kv <= 1 << 30:
            rows = torch.arange(case.s_q, device="cuda")[:, None]
            arguments["attn_mask"] = case.keep(rows, torch.arange(case.s_kv, device="cuda")[None, :])
    for name, backend in SDPA.items():
        if not plain and (name == "flash" or "attn_mask" not in arguments):
            continue

        def forward(backend: SDPBackend = backend) -> torch.Tensor:
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(*views, **arguments)

        found.append(contender(name, forward, views, d))
    if flex and not plain and case.keep is not None:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        keep = case.keep
        compiled = torch.compile(flex_attention, dynamic=False)
        blocks = create_block_mask(lambda b, h, q, kv: keep(q, kv), None, None, case.s_q, case.s_kv, device="cuda")
        found.append(contender("flex", lambda: compiled(*views, block_mask=blocks, enable_gqa=case.h_q != case.h_kv),
                               views, d))
    return found


def contender(name: str, forward: Callable[[], torch.Tensor], inputs: list[torch.Tensor],
              dout: torch.Tensor | None) -> Contender:
    """With a backward that runs again and again over one graph."""
    if dout is None:
        return Contender(name, forward, None)
    graph: list[torch.Tensor] = []

    def backward() -> tuple[torch.Tensor, ...]:
        if not graph:
            graph.append(forward())
        found: tuple[torch.Tensor, ...] = torch.autograd.grad(graph[0], inputs, dout, retain_graph=True)
        return found

    return Contender(name, forward, backward)


def error_of(case: Case, out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
             options: dict[str, Any]) -> float:
    """The largest error of sampled rows [b, s, h, d] against double precision, over the largest value."""
    rows = torch.unique(torch.linspace(0, case.s_q - 1, 24).long()).cuda()
    worst = 0.0
    for b in {0, case.b - 1}:
        for h in {0, case.h_q // 2, case.h_q - 1}:
            kv = h // (case.h_q // case.h_kv)
            scores = q[b, rows, h].double() @ k[b, :, kv].double().T / math.sqrt(case.d)
            keys = torch.arange(case.s_kv, device="cuda")[None, :]
            if case.softcap:
                scores = case.softcap * torch.tanh(scores / case.softcap)
            if case.bias:
                scores += options["bias"][b, h, rows].double()
            if case.alibi:
                scores -= float(options["alibi_slopes"][h]) * (rows[:, None] + case.s_kv - case.s_q - keys).abs()
            if case.keep is not None:
                scores = scores.masked_fill(~case.keep(rows[:, None], keys), float("-inf"))
            if case.sinks:
                scores = torch.cat([scores, options["sinks"][h].double().expand(len(rows), 1)], -1)
            p = torch.softmax(scores, -1).nan_to_num(0)[:, : case.s_kv]
            want = p @ v[b, :, kv].double()
            error = (out[b, rows, h].double() - want).abs().max() / want.abs().max()
            worst = max(worst, float("inf") if bool(error.isnan()) else float(error))
    return worst


def kept_pairs(case: Case) -> int:
    """Of one head of one batch entry."""
    if case.keep is None:
        return case.s_q * case.s_kv
    keys = torch.arange(case.s_kv, device="cuda")[None, :]
    return sum(int(case.keep(rows[:, None], keys).sum()) for rows in torch.arange(case.s_q, device="cuda").split(1024))


def timed(runs: list[Callable[[], Any]], seconds: float) -> list[list[float]]:
    """Milliseconds of each, interleaved: every one in turn, several calls between two events when a call is short."""
    counts = []
    for run in runs:
        run()
        torch.cuda.synchronize()
        began = time.perf_counter()
        run()
        torch.cuda.synchronize()
        counts.append(max(1, min(50, int(0.003 / (time.perf_counter() - began)))))
    result: list[list[float]] = [[] for _ in runs]
    end = time.perf_counter() + seconds * len(runs)
    while time.perf_counter() < end or len(result[0]) < 5:
        for i, run in enumerate(runs):
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            first.record()
            for _ in range(counts[i]):
                run()
            last.record()
            last.synchronize()
            result[i].append(first.elapsed_time(last) / counts[i])
    return result


def captured(run: Callable[[], Any]) -> Callable[[], None]:
    """The call in a CUDA graph, as a replay: its time on the device alone."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        run()
    return graph.replay


def copy_rate() -> float:
    """TB/s read and written by copying 2 GB: what a bandwidth-bound row is compared with."""
    a = torch.empty(1 << 30, device="cuda", dtype=torch.uint8)
    b = torch.empty_like(a)
    return 2 * a.numel() / statistics.median(timed([lambda: b.copy_(a)], 0.1)[0]) / 1e9


def matmul_rate() -> float:
    """TFLOP/s of an 8192^3 bf16 product of random numbers: the peak all shares refer to."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    ms = timed([lambda: a @ b], 0.3)[0]
    return 2 * 8192**3 / statistics.median(ms) / 1e9


def write(about: dict[str, Any], suite: str, case: str, who: str, kernel: str, direction: str, dtype: torch.dtype,
          ms: list[float], flops: float, moved: int) -> None:
    """One line for machines, one for people."""
    median = statistics.median(ms)
    low, _, high = statistics.quantiles(ms, n=4)
    tflops = flops / median / 1e9
    # Kernels of older devices, chosen by this variable (docs/cuda.md), are a suite of their own.
    device = "gpu" + os.environ.get("ANYMASK_CUDA_CAPABILITY", "").replace(".", "")
    line = {"suite": f"{device}-{suite}", "case": case, "who": who, "backend": "cuda", "kernel": kernel,
            "direction": direction, "dtype": str(dtype).split(".")[1], "ms": round(median, 6),
            "spread": round((high - low) / median, 4), "tflops": round(tflops, 3),
            "share": round(tflops / about["peak"], 4), "tb_s": round(moved / median / 1e9, 3), **about}
    print(json.dumps(line), flush=True)
    print(f"{case:42} {direction} {who:10} {median:9.4f} ms {tflops:7.1f} TFLOP/s", file=sys.stderr)


def compare(case: Case, lib: library.Library, arguments: argparse.Namespace, about: dict[str, Any]) -> bool:
    """Checks, times and prints one case; False when a result of ours is wrong."""
    torch.manual_seed(1)
    d_v = case.d_v or case.d
    q = torch.randn(case.b, case.s_q, case.h_q, case.d, device="cuda", dtype=case.dtype)
    k = torch.randn(case.b, case.s_kv, case.h_kv, case.d, device="cuda", dtype=case.dtype)
    v = torch.randn(case.b, case.s_kv, case.h_kv, d_v, device="cuda", dtype=case.dtype)
    arrays = {name: array.cuda() for name, array in case.arrays.items()}
    bias = torch.randn(case.b, case.h_q, case.s_q, case.s_kv, device="cuda", dtype=case.dtype) if case.bias else None
    options: dict[str, Any] = {"softcap": case.softcap} if case.softcap else {}
    if bias is not None:
        options["bias"] = bias
    if case.sinks:
        options["sinks"] = torch.randn(case.h_q, device="cuda")
    if case.alibi:
        options["alibi_slopes"] = 2.0 ** -torch.linspace(0.25, 8, case.h_q, device="cuda")
    if case.lengths:
        options["cu_seqlens_q"] = options["cu_seqlens_kv"] = torch.tensor([0, *case.lengths]).cumsum(0).int().cuda()
    inputs = (q[0], k[0], v[0]) if case.lengths else (q, k, v)
    ours = library.Call(lib, *inputs, case.mask, arrays, options, with_backward=arguments.backward)
    contenders = [Contender("anymask", ours.forward, ours.backward if arguments.backward else None)]
    contenders += peers_of(case, q, k, v, bias, ours.dout, arguments.flex)
    usable = []
    for one in contenders:
        try:
            out = one.forward()
            if one.backward is not None:
                one.backward()
            torch.cuda.synchronize()
        except Exception as refusal:  # a peer that cannot says so in its own way
            if one.name == "anymask":
                print(f"{case.name}: {refusal}", file=sys.stderr)
                return False
            continue
        out = out.transpose(1, 2) if one.name != "anymask" else out[None] if case.lengths else out
        error = error_of(case, out, q, k, v, options)
        if not error < 0.03:
            print(f"{case.name}: {one.name} is off by {error:.3g} of the largest value", file=sys.stderr)
            if one.name == "anymask":
                return False
            continue
        usable.append(one)
    pairs = kept_pairs(case) * case.b * case.h_q
    moved = sum(t.numel() * t.element_size() for t in (q, k, v, ours.out, *options.values())
                if isinstance(t, torch.Tensor))
    directions = [("fwd", 2 * (case.d + d_v) * pairs, [one.forward for one in usable])]
    if arguments.backward:
        directions.append(("bwd", 2 * (3 * case.d + 2 * d_v) * pairs,
                           [one.backward for one in usable if one.backward is not None]))
    for direction, flops, runs in directions:
        if arguments.backward and direction == "fwd" and not arguments.forward:
            continue
        if case.suite == "small":
            runs = [captured(run) for run in runs]
        for one, ms in zip(usable, timed(runs, arguments.seconds), strict=True):
            kernel = ours.kernel(direction == "bwd") if one.name == "anymask" else one.name
            write(about, case.suite, case.name, one.name, kernel, direction, case.dtype, ms, flops, moved)
    return True


def main() -> int:
    """Prints all lines; the exit status is 1 when a result was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--library", type=Path, required=True, help="libanymask.so")
    parser.add_argument("--suite", action="append",
                        help="dense, dims, masks, short, options, small, topk; all by default")
    parser.add_argument("--filter", default="", help="only cases with this in their name")
    parser.add_argument("--backward", action="store_true", help="time the backward")
    parser.add_argument("--forward", action="store_true", help="with --backward: the forward too")
    parser.add_argument("--flex", action="store_true", help="FlexAttention too: compiles for seconds a case")
    parser.add_argument("--seconds", type=float, default=0.25, help="of timed calls a contender and direction")
    parser.add_argument("--commit", help="what to record; asked of git by default")
    arguments = parser.parse_args()
    lib = library.Library(arguments.library)
    asked = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    commit = arguments.commit or asked.stdout.strip() or "unknown"
    about = {"peak": round(matmul_rate(), 1), "copy_tb_s": round(copy_rate(), 2),
             "device": torch.cuda.get_device_name(),
             "versions": f"anymask {lib.version}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}",
             "commit": commit, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    print(f"{about['device']}, matmul {about['peak']} TFLOP/s, copies {about['copy_tb_s']} TB/s", file=sys.stderr)
    right = True
    bench = topk_suite.Bench(lib, arguments.backward, captured, lambda runs: timed(runs, arguments.seconds),
                             partial(write, about), lambda text: print(text, file=sys.stderr))
    for selection in topk_suite.cases() if not arguments.suite or "topk" in arguments.suite else []:
        if arguments.filter in selection.name:
            with torch.cuda.stream(torch.cuda.Stream()):
                right = topk_suite.compare(selection, bench) and right
            torch.cuda.empty_cache()
    for case in cases():
        if (not arguments.suite or case.suite in arguments.suite) and arguments.filter in case.name:
            with torch.cuda.stream(torch.cuda.Stream()):  # the default one cannot be captured
                right = compare(case, lib, arguments, about) and right
            torch.cuda.empty_cache()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
