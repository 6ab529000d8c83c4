#!/usr/bin/env bash
# key_compare.sh PROGRAM: valgrind finds nothing that depends on a key's bytes in the server's comparison, and does in one
# that ends at the first difference.
set -euo pipefail
program=$1
log=$(mktemp)
trap 'rm -f -- "$log"' EXIT
if ! command -v valgrind >/dev/null; then
  echo "skipped: no valgrind on this machine"
  exit 0
fi
checked() { valgrind --quiet --error-exitcode=9 --leak-check=no "$program" "$1" >"$log" 2>&1; }
status=0
checked find || status=$?
[[ $status == 0 ]] || { cat "$log"; echo "FAILED: comparing ends with $status"; exit 1; }
status=0
checked plain || status=$?
[[ $status == 9 ]] || { cat "$log"; echo "FAILED: a plain comparison is not found ($status): this test tells nothing"; exit 1; }
grep -q "depends on uninitialised" "$log" || { cat "$log"; exit 1; }
echo "no branch on a key's bytes; one is found in a plain comparison"
