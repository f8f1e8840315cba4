"""Real models, real documents, real masks: captured, attended to, checked, timed, drawn.

    python examples/real/demo.py [--texts FOLDER]

Five calls, each with the q, k and v of a layer of a real model (capture.py). For each:

* `anymask run` computes it and checks it against the double-precision reference;
* NumPy computes the same piece by piece, without any mask (expected.py), and must agree;
* the same tensors are timed under the causal mask and under none: what a kernel costs that cannot use the mask;
* `anymask view` draws it.

Ends with a table; exit status 1 if anything disagreed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

import expected
from capture import MINILM_LAYER, SMOLLM2_LAYER, Capture
from command import REPEAT, Anymask
from documents import read
from progress import step

ROOT = Path(__file__).resolve().parent.parent.parent
BOUND = 2e-5  # of the largest expected element: fp32 sums over a few thousand keys stay well below

LEGEND = f"""\
q, k, v      fp32, layer {SMOLLM2_LAYER} of 0 to 29 of SmolLM2-135M, layer {MINILM_LAYER} of 0 to 5 of MiniLM-L6
ms           median of {REPEAT} calls
causal, full the same tensors under those masks: what a kernel costs that cannot use this one
saved        their time over ours
differs by   the largest difference to NumPy, in double, over the largest element; up to {BOUND:.0e} is right
Every call also ran under anymask's own --check against its reference. Each picture is there as .png too."""

Tensors = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Case:
    """One call of the demo."""

    name: str  # of its files
    title: str  # with {n} for how many documents, nodes or continuations there are
    mask: str
    array: str  # what the mask refers to
    expected: Callable[[Tensors], Tensors]
    against: str  # how NumPy computes it
    direction: str = "forward"
    drawn_alone: bool = False  # the picture shows the part of the mask that the array describes


CASES = [
    Case("documents", "SmolLM2, {n} documents packed", "causal & documents(@cu)", "cu",
         expected.documents, "document by document"),
    Case("minilm", "MiniLM, {n} documents packed", "documents(@cu)", "cu",
         expected.bidirectional_documents, "document by document"),
    Case("gradients", "dq dk dv of {n} of those of SmolLM2", "causal & documents(@cu)", "cu",
         expected.gradients, "document by document", direction="backward"),
    Case("tree", "Medusa's tree, {n} rows after a context", "tree(@parents)", "parents",
         expected.tree, "path by path", drawn_alone=True),
    Case("prefix", "a prefix and {n} continuations", "shared_prefix({prefix}, @lengths)", "lengths",
         expected.prefix, "continuation by continuation"),
]


@dataclass(frozen=True)
class Row:
    """A line of the table at the end. Times in milliseconds."""

    title: str
    rows: int
    keys: int
    kept: float
    ms: float
    causal_ms: float
    full_ms: float
    checked: bool  # by anymask's own --check
    difference: float
    picture: Path

    @property
    def verdict(self) -> str:
        """Nothing, or what is wrong."""
        return (" WRONG" if self.difference > BOUND else "") + ("" if self.checked else " CHECK FAILED")


def count(case: Case, tensors: Tensors) -> int:
    """How many documents, nodes or continuations a case has."""
    return len(tensors[case.array]) - (case.array == "cu")


def difference(got: Tensors, wanted: Tensors) -> float:
    """The largest difference over the largest expected element; infinite where anything is not a number."""
    worst = 0.0
    for name, want in wanted.items():
        off = float(np.max(np.abs(got[name][0].astype(np.float64) - want)) / np.max(np.abs(want)))
        worst = max(worst, off if np.isfinite(off) else np.inf)
    return worst


def play(case: Case, capture: Capture, anymask: Anymask, folder: Path) -> Row:
    """One case from its tensors to its line of the table."""
    path = capture.path(case.name)
    tensors: Tensors = load_file(str(path))
    rows, keys = tensors["q"].shape[1], tensors["k"].shape[1]
    mask = case.mask
    if case.name == "prefix":
        mask = mask.format(prefix=keys - int(tensors["lengths"].sum()))
    title = case.title.format(n=count(case, tensors))
    print(f"\n{title}: {rows} rows, {keys} keys\n  anymask run --input {path} --mask \"{mask}\"")

    with step("attention, checked against the reference, and without the mask"):
        report, outputs = anymask.run(path, mask, folder / "results" / f"{case.name}.safetensors")
    with step(f"the same {case.against} in NumPy, in double"):
        off = difference(outputs, case.expected(tensors))
    with step("the same tensors under the causal mask alone"):
        causal_ms = anymask.milliseconds(path, "causal", case.direction)

    array = folder / "tensors" / f"{case.name}.{case.array}.npy"
    np.save(array, tensors[case.array])
    picture = folder / f"{case.name}.svg"
    shown_keys = rows if case.drawn_alone else keys
    with step(f"drawing {picture}"):
        for file in (picture, picture.with_suffix(".png")):
            anymask.view(mask, {case.array: array}, rows, shown_keys, file)
    timed = report[case.direction]
    return Row(title, rows, keys, report["kept_share"], timed["ms"], causal_ms, timed["dense_ms"],
               report["check"]["ok"], off, picture)


def table(rows: list[Row]) -> str:
    """What was kept, what it saved, and whether it is right."""
    heads = ("", "rows", "keys", "kept", "ms", "causal ms", "full ms", "saved", "differs by", "picture")
    lines = [heads] + [
        (row.title, f"{row.rows:,}", f"{row.keys:,}", f"{row.kept:.1%}", f"{row.ms:.3g}", f"{row.causal_ms:.3g}",
         f"{row.full_ms:.3g}", f"{row.causal_ms / row.ms:.1f}x, {row.full_ms / row.ms:.1f}x",
         f"{row.difference:.0e}{row.verdict}", str(row.picture))
        for row in rows
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    texts = (0, len(heads) - 1)
    return "\n".join(
        "  ".join(cell.ljust(width) if i in texts else cell.rjust(width)
                  for i, (cell, width) in enumerate(zip(line, widths, strict=True))).rstrip()
        for line in lines
    )


def main() -> int:
    """All cases; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--texts", type=Path, metavar="FOLDER", help="documents, one a file (Debian's fortunes)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", default=Path("demo"),
                        help="where tensors, results and pictures go (demo)")
    parser.add_argument("--anymask", type=Path, metavar="FILE", default=ROOT / "build" / "release" / "bin" / "anymask",
                        help="the command to use (build/release/bin/anymask)")
    arguments = parser.parse_args()

    anymask = Anymask(arguments.anymask)
    texts = read(arguments.texts)
    print(f"{len(texts)} documents of {arguments.texts or 'the fortunes'}. "
          "Capturing takes 1 to 2 minutes the first time and is kept; the calls themselves take half a minute.")
    (arguments.out / "results").mkdir(parents=True, exist_ok=True)
    capture = Capture(texts, arguments.out / "tensors")
    rows = [play(case, capture, anymask, arguments.out) for case in CASES]

    print(f"\n{table(rows)}\n")
    print(LEGEND)
    return 1 if any(row.verdict for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
