#!/usr/bin/env bash
# Every fuzzer of tests/fuzz for so many seconds (60), from its committed corpus; new inputs go to build/clang/fuzz, findings too.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say.sh

seconds=${1:-60}
scripts/build.sh clang
shopt -s nullglob
fuzzers=(build/clang/bin/fuzz_*)
((${#fuzzers[@]})) || { echo "fuzz: build/clang/bin holds no fuzzer" >&2; exit 1; }
for fuzzer in "${fuzzers[@]}"; do
  name=${fuzzer##*/fuzz_}
  mkdir -p "build/clang/fuzz/$name"
  shown_step "fuzzing $name" "$seconds s" "$fuzzer" -max_total_time="$seconds" -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="build/clang/fuzz/$name-" "build/clang/fuzz/$name" "tests/fuzz/corpus/$name"
done
