#!/usr/bin/env bash
# scoreboard.sh BUILD: the table of the last ctest run's injected faults. ctest calls it behind its own summary
# (CTestCustom.cmake); the root script, whose last words are that summary, asks ctest not to, and calls it before.
set -euo pipefail
[[ ${CTEST_SCOREBOARD:-} != later ]] || exit 0
log=$1/Testing/Temporary/LastTest.log
[[ ! -e $log.tmp ]] || log=$log.tmp # ctest gives the log its name when all is said
[[ ! -r $log ]] || awk -f "${BASH_SOURCE[0]%/*}/scoreboard.awk" "$log"
