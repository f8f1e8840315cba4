#!/usr/bin/env bash
# Measures this machine and writes bench/results/ and the README's table from it. Quiet machines only: nothing else should run.
#
#   scripts/bench.sh            every CPU suite of `anymask bench`
#   scripts/bench.sh --peers    and, of the forward and mask suites, the other libraries that are installed in .venv
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say.sh

mkdir -p bench/results
if [[ ${1:-} == --peers ]]; then
  compare() { .venv/bin/python bench/compare_cpu.py "$1" >"bench/results/peers-$1.json.new" && mv "bench/results/peers-$1.json"{.new,}; }
  for suite in forward masks; do shown_step "timing peers on suite $suite" "5 minutes" compare "$suite"; done
else
  measure() { build/release/bin/anymask bench cpu --json >bench/results/cpu.json.new && mv bench/results/cpu.json{.new,}; }
  shown_step "measuring all CPU suites" "10 minutes" measure
fi
scripts/readme_table.py
scripts/plot_results.py
echo "-- README.md's figures are those of bench/results/"
