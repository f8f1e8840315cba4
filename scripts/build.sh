#!/usr/bin/env bash
# Configures a preset of CMakePresets.json and builds it, all of it or the targets named.
#
#   scripts/build.sh release [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say.sh

preset=$1
shift
export CCACHE_DIR=${CCACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ccache}

configure() { cmake --preset "$preset"; }
build() { cmake --build --preset "$preset" --parallel "${JOBS:-$(nproc)}" ${1:+--target "$@"}; }

step "configuring build/$preset" "1 to 3 s" configure
shown_step "building build/$preset with ${JOBS:-$(nproc)} jobs" "${EXPECTED:-4 minutes on two cores, seconds when little changed}" build "$@"
