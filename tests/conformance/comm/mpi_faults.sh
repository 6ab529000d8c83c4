#!/usr/bin/env bash
# mpi_faults.sh MPIRUN PROGRAM: every fault case passes on 4 processes. After a failure a process ends without
# MPI_Finalize, so the launcher's code is not 0; what counts is the program's own last line.
set -uo pipefail
out=$(timeout -k 5 120 "$1" --oversubscribe --bind-to none -n 4 "$2" faults 2>&1)
code=$?
echo "$out"
((code != 124)) || { echo "timed out"; exit 1; }
! grep -q FAILED <<<"$out" && grep -q 'faults: all passed on 4 ranks' <<<"$out"
