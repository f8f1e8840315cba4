#!/usr/bin/env bash
# Draws docs/masks.md and docs/pictures anew from the library's list of masks; with --check only says which are stale (exit status 1).
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh build test
scripts/build.sh release draw_docs
exec build/release/bin/draw_docs "$@" docs
