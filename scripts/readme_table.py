#!/usr/bin/env python3
"""Writes the README's tables of figures from bench/results/*.json, between its two markers: one for each machine, those
of bench/reports.py first.

    scripts/readme_table.py           rewrites README.md
    scripts/readme_table.py --check   fails when README.md says anything else than the results do

A result is one JSON object a line, as `anymask bench --json` and bench/compare_*.py print them.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import NamedTuple, TypedDict

import tree

BEGIN = "<!-- figures: made by scripts/readme_table.py from bench/results/*.json -->"
END = "<!-- end of figures -->"
RESULTS = tree.ROOT / "bench" / "results"
README = tree.ROOT / "README.md"
US = "anymask"
# The cases shown, of each suite; the files hold all. Of the report on top-k windows the sum of its parts is shown.
SHOWN = {
    "report-topk": re.compile(r".* window (64|256)$"),
    "report-bits": re.compile(r""),
    "report-small": re.compile(r""),
    "forward": re.compile(r"(full|causal)-s4096-h8-d(64|128)$"),
    "backward": re.compile(r"causal-s4096-h8-d(64|128)$"),
    "bf16": re.compile(r"causal-s4096-h8-d(64|128)$"),
    "masks": re.compile(r"(causal-window|documents|prefix-lm|blocks64-keep10|shared-prefix|tree)"),
    "gpu-dense": re.compile(r""),
    "gpu-masks": re.compile(r"(window|documents|prefix-lm|blocks|shared-prefix|bits|tree|causal-s65536)"),
    "gpu-small": re.compile(r""),
}
DIRECTIONS = {
    "fwd": "forward",
    "bwd": "backward",
    "new": "forward, its mask new",
    "mask": "the mask",
    "total": "mask and forward",
}


class Result(TypedDict):
    """One line of a results file, as far as the table shows it."""

    suite: str
    case: str
    who: str
    direction: str
    dtype: str
    ms: float | None  # null where a part is not built
    share: float | None
    tflops: float | None
    device: str
    versions: str
    commit: str
    date: str


class Row(NamedTuple):
    """A case of ours, and the peers timed in the same run."""

    ours: Result
    peers: list[Result]


def load(folder: Path) -> list[Row]:
    """What of a folder's results is shown. A case timed beside peers stands for the same case timed alone."""
    rows: dict[tuple[str, str, str, str], Row] = {}
    for path in sorted(folder.glob("*.json")):
        for line in path.read_text().splitlines():
            result: Result = json.loads(line)
            key = (result["suite"], result["case"], result["direction"], result["dtype"])
            if result["suite"] not in SHOWN or not SHOWN[result["suite"]].match(result["case"]):
                continue
            if result["ms"] is None or (result["suite"] == "report-topk" and result["direction"] != "total"):
                continue
            if result["direction"] == "products":  # no call: what bounds one
                continue
            if result["who"] == US:
                rows[key] = Row(result, [])
            elif key in rows:
                rows[key].peers.append(result)
    return list(rows.values())


def fastest_peer(row: Row) -> str:
    """`onnxruntime, 2.5x`: how many times as long the best peer of the case takes."""
    if not row.peers:
        return ""
    best = min(row.peers, key=lambda peer: peer["ms"] or 0)
    return f"{best['who']}, {(best['ms'] or 0) / (row.ours['ms'] or 1):.1f}x"


def tables(rows: list[Row]) -> str:
    """The markdown between the markers: a table a machine, in the order of the files; users' reports first."""
    if not rows:
        return "No results are committed yet: `make bench` measures and writes them to `bench/results/`.\n"
    groups: dict[tuple[bool, str], list[Row]] = {}
    for reported in (True, False):
        for row in rows:
            if row.ours["suite"].startswith("report-") == reported:
                groups.setdefault((reported, row.ours["device"]), []).append(row)
    return "\n\n".join(table(group) for group in groups.values())


def table(rows: list[Row]) -> str:
    """The figures of one machine, in GFLOP/s or TFLOP/s by their size."""
    large = max(row.ours["tflops"] or 0 for row in rows) > 10
    compared = any(row.peers for row in rows)
    first = rows[0].ours
    commits = list(dict.fromkeys(row.ours["commit"] for row in rows))
    counted = any(row.ours["tflops"] for row in rows)
    heads = ["case", "direction", "type", "ms"]
    heads += counted * ["TFLOP/s" if large else "GFLOP/s", "of peak"]
    heads += compared * ["fastest peer, its time over ours"]
    lines = [
        f"{first['device']}; {first['versions']}; commit{'s'[: len(commits) - 1]} {', '.join(commits)}; "
        f"{first['date'][:10]}:",
        "",
        "| " + " | ".join(heads) + " |",
        "|---" * 3 + "|--:" * (1 + 2 * counted) + "|---" * compared + "|",
    ]
    for row in rows:
        ours = row.ours
        tflops, share = ours["tflops"], ours["share"]
        cells = [
            f"`{ours['case']}`",
            DIRECTIONS[ours["direction"]],
            ours["dtype"],
            f"{ours['ms']:.3g}",
        ]
        if counted:
            cells.append(f"{tflops if large else 1000 * tflops:.0f}" if tflops else "")
            cells.append(f"{100 * share:.0f}%" if share else "")
        lines.append("| " + " | ".join(cells + compared * [fastest_peer(row)]) + " |")
    return "\n".join(lines)


def replaced(readme: str, figures: str) -> str:
    """The README with these figures between its markers."""
    begin, end = readme.index(BEGIN) + len(BEGIN), readme.index(END)
    return f"{readme[:begin]}\n{figures.rstrip()}\n{readme[end:]}"


def main() -> int:
    """Writes, or checks; the exit status."""
    readme = README.read_text()
    wanted = replaced(readme, tables(load(RESULTS)))
    if "--check" in sys.argv[1:]:
        same = readme == wanted
        print("README.md: figures are those of bench/results" if same else
              "README.md: figures differ from bench/results: run scripts/readme_table.py")
        return 0 if same else 1
    README.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
