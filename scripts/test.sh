#!/usr/bin/env bash
# Everything that must hold, from a bare clone: what CI runs. Stops at the first failure.
#
# 1. set-up  2. release build with g++  3. all tests  4. clang++ build, its warnings errors too, and the fuzzers' corpora
# 5. the inside under address and undefined-behaviour sanitizers  6. what runs in threads, under the thread sanitizer
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

echo "-- all tests: 15 minutes on two cores from a bare clone, less when build/ is warm"
scripts/setup.sh build test
scripts/build.sh release
run_tests "all tests (2 to 4 minutes)" build/release

EXPECTED="2 minutes on two cores" scripts/build.sh clang
run_tests "fuzzers over their corpora (seconds)" build/clang

# The sanitizers' builds are of the tests they are for: masks and plans hold the pointer work, the CPU backend the threads.
EXPECTED="3 minutes on two cores" scripts/build.sh asan
run_tests "address and undefined-behaviour sanitizers (2 minutes)" build/asan
EXPECTED="2 minutes on two cores" scripts/build.sh tsan
run_tests "thread sanitizer (1 minute)" build/tsan

printf '\nAll tests, %d s:\n' "$SECONDS"
printf '  %s\n' "${summaries[@]}"
