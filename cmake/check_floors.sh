#!/usr/bin/env bash
# check_floors.sh [ROOT]: every include points into its own room or to a floor below; rooms of one floor never include
# each other; nobody but tests and benchmarks includes tests. Prints each offence as file:line and ends with 1.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

# One floor a line, from the ground up.
floors='framework/base
framework/backend
framework/comm
framework/autograd
framework/nn
framework/data framework/checkpoint
optim offload tensor_parallel pipeline
zero
recipes'

shopt -s nullglob
folders=()
for folder in framework optim offload tensor_parallel pipeline zero recipes; do
  [[ -d $folder ]] && folders+=("$folder")
done
mapfile -t files < <(
  find "${folders[@]}" -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) | sort
)
((${#files[@]})) || { echo "check_floors: no sources below $PWD"; exit 1; }

awk -v floors="$floors" '
  function room(path,   parts, n) {
    n = split(path, parts, "/")
    return parts[1] == "framework" ? parts[1] "/" parts[2] : n > 1 ? parts[1] : ""
  }
  function offence(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; bad = 1 }
  BEGIN {
    n = split(floors, line, "\n")
    for (i = 1; i <= n; i++) { m = split(line[i], names, " "); for (j = 1; j <= m; j++) floor[names[j]] = i }
  }
  FNR == 1 { own = room(FILENAME); if (!(own in floor)) offence("the room " own " has no floor in check_floors.sh") }
  /^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    target = room(quoted[2])
    if (!(target in floor)) offence("\"" quoted[2] "\" is not named by its room, or the room is no floor of the house")
    else if (target != own && floor[target] == floor[own]) offence(own " includes its neighbour " target)
    else if (floor[target] > floor[own]) offence(own " includes " target ", which stands above it")
  }
  END { exit bad }' "${files[@]}"
