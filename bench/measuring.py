"""What bench/reports.py and bench/host_overhead.py share: timing, the lines of results, PyTorch's kernels."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import anymask as am

Run = Callable[[], Any]
# PyTorch's kernels by device. "torch" on a CPU is whatever it chooses: it has one fused kernel there.
KERNELS: dict[str, dict[str, SDPBackend | None]] = {
    "cpu": {"torch": None},
    "cuda": {
        "cudnn": SDPBackend.CUDNN_ATTENTION,
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
    },
}


def synchronise(device: str) -> None:
    """Waits for the device; a CPU's calls have ended when they return."""
    if device == "cuda":
        torch.cuda.synchronize()


def processor() -> str:
    """The CPU's name, as /proc/cpuinfo has it, and the target of our kernels."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = "a CPU"
    return f"{name}, {am.backends()['cpu']['target']}"


def about(device: str, commit: str | None) -> dict[str, Any]:
    """The fields that all lines of a run share."""
    asked = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    versions = f"anymask {am.__version__}, torch {torch.__version__}"
    if device == "cuda":
        versions += f", cuDNN {torch.backends.cudnn.version()}"
    return {
        "backend": device,
        "device": torch.cuda.get_device_name() if device == "cuda" else processor(),
        "versions": versions,
        "commit": commit or asked.stdout.strip() or "unknown",
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def timed(runs: list[Run], device: str, seconds: float) -> list[list[float]]:
    """Milliseconds of each by the wall's clock, synchronised before and after every call. Every one in turn, so that
    what happens to the machine happens to all of them."""
    result: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run()  # compiles, plans, warms up
    synchronise(device)
    end = time.perf_counter() + seconds * len(runs)
    while time.perf_counter() < end or len(result[0]) < 3:
        for run, ms in zip(runs, result, strict=True):
            synchronise(device)
            began = time.perf_counter()
            run()
            synchronise(device)
            ms.append(1000 * (time.perf_counter() - began))
    return result


def line(common: dict[str, Any], ms: list[float] | None, **fields: object) -> dict[str, Any]:
    """Prints one result with the fields of `anymask bench`. No figures: `note` says why."""
    spread = 0.0
    if ms is not None and len(ms) > 1:
        low, _, high = statistics.quantiles(ms, n=4)
        spread = (high - low) / statistics.median(ms)
    found = {
        **fields,
        "ms": None if ms is None else round(statistics.median(ms), 6),
        "spread": round(spread, 4),
        "tflops": None,
        "share": None,
        "peak": None,
        **common,
    }
    print(json.dumps(found), flush=True)
    return found


def say(text: str = "") -> None:
    """For people, beside the lines for machines."""
    print(text, file=sys.stderr, flush=True)


def kernels_of_torch(
    device: str, qkv: list[torch.Tensor], arguments: dict[str, Any] | None = None
) -> dict[str, Run]:
    """PyTorch's kernels that take this call, on [b, h, s, d] tensors; those that refuse it are left out."""
    found: dict[str, Run] = {}
    for name, backend in KERNELS[device].items():

        def run(backend: SDPBackend | None = backend) -> torch.Tensor:
            with nullcontext() if backend is None else sdpa_kernel(backend):
                return scaled_dot_product_attention(*qkv, **(arguments or {}))

        try:
            with torch.no_grad():
                run()
            synchronise(device)
        except RuntimeError:
            continue
        found[name] = run
    return found
