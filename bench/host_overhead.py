#!/usr/bin/env python3
"""What a small call costs around its arithmetic: microseconds of host time and end to end, beside PyTorch's best.

    python3 bench/host_overhead.py --library LIBANYMASK                  NumPy and PyTorch on the CPU, import time
    python3 bench/host_overhead.py --library LIBANYMASK --device cuda    PyTorch on a GPU

Host time is that of calls one after the other without waiting for the device; end to end, the device is awaited after
each. On a CPU a call has ended when it returns, so there both are one: processor time, one thread for both libraries.
A figure is the best of many batches: what a busy machine adds is not ours. The C call is timed through ctypes, less
what ctypes takes for the same arguments and a function that does nothing. JSON lines, with the fields of
`anymask bench`, go to standard output, a table with the bars to standard error.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import anymask as am
import library
import measuring
from measuring import Run, line, say

SMALLEST = (1, 1, 1, 16)  # one score: what remains is the call
SHAPES = ((2, 50, 16, 16), (2, 50, 16, 64))  # of the users' report: [b, s, h, d]


def microseconds(runs: dict[str, Run], device: str, seconds: float, wait: bool) -> dict[str, float]:
    """The best batch of each, by calls; `wait` for the device after every call. Every one in turn."""
    clock = time.perf_counter if device == "cuda" else time.thread_time
    calls = {}
    for name, run in runs.items():
        for _ in range(20):
            run()
        measuring.synchronise(device)
        began = time.perf_counter()
        run()
        measuring.synchronise(device)
        calls[name] = max(1, min(200, int(0.002 / (time.perf_counter() - began))))
    best = dict.fromkeys(runs, float("inf"))
    end = time.perf_counter() + seconds * len(runs)
    while time.perf_counter() < end:
        for name, run in runs.items():
            measuring.synchronise(device)
            began = clock()
            for _ in range(calls[name]):
                run()
                if wait:
                    measuring.synchronise(device)
            best[name] = min(best[name], 1e6 * (clock() - began) / calls[name])
            measuring.synchronise(device)
    return best


def settle(seconds: float = 2) -> None:
    """Calls until a process is no longer new to its GPU: in the first seconds any library's cost half as much again."""
    q = torch.randn(SHAPES[0], device="cuda", dtype=torch.float16)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(50):
            am.attention(q, q, q)
            torch.nn.functional.scaled_dot_product_attention(q, q, q)
        measuring.synchronise("cuda")


class Table:
    """Writes rows as they are measured."""

    def __init__(self, device: str, seconds: float, commit: str | None) -> None:
        self.device, self.seconds = device, seconds
        self.common = measuring.about(device, commit)
        say(f"{self.common['device']}; {self.common['versions']}")
        say(f"{'microseconds':44} {'host':>8} {'end to end':>10}")

    def row(
        self, case: str, who: str, dtype: str, host: float | None, whole: float | None = None, bar: str = ""
    ) -> None:
        """One row: host time, and end to end where it is another thing."""
        fields = {"suite": "host-python", "case": case, "who": who, "dtype": dtype}
        for direction, us in (("host", host), ("end", whole)):
            if us is not None:
                line(self.common, [us / 1000], direction=direction, **fields)
        cells = ["" if us is None else f"{us:.2f}" for us in (host, whole)]
        say(f"{case + ', ' + who:44} {cells[0]:>8} {cells[1]:>10}  {bar}")


def c_call(lib: library.Library, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[library.Call, Run, Run]:
    """The C function on these tensors, and a function that does nothing with the same arguments."""
    call = library.Call(lib, q, k, v, "full", options={"num_threads": 1})
    arguments = (*call._at("q", "k", "v", "out", "lse"), ctypes.byref(call._options))
    return call, partial(lib.c.anymask_forward, *arguments), partial(lib.c.anymask_version, *arguments)


def numpy_rows(table: Table, lib: library.Library) -> None:
    """NumPy's arrays against the C call."""
    x = torch.randn(SMALLEST)
    kept, call, nothing = c_call(lib, x, x, x)
    a = x.numpy()
    out, lse = np.empty_like(a), np.empty((1, 1, 1), np.float32)
    mask = am.causal()
    us = microseconds(
        {
            "C, by ctypes": call,
            "ctypes alone": nothing,
            "out and lse given": lambda: am.attention(a, a, a, out=out, lse=lse),
            "plain": lambda: am.attention(a, a, a),
            "with a mask": lambda: am.attention(a, a, a, mask),
            "np.empty_like": lambda: np.empty_like(a),
        },
        "cpu", table.seconds, False)  # fmt: skip
    c = us["C, by ctypes"] - us["ctypes alone"]
    case = "b1-s1-h1-d16"
    table.row(case, "C", "float32", c)
    for name in ("out and lse given", "plain", "with a mask"):
        bar = f"{us[name] - c:.2f} over C (bar 2)"
        table.row(case, f"numpy, {name}", "float32", us[name], bar=bar if name != "with a mask" else "")
    table.row(case, "np.empty_like", "float32", us["np.empty_like"], bar="of which a plain call makes one")
    del kept


def import_row(table: Table) -> None:
    """A fresh process each time, PyTorch not imported; processor time."""
    program = "import time; t = time.process_time(); import anymask; print(time.process_time() - t)"
    best = min(float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(10))
    table.row("import anymask", "python", "none", 1e6 * best, bar=f"{best:.3f} s (bar 0.15)")


def torch_rows(table: Table, lib: library.Library, shape: tuple[int, int, int, int]) -> None:
    """PyTorch's tensors against scaled_dot_product_attention's best kernel."""
    device = table.device
    dtype = torch.float16 if device == "cuda" else torch.float32
    b, s, h, d = shape
    case, dtype_name = f"b{b}-s{s}-h{h}-d{d}", str(dtype).split(".")[1]
    plain = [torch.randn(shape, device=device, dtype=dtype) for _ in range(3)]
    graded = [x.clone().requires_grad_() for x in plain]
    dout = torch.randn_like(plain[0])
    out, lse = torch.empty_like(plain[0]), torch.empty(b, h, s, device=device)
    kept, call, nothing = c_call(lib, *plain)

    theirs = measuring.kernels_of_torch(device, [x.transpose(1, 2) for x in plain])
    with_grad = measuring.kernels_of_torch(device, [x.transpose(1, 2) for x in graded])
    runs: dict[str, Run] = {
        "C, by ctypes": call,
        "ctypes alone": nothing,
        "no grad": partial(am.attention, *plain),
        "out and lse": partial(am.attention, *plain, out=out, lse=lse),
        **{f"sdpa {name}": run for name, run in theirs.items()},
    }
    grads: dict[str, Run] = {
        "forward": partial(am.attention, *graded),
        **{f"sdpa {name}": run for name, run in with_grad.items()},
    }
    backwards: dict[str, Run] = {
        name: partial(torch.autograd.grad, run(), graded, dout if name == "forward" else dout.transpose(1, 2),
                      retain_graph=True)
        for name, run in grads.items()
    }
    both = measured(runs, table)
    c, c_end = (us["C, by ctypes"] - both[0]["ctypes alone"] for us in both)
    table.row(case, "C", dtype_name, c, c_end if device == "cuda" else None,
              "host <= 4.5, end to end <= 10" if device == "cuda" else "")  # fmt: skip
    ours(table, case, "no grad", dtype_name, both, "no grad", (0.55, 0.8))
    ours(table, case, "out and lse given", dtype_name, both, "out and lse", (0.35, None))
    theirs_best(table, case, dtype_name, both)
    both = measured(grads, table)
    ours(table, case, "with grad", dtype_name, both, "forward", (0.85, None))
    theirs_best(table, f"{case} grad", dtype_name, both)
    both = measured(backwards, table)
    ours(table, case, "backward", dtype_name, both, "forward", (None, 0.85))
    theirs_best(table, f"{case} backward", dtype_name, both)
    del kept


Both = tuple[dict[str, float], dict[str, float]]  # host, end to end


def measured(runs: dict[str, Run], table: Table) -> Both:
    """Microseconds of each; on a CPU they are one."""
    host = microseconds(runs, table.device, table.seconds, False)
    return host, microseconds(runs, table.device, table.seconds, True) if table.device == "cuda" else host


def best_of(us: dict[str, float]) -> tuple[str, float]:
    """PyTorch's best kernel."""
    name = min((name for name in us if name.startswith("sdpa")), key=us.__getitem__)
    return name, us[name]


def theirs_best(table: Table, case: str, dtype: str, both: Both) -> None:
    """The row of PyTorch's best, by end to end."""
    host, whole = both
    name, us = best_of(whole)
    table.row(case, name, dtype, host[name], us if table.device == "cuda" else None)


def ours(
    table: Table, case: str, who: str, dtype: str, both: Both, name: str, bars: tuple[float | None, float | None]
) -> None:
    """A row of ours, over PyTorch's best, with the bars, which are a GPU's."""
    host, whole = both
    found = []
    for what, us, bar in zip(("host", "end to end"), both, bars, strict=True):
        if table.device == "cuda" and bar is not None:
            found.append(f"{what} {us[name] / best_of(us)[1]:.2f} of SDPA's best (bar {bar})")
    if table.device == "cpu":
        found.append(f"{host[name] / best_of(host)[1]:.2f} of SDPA's")
    table.row(case, who, dtype, host[name], whole[name] if table.device == "cuda" else None, ", ".join(found))


def main() -> int:
    """Prints everything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--library", type=Path, required=True, help="libanymask.so: the one the package uses")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--seconds", type=float, default=0.3, help="of timed calls a figure")
    parser.add_argument("--commit", help="what to record; asked of git by default")
    given: Any = parser.parse_args()
    lib = library.Library(given.library)
    table = Table(given.device, given.seconds, given.commit)
    if given.device == "cpu":
        torch.set_num_threads(1)
        am.set_num_threads(1)
        numpy_rows(table, lib)
        import_row(table)
    else:
        settle()
    for shape in SHAPES if given.device == "cuda" else (SMALLEST, *SHAPES):
        torch_rows(table, lib, shape)
    return 0


if __name__ == "__main__":
    sys.exit(main())
