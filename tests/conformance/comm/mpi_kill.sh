#!/usr/bin/env bash
# mpi_kill.sh MPIRUN PROGRAM: a killed rank ends the job: mpirun does not end with 0, and no process stays.
set -euo pipefail
mpirun=$1 program=$2
folder=$(mktemp -d)
job=
cleanup() {
  [[ -z $job ]] || kill -KILL "$job" 2>/dev/null || true
  rm -rf "$folder"
}
trap cleanup EXIT
timeout -k 5 60 "$mpirun" --oversubscribe --bind-to none -n 3 "$program" hang "$folder" >"$folder/out" 2>&1 &
job=$!
for ((i = 0; i < 300; i++)); do
  [[ ! -e $folder/ready ]] || break
  kill -0 "$job" 2>/dev/null || { cat "$folder/out"; echo "the job ended before the kill"; exit 1; }
  sleep 0.1
done
[[ -e $folder/ready ]] || { echo "the job did not start within 30 s"; exit 1; }
kill -KILL "$(cat "$folder/pid.1")"
code=0
wait "$job" || code=$?
job=
((code != 0)) || { echo "mpirun ended with 0 after a rank was killed"; exit 1; }
((code != 124)) || { echo "mpirun did not end within a minute"; exit 1; }
grep -qi 'signal 9\|killed' "$folder/out" || { cat "$folder/out"; echo "the launcher said nothing"; exit 1; }
for rank in 0 1 2; do
  pid=$(cat "$folder/pid.$rank")
  for ((i = 0; i < 100; i++)); do
    kill -0 "$pid" 2>/dev/null || continue 2
    sleep 0.1
  done
  echo "rank $rank (process $pid) is still there"
  exit 1
done
echo "the job ended with $code, and nothing stayed"
