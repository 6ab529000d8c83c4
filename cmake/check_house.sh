#!/usr/bin/env bash
# check_house.sh [ROOT]: the rules that a search can check. Prints each offence as file:line and ends with 1.
#  - getenv only in recipes; no thread_local; no mutable static or global variable outside the main program's file
#  - a header opens with a comment and has #pragma once
#  - no file above 600 lines
#  - no -ffast-math and its kin (a step relies on NaN); no date or time of the build
#  - a test with the label faults tells what it injected
#  - Eigen, JSON, Beast, HDF5 and utf8proc headers each reach at most three sources (build time)
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
bad=0
report() { # report WHAT LINES
  [[ -n $2 ]] || return 0
  printf '%s:\n%s\n' "$1" "$2"
  bad=1
}
sources() { # sources FOLDER...: C++ files below those of the folders that exist
  local folder
  for folder in "$@"; do
    [[ ! -d $folder ]] || find "$folder" -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \)
  done | sort
}
library=(framework optim offload tensor_parallel pipeline zero)
mapfile -t library_files < <(sources "${library[@]}")
mapfile -t files < <(sources "${library[@]}" recipes)
mapfile -t all_files < <(sources "${library[@]}" recipes tests bench)
mapfile -t headers < <(printf '%s\n' "${files[@]}" | grep '\.c*u*h$')
((${#headers[@]})) || { echo "check_house: no headers below $PWD"; exit 1; }

report "the environment is passed in; only recipes read it" \
  "$(grep -nE '\b(secure_)?getenv[ (]' "${library_files[@]}" /dev/null || true)"
report "no thread_local: a rank is a value" \
  "$(grep -nE '\bthread_local\b' "${files[@]}" /dev/null | grep -v '//.*thread_local' || true)"

# A declaration that starts with static (or stands at the margin, where namespace scope does), has no parenthesis
# before its end, and is not constant. clang-format puts continuation lines off the margin.
# The program's own file may: a signal handler has nothing else to write to.
report "no mutable static or global variable" "$(awk '
  FILENAME == "recipes/main.cpp" { next }
  /const|constexpr|consteval|constinit|thread_local/ { next }
  /^[ \t]*(static|inline static|static inline)[ \t]+[A-Za-z_][^()]*(=|;|\{)/ { print FILENAME ":" FNR ": " $0; next }
  /^[A-Za-z_][A-Za-z0-9_:<>,*& ]*[ *&>][A-Za-z_][A-Za-z0-9_]*(\[[^\]]*\])?[ ]*(=|;|\{)/ &&
    !/^(using|namespace|class|struct|enum|union|template|typedef|friend|extern template|static_assert)[^A-Za-z_]/ &&
    !/\) *(\{|noexcept|override|;)/ { print FILENAME ":" FNR ": " $0 }' "${files[@]}")"

report "a header opens with a comment" "$(for file in "${headers[@]}"; do
  head -n 1 "$file" | grep -qE '^(//|/\*)' || echo "$file:1"
done)"
report "a header has #pragma once" "$(grep -L '^#pragma once' "${headers[@]}" || true)"
report "no file above 600 lines" \
  "$(wc -l "${all_files[@]}" | awk '$2 != "total" && $1 > 600 { print $2 ": " $1 " lines" }')"

report "no -ffast-math, no -Ofast: a step relies on NaN" "$(find . \( -name 'build*' -o -name .git \) -prune -o \
  \( -name CMakeLists.txt -o -name '*.cmake' -o -name CMakePresets.json \) -exec \
  grep -nHE 'ffast-math|ffinite-math-only|funsafe-math|Ofast' {} + | sed 's|^\./||' || true)"
report "no date or time in a program: two builds are the same bytes" \
  "$(grep -nE '\b__(DATE|TIME|TIMESTAMP)__' "${all_files[@]}" /dev/null || true)"
report "a test with the label faults calls tell() of tests/support/fault_count.h" "$(
  find tests -name CMakeLists.txt 2>/dev/null | sort | while read -r list; do
    tr '\n' ' ' <"$list" | grep -oE 'trireme_test\([^)]*LABELS[^)]*faults[^)]*\)' |
      sed -E 's/trireme_test\(([^ )]*).*/\1/' | while read -r name; do
      grep -qs '\btell(' "${list%/*}/$name"/*.cpp || echo "$list: $name"
    done
  done)"

# Sources that a heavy header reaches, directly or through our own headers.
reached_by() { # reached_by PATTERN
  awk -v heavy="$1" '
    /^[ \t]*#[ \t]*include/ {
      if ($0 ~ heavy) reaches[FILENAME] = 1
      else if (split($0, quoted, "\"") > 1) edge[FILENAME, quoted[2]] = 1
    }
    END {
      do {
        grown = 0
        for (pair in edge) { split(pair, ends, SUBSEP)
          if ((ends[2] in reaches) && !(ends[1] in reaches)) { reaches[ends[1]] = 1; grown = 1 } }
      } while (grown)
      for (file in reaches) if (file ~ /\.(cpp|cu)$/) print file
    }' "${files[@]}" | sort
}
for heavy in 'Eigen=[<"]Eigen/' 'JSON=[<"]nlohmann/' 'Beast=[<"]boost/(beast|asio)' \
  'HDF5=[<"](hdf5|H5[A-Za-z]*)[.]h' 'utf8proc=[<"]utf8proc[.]h'; do
  reached=$(reached_by "${heavy#*=}")
  (($(grep -c . <<<"$reached" || true) <= 3)) || report "${heavy%%=*} reaches more than three sources" "$reached"
done
exit "$bad"
