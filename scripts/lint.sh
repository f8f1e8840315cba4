#!/usr/bin/env bash
# clang-tidy over every C++ source of src/ and cli/, ruff and mypy over the Python.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say.sh

scripts/build.sh clang-asan
tidy() {
  git ls-files -z --cached --others --exclude-standard -- 'src/*.cc' 'cli/*.cc' |
    xargs -0 -n 1 -P "$(nproc)" clang-tidy-14 -p build/clang-asan --quiet
}
types() {
  local folder
  for folder in examples/real examples/python scripts bench; do MYPYPATH=$folder .venv/bin/mypy "$folder"/*.py || return; done
}
step "clang-tidy" "10 minutes on two cores" tidy
step "ruff" "1 s" .venv/bin/ruff check .
step "mypy" "20 s" types
