"""What each captured call must give: computed without any mask language, piece by piece, in double precision.

Documents one by one, paths of the tree one by one, continuations one by one, each with plain causal (MiniLM: full)
attention. Every function takes a case's tensors and returns its outputs by name, without the batch axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention import attend, causal, causal_gradients
from documents import spans
from medusa_tree import ancestors

Doubles = NDArray[np.float64]
Tensors = dict[str, NDArray[Any]]


def qkv(tensors: Tensors) -> tuple[Doubles, Doubles, Doubles]:
    """The one batch entry's q, k, v in double."""
    q, k, v = (tensors[name][0].astype(np.float64) for name in ("q", "k", "v"))
    return q, k, v


def documents(tensors: Tensors) -> Tensors:
    """Causal attention of each document on its own."""
    q, k, v = qkv(tensors)
    return {"out": np.concatenate([causal(q[a:b], k[a:b], v[a:b]) for a, b in spans(tensors["cu"])])}


def bidirectional_documents(tensors: Tensors) -> Tensors:
    """Full attention of each document on its own."""
    q, k, v = qkv(tensors)
    return {"out": np.concatenate([attend(q[a:b], k[a:b], v[a:b]) for a, b in spans(tensors["cu"])])}


def gradients(tensors: Tensors) -> Tensors:
    """dq, dk, dv of each document on its own."""
    q, k, v = qkv(tensors)
    dout = tensors["dout"][0].astype(np.float64)
    each = [causal_gradients(dout[a:b], q[a:b], k[a:b], v[a:b]) for a, b in spans(tensors["cu"])]
    dq, dk, dv = (np.concatenate(parts) for parts in zip(*each, strict=True))
    return {"dq": dq, "dk": dk, "dv": dv}


def tree(tensors: Tensors) -> Tensors:
    """Causal attention along each path from the root to a leaf, as if that path alone had been decoded."""
    q, k, v = qkv(tensors)
    parent: list[int] = tensors["parents"].tolist()
    n = len(k) - len(parent)
    out = np.empty_like(q)
    for leaf in set(range(len(parent))) - set(parent):
        path = np.array(ancestors(parent, leaf))
        keys = np.concatenate([np.arange(n), n + path])
        out[path] = causal(q[path], k[keys], v[keys])
    return {"out": out}


def prefix(tensors: Tensors) -> Tensors:
    """Causal attention over the prefix and one continuation at a time."""
    q, k, v = qkv(tensors)
    lengths = tensors["lengths"]
    n = len(q) - int(lengths.sum())
    outs = [causal(q[:n], k[:n], v[:n])]
    for a, b in spans(n + np.concatenate([[0], np.cumsum(lengths)])):
        keys = np.concatenate([np.arange(n), np.arange(a, b)])
        outs.append(causal(q[a:b], k[keys], v[keys]))
    return {"out": np.concatenate(outs)}


