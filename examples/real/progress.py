"""One line a step: what is being done, how far it is, how long it took."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tick = Callable[[int, int], None]  # (done, of): moves the step's line on


@contextmanager
def step(what: str) -> Iterator[Tick]:
    """Prints `what`, then the seconds it took; on a terminal the tick keeps `done/of` on the same line."""
    began = time.perf_counter()
    live = sys.stdout.isatty()

    def tick(done: int, of: int) -> None:
        if live:
            print(f"\r\033[K  {what} ... {done}/{of}", end="", flush=True)

    print(f"  {what} ...", end="", flush=True)
    yield tick
    took = f"{time.perf_counter() - began:.1f} s"
    print(f"\r\033[K  {what} ... {took}" if live else f" {took}", flush=True)
