#!/usr/bin/env python3
"""PyTorch for tests on a machine without CUDA libraries: 0.5 GB instead of 3 GB, and 10 s instead of minutes.

PyPI has no CPU build of PyTorch for x86-64 Linux, and the CUDA build does not load without CUDA's libraries. This
installs
the wheel alone, with what CPU code needs, and links a stub under the name of every library that is missing: each of
their functions that PyTorch refers to returns 1, an error. `torch.cuda.is_available()` is False.

    .venv/bin/python scripts/torch_cpu.py          into the environment of that interpreter

For tests only: users install PyTorch as they always do. Nothing happens where `import torch` works already.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

TORCH = ["torch==2.11.0", "nvidia-cuda-runtime==13.0.96", "nvidia-cuda-cupti==13.0.85"]
NEEDS = ["numpy", "filelock", "typing_extensions", "sympy", "networkx", "jinja2", "fsspec", "setuptools", "expecttest"]
# Symbols of the libraries replaced. cudart and CUPTI are real; libcuda is looked up at run time.
STUBBED = re.compile(r"^(cublas|cudnn|cufft|cuFile|curand|cusolver|cusparse|nccl|nvrtc|nvshmem|pncclComm|nvJitLink)")


def run(*command: str | Path) -> str:
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def works() -> bool:
    return subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode == 0


def install() -> None:
    pip = [sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable]
    run(*pip, "--no-deps", *TORCH)
    run(*pip, *NEEDS)


def missing_libraries(libraries: list[Path], folders: list[Path]) -> set[str]:
    """The CUDA libraries that `libraries` name and that lie nowhere they would be found."""
    needed = {n for lib in libraries for n in re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", lib))}
    there = {path.name for folder in folders for path in folder.glob("*.so*")}
    return {
        name for name in needed if re.match(r"lib(cu|nv|nccl)", name) and name not in there and name != "libcuda.so.1"
    }


def undefined_symbols(libraries: list[Path]) -> dict[str, str]:
    """Symbol to version ("" for none) of everything a stub must define."""
    found = {}
    for library in libraries:
        for line in run("nm", "-D", "--undefined-only", library).splitlines():
            symbol, _, version = line.split()[-1].partition("@")
            if STUBBED.match(symbol):
                found[symbol] = version.lstrip("@")
    return found


def build_stub(symbols: dict[str, str], names: set[str], target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source, script = Path(folder, "stub.c"), Path(folder, "stub.map")
        source.write_text("".join(f"int {symbol}(void) {{ return 1; }}\n" for symbol in sorted(symbols)))
        versions = sorted({version for version in symbols.values() if version})
        script.write_text(
            "".join(
                f"{v} {{ global: {' '.join(f'{s};' for s, version in sorted(symbols.items()) if version == v)} }};\n"
                for v in versions
            )
        )
        for name in sorted(names):
            options = [f"-Wl,--version-script={script}"] if versions else []
            run("cc", "-shared", "-fPIC", "-w", source, f"-Wl,-soname,{name}", *options, "-o", target / name)


def main() -> int:
    if works():
        print("-- PyTorch: there")
        return 0
    install()
    site = Path(sysconfig.get_path("purelib"))
    libraries = [*(site / "torch/lib").glob("*.so*"), *(site / "torch").glob("_C*.so")]
    target = site / "nvidia/cu13/lib"  # on PyTorch's run path
    names = missing_libraries(libraries, [site / "torch/lib", target])
    symbols = undefined_symbols(libraries)
    build_stub(symbols, names, target)
    print(f"-- PyTorch with stubs for {len(names)} libraries, {len(symbols)} functions")
    return 0 if works() else 1


if __name__ == "__main__":
    sys.exit(main())
