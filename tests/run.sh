#!/bin/bash
# Run pytest with a Python interpreter: tests/run.sh PYTHON ARGUMENTS...
#
# With RERUN_FAILED_AFTER=60, as in CI, tests that failed run once more after 60 seconds, one at a time: on a
# busy machine real processes miss a time limit now and then, and a package index is away for a moment. A test
# that fails twice fails. Both runs are printed.
set -euo pipefail

status=0
"$1" -m pytest "${@:2}" || status=$?
[[ $status == 1 && -n ${RERUN_FAILED_AFTER:-} ]] || exit "$status"
printf '\n=== the failed tests once more, one at a time\n'
sleep "$RERUN_FAILED_AFTER"
again=("${@:2}")
exec "$1" -m pytest "${again[@]/#--numprocesses=*/--numprocesses=0}" --last-failed --last-failed-no-failures=none
