"""Hooks for other libraries: `am.integrations.transformers.register()`."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "transformers":
        raise AttributeError(f"module 'anymask.integrations' has no attribute {name!r}")
    return importlib.import_module(".transformers", __name__)
