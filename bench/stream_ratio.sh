#!/usr/bin/env bash
# stream_ratio.sh [FOLDER] [TRIREME]: streaming weights from disk against the disk's own rate, in a memory cgroup of 2 GiB.
#
# FOLDER: a bf16 model folder of 8 GB or more; made with make_random_llama.py if it is missing (and then removed).
# Reads the files past the page cache between three runs, with as many requests of the same size, so that both rates are of
# the same minutes. Prints the rates, their ratio, the bench's own table, and the largest RssAnon that was
# seen. Needs root for the cgroup (v1 or v2); without it there is no limit, which is said.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-/tmp/trireme-random-llama}
trireme=${2:-$here/../trireme}
limit=$((2 << 30))
python=${PYTHON:-python3}

made=
if [[ ! -e $folder/config.json ]]; then
  made=yes
  "$python" "$here/make_random_llama.py" "$folder"
fi
group=
out=$(mktemp -d)
finish() {
  [[ -z $group ]] || rmdir "$group" 2>/dev/null || true
  rm -rf "$out"
  [[ -z $made ]] || rm -rf "$folder"
}
trap finish EXIT

make_group() {
  if [[ -d /sys/fs/cgroup/memory ]]; then
    group=/sys/fs/cgroup/memory/trireme-stream-$$
    mkdir "$group" && echo "$limit" >"$group/memory.limit_in_bytes"
  else
    group=/sys/fs/cgroup/trireme-stream-$$
    mkdir "$group" && echo "$limit" >"$group/memory.max"
  fi
}
make_group 2>"$out/why" || { group=; echo "no cgroup of 2 GiB here: $(cat "$out/why")"; }

# Nothing of the files may come from memory.
forget() {
  for file in "$folder"/*.safetensors; do dd of="$file" oflag=nocache conv=notrunc,fdatasync count=0 status=none; done
}
disk() { "$python" "$here/direct_read.py" "$folder"/*.safetensors; }

# run NAME ARGUMENTS...: in the group; the largest RssAnon goes to $out/NAME.rss.
run() {
  local name=$1 most=0 now pid
  shift
  forget
  (
    [[ -z $group ]] || echo "$BASHPID" >"$group/cgroup.procs"
    exec "$trireme" "$@"
  ) >"$out/$name.out" 2>"$out/$name.err" &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    now=$(awk '/^RssAnon/ { print $2 }' "/proc/$pid/status" 2>/dev/null || true)
    ((${now:-0} > most)) && most=$now
    sleep 0.2
  done
  wait "$pid" || { cat "$out/$name.err"; exit 1; }
  echo "$most" >"$out/$name.rss"
}

alone() { sed -n 's/.* s alone, \([0-9.]*\) GB\/s.*/\1/p' "$out/$1.out"; }
median() { sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

run bench bench "$folder" --offload.parameters=disk --pp=0 --tg=3 --batch=1,16 --repeat=2 "${@:3}"
cat "$out/bench.err" "$out/bench.out"
# A disk's rate changes within minutes: in turns.
forget
before=$(disk)
for round in 1 2 3; do
  run short bench "$folder" --offload.parameters=disk --pp=0 --tg=1 --batch=1 --repeat=1 "${@:3}"
  after=$(disk)
  awk -v a="$before" -v b="$after" -v rate="$(alone short)" -v round="$round" 'BEGIN {
    printf "round %d: disk alone %.2f and %.2f GB/s (O_DIRECT, before and after), stream %.2f: ", round, a / 1e9, b / 1e9, rate
    printf "%.2f of the disk\n", rate / ((a + b) / 2e9)
    printf "%.4f\n", rate / ((a + b) / 2e9) >"/dev/stderr" }' 2>>"$out/ratios"
  before=$after
done
awk -v ratio="$(median <"$out/ratios")" -v rss="$(cat "$out/bench.rss")" 'BEGIN {
  printf "median %.2f of the disk (target 0.9)\n", ratio
  printf "RssAnon %.2f GiB at most, of 2 GiB\n", rss / 1048576
}'
