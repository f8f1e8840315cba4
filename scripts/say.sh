# What every script here prints with: one line as a step begins, with what it will take, and one as it ends, with what it took.
# Sourced, not run.

# step "what it does" "about how long" command...: shows the command's output only when it fails, or when VERBOSE=1.
step() {
  local what=$1 expected=$2 began=$SECONDS log status=0
  shift 2
  printf -- '-- %s (%s)\n' "$what" "$expected"
  if [[ ${shown:-0} == 1 || ${VERBOSE:-0} == 1 ]]; then
    "$@" || status=$?
  else
    log=$(mktemp)
    "$@" >"$log" 2>&1 || status=$?
    if ((status != 0)); then tail -n 60 "$log"; fi
    rm -f "$log"
  fi
  if ((status != 0)); then
    printf -- '-- %s: FAILED after %d s\n' "$what" "$((SECONDS - began))" >&2
    exit "$status"
  fi
  printf -- '   done in %d s\n' "$((SECONDS - began))"
}

# The same for commands that show their own progress: their output passes through.
shown_step() {
  local shown=1
  step "$@"
}
