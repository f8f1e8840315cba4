"""Sentence embeddings of real documents by all-MiniLM-L6-v2, packed end to end, in NumPy alone.

    .venv/bin/python examples/real/embed.py [TEXT...]

By default the paragraphs of this repository's documentation. Attention is the package's. Packed documents are compared
with the same model over each by itself (by transformers, where it is installed), and with a padded batch for speed.
"""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anymask as am
from documents import Packed, pack, pieces, spans
from minilm import Floats, MiniLM, find_model

ROOT = Path(__file__).resolve().parents[2]


def paragraphs() -> list[str]:
    """Those of README.md and docs/ that are sentences."""
    texts = [text for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
             for text in path.read_text(encoding="utf-8").split("\n\n")]
    return [text for text in texts if len(text) > 40 and not text.startswith(("|", "```", "<", "!", "    "))]


def embed(model: MiniLM, tokens: NDArray[np.int64], positions: NDArray[np.int64], mask: am.Mask) -> Floats:
    """The last layer, [s, 384], of tokens that see each other as the mask says."""

    def attend(q: Floats, k: Floats, v: Floats) -> Floats:
        out: Floats = am.attention(q[None], k[None], v[None], mask)[0]
        return out

    x = model.embed(tokens, positions)
    for layer in range(model.num_layers):
        x = model.layer(layer, x, attend)
    return x


def sentence(x: Floats) -> Floats:
    """The mean over tokens, of length 1."""
    mean = x.mean(axis=0)
    result: Floats = mean / np.linalg.norm(mean)
    return result


def embed_packed(model: MiniLM, packed: Packed) -> list[Floats]:
    """One embedding a document, from one pass."""
    x = embed(model, packed.tokens, packed.positions, am.documents(packed.cu))
    return [sentence(x[begin:end]) for begin, end in spans(packed.cu)]


def embed_padded(model: MiniLM, packed: Packed) -> list[Floats]:
    """The same of documents padded to the longest: every layer works on the padding, too."""
    lengths = np.diff(packed.cu)
    longest = int(lengths.max())
    tokens = np.zeros((len(lengths), longest), np.int64)
    for row, (begin, end) in zip(tokens, pairwise(packed.cu), strict=True):
        row[: end - begin] = packed.tokens[begin:end]
    cu = np.arange(len(lengths) + 1) * longest
    kept = am.documents(cu) & am.dense((np.arange(longest) < lengths[:, None]).reshape(1, -1))
    x = embed(model, tokens.reshape(-1), np.tile(np.arange(longest), len(lengths)), kept)
    return [sentence(x[i * longest : i * longest + n]) for i, n in enumerate(lengths)]


def embed_by_transformers(packed: Packed) -> list[Floats]:
    """Document by document, by the model's own code."""
    import torch
    import transformers

    bert: Any = transformers.BertModel.from_pretrained(find_model(), add_pooling_layer=False)
    bert.eval()
    found = []
    with torch.no_grad():
        for begin, end in spans(packed.cu):
            ids = torch.from_numpy(packed.tokens[begin:end])[None]
            found.append(sentence(bert(ids).last_hidden_state[0].numpy()))
    return found


def main(texts: list[str], capacity: int = 1024) -> int:
    """Embeds, compares, times; 1 when a cosine is below 0.9999."""
    model = MiniLM()
    tokenizer = model.tokenizer()
    ids = (tokenizer.encode(text).ids for text in texts or paragraphs())
    packed = pack(pieces(ids, model.max_positions), capacity)

    began = time.perf_counter()
    ours = embed_packed(model, packed)
    packed_s = time.perf_counter() - began
    began = time.perf_counter()
    padded = embed_padded(model, packed)
    padded_s = time.perf_counter() - began
    tokens = len(packed.tokens)
    rates = f"{tokens / packed_s:.0f} tokens/s packed, {tokens / padded_s:.0f} padded"
    print(f"{len(ours)} documents, {tokens} tokens: {rates}")

    if find_spec("torch") and find_spec("transformers"):
        whose, want = "transformers", embed_by_transformers(packed)
    else:
        whose, want = "each by itself", [embed_packed(model, pack([packed.tokens[a:b].tolist()], capacity))[0]
                                         for a, b in spans(packed.cu)]
    worst = min(min(float(a @ c), float(b @ c)) for a, b, c in zip(ours, padded, want, strict=True))
    print(f"smallest cosine with {whose}: {worst:.7f}")
    return 0 if worst > 0.9999 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
