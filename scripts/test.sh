#!/usr/bin/env bash
# Everything that must hold, from a bare clone: what CI runs. Stops at the first failure.
#
# 1. set-up  2. release build by g++  3. all tests  4. the Python package: wheel, types, tests; the documentation's pages, without warnings
# 5. library and command line by clang++, its warnings errors too, with address and undefined-behaviour sanitizers: the tests of
#    the inside, and the fuzzers' corpora. The thread sanitizer has a target of its own: `make tsan`.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say.sh

jobs=${JOBS:-$(nproc)}
summaries=()

# run_tests NAME BUILD_FOLDER ARGUMENT...: ctest there; its closing lines are kept for the end.
run_tests() {
  local name=$1 folder=$2 log began=$SECONDS
  shift 2
  log=$(mktemp)
  printf -- '-- %s\n' "$name"
  if ! ctest --test-dir "$folder" --output-on-failure --no-tests=error --parallel "$jobs" "$@" 2>&1 | tee "$log" |
    grep --line-buffered -vE '^ *(Start +[0-9]+:|Test project|Internal ctest)'; then
    rm -f "$log"
    echo "-- $name: FAILED after $((SECONDS - began)) s" >&2
    exit 1
  fi
  summaries+=("$name, $((SECONDS - began)) s: $(grep -E 'tests passed' "$log")")
  rm -f "$log"
}

echo "-- all tests: half an hour on two busy cores from a bare clone, less when build/ is warm"
scripts/setup.sh build test
CUDA_ARCHITECTURES=80 EXPECTED="15 minutes on two cores, half of them where nvcc is missing" scripts/build.sh release
run_tests "all tests (2 to 4 minutes)" build/release
scripts/test_python.sh
scripts/site.sh
summaries+=("Python: passed")

# The sanitizers' build holds what touches memory most: the kernels, the boundary, the parsers. All tests: `make asan`, `make tsan`.
EXPECTED="4 minutes on two cores" scripts/build.sh clang-asan anymask_cli test_core test_cpu test_api \
  fuzz_replay_npy fuzz_replay_safetensors fuzz_replay_mask_text fuzz_replay_mask_bytes
run_tests "address and undefined-behaviour sanitizers (1 to 2 minutes)" build/clang-asan \
  -R '^(core|cpu|api|fuzz)\.'

printf '\nAll tests, %d s:\n' "$SECONDS"
printf '  %s\n' "${summaries[@]}"
