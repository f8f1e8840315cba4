#!/usr/bin/env python3
"""Reads what `nvcc -Xptxas -v` printed and fails on what makes a kernel slow without making it wrong.

Wgmma serialised or its fences injected (C75xx), stack bytes, spills. Each costs between a tenth and a half of a Hopper
kernel's speed, and nothing else tells. Usage: check_ptxas.py FILE... ; a file without one compiled kernel fails too.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ENTRY = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
BYTES = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
ADVICE = re.compile(r"\(C75\d\d\)")


def problems(name: str, text: str) -> list[str]:
    """Every offending line of one file."""
    found = []
    kernel = None
    for line in text.splitlines():
        if match := ENTRY.search(line):
            kernel = f"{match[1]} ({match[2]})"
        if ADVICE.search(line):
            found.append(f"{name}: {line.strip()}")
        if (match := BYTES.search(line)) and any(int(x) for x in match.groups()):
            found.append(f"{name}: {kernel}: {match[0]}")
    if kernel is None:
        found.append(f"{name}: no kernel was compiled; expected the output of nvcc -Xptxas -v")
    return found


def main(paths: list[str]) -> int:
    """Prints what is wrong; 0 when nothing is."""
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    logs = [(path, Path(path).read_text(encoding="utf-8", errors="replace")) for path in paths]
    found = [line for path, log in logs for line in problems(path, log)]
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
