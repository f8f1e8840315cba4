#!/usr/bin/env python3
"""Reads what `nvcc -Xptxas -v` printed and fails on what makes a kernel slow without making it wrong.

Wgmma serialised or its fences injected (C75xx), stack bytes, spills. Each costs between a tenth and a half of a Hopper
kernel's speed, and nothing else tells. A log that ptxas did not write to fails too.

    check_ptxas.py FILE...                      reads logs
    check_ptxas.py --compile COMMAND...         compiles, and reads what that prints: a compiler launcher of the build
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ENTRY = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
BYTES = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
ADVICE = re.compile(r"\(C75\d\d\)")
SAID = re.compile(r"ptxas info|bytes stack frame")  # of every kernel, whatever it is like


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
    if not SAID.search(text):
        found.append(f"{name}: nothing of ptxas; expected the output of nvcc -Xptxas -v")
    return found


def compile_checked(command: list[str]) -> int:
    """Runs the compiler; its status, or 1 and no object where a kernel is not as it should be."""
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    for line in done.stderr.splitlines():
        if not SAID.search(line) or ADVICE.search(line):
            print(line, file=sys.stderr)
    if done.returncode != 0:
        return done.returncode
    target = Path(command[command.index("-o") + 1])
    found = problems(target.name, done.stderr)
    for line in found:
        print(line, file=sys.stderr)
    if found:
        target.unlink(missing_ok=True)
    return 1 if found else 0


def main(arguments: list[str]) -> int:
    """Prints what is wrong; 0 when nothing is."""
    if arguments[:1] == ["--compile"] and len(arguments) > 1:
        return compile_checked(arguments[1:])
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    logs = [(path, Path(path).read_text(encoding="utf-8", errors="replace")) for path in arguments]
    found = [line for path, log in logs for line in problems(path, log)]
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
