"""Real documents: Debian's fortunes or every text of a folder, cut to a model's limit, packed whole into a sequence."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FORTUNES = Path("/usr/share/games/fortunes")
SEPARATOR = "\n%\n"  # between the fortunes of one file
ORDER_SEED = 1  # the fortunes of one file are about one thing; a fixed shuffle mixes them, the same each time


@dataclass(frozen=True)
class Packed:
    """Documents end to end. `cu` [documents + 1] are their offsets; `positions` restart with each document."""

    tokens: NDArray[np.int64]  # [total]
    cu: NDArray[np.int32]
    positions: NDArray[np.int64]  # [total]


def spans(cu: NDArray[np.int32]) -> list[tuple[int, int]]:
    """Begin and end of each document, from their offsets."""
    return list(pairwise(cu.tolist()))


def read(folder: Path | None) -> list[str]:
    """The documents of a folder, one a file; without one the fortunes, in a fixed mixed order."""
    if folder is not None:
        texts = [p.read_text(encoding="utf-8", errors="replace") for p in sorted(folder.rglob("*")) if p.is_file()]
        texts = [text for text in texts if text.strip() and "\0" not in text]
        if not texts:
            raise SystemExit(f"demo: {folder} holds no text; give a folder with text files: make demo TEXTS=folder")
        return texts
    if not FORTUNES.is_dir():
        raise SystemExit(f"demo: {FORTUNES} is missing; install Debian's package fortunes, or give a folder of texts: "
                         "make demo TEXTS=folder")
    files = sorted(p for p in FORTUNES.iterdir() if p.is_file() and not p.suffix)
    texts = [text.strip() for p in files for text in p.read_text(encoding="utf-8", errors="replace").split(SEPARATOR)]
    texts = [text for text in texts if text]
    random.Random(ORDER_SEED).shuffle(texts)
    return texts


def pieces(documents: Iterable[Sequence[int]], limit: int) -> Iterator[Sequence[int]]:
    """Each document, or its consecutive pieces of at most `limit` tokens where it is longer."""
    for tokens in documents:
        for begin in range(0, len(tokens), limit):
            yield tokens[begin : begin + limit]


def pack(documents: Iterable[Sequence[int]], capacity: int) -> Packed:
    """Whole documents in order while they fit into `capacity` tokens; stops at the first that does not."""
    kept: list[Sequence[int]] = []
    room = capacity
    for tokens in documents:
        if len(tokens) > room:
            break
        if tokens:
            kept.append(tokens)
            room -= len(tokens)
    if not kept:
        raise SystemExit(f"demo: no document fits into {capacity} tokens: give shorter texts")
    lengths = [len(tokens) for tokens in kept]
    return Packed(
        tokens=np.concatenate([np.asarray(tokens, dtype=np.int64) for tokens in kept]),
        cu=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        positions=np.concatenate([np.arange(n) for n in lengths]),
    )
