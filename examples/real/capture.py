"""The five inputs of the demo: q, k and v as a layer of a real model hands them to its attention, over real documents.

Every layer below the captured one is computed, and attention inside it looks exactly where the case's mask lets it
look, by plain loops over documents, paths or continuations. Captured once, then kept as .safetensors files that
`anymask run --input` reads; a file made from other texts or by other code is made anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from attention import attend, causal
from documents import pack, pieces, spans
from medusa_tree import ancestors, nodes, parents
from minilm import MiniLM
from progress import Tick, step
from smollm2 import Attend, SmolLM2

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Tensors = dict[str, NDArray[Any]]

SMOLLM2_LAYER = 8  # of 0 to 29: deep enough for attention to have taken shape, at a quarter of the whole cost
MINILM_LAYER = 3  # of 0 to 5
PACKED_TOKENS = 8192
GRADIENT_TOKENS = 1024
TREE_CONTEXT = 4032
DRAFT_WINDOW = 256  # tokens of context the drafted candidates are predicted from
CANDIDATES = 10  # a head of Medusa's tree branches at most so often
PREFIX_TOKENS = 2048
CONTINUATIONS = 50
CONTINUATION_TOKENS = (80, 128)  # documents in turn until there are 80 tokens, cut at 128
END_OF_TEXT = 0  # SmolLM2's document separator

CASES = ("documents", "minilm", "gradients", "tree", "prefix")


class Capture:
    """Makes the tensors of a case, or reads them where they were made before."""

    def __init__(self, texts: list[str], folder: Path) -> None:
        self._texts = texts
        self._folder = folder
        self._key = fingerprint(texts)
        self._smollm2: SmolLM2 | None = None

    def path(self, case: str) -> Path:
        """The .safetensors file of a case, made if need be."""
        path = self._folder / f"{case}.safetensors"
        if not self._made(path):
            make = {"documents": self._documents, "minilm": self._minilm, "gradients": self._gradients,
                    "tree": self._tree, "prefix": self._prefix}[case]
            tensors = {name: np.ascontiguousarray(tensor) for name, tensor in make().items()}
            self._folder.mkdir(parents=True, exist_ok=True)
            save_file(tensors, str(path), metadata={"made_from": self._key})
        return path

    def _made(self, path: Path) -> bool:
        if not path.is_file():
            return False
        with safe_open(str(path), framework="numpy") as file:
            return bool((file.metadata() or {}).get("made_from") == self._key)

    def _documents(self) -> Tensors:
        """SmolLM2, documents packed whole: positions restart with each, attention is causal inside each."""
        model = self._model()
        packed = pack(pieces(self._tokens(), model.max_positions), PACKED_TOKENS)

        def inside(q: Floats, k: Floats, v: Floats) -> Floats:
            return np.concatenate([causal(q[a:b], k[a:b], v[a:b]) for a, b in spans(packed.cu)])

        q, k, v = self._run(packed.tokens, packed.positions, inside, f"SmolLM2, {len(spans(packed.cu))} documents")
        return {**batch_of_one(q, k, v), "cu": packed.cu}

    def _minilm(self) -> Tensors:
        """MiniLM, documents packed whole, attention in both directions inside each."""
        model = MiniLM()
        tokenizer = model.tokenizer()
        documents = (tokenizer.encode(text).ids for text in self._texts)
        packed = pack(pieces(documents, model.max_positions), PACKED_TOKENS)

        def inside(q: Floats, k: Floats, v: Floats) -> Floats:
            return np.concatenate([attend(q[a:b], k[a:b], v[a:b]) for a, b in spans(packed.cu)])

        with step(capturing(f"MiniLM, {len(spans(packed.cu))} documents", len(packed.tokens), MINILM_LAYER)) as tick:
            x = model.embed(packed.tokens, packed.positions)
            for layer in range(MINILM_LAYER):
                tick(layer, MINILM_LAYER + 1)
                x = model.layer(layer, x, inside)
            q, k, v = model.qkv(MINILM_LAYER, x)
        return {**batch_of_one(q, k, v), "cu": packed.cu}

    def _gradients(self) -> Tensors:
        """The first documents of `documents`, with the gradient of half the squared norm of the projected output."""
        with safe_open(str(self.path("documents")), framework="numpy") as file:
            q, k, v, cu = (file.get_tensor(name) for name in ("q", "k", "v", "cu"))
        cu = cu[: max(2, int(np.searchsorted(cu, GRADIENT_TOKENS, side="right")))]
        q, k, v = (tensor[0, : cu[-1]] for tensor in (q, k, v))
        with step(f"capturing a gradient of SmolLM2's layer {SMOLLM2_LAYER}, {len(cu) - 1} documents, {cu[-1]} tokens"):
            out = np.concatenate([causal(q[a:b], k[a:b], v[a:b]) for a, b in spans(cu)])
            projection = self._model().output_projection(SMOLLM2_LAYER)
            dout = (out.reshape(len(out), -1) @ projection.T @ projection).reshape(out.shape)
        return {**batch_of_one(q, k, v), "dout": dout[None], "cu": cu}

    def _tree(self) -> Tensors:
        """Medusa's tree of drafted tokens after a long context: the rows are its 63 nodes and their root."""
        context = self._running_text(TREE_CONTEXT)
        paths = nodes()
        parent = parents(paths)
        tokens = self._draft(context, paths)
        n = len(context)
        depth = np.array([len(path) for path in paths])
        sees = np.zeros((len(paths), len(paths)), dtype=bool)
        for node in range(len(paths)):
            sees[node, ancestors(parent, node)] = True
        keep = np.concatenate([np.ones((len(paths), n), dtype=bool), sees], axis=1)

        def tree(q: Floats, k: Floats, v: Floats) -> Floats:
            return np.concatenate([causal(q[:n], k[:n], v[:n]), attend(q[n:], k, v, keep)])

        positions = np.concatenate([np.arange(n), n + depth])
        q, k, v = self._run(np.concatenate([context, tokens]), positions, tree, "SmolLM2, a tree of 63 nodes")
        return {**batch_of_one(q[n:], k, v), "parents": np.array(parent, dtype=np.int32)}

    def _prefix(self) -> Tensors:
        """One prefix and many continuations of it: positions of each go on from the prefix, none sees another."""
        prefix = self._running_text(PREFIX_TOKENS)
        continuations = pack(self._continuations(), CONTINUATIONS * CONTINUATION_TOKENS[1])
        n = len(prefix)

        def shared(q: Floats, k: Floats, v: Floats) -> Floats:
            outs = [causal(q[:n], k[:n], v[:n])]
            for a, b in spans(continuations.cu):
                own = slice(n + a, n + b)
                outs.append(causal(q[own], np.concatenate([k[:n], k[own]]), np.concatenate([v[:n], v[own]])))
            return np.concatenate(outs)

        tokens = np.concatenate([prefix, continuations.tokens])
        positions = np.concatenate([np.arange(n), n + continuations.positions])
        lengths = np.diff(continuations.cu)
        q, k, v = self._run(tokens, positions, shared, f"SmolLM2, {len(lengths)} continuations of one prefix")
        return {**batch_of_one(q, k, v), "lengths": lengths.astype(np.int32)}

    def _run(self, tokens: Ints, positions: Ints, attention: Attend, what: str) -> tuple[Floats, Floats, Floats]:
        """SmolLM2 up to the captured layer's q, k, v."""
        model = self._model()
        with step(capturing(what, len(tokens), SMOLLM2_LAYER)) as tick:
            x = self._layers(model.embed(tokens), positions, attention, SMOLLM2_LAYER, tick)
            return model.qkv(SMOLLM2_LAYER, x, positions)

    def _layers(self, x: Floats, positions: Ints, attention: Attend, layers: int, tick: Tick) -> Floats:
        for layer in range(layers):
            tick(layer, layers)
            x = self._model().layer(layer, x, positions, attention)
        return x

    def _draft(self, context: Ints, paths: Sequence[tuple[int, ...]]) -> Ints:
        """A token for each node: the candidates of a depth are the likeliest tokens after the greedy path down to it.

        That is how Medusa's heads propose: by depth, whatever the branch. The whole of SmolLM2 predicts, from the last
        DRAFT_WINDOW tokens of the context.
        """
        model = self._model()
        depths = max(len(path) for path in paths)
        greedy = context[-DRAFT_WINDOW:]
        candidates: list[Ints] = []
        with step(f"drafting {len(paths) - 1} candidate tokens with all {model.num_layers} layers") as tick:
            for _ in range(depths + 1):
                x = self._layers(model.embed(greedy), np.arange(len(greedy)), causal, model.num_layers, tick)
                likeliest = np.argsort(-model.logits(x[-1:])[0])[:CANDIDATES]
                candidates.append(likeliest)
                greedy = np.append(greedy, likeliest[0])
        return np.array([candidates[len(path)][path[-1]] if path else candidates[0][0] for path in paths])

    def _tokens(self) -> Iterator[list[int]]:
        tokenizer = self._model().tokenizer()
        for text in self._texts:
            yield [*tokenizer.encode(text).ids, END_OF_TEXT]

    def _running_text(self, tokens: int) -> Ints:
        """The first tokens of the documents, one after another; of short inputs at most half."""
        text: list[int] = []
        for document in self._tokens():
            text += document
            if len(text) >= 2 * tokens:
                break
        return np.array(text[: min(tokens, len(text) // 2)])

    def _continuations(self) -> Iterator[Sequence[int]]:
        """Texts of 80 to 128 tokens from the last documents, where the prefix has not been."""
        tokenizer = self._model().tokenizer()
        enough, limit = CONTINUATION_TOKENS
        text: list[int] = []
        made = 0
        for piece in pieces((tokenizer.encode(document).ids for document in reversed(self._texts)), limit):
            text += piece
            if len(text) >= enough:
                yield text[:limit]
                text = []
                made += 1
                if made == CONTINUATIONS:
                    return

    def _model(self) -> SmolLM2:
        if self._smollm2 is None:
            with step("reading SmolLM2-135M"):
                self._smollm2 = SmolLM2()
        return self._smollm2


def capturing(what: str, tokens: int, layer: int) -> str:
    """The line of a capture's step."""
    return f"capturing {what}, {tokens} tokens: layers 0 to {layer}"


def batch_of_one(q: Floats, k: Floats, v: Floats) -> Tensors:
    """[s, h, d] -> [1, s, h, d], by name."""
    return {"q": q[None], "k": k[None], "v": v[None]}


def fingerprint(texts: list[str]) -> str:
    """Of the texts and of the code that captures from them."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\0")
    for name in ("attention", "capture", "documents", "medusa_tree", "minilm", "smollm2"):
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return digest.hexdigest()
