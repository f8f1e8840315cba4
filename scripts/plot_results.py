#!/usr/bin/env python3
"""Draws docs/pictures/performance-*.svg from bench/results/*.json, and docs/pictures/performance.md, which shows them.

    scripts/plot_results.py           draws
    scripts/plot_results.py --check   fails when the pictures say anything else than the results do

One picture a machine and suite: a bar for each case and contender, as a share of the peak; text at its end. Where what
contenders compute differs, as where some select top-k windows and some attend to everything, bars are milliseconds.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from html import escape
from pathlib import Path
from typing import Any

import tree

RESULTS = tree.ROOT / "bench" / "results"
FOLDER = tree.ROOT / "docs" / "pictures"
US = "anymask"
ROW, BARS, END = 18, 420, 210  # pixels: a bar, the bars, the texts after them
CHARACTER = 6.8  # of a text, at most on the mean
DIRECTIONS = {"fwd": "forward", "bwd": "backward"}

Line = dict[str, Any]


def load(folder: Path) -> dict[tuple[str, str], list[Line]]:
    """Lines that have a share of a peak, by machine and suite. A case measured twice counts as it was measured last."""
    found: dict[tuple[str, str], dict[tuple[str, ...], Line]] = {}
    for path in sorted(folder.glob("*.json")):
        for text in path.read_text(encoding="utf-8").splitlines():
            line: Line = json.loads(text)
            if line["share"] is None or line["direction"] not in DIRECTIONS:
                continue
            group = found.setdefault((line["device"], line["suite"]), {})
            key = (line["case"], line["direction"], line["dtype"], line["who"])
            group[key] = line
    return {key: list(lines.values()) for key, lines in found.items()}


def picture(lines: list[Line]) -> str:
    """The bars of one suite."""
    in_ms = "topk" in lines[0]["suite"]
    value = "ms" if in_ms else "share"
    cases: dict[tuple[str, str, str], list[Line]] = {}
    for line in lines:
        cases.setdefault((line["case"], line["direction"], line["dtype"]), []).append(line)
    widest = max(0.0 if in_ms else 1.0, *(line[value] for line in lines))
    scale = BARS / widest
    labels = {key: f"{key[0]} {DIRECTIONS[key[1]]} {key[2]}" for key in cases}
    left = math.ceil(CHARACTER * max(len(label) for label in labels.values())) + 16
    rows: list[str] = []
    y = 8
    for key, of_case in cases.items():
        label = labels[key]
        rows.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{escape(label)}</text>')
        for line in sorted(of_case, key=lambda one: (one["who"] != US, one["ms"])):
            rate = f"{line['tflops']:.0f} TFLOP/s" if line["tflops"] >= 10 else f"{1000 * line['tflops']:.0f} GFLOP/s"
            kind = "us" if line["who"] == US else "peer"
            end = left + scale * line[value]
            rows.append(f'<rect class="{kind}" x="{left}" y="{y + 2}" width="{end - left:.1f}" height="{ROW - 5}"/>')
            ms = f"{line['ms']:.0f}" if line["ms"] >= 100 else f"{line['ms']:.3g}"
            said = f"{escape(line['who'])} {'' if in_ms else rate + ', '}{ms} ms"
            rows.append(f'<text x="{end + 5:.1f}" y="{y + 13}">{said}</text>')
            y += ROW
        y += 5
    peak = "" if in_ms else f'<line x1="{left + scale:.1f}" x2="{left + scale:.1f}" y1="2" y2="{y}"/>\n'
    style = (
        "text{font:12px sans-serif;fill:#222}.us{fill:#3949ab}.peer{fill:#b0b7c3}"
        "line{stroke:#c62828;stroke-dasharray:3 3}rect.page{fill:#fff}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + BARS + END}" height="{y + 8}">\n'
        f'<style>{style}</style>\n<rect class="page" width="100%" height="100%"/>\n'
        + peak + "\n".join(rows) + "\n</svg>\n"
    )


def pages(results: dict[tuple[str, str], list[Line]]) -> dict[str, str]:
    """The files to write, by name."""
    files: dict[str, str] = {}
    text: list[str] = []
    for (device, suite), lines in results.items():
        name = "performance-" + re.sub(r"[^a-z0-9]+", "-", f"{device} {suite}".lower()).strip("-") + ".svg"
        files[name] = picture(lines)
        newest = max(lines, key=lambda line: line["date"])
        text.append(f"## {device}: {suite}\n")
        older = Counter(line["commit"] for line in lines if line["commit"] != newest["commit"])
        rest = "".join(f", {count} of {len(lines)} rows {commit}" for commit, count in older.items())
        text.append(f"{newest['versions']}; commit {newest['commit']}{rest}; {newest['date'][:10]}.\n")
        text.append(f"![{device}, {suite}](pictures/{name})\n")
    files["performance.md"] = "\n".join(text) or "Nothing is measured yet: `make bench`.\n"
    return files


def main() -> int:
    """Draws, or checks; the exit status."""
    wanted = pages(load(RESULTS))
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("performance*")}
    if "--check" in sys.argv[1:]:
        same = there == wanted
        print("docs/pictures: plots are those of bench/results" if same else
              "docs/pictures: plots differ from bench/results: run scripts/plot_results.py")
        return 0 if same else 1
    for name in there.keys() - wanted.keys():
        (FOLDER / name).unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
