"""`python -m anymask` and the `anymask` command: the command line of the library, where this package holds it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from . import _anymask


def main() -> int:
    """Becomes the command; says how to get it where the package was built without."""
    # Beside the module: in an editable install that is not where this file is.
    command = Path(_anymask.__file__).parent / "bin" / "anymask"
    if not command.exists():
        print(
            "anymask: this package was built without the command line; build it with CLI11, fmt, nlohmann_json and "
            "libpng installed (scripts/setup.sh build): pip install . -C cmake.define.ANYMASK_BUILD_CLI=ON",
            file=sys.stderr,
        )
        return 2
    os.execv(command, [str(command), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
