"""The anymask command as the demo uses it: run a call, time it, draw its mask."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from safetensors.numpy import load_file

CHECK_FAILED = 1  # exit status of `anymask run --check`
REPEAT = 3  # timed calls after a warm-up; the median counts


class Anymask:
    """Wraps the binary; a call it refuses ends the demo with the command's own message."""

    def __init__(self, binary: Path) -> None:
        if not binary.is_file():
            raise SystemExit(f"demo: {binary} is not built: run `make build`, or name another with --anymask")
        self._binary = binary

    def run(self, tensors: Path, mask: str, results: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """`anymask run`, checked against the reference and timed without the mask too: its report, its outputs.

        A check that fails is in the report, and on standard error.
        """
        text = self._call("run", "--input", tensors, "--mask", mask, "--out", results, "--check", "--compare-dense",
                          "--repeat", REPEAT, "--json")
        report: dict[str, Any] = json.loads(text)
        return report, load_file(str(results))

    def milliseconds(self, tensors: Path, mask: str, direction: str) -> float:
        """The same tensors under another mask."""
        report = json.loads(self._call("run", "--input", tensors, "--mask", mask, "--repeat", REPEAT, "--json"))
        return float(report[direction]["ms"])

    def view(self, mask: str, arrays: dict[str, Path], s_q: int, s_kv: int, picture: Path) -> None:
        """`anymask view`: a picture of the mask and its tiles."""
        named = [part for name, path in arrays.items() for part in ("--array", f"{name}={path}")]
        self._call("view", mask, *named, "--s-q", s_q, "--s-kv", s_kv, "--out", picture)

    def _call(self, *arguments: object) -> str:
        command = [str(self._binary), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == CHECK_FAILED:
            print(f"\n{done.stderr}", file=sys.stderr)
        elif done.returncode != 0:
            said = done.stderr + done.stdout
            raise SystemExit(f"\ndemo: `{' '.join(command)}` ended with status {done.returncode}:\n{said}")
        return done.stdout
