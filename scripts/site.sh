#!/usr/bin/env bash
# The documentation as pages, in build/site; warnings are errors.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say.sh

scripts/setup.sh docs
export NO_MKDOCS_2_WARNING=1 # a line about another tool, on every run
step "pages of the documentation" "5 to 15 s" .venv/bin/mkdocs build --strict --clean
echo "-- build/site/index.html"
