#!/usr/bin/env bash
# Every fuzzer of tests/fuzz for so many seconds (60), from its committed corpus; new inputs go to build/fuzz/found, findings too.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say.sh

seconds=${1:-60}
scripts/build.sh fuzz
shopt -s nullglob
fuzzers=(build/fuzz/bin/fuzz_*)
((${#fuzzers[@]})) || { echo "fuzz: build/fuzz/bin holds no fuzzer" >&2; exit 1; }
for fuzzer in "${fuzzers[@]}"; do
  name=${fuzzer##*/fuzz_}
  mkdir -p "build/fuzz/found/$name"
  shown_step "fuzzing $name" "$seconds s" "$fuzzer" -max_total_time="$seconds" -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="build/fuzz/found/$name-" "build/fuzz/found/$name" "tests/fuzz/corpus/$name"
done
