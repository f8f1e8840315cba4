#!/usr/bin/env python3
"""What no file of the project holds, and what each begins with.

Nothing left for later, no path of somebody's machine, no line ending in blanks; a source opens with what it computes,
unless the header beside it does, or it is a test whose name says what of.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import tree

# Spelled in pieces, so that this file passes its own check.
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK")) + r")\b")
MACHINE = re.compile(r"(?<![\w.])/(" + "|".join(("ro" "ot", "wo" "rk", "ho" "me")) + r")/")
OPENINGS = {**dict.fromkeys(tree.CPP, ("//", "/*")), ".py": ('"""',), ".sh": ("#",), ".cmake": ("#",)}
DATA = (".json", ".jsonl", ".svg")  # made by programs
LICENSED = ("LICENSE",)  # other people's text


def problems(root: Path) -> list[str]:
    """Every offending line."""
    found = []
    for path in tree.files(root):
        if path.suffix in DATA or path.name in LICENSED or path.parts[:3] == ("tests", "fuzz", "corpus"):
            continue
        text = tree.text(root / path)
        if text is None:
            continue
        lines = text.split("\n")
        for number, line in enumerate(lines, 1):
            if UNFINISHED.search(line):
                found.append(f"{path}:{number}: unfinished work: finish it or delete it")
            if MACHINE.search(line):
                found.append(f"{path}:{number}: a path of one machine: make it relative")
            if line != line.rstrip():
                found.append(f"{path}:{number}: blanks at the end of the line")
        opening = OPENINGS.get(path.suffix)
        first = lines[1] if lines[0].startswith("#!") and len(lines) > 1 else lines[0]
        told_elsewhere = path.stem.endswith("_test") or (root / path).with_suffix(".h").exists()
        if opening and text.strip() and not first.startswith(opening) and not (path.suffix == ".cc" and told_elsewhere):
            found.append(f"{path}:1: opens with no comment: say what the file computes and its contract")
    return found


if __name__ == "__main__":
    sys.exit(tree.report("text", problems(tree.ROOT)))
