"""The package in its process: threads, forks, interrupts, import time, types, documentation."""

from __future__ import annotations

import doctest
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import anymask as am
from conftest import Problem

ROOT = Path(__file__).parents[2]


def run(program: str, timeout: float = 300) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_thread_pool_calls_at_once() -> None:
    p = Problem(s_q=128, s_kv=128)
    mask = am.causal() & am.documents([0, 50, 128])
    want = am.attention(p.q, p.k, p.v, mask)
    with ThreadPoolExecutor(8) as pool:
        for out in pool.map(lambda _: am.attention(p.q, p.k, p.v, mask), range(64)):
            np.testing.assert_array_equal(out, want)


def test_other_threads_run_during_a_call() -> None:
    p = Problem(b=1, s_q=3000, s_kv=3000, h_q=4, h_kv=4, d=64)
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.perf_counter()
    am.attention(p.q, p.k, p.v)
    end = time.perf_counter()
    done.set()
    thread.join()
    if end - begin > 0.02:
        assert sum(begin < t < end for t in ticks) >= 2


def test_errors_belong_to_their_thread() -> None:
    p = Problem()

    def fail(i: int) -> str:
        with pytest.raises(ValueError) as caught:
            am.window(-2 - i, 0)
        return str(caught.value)

    with ThreadPoolExecutor(8) as pool:
        for i, text in enumerate(pool.map(fail, range(100))):
            assert f"left is {-2 - i};" in text
    am.attention(p.q, p.k, p.v)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")  # threads exist: the point
def test_a_fork_computes() -> None:
    p = Problem(s_q=200, s_kv=200)
    want = am.attention(p.q, p.k, p.v, "causal")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        same = bool((am.attention(p.q, p.k, p.v, "causal") == want).all())
        os.write(write, b"same" if same else b"different")
        os._exit(0)
    os.close(write)
    assert os.read(read, 16) == b"same"
    os.close(read)
    assert os.waitpid(child, 0)[1] == 0


# What a shell starts in the background ignores SIGINT, and hands that down.
LISTENING = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
"""


def test_ctrl_c_between_calls() -> None:
    program = (
        LISTENING
        + """
import anymask as am, numpy as np
x = np.zeros((1, 256, 2, 64), np.float32)
print("go", flush=True)
try:
    while True:
        am.attention(x, x, x)
except KeyboardInterrupt:
    print("stopped")
"""
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=120)[0] == "stopped\n"


# Inputs of one row seen as many: minutes of work in little memory, and out= keeps the allocation out of the time.
LONG = (
    LISTENING
    + """
import threading, time
import anymask as am, numpy as np
row = np.full((1, 1, 1, 128), 0.01, np.float32)
x = np.broadcast_to(row, (1, 1 << 16, 1, 128))
out = np.empty((1, 1 << 16, 1, 128), np.float32)
lse = np.full((1, 1, 1 << 16), 11.0, np.float32)
small = np.ones((1, 64, 2, 16), np.float32)
want = am.attention(small, small, small, "causal")
"""
)


def interrupted(program: str, within: float = 30) -> str:
    """What the program prints after "go", interrupted half a second after that. It must end in 30 s, which a busy
    machine may take for a second's work; the call alone takes minutes."""
    process = subprocess.Popen([sys.executable, "-c", LONG + program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    time.sleep(0.5)
    begin = time.perf_counter()
    process.send_signal(signal.SIGINT)
    out = process.communicate(timeout=300)[0]
    assert process.returncode == 0
    assert time.perf_counter() - begin < within
    return out


@pytest.mark.parametrize(
    "call",
    [
        "am.attention(x, x, x, out=out)",
        "am.attention(x, x, x, out=out, backend='reference')",
        "am.attention_backward(x, x, x, x, x, lse)",
        "am.attention(x, x, x, ~(am.stride(3) & am.stride(5)), out=out)",
    ],
)
def test_ctrl_c_during_a_call(call: str) -> None:
    program = f"""
print("go", flush=True)
try:
    {call}
except KeyboardInterrupt:
    same = (am.attention(small, small, small, "causal") == want).all()
    print("stopped, the next call is", "right" if same else "wrong")
"""
    assert interrupted(program) == "stopped, the next call is right\n"


def test_signal_handlers_run_during_a_call_and_may_compute() -> None:
    program = """
same = []
def tick(number, frame):
    same.append(bool((am.attention(small, small, small, "causal") == want).all()))
signal.signal(signal.SIGALRM, tick)
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
print("go", flush=True)
try:
    am.attention(x, x, x, out=out)
except KeyboardInterrupt:
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("stopped,", all(same) and len(same) > 0)
"""
    assert interrupted(program) == "stopped, True\n"


def test_other_threads_are_not_interrupted() -> None:
    """Signals are the main thread's: a call of another thread ends as it would."""
    program = """
half = x[:, : 1 << 12]
result = []
thread = threading.Thread(target=lambda: result.append([am.attention(half, half, half)[0, 0, 0, 0] for _ in range(4)]))
thread.start()
print("go", flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:
    thread.join()
    print(len(result[0]), bool(np.allclose(result[0], 0.01, 1e-3)))
"""
    assert interrupted(program, within=300) == "4 True\n"


def test_a_process_ends_while_a_daemon_computes() -> None:
    program = """
threading.Thread(target=lambda: am.attention(x, x, x, out=out), daemon=True).start()
time.sleep(0.5)
print("done")
"""
    assert run(LONG + program) == "done\n"


def test_import_is_light() -> None:
    program = "import sys, anymask; print([m for m in ('torch', 'jax', 'transformers', 'numpy') if m in sys.modules])"
    assert run(program) == "[]\n"
    best = min(
        float(run("import time; t = time.process_time(); import anymask; print(time.process_time() - t)"))
        for _ in range(3)
    )
    assert best < 0.15


def test_all_names_are_there_and_documented() -> None:
    for name in am.__all__:
        try:
            value = getattr(am, name)
        except ModuleNotFoundError as missing:  # what is PyTorch's or JAX's needs it
            assert missing.name in {"torch", "jax"}, name
            continue
        if callable(value):
            assert value.__doc__, name
    assert set(am.__all__) <= set(dir(am)) and not hasattr(am, "nothing_of_the_sort")
    assert (Path(am.__file__).parent / "py.typed").exists()
    assert am.__version__ == re.search(r"project\(anymask VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]  # type: ignore[index]


def test_examples_in_docstrings_run() -> None:
    import anymask._attention
    import anymask._mask

    results = [doctest.testmod(module) for module in (anymask._attention, anymask._mask)]
    assert sum(r.attempted for r in results) > 0 and not any(r.failed for r in results)


def python_blocks(path: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / path).read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("path", ["README.md", "docs/index.md", "docs/python.md", "docs/coming-from.md"])
def test_examples_in_documents_run(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks(path)
    assert blocks
    shared: dict[str, object] = {}
    for block in blocks:
        for library in re.findall(r"^ *(?:import|from) (torch|transformers|jax)\b", block, re.MULTILINE):
            pytest.importorskip(library)  # what comes before it has run
        exec(compile(block, path, "exec"), shared)


def test_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "anymask", "--help"], capture_output=True, text=True, timeout=300)
    command = Path(am._anymask.__file__).parent / "bin" / "anymask"
    if command.exists():
        assert done.returncode == 0 and "explain" in done.stdout
    else:
        assert done.returncode == 2 and "built without the command line" in done.stderr
