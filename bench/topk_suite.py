"""The topk suite of bench/compare_gpu.py: top-k windows, selected and attended to, beside what PyTorch offers.

The grid is a user's report: float16, b2 h8 (kv 4) d64 s4096, a bias of a row for each query by bias shape, mask and
window, added to the scores as well. "topk+cudnn" and "topk+efficient" are torch.topk, a scatter and PyTorch's kernel,
as one writes it today; "cudnn", "efficient" and "anymask-dense" attend to all keys with that bias and select nothing.
The long rows have one bias for all queries, which is the mask alone, or is added too. Everything is a replay of a CUDA
graph. With --backward the forward is checked and the backward timed; `anymask verify` checks that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import library

KERNELS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}


@dataclass
class Case:
    """A selection, and the call around it."""

    name: str
    window: int
    bias: tuple[int, int, int]  # b, heads, rows
    masks: str = "none"  # what a key must also be: none, padding (a row for each batch entry), given (a bit a pair)
    causal: bool = False
    among: bool = False  # causal are the candidates, not a mask beside the selection
    adds: bool = True  # the bias is added to the scores
    b: int = 2
    h_q: int = 8
    h_kv: int = 4
    s: int = 4096
    d: int = 64
    dtype: torch.dtype = torch.float16

    @property
    def text(self) -> str:
        """In anymask's words."""
        if self.masks != "none":
            return f"topk(@bias, {self.window}, dense(@given))"
        if self.among:
            return f"topk(@bias, {self.window}, causal)"
        return f"topk(@bias, {self.window})" + (" & causal" if self.causal else "")


def cases() -> list[Case]:
    """The grid, then the long rows."""
    found = []
    for kind, (b, h) in {"b,h": (2, 8), "b,kvh": (2, 4), "1,h": (1, 8), "b,1": (2, 1)}.items():
        for masks in ("none", "padding", "given"):
            for window in (128, 256, 512, 1024, 2048):
                if masks == "none" or window <= 256:
                    name = f"topk{window}-bias({kind})-{masks}-s4096-b2-h8x4-d64"
                    found.append(Case(name, window, (b, h, 4096), masks))
    name, row = "s65536-h32x8-d128", (1, 8, 1)
    plain = Case(f"topk4096-all-{name}", 4096, row, adds=False, b=1, h_q=32, h_kv=8, s=65536, d=128,
                 dtype=torch.bfloat16)
    causal = replace(plain, name=f"topk4096-causal-{name}", causal=True)
    found += [causal, plain]
    found += [replace(one, name=f"{one.name}-bias", adds=True) for one in (causal, plain)]
    return [*found, replace(causal, name=f"topk4096-among-causal-{name}", among=True)]


@dataclass
class Tensors:
    """Of a case, on the device."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    bias: torch.Tensor
    given: torch.Tensor | None  # candidates [b, 1, 1 or s, s]


def tensors_of(case: Case) -> Tensors:
    """Normal numbers; three quarters of the keys are given."""
    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device="cuda", dtype=case.dtype)

    rows = {"none": 0, "padding": 1, "given": case.s}[case.masks]
    given = torch.rand(case.b, 1, rows, case.s, device="cuda") < 0.75 if rows else None
    b, heads, rows = case.bias
    return Tensors(normal(case.b, case.s, case.h_q, case.d), normal(case.b, case.s, case.h_kv, case.d),
                   normal(case.b, case.s, case.h_kv, case.d), normal(b, heads, rows, case.s), given)


def candidates(case: Case, t: Tensors, b: int, rows: torch.Tensor) -> torch.Tensor:
    """[rows, s] of batch entry b."""
    keys = torch.arange(case.s, device="cuda")
    allowed = torch.ones(len(rows), case.s, dtype=torch.bool, device="cuda")
    if case.among:
        allowed = keys[None] <= rows[:, None]
    if t.given is not None:
        allowed = t.given[b, 0].expand(case.s, case.s)[rows]
    return allowed


def error_of(case: Case, t: Tensors, out: torch.Tensor, dense: bool) -> float:
    """The largest error of sampled rows against double precision, over the largest value."""
    rows = torch.unique(torch.linspace(0, case.s - 1, 24).long()).cuda()
    group, worst = case.h_q // case.h_kv, 0.0
    for b in {0, case.b - 1}:
        for h in {0, case.h_q // 2, case.h_q - 1}:
            head = h * case.bias[1] // case.h_q
            bias = t.bias[b % case.bias[0], head].expand(case.s, case.s)[rows].double()
            found = torch.where(candidates(case, t, b, rows), bias, -math.inf)
            order = found.argsort(dim=-1, descending=True, stable=True)[:, : case.window]
            kept = torch.zeros_like(found, dtype=torch.bool).scatter_(-1, order, True) & found.isfinite()
            if dense:
                kept = torch.ones_like(kept)
            if case.causal:
                kept &= torch.arange(case.s, device="cuda")[None] <= rows[:, None]
            scores = t.q[b, rows, h].double() @ t.k[b, :, h // group].double().T / math.sqrt(case.d)
            scores = (scores + bias if case.adds else scores).masked_fill(~kept, -math.inf)
            want = torch.softmax(scores, -1).nan_to_num(0) @ t.v[b, :, h // group].double()
            error = (out[b, rows, h].double() - want).abs().max() / want.abs().max()
            worst = max(worst, float("inf") if bool(error.isnan()) else float(error))
    return worst


@dataclass
class Contender:
    """What it runs; `dense` where it selects nothing. backward: None where it has none."""

    name: str
    forward: Callable[[], torch.Tensor]  # [b, s, h, d]
    backward: Callable[[], Any] | None
    dense: bool
    kernel: str


def ours(case: Case, t: Tensors, lib: library.Library, backward: bool) -> Iterator[Contender]:
    """The selection, and the same call without it."""
    arrays = {"bias": t.bias} | ({} if t.given is None else {"given": t.given})
    for name, text in (("anymask", case.text), ("anymask-dense", "causal" if case.causal else "full")):
        options: dict[str, Any] = {"bias": t.bias} if case.adds else {}
        if case.adds and backward:
            options["dbias"] = torch.empty_like(t.bias)
        call = library.Call(lib, t.q, t.k, t.v, text, arrays if name == "anymask" else {}, options, backward)
        yield Contender(name, call.forward, call.backward if backward else None, name != "anymask", call.kernel())


def peers(case: Case, t: Tensors) -> Iterator[Contender]:
    """torch.topk and a scatter, then PyTorch's kernels; these alone, over all keys."""
    group = case.h_q // case.h_kv
    q, k, v = (x.transpose(1, 2) for x in (t.q, t.k, t.v))
    per_q_head = t.bias
    if case.bias[1] not in (1, case.h_q):
        per_q_head = t.bias.repeat_interleave(case.h_q // case.bias[1], 1)

    def selected() -> torch.Tensor:
        """The bias where it is kept, -inf elsewhere."""
        found = t.bias if t.given is None else t.bias.masked_fill(~t.given, -math.inf)
        values, index = found.topk(case.window, dim=-1)
        kept = torch.full_like(found, -math.inf).scatter_(-1, index, values)
        return kept.repeat_interleave(case.h_q // case.bias[1], 1) if case.bias[1] not in (1, case.h_q) else kept

    def wide(x: torch.Tensor) -> torch.Tensor:
        return x.expand(case.b, case.h_q, case.s, case.s)

    def attend(kernel: SDPBackend, bias: Callable[[], torch.Tensor] | None = None) -> torch.Tensor:
        with sdpa_kernel(kernel):
            return scaled_dot_product_attention(
                q, k, v, enable_gqa=group > 1, attn_mask=None if bias is None else bias(),
                is_causal=case.causal and bias is None).transpose(1, 2)

    for name, kernel in KERNELS.items():
        if case.bias[2] > 1:
            yield Contender(f"topk+{name}", partial(attend, kernel, lambda: wide(selected())), None, False, name)
            yield Contender(name, partial(attend, kernel, lambda: wide(per_q_head)), None, True, name)
        elif not case.adds and name == "cudnn":
            yield Contender(name, partial(attend, kernel), None, True, name)
            if not case.causal:
                yield Contender("topk+gather+cudnn", lambda: gathered(case, t), None, False, name)


def gathered(case: Case, t: Tensors) -> torch.Tensor:
    """What one can write where all rows keep the same keys and see all of them."""
    index = t.bias[:, :, 0].topk(case.window, dim=-1).indices[..., None].expand(-1, -1, -1, case.d)
    k, v = (x.transpose(1, 2).gather(2, index) for x in (t.k, t.v))
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return scaled_dot_product_attention(t.q.transpose(1, 2), k, v, enable_gqa=True).transpose(1, 2)


def kept_pairs(case: Case) -> float:
    """Of one head: all rows keep the window, or the part of it that lies below them."""
    pairs = float(case.s * case.window)
    if case.among:
        return pairs - case.window * (case.window - 1) / 2
    return pairs / 2 if case.causal else pairs


@dataclass
class Bench:
    """What compare_gpu does for every suite."""

    lib: library.Library
    backward: bool
    captured: Callable[[Callable[[], Any]], Callable[[], None]]
    timed: Callable[[list[Callable[[], Any]]], list[list[float]]]
    write: Callable[..., None]
    say: Callable[[str], None]


def compare(case: Case, bench: Bench) -> bool:
    """Checks, times and prints one case; False when a result of ours is wrong."""
    lib, backward = bench.lib, bench.backward
    torch.manual_seed(1)
    t = tensors_of(case)
    usable, right = [], True
    for one in [*ours(case, t, lib, backward), *([] if backward else peers(case, t))]:
        try:
            error = error_of(case, t, one.forward(), one.dense)
            if one.backward is not None:
                one.backward()
            torch.cuda.synchronize()
        except Exception as refusal:
            bench.say(f"{case.name}: {one.name}: {str(refusal)[:200]}")
            right = right and one.name != "anymask"
            continue
        if error < 0.03:
            usable.append(one)
        else:
            bench.say(f"{case.name}: {one.name} is off by {error:.3g} of the largest value")
            right = right and one.name != "anymask"
    runs = [one.backward if backward else one.forward for one in usable]
    replays = [bench.captured(run) for run in runs if run is not None]
    pairs = kept_pairs(case) * case.b * case.h_q
    everything = case.s * case.s * case.b * case.h_q / (2 if case.causal else 1)
    for one, ms in zip(usable, bench.timed(replays), strict=True):
        flops = (10 if backward else 4) * case.d * (everything if one.dense else pairs)
        bench.write("topk" if case.bias[2] > 1 else "topk-long", case.name, one.name, one.kernel,
                    "bwd" if backward else "fwd", case.dtype, ms, flops,
                    sum(x.numel() * x.element_size() for x in (t.q, t.k, t.v, t.q, t.bias)))
    return right
