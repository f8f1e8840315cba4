#!/usr/bin/env python3
"""Includes point down: api -> dispatch -> {cpu, cuda, no_cuda, reference} -> plan -> mask -> core.

A file of src/ may include its own directory and those below it. A library of the outside world has one place where it
is known: DLPack at the boundary, Highway in src/cpu, CUDA in src/cuda, what the command line is made of in cli/.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import tree

BACKEND = {"backend", "plan", "mask", "core"}
BELOW: dict[str, set[str]] = {
    "core": set(),
    "mask": {"core"},
    "plan": {"mask", "core"},
    "backend": {"plan", "mask", "core"},
    "reference": BACKEND,
    "cpu": BACKEND,
    "cuda": BACKEND,
    "no_cuda": BACKEND,
    "dispatch": BACKEND | {"reference", "cpu", "cuda", "no_cuda"},
    "api": BACKEND | {"dispatch", "reference", "cpu", "cuda", "no_cuda"},
}
# What an include of the outside begins with, who may say it, and why.
OUTSIDE: list[tuple[str, tuple[str, ...], str]] = [
    (
        "dlpack/",
        ("src/api/", "include/", "cli/", "python/", "tests/", "examples/"),
        "DLPack is known at the boundary only",
    ),
    ("hwy/", ("src/cpu/", "tests/cpu/"), "Highway is known in src/cpu only"),
    ("cuda", ("src/cuda/", "tests/cuda/"), "CUDA headers are known in src/cuda only"),
    ("fmt/", ("cli/", "tests/"), "fmt belongs to the command line"),
    ("CLI/", ("cli/",), "CLI11 belongs to the command line"),
    ("nlohmann/", ("cli/", "tests/"), "the JSON library belongs to the command line"),
    ("png.h", ("cli/", "tests/"), "libpng belongs to the command line"),
    (
        "anymask/",
        ("src/api/", "include/", "cli/", "python/", "tests/", "examples/"),
        "the public headers stand above src/",
    ),
]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def problem(path: Path, name: str) -> str | None:
    """Why `path` may not include `name`; None when it may."""
    where = path.as_posix()
    for prefix, allowed, why in OUTSIDE:
        if name.startswith(prefix) and not where.startswith(allowed):
            return why
    target = name.split("/")[0]
    if target in BELOW and "/" in name:
        if where.startswith(("cli/", "python/", "include/", "examples/")):
            return "only the public headers, anymask/..., are used here"
        if where.startswith("src/"):
            module = path.parts[1]
            if target != module and target not in BELOW.get(module, set()):
                return f"includes point down: src/{module} may include {', '.join(sorted(BELOW[module] | {module}))}"
    return None


def problems(root: Path) -> list[str]:
    """Every include line that points the wrong way."""
    found = []
    for path in tree.files(root):
        if path.suffix not in tree.CPP:
            continue
        if path.parts[0] == "src" and (len(path.parts) < 3 or path.parts[1] not in BELOW):
            found.append(f"{path}: no such module; expected src/<one of {', '.join(BELOW)}>/")
            continue
        source = (root / path).read_text(encoding="utf-8")
        for match in INCLUDE.finditer(source):
            why = problem(path, match[2])
            if why:
                found.append(f"{path}:{source.count(chr(10), 0, match.start(2)) + 1}: includes {match[2]}: {why}")
    return found


if __name__ == "__main__":
    sys.exit(tree.report("include order", problems(tree.ROOT)))
