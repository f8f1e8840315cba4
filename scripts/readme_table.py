#!/usr/bin/env python3
"""Writes the README's table of figures from bench/results/*.json, between its two markers.

    scripts/readme_table.py           rewrites README.md
    scripts/readme_table.py --check   fails when README.md says anything else than the results do

A result is one JSON object a line, as `anymask bench --json` and bench/compare_cpu.py print them.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import TypedDict

import tree

BEGIN = "<!-- figures: made by scripts/readme_table.py from bench/results/*.json -->"
END = "<!-- end of figures -->"
RESULTS = tree.ROOT / "bench" / "results"
README = tree.ROOT / "README.md"
US = "anymask"
MAX_ROWS = 16  # of each suite; the files hold all
DIRECTIONS = {"fwd": "forward", "bwd": "backward", "plan": "plan", "host": "host", "e2e": "end to end"}


class Result(TypedDict):
    """One line of a results file, as far as the table shows it."""

    suite: str
    case: str
    who: str
    direction: str
    dtype: str
    ms: float
    share: float | None
    tflops: float | None
    device: str
    commit: str
    date: str


def load(folder: Path) -> list[Result]:
    """Every result of the folder, in the files' own order."""
    results: list[Result] = []
    for path in sorted(folder.glob("*.json")):
        results += [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return results


def fastest_peer(peers: list[Result], ours: Result) -> str:
    """`onnxruntime 2.5x`: how many times as long the best peer of the case takes."""
    if not peers:
        return ""
    best = min(peers, key=lambda peer: peer["ms"])
    return f"{best['who']}, {best['ms'] / ours['ms']:.1f}x"


def table(results: list[Result]) -> str:
    """The markdown between the markers."""
    if not results:
        return "No results are committed yet: `make bench` measures and writes them to `bench/results/`.\n"
    peers: dict[tuple[str, str, str], list[Result]] = defaultdict(list)
    ours: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        if result["who"] == US:
            ours[f"{result['suite']} on {result['device']}"].append(result)
        else:
            peers[result["case"], result["direction"], result["dtype"]].append(result)
    compared = bool(peers)
    lines = []
    for title, rows in ours.items():
        lines += [f"Suite {title}, commit {rows[0]['commit']}, {rows[0]['date'][:10]}:", ""]
        heads = ["case", "direction", "type", "ms", "GFLOP/s on kept pairs", "of the measured peak"]
        heads += ["fastest peer, its time over ours"] if compared else []
        lines += ["| " + " | ".join(heads) + " |", "|---" * 3 + "|--:" * 3 + "|---" * compared + "|"]
        for row in rows[:MAX_ROWS]:
            tflops, share = row.get("tflops"), row.get("share")
            cells = [
                f"`{row['case']}`",
                DIRECTIONS.get(row["direction"], row["direction"]),
                row["dtype"],
                f"{row['ms']:.3g}",
                f"{1000 * tflops:.0f}" if tflops else "",
                f"{100 * share:.0f}%" if share else "",
            ]
            if compared:
                cells.append(fastest_peer(peers[row["case"], row["direction"], row["dtype"]], row))
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def replaced(readme: str, figures: str) -> str:
    """The README with these figures between its markers."""
    begin, end = readme.index(BEGIN) + len(BEGIN), readme.index(END)
    return f"{readme[:begin]}\n{figures.rstrip()}\n{readme[end:]}"


def main() -> int:
    """Writes, or checks; the exit status."""
    readme = README.read_text()
    wanted = replaced(readme, table(load(RESULTS)))
    if "--check" in sys.argv[1:]:
        same = readme == wanted
        print("README.md: figures are those of bench/results" if same else
              "README.md: figures differ from bench/results: run scripts/readme_table.py")
        return 0 if same else 1
    README.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
