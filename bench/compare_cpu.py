#!/usr/bin/env python3
"""Times other libraries on the cases of `anymask bench`, on the same machine in the same minutes.

    .venv/bin/python bench/compare_cpu.py forward [--threads 2] >bench/results/peers-forward.json

Runs `anymask bench cpu --suite SUITE --json`, then each case again in every peer that is installed and can compute it:
ONNX Runtime (MultiHeadAttention, GroupQueryAttention), PyTorch (scaled_dot_product_attention). Prints anymask's lines
and the peers' with the same fields; ratios go to standard error. A peer's output is checked against NumPy, then timed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
NAME = re.compile(r"(full|causal)(?:-window(\d+))?-s(\d+)-h(\d+)(?:x(\d+))?-d(\d+)$")
SECONDS = 2.0  # of timed calls a case
LEAST_CALLS = 5

Floats = NDArray[np.float32]
Run = Callable[[], Floats]  # -> out [s, h_q, d] (what it wrote last)


@dataclass(frozen=True)
class Case:
    """What a case's name says: self-attention of s tokens, b = 1."""

    causal: bool
    window: int | None  # keys a row sees, its own included
    s: int
    h_q: int
    h_kv: int
    d: int

    @staticmethod
    def parse(name: str) -> Case | None:
        """None for a mask that no peer has a kernel for."""
        match = NAME.match(name)
        if match is None:
            return None
        mask, window, s, h_q, h_kv, d = match.groups()
        return Case(mask == "causal", int(window) if window else None, int(s), int(h_q), int(h_kv or h_q), int(d))

    def keep(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """[rows, s]: True where a row looks."""
        keys = np.arange(self.s)
        keep = np.ones((len(rows), self.s), dtype=bool)
        if self.causal:
            keep &= keys <= rows[:, None]
        if self.window is not None:
            keep &= keys > rows[:, None] - self.window
        return keep


class Peer(Protocol):
    """A library to compare with."""

    name: str
    version: str

    def forward(self, case: Case, q: Floats, k: Floats, v: Floats) -> Run | None:
        """A call ready to be timed; None where the library has no kernel for the case."""


class OnnxRuntime:
    """MultiHeadAttention for equal heads; GroupQueryAttention, which is causal, for grouped heads and windows."""

    name = "onnxruntime"

    def __init__(self, threads: int) -> None:
        import onnxruntime

        self._ort = onnxruntime
        self._threads = threads
        self.version = str(onnxruntime.__version__)

    def forward(self, case: Case, q: Floats, k: Floats, v: Floats) -> Run | None:
        grouped = case.causal  # the faster of the two where both can; MultiHeadAttention knows no groups, no windows
        if not grouped and case.h_q != case.h_kv:
            return None
        model = self._model(case, grouped)
        options = self._ort.SessionOptions()
        options.intra_op_num_threads = self._threads
        session = self._ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        feeds: dict[str, NDArray[Any]] = {"q": q.reshape(1, case.s, -1), "k": k.reshape(1, case.s, -1),
                                          "v": v.reshape(1, case.s, -1)}
        if grouped:
            feeds["last"] = np.array([case.s - 1], dtype=np.int32)
            feeds["total"] = np.array(case.s, dtype=np.int32)
        for name, feed in feeds.items():
            binding.bind_cpu_input(name, feed)
        out = np.empty((1, case.s, case.h_q * case.d), dtype=np.float32)
        bound = self._ort.OrtValue.ortvalue_from_numpy(out)
        binding.bind_ortvalue_output("out", bound)
        for name in ("present_k", "present_v")[: 2 * grouped]:
            binding.bind_output(name)

        def run() -> Floats:
            session.run_with_iobinding(binding)
            result: Floats = bound.numpy().reshape(case.s, case.h_q, case.d)
            return result

        return run

    def _model(self, case: Case, grouped: bool) -> bytes:
        from onnx import TensorProto, helper

        def tensor(name: str, heads: int) -> Any:  # noqa: ANN401 - onnx has no types
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, case.s, heads * case.d])

        inputs = [tensor("q", case.h_q), tensor("k", case.h_kv), tensor("v", case.h_kv)]
        outputs = [tensor("out", case.h_q)]
        if grouped:
            window: dict[str, Any] = {} if case.window is None else {"local_window_size": case.window}
            node = helper.make_node("GroupQueryAttention", ["q", "k", "v", "", "", "last", "total"],
                                    ["out", "present_k", "present_v"], domain="com.microsoft",
                                    num_heads=case.h_q, kv_num_heads=case.h_kv, **window)
            inputs += [helper.make_tensor_value_info("last", TensorProto.INT32, [1]),
                       helper.make_tensor_value_info("total", TensorProto.INT32, [])]
            present = [1, case.h_kv, case.s, case.d]
            outputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, present)
                        for name in ("present_k", "present_v")]
        else:
            node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["out"], domain="com.microsoft",
                                    num_heads=case.h_q)
        graph = helper.make_graph([node], "attention", inputs, outputs)
        model = helper.make_model(graph, ir_version=8, opset_imports=[
            helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
        serialised: bytes = model.SerializeToString()
        return serialised


class PyTorch:
    """scaled_dot_product_attention: its causal flag, or a boolean mask for a window."""

    name = "torch"

    def __init__(self, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self._torch = torch
        self.version = str(torch.__version__)

    def forward(self, case: Case, q: Floats, k: Floats, v: Floats) -> Run | None:
        torch = self._torch
        tq, tk, tv = (torch.from_numpy(x).transpose(0, 1)[None] for x in (q, k, v))
        mask = None if case.window is None else torch.from_numpy(case.keep(np.arange(case.s)))
        causal = case.causal and mask is None

        def run() -> Floats:
            with torch.no_grad():
                out = torch.nn.functional.scaled_dot_product_attention(
                    tq, tk, tv, attn_mask=mask, is_causal=causal, enable_gqa=case.h_q != case.h_kv)
            result: Floats = out[0].transpose(0, 1).numpy()
            return result

        return run


def peers(threads: int) -> list[Peer]:
    """Those installed."""
    found: list[Peer] = []
    if find_spec("onnxruntime") and find_spec("onnx"):
        found.append(OnnxRuntime(threads))
    if find_spec("torch"):
        found.append(PyTorch(threads))
    return found


def verified(case: Case, out: Floats, q: Floats, k: Floats, v: Floats) -> bool:
    """A few rows against NumPy in double."""
    rows = np.unique(np.linspace(0, case.s - 1, 7).astype(np.int64))
    group = case.h_q // case.h_kv
    for h in range(case.h_q):
        keys, values = k[:, h // group].astype(np.float64), v[:, h // group].astype(np.float64)
        scores = q[rows, h].astype(np.float64) @ keys.T / np.sqrt(case.d)
        scores[~case.keep(rows)] = -np.inf
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        want = weights / weights.sum(axis=1, keepdims=True) @ values
        if not np.max(np.abs(out[rows, h] - want)) < 1e-4:
            return False
    return True


def times(run: Run) -> list[float]:
    """Milliseconds of each call, after a warm-up."""
    run()
    ms: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(ms) < LEAST_CALLS or time.perf_counter() < end:
        began = time.perf_counter()
        run()
        ms.append(1000 * (time.perf_counter() - began))
    return ms


def measure(peer: Peer, ours: dict[str, Any], case: Case) -> dict[str, Any] | None:
    """A line like `ours` for the peer; None where it cannot compute the case."""
    random = np.random.default_rng(1)
    q = random.standard_normal((case.s, case.h_q, case.d), dtype=np.float32)
    k, v = random.standard_normal((2, case.s, case.h_kv, case.d), dtype=np.float32)
    run = peer.forward(case, q, k, v)
    if run is None:
        return None
    if not verified(case, run(), q, k, v):
        raise SystemExit(f"compare_cpu: {peer.name} gives a wrong result for {ours['case']}: it is not timed")
    ms = times(run)
    low, median, high = np.quantile(ms, [0.25, 0.5, 0.75])
    ratio = ours["ms"] / median
    return {
        **ours,
        "who": peer.name,
        "backend": peer.name,
        "ms": round(float(median), 6),
        "spread": round(float((high - low) / median), 4),
        "tflops": ours["tflops"] * float(ratio),
        "share": ours["share"] * float(ratio) if ours.get("share") is not None else None,
        "versions": f"{peer.name} {peer.version}",
    }


def main() -> int:
    """Prints all lines; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("suite", help="a suite of `anymask bench` whose cases run forward in float32, such as forward")
    parser.add_argument("--threads", type=int, default=1, help="for anymask and for every peer (1)")
    parser.add_argument("--anymask", type=Path, default=ROOT / "build" / "release" / "bin" / "anymask")
    arguments = parser.parse_args()

    libraries = peers(arguments.threads)
    if not libraries:
        raise SystemExit("compare_cpu: no peer is installed: run scripts/setup.sh peers, or install torch into .venv")
    command = [str(arguments.anymask), "bench", "cpu", "--suite", arguments.suite, "--threads", str(arguments.threads),
               "--json"]
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    for line in lines:
        print(line, flush=True)
        ours = json.loads(line)
        case = Case.parse(ours["case"])
        if case is None or ours["direction"] != "fwd" or ours["dtype"] != "float32":
            continue
        for peer in libraries:
            theirs = measure(peer, ours, case)
            if theirs is not None:
                print(json.dumps(theirs), flush=True)
                print(f"{ours['case']:32} {peer.name:12} {theirs['ms']:9.2f} ms, "
                      f"{theirs['ms'] / ours['ms']:5.2f} times anymask's", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
