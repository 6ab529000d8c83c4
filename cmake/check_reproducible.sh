#!/usr/bin/env bash
# check_reproducible.sh [JOBS] [TARGET]: the portable program, built twice from copies of the tree in folders of different names
# and lengths, in different orders, locales and time zones, is the same file. Prints its hash; else where it differs, and ends with 1.
# Two whole builds without a compiler cache, so no test calls it; a TARGET (trireme_checkpoint) builds and compares a part, its libraries.
# Native builds are exempt: they are for one machine.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
jobs=${1:-$(nproc)} target=${2:-trireme}
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

build() { # build FOLDER JOBS LOCALE ZONE
  local folder=$work/$1
  mkdir -p "$folder/source"
  (cd "$top" && git -c safe.directory="$top" ls-files -z | tar --null --ignore-failed-read -T - -cf - 2>/dev/null) | tar -xf - -C "$folder/source"
  env -u CXXFLAGS -u LDFLAGS LC_ALL="$3" TZ="$4" CCACHE_DISABLE=1 bash -c '
    cmake -S "$1/source" -B "$1/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF -DTRIREME_ARCH=x86-64-v3 &&
      ninja -C "$1/build" -j "$2" "$3"' - "$folder" "$2" "$target" >"$work/log" 2>&1 || { tail -n 40 "$work/log"; exit 1; }
  if [[ $target == trireme ]]; then
    made=(recipes/trireme)
  else
    mapfile -t made < <(cd "$folder/build" && find . -name '*.a' | LC_ALL=C sort)
  fi
  ((${#made[@]})) || { echo "$target made no library to compare"; exit 1; }
  built=$folder/build
  echo "$(cd "$built" && cat "${made[@]}" | sha256sum | cut -d ' ' -f 1)  $1, $3, $4: ${#made[@]} file(s) of $target"
}
build one "$jobs" C UTC
first=$built
build "another and longer name" "$(((jobs + 1) / 2))" C.UTF-8 Asia/Tokyo
differing=()
for file in "${made[@]}"; do
  cmp -s "$first/$file" "$built/$file" || differing+=("$file")
done
((${#differing[@]})) || exit 0
for file in "${differing[@]}"; do
  echo "$file differs:"
  for dump in "readelf -SW" "nm" "strings -n 6" "objdump -d --no-show-raw-insn"; do
    diff <($dump "$first/$file" 2>&1 | tail -n +3) <($dump "$built/$file" 2>&1 | tail -n +3) | head -n 20 || true
  done
done
exit 1
