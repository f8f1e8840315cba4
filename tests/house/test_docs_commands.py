"""Every `anymask ...` line in a ```sh block of README.md and docs/ runs, in a folder with the files such lines name.

    python test_docs_commands.py build/release/bin/anymask
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
SLOW = {"bench", "verify"}  # measured in minutes: only their --help is run


def commands() -> list[tuple[Path, list[str]]]:
    """(file, arguments after `anymask`) of each line; continued lines are joined."""
    found = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for block in BLOCK.findall(path.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words and words[0] == "anymask":
                    found.append((path, words[1:]))
    return found


def make_files(folder: Path) -> None:
    """What the lines call q.npy, k.npy, v.npy, dout.npy, cu.npy, layer.safetensors: a small call of 64 positions."""
    random = np.random.default_rng(3)
    tensors = {
        name: random.standard_normal((1, 64, heads, 32), dtype=np.float32)
        for name, heads in [("q", 4), ("k", 2), ("v", 2), ("dout", 4)]
    }
    tensors["cu"] = np.array([0, 20, 64], dtype=np.int32)
    for name, tensor in tensors.items():
        np.save(folder / f"{name}.npy", tensor)
    del tensors["dout"]
    save_file(tensors, str(folder / "layer.safetensors"))


def main() -> int:
    """Runs them all; 1 if one fails, or if there is none."""
    binary = str(Path(sys.argv[1]).resolve())
    failures = 0
    lines = commands()
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder))
        for path, words in lines:
            arguments = [words[0], "--help"] if words and words[0] in SLOW else words
            done = subprocess.run([binary, *arguments], cwd=folder, capture_output=True, text=True, check=False)
            # Without a device, or in a build without CUDA, a line for one is understood as far as the refusal that says
            # so.
            refusals = [f"anymask {words[0]}: cuda: {reason}" for reason in ("no", "this build has no")]
            refused = done.stderr.startswith(tuple(refusals))
            no_device = "cuda" in words and done.returncode == 2 and refused
            if done.returncode != 0 and not no_device:
                failures += 1
                print(f"{path.relative_to(ROOT)}: anymask {shlex.join(words)}: status {done.returncode}\n{done.stderr}")
    print(f"{len(lines)} command lines, {failures} failed")
    return 1 if failures or not lines else 0


if __name__ == "__main__":
    sys.exit(main())
