# shellcheck shell=bash
# Sourced by the house's tests: a small clone in a temporary folder (with a space in its name), and a folder of
# counterfeit tools that stands first in PATH. Every tool notes its call in $world/calls.
set -euo pipefail
source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
world=$(mktemp -d)
trap 'rm -rf -- "$world"' EXIT
clone="$world/my clone"
bin=$world/bin
unset OMPI_COMM_WORLD_SIZE PMI_SIZE PMI_RANK PMIX_RANK SLURM_STEP_ID TRIREME_ARCH CXX

tool() { # tool NAME: its body comes on standard input
  { printf '#!/usr/bin/env bash\necho "%s $*" >>"%s/calls"\n' "$1" "$world"; cat; } >"$bin/$1"
  chmod +x "$bin/$1"
}

make_world() {
  mkdir -p "$clone/framework" "$clone/cmake" "$clone/tests" "$bin"
  cp "$source_root/trireme" "$clone/"
  cp "$source_root"/cmake/*.sh "$source_root"/cmake/*.awk "$clone/cmake/"
  printf '# a comment\ng++  # the compiler\nlibthing-dev  # things\n' >"$clone/cmake/packages.txt"
  touch "$clone/CMakeLists.txt" "$clone/framework/"{CMakeLists.txt,a.cpp} "$clone/tests/CMakeLists.txt" "$world/calls"
  tool cmake <<<'while (($# > 1)); do [[ $1 == -B ]] && b=$2; shift; done; touch "$b/build.ninja" "$b/CMakeCache.txt"'
  tool ninja <<EOT
echo "[1/2] Building a.cpp"
[[ -e "$world/break" ]] && { printf 'FAILED: a.o\nc++ -c a.cpp\na.cpp:1: error: no luck\n'; exit 1; }
mkdir -p "\$2/recipes"
printf '#!/usr/bin/env bash\nprintf "%%s|" "\$PWD" "\$@"\nexit 7\n' >"\$2/recipes/trireme"
chmod +x "\$2/recipes/trireme"
EOT
  tool ctest <<<'exit 0'
  tool c++ <<<'exit 0'
  tool ccache <<<'exit 0'
  tool apt-get <<EOT
[[ -e "$world/offline" ]] && { echo "Could not resolve host"; exit 100; }
[[ " \$* " == *" install "* ]] && rm -f "$world/missing"
exit 0
EOT
  tool dpkg-query <<EOT
for name in "\${@:4}"; do grep -qx "\$name" "$world/missing" 2>/dev/null || echo "\$name installed"; done
EOT
  tool id <<<'echo "${FAKE_UID:-0}"'
  tool sudo <<<'[[ $1 == -n ]] && { [[ -n ${FAKE_SUDO:-} ]] || exit 1; shift; }; exec "$@"'
  export PATH="$bin:$PATH"
}

# Runs the clone's script; leaves its standard output, standard error and status in out, err and code.
run() {
  code=0
  "$clone/trireme" "$@" >"$world/out" 2>"$world/err" </dev/null || code=$?
  out=$(<"$world/out") err=$(<"$world/err")
}
calls() { grep -c "^$1 " "$world/calls" || true; }
forget_calls() { : >"$world/calls"; }

expect() { # expect WHAT CONDITION...: the condition is a command
  local what=$1
  shift
  "$@" && return
  printf 'FAILED: %s\n  status %s\n  stdout: %s\n  stderr: %s\n' "$what" "${code:-}" "${out:-}" "${err:-}" >&2
  exit 1
}
equal() { [[ $1 == "$2" ]]; }
has() { [[ $1 == *"$2"* ]]; }
