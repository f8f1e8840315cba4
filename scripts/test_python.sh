#!/usr/bin/env bash
# The Python package's tests: the wheel is built and installed into .venv, then pytest, ruff and mypy run.
#
#   scripts/test_python.sh [PYTEST ARGUMENT...]
#
# Tests of PyTorch, transformers and JAX run where these are installed: `.venv/bin/python scripts/torch_cpu.py` installs a PyTorch
# for CPUs, with TORCH=1 this script does.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say.sh

scripts/setup.sh build python
if [[ ${TORCH:-0} == 1 ]]; then
  step "PyTorch for CPUs, with stubs for CUDA's libraries" "20 s, 550 MB" .venv/bin/python scripts/torch_cpu.py
fi

# With the flags of build/release, so that its compiler cache serves.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)}
install() {
  .venv/bin/uv pip install --python .venv/bin/python --no-deps --no-build-isolation --reinstall-package anymask . \
    -C cmake.define.ANYMASK_WERROR=ON -C cmake.define.ANYMASK_BUILD_CLI=ON
}
step "building and installing the wheel" "10 s after a release build, 2 minutes without one" install
step "mypy" "5 to 20 s" .venv/bin/mypy --config-file python/mypy.ini python/anymask
shown_step "tests of the Python package" "30 s on two cores, 2 minutes with PyTorch" \
  .venv/bin/python -m pytest -n "${JOBS:-$(nproc)}" "$@"
