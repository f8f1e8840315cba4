#!/usr/bin/env bash
# Configures build/NAME and builds it, all of it or the targets named.
#
#   scripts/build.sh release|debug|asan|tsan [TARGET...]    a preset of CMakePresets.json
#   scripts/build.sh clang [TARGET...]                      release with clang++: its warnings are errors too; and the fuzzers
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say.sh

name=$1
shift
preset=$name
settings=()
if [[ $name == clang ]]; then
  preset=release
  settings=(-B build/clang -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14 -DANYMASK_BUILD_FUZZERS=ON
            -DANYMASK_BUILD_TESTS=OFF -DANYMASK_BUILD_EXAMPLES=OFF)
fi
jobs=${JOBS:-$(nproc)}

configure() { cmake --preset "$preset" "${settings[@]}"; }
build() { cmake --build "build/$name" --parallel "$jobs" ${1:+--target "$@"}; }

step "configuring build/$name" "1 to 5 s" configure
shown_step "building build/$name with $jobs jobs" "${EXPECTED:-2 to 5 minutes on two cores, seconds when little changed}" build "$@"
