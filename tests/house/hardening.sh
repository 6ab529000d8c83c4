#!/usr/bin/env bash
# hardening.sh PROGRAM BUILD CXX: the built program is hardened as docs/reliability.md says, looked up in the file
# itself, and every source was compiled with the flags that leave no trace in it. Each look is first shown to miss
# nothing: a small program built without the flag must be refused.
set -euo pipefail
program=$1 build=$2 cxx=$3
source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
for tool in readelf objdump nm; do
  command -v "$tool" >/dev/null || { echo "SKIPPED: no $tool (package binutils)"; exit 0; }
done
x86=no
readelf -hW "$program" | grep -q 'Machine:.*X86-64' && x86=yes

known() { "$cxx" -Werror "$1" -x c++ -c /dev/null -o "$scratch/known.o" 2>/dev/null; }
compiled=(-fPIE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -D_GLIBCXX_ASSERTIONS -Werror=format-security -Wformat=2)
for flag in -fstack-protector-strong -fstack-clash-protection -ftrivial-auto-var-init=zero; do
  if known "$flag"; then compiled+=("$flag"); fi
done
if [[ $x86 == yes ]] && known -fcf-protection=full; then compiled+=(-fcf-protection=full); fi
has_flag() { [[ " ${compiled[*]} " == *" $1 "* ]]; }

# What is wrong with a program, one line each; nothing for a hardened one. Folders that its bytes must not name follow.
faults_of() { # faults_of PROGRAM FOLDER...
  local file=$1 dynamic segments imports code folder
  shift
  dynamic=$(readelf -dW "$file") segments=$(readelf -lW "$file") imports=$(nm -D --undefined-only "$file")
  code=$(objdump -d --no-show-raw-insn "$file")
  readelf -hW "$file" | grep -q 'Type: *DYN' && grep -q 'FLAGS_1.*PIE' <<<"$dynamic" || echo "no PIE"
  grep -Eq 'BIND_NOW|FLAGS_1.*NOW' <<<"$dynamic" || echo "no BIND_NOW"
  ! grep -q TEXTREL <<<"$dynamic" || echo "text relocations"
  grep -q GNU_RELRO <<<"$segments" || echo "no RELRO"
  grep -Eq 'GNU_STACK.* RW +0x' <<<"$segments" || echo "executable stack"
  # With separate code no loaded segment but that of .text is executable, and .text shares it with no constants.
  ! awk '/Segment Sections/ { part = 1 } part && / \.text / && / (\.rodata|\.dynsym) / { found = 1 } END { exit !found }' \
    <<<"$segments" || echo "code and constants in one segment"
  ! grep -Eq 'LOAD.* RWE ' <<<"$segments" || echo "a segment to write and to run"
  grep -q '__stack_chk_fail' <<<"$imports" || echo "no stack protector"
  grep -Eq ' __(mem|str|sn?printf|vsn?printf|f?printf|read)[a-z]*_chk' <<<"$imports" || echo "no fortified calls"
  grep -q 'glibcxx_assert_fail' <<<"$imports" || echo "no library assertions"
  if has_flag -fstack-clash-protection && [[ $x86 == yes ]]; then
    grep -Eq 'orq? +\$0x0,(0x[0-9a-f]+)?\(%[er]sp\)' <<<"$code" || echo "no stack probes"
  fi
  if has_flag -fcf-protection=full; then
    grep -A 1 '<main>:' <<<"$code" | grep -q endbr64 || echo "no landing marks (endbr64)"
  fi
  for folder in "$@"; do
    ! grep -E 'R(UN)?PATH' <<<"$dynamic" | grep -qF "$folder" || echo "run path into $folder"
    ! grep -qaF "$folder/" "$file" || echo "its bytes name $folder"
  done
}
# Sources of a compile_commands.json that lack a flag.
unflagged() { # unflagged FILE
  local flag
  grep -q '"command":' "$1" || echo "no commands in $1"
  for flag in "${compiled[@]}"; do
    grep '"command":' "$1" | grep -vF -- " $flag " | sed -E "s|.* -c ([^ \"]*).*|\1 lacks $flag|" || true
  done
}

refuse() { # refuse WORDS GOT
  [[ $2 == *"$1"* ]] || { printf 'FAILED: planted "%s" was not found, but: %s\n' "$1" "$2"; exit 1; }
}
cat >"$scratch/tiny.cpp" <<'EOT'
#include <cstdio>
#include <cstring>
#include <vector>
int main(int argc, char** argv) {
  char text[100000];
  std::vector<int> some(3);
  std::strcpy(text, argv[0]);
  std::puts(text);
  std::puts(__FILE__);
  return some[static_cast<unsigned>(argc)];
}
EOT
tiny() { # tiny FLAG...: built hardened, but for the flags that follow
  "$cxx" -O2 "${compiled[@]}" "-ffile-prefix-map=$scratch/=" "$scratch/tiny.cpp" -o "$scratch/tiny" -pie -Wl,-z,relro \
    -Wl,-z,now -Wl,-z,noexecstack -Wl,-z,separate-code "$@" 2>"$scratch/tiny.err" || { cat "$scratch/tiny.err"; exit 1; }
  faults_of "$scratch/tiny" "$scratch"
}
none=$(tiny)
[[ -z $none ]] || { printf 'FAILED: the small hardened program: %s\n' "$none"; exit 1; }
refuse "no PIE" "$(tiny -fno-pie -no-pie)"
refuse "no BIND_NOW" "$(tiny -Wl,-z,lazy)"
refuse "no RELRO" "$(tiny -Wl,-z,norelro)"
refuse "executable stack" "$(tiny -Wl,-z,execstack)"
refuse "code and constants" "$(tiny -Wl,-z,noseparate-code)"
refuse "no stack protector" "$(tiny -fno-stack-protector)"
refuse "no fortified calls" "$(tiny -U_FORTIFY_SOURCE)"
refuse "no library assertions" "$(tiny -U_GLIBCXX_ASSERTIONS)"
refuse "run path into" "$(tiny "-Wl,-rpath,$scratch/lib")"
refuse "its bytes name" "$(tiny "-ffile-prefix-map=$scratch/=$scratch/")"
! has_flag -fcf-protection=full || refuse "no landing marks" "$(tiny -fcf-protection=none)"
if has_flag -fstack-clash-protection && [[ $x86 == yes ]]; then
  refuse "no stack probes" "$(tiny -fno-stack-clash-protection)"
fi
for flag in "${compiled[@]}"; do
  printf '"command": "c++ %s -o a.o -c a.cpp",\n' "${compiled[*]/#$flag/-DX}" >"$scratch/commands.json"
  refuse "a.cpp lacks $flag" "$(unflagged "$scratch/commands.json")"
done

wrong=$(faults_of "$program" "$build" "$source_root"; unflagged "$build/compile_commands.json")
[[ -z $wrong ]] || { printf 'FAILED: %s:\n%s\n' "$program" "$wrong"; exit 1; }
