#!/usr/bin/env bash
# Configures build/NAME and builds it, all of it or the targets named.
#
#   scripts/build.sh release|debug|asan|tsan [TARGET...]    a preset of CMakePresets.json
#   scripts/build.sh clang-asan [TARGET...]                 asan by clang++, whose warnings are errors too
#   scripts/build.sh fuzz [TARGET...]                       the same, instrumented for libFuzzer, with the fuzzers
#
# CUDA_ARCHITECTURES=80 compiles the portable CUDA kernels once instead of twice: half the minutes, and Hopper then translates
# them when they are first used. CUDA=OFF leaves CUDA out, CUDA=AUTO (unset) builds it where nvcc is.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say.sh

name=$1
shift
preset=$name
clang=(-DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14)
settings=(-DCMAKE_CUDA_ARCHITECTURES="${CUDA_ARCHITECTURES:-80;90a-real}")
case $name in
  release | debug) # the sanitizers' presets leave CUDA out
    settings+=(-DANYMASK_CUDA="${CUDA:-AUTO}")
    ;;
  clang-asan)
    preset=asan
    settings+=("${clang[@]}")
    ;;
  fuzz)
    preset=asan
    settings+=("${clang[@]}" -DANYMASK_SANITIZE=fuzzer-no-link,address,undefined -DANYMASK_BUILD_FUZZERS=ON -DANYMASK_BUILD_TESTS=OFF
              -DANYMASK_BUILD_EXAMPLES=OFF)
    ;;
esac
jobs=${JOBS:-$(nproc)}
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 # another clone of the project shares the cache

configure() { cmake --preset "$preset" -B "build/$name" "${settings[@]}"; }
build() { cmake --build "build/$name" --parallel "$jobs" ${1:+--target "$@"}; }

step "configuring build/$name" "1 to 5 s" configure
shown_step "building build/$name with $jobs jobs" "${EXPECTED:-2 to 5 minutes on two cores, seconds when little changed}" build "$@"
