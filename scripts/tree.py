"""The project's own files, for the checks of this folder."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPP = (".h", ".hpp", ".cc", ".c", ".cu", ".cuh")


def files(root: Path = ROOT) -> list[Path]:
    """Tracked files and those about to be, relative to `root`; every file where git does not know the folder."""
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        capture_output=True, text=True, check=False,
    )
    if listing.returncode == 0:
        names = [Path(name) for name in listing.stdout.split("\0") if name]
    else:
        names = [path.relative_to(root) for path in root.rglob("*")]
    return sorted(path for path in names if (root / path).is_file())


def text(path: Path) -> str | None:
    """Contents of a text file; None for any other."""
    data = path.read_bytes()
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def report(check: str, problems: list[str]) -> int:
    """Prints what was found; the exit status."""
    for problem in problems:
        print(problem)
    print(f"{check}: {len(problems)} problem{'' if len(problems) == 1 else 's'}")
    return 1 if problems else 0
