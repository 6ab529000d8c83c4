#!/usr/bin/env bash
# What the hardened build costs: builds the program twice, with and without (TRIREME_HARDENING), and alternates them in
# one run on the quickstart's model over one rank and over 2 x 2 x 2, and on start-up alone. Prints seconds a pair, medians
# and median ratios hardened / plain. A pair's order turns each round, so that drift of the machine falls on both.
#
# Usage: bench/hardening_ratio.sh [ROUNDS] [FOLDER]   (15 rounds; builds stay in FOLDER, default build-hardening)
#   STEPS=150 steps of a run. Run it on a quiet machine: the figures are of whole processes.
set -euo pipefail
rounds=${1:-15} top=$(cd "$(dirname "$0")/.." && pwd)
builds=$(realpath -m "${2:-$top/build-hardening}")
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
export XDG_CACHE_HOME=$work/cache

launcher=
if command -v ccache >/dev/null; then launcher=ccache; fi
for hardening in ON OFF; do
  cmake -S "$top" -B "$builds/$hardening" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF \
    "-DCMAKE_CXX_COMPILER_LAUNCHER=$launcher" "-DTRIREME_HARDENING=$hardening" >"$work/cmake.log" || { cat "$work/cmake.log"; exit 1; }
  ninja -C "$builds/$hardening" trireme >"$work/ninja.log" || { tail -n 40 "$work/ninja.log"; exit 1; }
done
size() { stat -c %s "$builds/$1/recipes/trireme"; }
echo "program: hardened $(size ON) bytes, plain $(size OFF)"

median() { sort -g | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }
now() { date +%s%N; }
seconds() { # seconds HARDENING COMMAND...: of one run, into the file of that build
  local hardening=$1 from to
  shift
  from=$(now)
  (cd "$top" && "$builds/$hardening/recipes/trireme" "$@") >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
  to=$(now)
  echo $(((to - from) / 1000)) | awk '{print $1 / 1e6}' >>"$work/$hardening"
}

compare() { # compare NAME COMMAND...
  local name=$1 round order a b
  shift
  seconds ON "$@"  # the first runs warm caches and do not count
  seconds OFF "$@"
  rm -f "$work/ON" "$work/OFF" "$work/ratio"
  for round in $(seq "$rounds"); do
    order="ON OFF"
    if ((round % 2)); then order="OFF ON"; fi
    for build in $order; do seconds "$build" "$@"; done
    a=$(tail -n 1 "$work/ON") b=$(tail -n 1 "$work/OFF")
    awk -v a="$a" -v b="$b" 'BEGIN {print a / b}' >>"$work/ratio"
  done
  printf '%-34s hardened %8.3f s, plain %8.3f s; median ratio %.4f (%.4f to %.4f)\n' "$name" "$(median <"$work/ON")" \
    "$(median <"$work/OFF")" "$(median <"$work/ratio")" "$(sort -g "$work/ratio" | head -n 1)" "$(sort -g "$work/ratio" | tail -n 1)"
}

train=(train recipes/quickstart.cfg "--train.steps=${STEPS:-150}" --train.evaluate_every=never --train.sample_every=never
  --restart "--train.folder=$work/run")
one=(--parallel.data=1 --parallel.tensor=1 --parallel.pipeline=1)
compare "start-up (--help)" --help
compare "quickstart, 1 rank" "${train[@]}" "${one[@]}"
compare "quickstart, 2 x 2 x 2 ranks" "${train[@]}"
compare "quickstart, 1 rank, saves each 10" "${train[@]}" "${one[@]}" --train.checkpoint_every=10
compare "quickstart, reference backend" "${train[@]}" "${one[@]}" --device.kind=reference --precision.compute=f32 \
  "--train.steps=$((${STEPS:-150} / 25))"
