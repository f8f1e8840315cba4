#!/usr/bin/env bash
# clang-format over every C++ file: rewrites them, or with --check only says which differ (exit status 1).
set -euo pipefail
cd "$(dirname "$0")/.."

mode=(-i)
[[ ${1:-} == --check ]] && mode=(--dry-run -Werror)
git ls-files -z --cached --others --exclude-standard -- '*.h' '*.hpp' '*.cc' '*.c' '*.cu' '*.cuh' |
  xargs -0 --no-run-if-empty -n 20 -P "$(nproc)" clang-format-14 "${mode[@]}"
