#!/usr/bin/env bash
# The checks of floors and house rules pass on a clean tree and fail on each planted offence, naming its file.
. "$(dirname "$0")/world.sh"
tree=$world/tree
mkdir -p "$tree"/{framework/{attic,base,comm,data,checkpoint},optim,offload,zero,recipes/train,tests/zero}

clean() {
  find "$tree" -type f -delete
  printf '// Purpose.\n#pragma once\n#include <vector>\nnamespace trireme {\nconstexpr int kSize = 3;\nint f(int a);\n}\n' \
    >"$tree/framework/base/a.h"
  printf '#include "zero/b.h"\n#include "framework/base/a.h"\nstatic int f(int a) { return a; }\n' >"$tree/recipes/train/c.cpp"
  printf '// Purpose.\n#pragma once\n#include "optim/o.h"\n  static Shape of(int a);\nextern const int kX;\n' >"$tree/zero/b.h"
  printf 'std::atomic<int> signals{0};\n' >"$tree/recipes/main.cpp"
  printf '#include "recipes/train/c.h"\nstatic int calls = 0;\n' >"$tree/tests/zero/t.cpp"
}
check() { # check NAME: its output and status
  code=0
  out=$(bash "$source_root/cmake/check_$1.sh" "$tree" 2>&1) || code=$?
}
caught() { # caught CHECK FILE LINE [WORDS]: the line is added to the file of a clean tree
  check "$1"
  expect "$1 passes on a clean tree" equal "$code $out" "0 "
  printf '%s\n' "$3" >>"$tree/$2"
  check "$1"
  expect "$1 refuses '$3' in $2" equal "$code" 1
  expect "$1 names $2" has "$out" "$2"
  expect "$1 says why" has "$out" "${4:-}"
  clean
}

clean
caught floors framework/base/a.h '#include "zero/b.h"' "stands above it"
caught floors framework/base/a.h '#include "framework/comm/c.h"' "stands above it"
caught floors framework/data/d.cpp '#include "framework/checkpoint/c.h"' "its neighbour framework/checkpoint"
caught floors offload/o.cpp '#  include "optim/adam.h"' "its neighbour optim"
caught floors zero/z.cpp '#include "recipes/train/c.h"' "stands above it"
caught floors zero/z.cpp '#include "tests/support/s.h"' "no floor"
caught floors zero/z.cpp '#include "b.h"' "not named by its room"
caught floors framework/attic/z.cpp '' "has no floor"

caught house zero/z.cpp 'auto home = std::getenv("HOME");' "environment"
caught house recipes/r.cpp 'thread_local int rank;' "thread_local"
caught house zero/z.cpp 'static std::mutex lock;' "mutable"
caught house zero/z.cpp '  static int calls = 0;' "mutable"
caught house zero/z.cpp 'int calls = 0;' "mutable"
caught house zero/z.cpp 'std::atomic<int> calls{0};' "mutable"
caught house zero/z.cpp 'inline Registry* registry = nullptr;' "mutable"
caught house framework/CMakeLists.txt 'add_compile_options(-O3 -ffast-math)' "NaN"
caught house recipes/r.cpp 'const char* built = __DATE__;' "two builds"
caught house tests/CMakeLists.txt 'trireme_test(zero FLOORS zero LABELS faults)' "tell()"
caught house framework/comm/h.h '#pragma once' "opens with a comment"
caught house framework/comm/h.h '// Purpose.' "#pragma once"
caught house tests/zero/long.cpp "$(printf '//\n%.0s' {1..601})" "601 lines"

for header in Eigen/Dense nlohmann/json.hpp boost/beast.hpp hdf5.h; do
  printf '// Purpose.\n#pragma once\n#include <%s>\n' "$header" >"$tree/zero/heavy.h"
  for n in 1 2 3; do echo '#include "zero/heavy.h"' >"$tree/zero/$n.cpp"; done
  caught house zero/4.cpp "#include <$header>" "more than three sources"
done
