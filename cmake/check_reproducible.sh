#!/usr/bin/env bash
# check_reproducible.sh [JOBS]: the portable program, built twice from copies of the tree in folders of different names
# and lengths, in different orders, locales and time zones, is the same file. Prints its hash; else where it differs, and ends with 1.
# Two whole builds without a compiler cache, so no test calls it. Native builds are exempt: they are for one machine.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
jobs=${1:-$(nproc)}
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

build() { # build FOLDER JOBS LOCALE ZONE
  local folder=$work/$1
  mkdir -p "$folder/source"
  (cd "$top" && git -c safe.directory="$top" ls-files -z | tar --null --ignore-failed-read -T - -cf - 2>/dev/null) | tar -xf - -C "$folder/source"
  env -u CXXFLAGS -u LDFLAGS LC_ALL="$3" TZ="$4" CCACHE_DISABLE=1 bash -c '
    cmake -S "$1/source" -B "$1/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF -DTRIREME_ARCH=x86-64-v3 &&
      ninja -C "$1/build" -j "$2" trireme' - "$folder" "$2" >"$work/log" 2>&1 || { tail -n 40 "$work/log"; exit 1; }
  program=$folder/build/recipes/trireme
  echo "$(sha256sum "$program" | cut -d ' ' -f 1)  $1, $3, $4"
}
build one "$jobs" C UTC
first=$program
build "another and longer name" "$(((jobs + 1) / 2))" C.UTF-8 Asia/Tokyo
cmp -s "$first" "$program" && exit
echo "the programs differ:"
for dump in "readelf -SW" "nm" "strings -n 6" "objdump -d --no-show-raw-insn"; do
  diff <($dump "$first" 2>&1 | tail -n +3) <($dump "$program" 2>&1 | tail -n +3) | head -n 20 || true
done
exit 1
