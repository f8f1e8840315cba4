"""The scripts of bench/ that measure the package: small cases of each, so that they work when they are wanted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import anymask as am

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
import host_overhead  # noqa: E402
import reports  # noqa: E402

FIELDS = {"suite", "case", "who", "backend", "direction", "dtype", "ms", "spread", "tflops", "share", "peak"}


def lines(capsys: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_reports(capsys: pytest.CaptureFixture[str]) -> None:
    bench = reports.Bench("cpu", 0.0, "none", False)
    bias = torch.randn(1, 2, 64, 64)
    for kind in ("none", "causal", "given"):
        reports.topk_case(bench, f"(b,kvh) {kind} window 8", kind, 8, bench.tensors(1, 64, 64, 4, 2, 16), bias)
    below = torch.ones(64, 64, dtype=torch.bool).tril()
    reports.bits_case(bench, "bits", lambda: am.dense(below), reports.rows_of(bench, below), (1, 64, 64, 4, 2, 16))
    reports.small_case(bench, 2, 8)
    found = lines(capsys)
    assert bench.wrong == 0
    assert all(set(line) >= FIELDS for line in found)
    timed = {(line["suite"], line["who"], line["direction"]) for line in found if line["ms"] is not None}
    assert {("report-bits", "anymask", part) for part in ("new", "fwd")} <= timed
    assert ("report-bits", "torch", "fwd") in timed
    assert {("report-small", who, part) for who in ("anymask", "torch") for part in ("fwd", "bwd")} <= timed
    assert {("report-topk", who, part) for who in ("anymask", "torch") for part in ("mask", "fwd", "total")} <= timed


def test_a_wrong_result_is_not_timed(capsys: pytest.CaptureFixture[str]) -> None:
    bench = reports.Bench("cpu", 0.0, "none", False)
    reports.bits_case(bench, "bits", am.causal, None, (1, 64, 64, 4, 2, 16), {})
    assert bench.wrong == 1
    assert [line["ms"] for line in lines(capsys) if line["who"] == "anymask"] == [None, None]


def test_host_overhead(capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = Path(am.__file__).parent.glob("libanymask.so*")
    lib = host_overhead.library.Library(path)
    table = host_overhead.Table("cpu", 0.01, "none")
    host_overhead.numpy_rows(table, lib)
    host_overhead.torch_rows(table, lib, (1, 2, 1, 16))
    found = lines(capsys)
    assert all(set(line) >= FIELDS and line["ms"] > 0 for line in found)
    whos = {line["who"] for line in found}
    assert {"C", "numpy, plain", "no grad", "out and lse given", "with grad", "backward", "sdpa torch"} <= whos
