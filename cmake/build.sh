# shellcheck shell=bash disable=SC2154
# Sourced by the root script: configures, builds and tests. Uses root, build, stamp, now, before, install, say and
# fail of the root script, and install_missing.

# How many compilers fit: the cores, and about 1 GiB of free memory each.
build_jobs() {
  local cores free
  cores=$(nproc)
  free=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo 2>/dev/null)
  ((${free:-$cores} >= cores)) && echo "$cores" || echo "$((free > 1 ? free : 1))"
}

# The line of the stamp that opens with the word.
stamp_line() { sed -n "s/^$1 //p;/^$1 /q" <<<"$2"; }

# Ninja cannot see that -march=native, the compiler behind its path or the clone's own path became another, so
# everything is built anew; the log of an installation stays.
discard_foreign_build() {
  local word why=
  [[ -e $build/CMakeCache.txt || -e $stamp ]] || return 0
  local old=
  [[ -r $build/.machine ]] && old=$(<"$build/.machine")
  for word in cpu compiler folder; do
    [[ $(stamp_line "$word" "$old") == "$(stamp_line "$word" "$now")" ]] || why+="${why:+, }$word"
  done
  [[ -n $why ]] || return 0
  [[ -n $old ]] && say "the build in $build was made for another $why; building anew"
  find "$build/" -mindepth 1 -maxdepth 1 ! -name .lock ! -name install.log -exec rm -rf -- {} +
}

# Shows "[12/340] file" lines: in place on a terminal, else one in about every tenth.
show_progress() {
  local line built total shown=0
  while IFS= read -r line; do
    printf '%s\n' "$line"
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\ (.*) ]] || continue
    built=${BASH_REMATCH[1]} total=${BASH_REMATCH[2]}
    if [[ -t 2 ]]; then
      printf '\r\033[Ktrireme: building %s/%s %s' "$built" "$total" "${BASH_REMATCH[3]##*/}" >&2
    elif ((total >= 20 && built * 10 / total > shown)); then
      shown=$((built * 10 / total))
      say "building $built/$total"
    fi
  done
  [[ -t 2 ]] && printf '\r\033[K' >&2
}

# Says what failed and shows the log's first failure without its long command; without one, the log's end.
show_failure() {
  local missing
  say "$1; the whole log is $build/build.log:"
  { awk '/^FAILED: / { shown = 1; print; getline; next } shown && ++n <= 40' "$build/build.log" | grep . ||
    tail -n 40 "$build/build.log"; } | cut -c1-400 >&2
  if [[ $install == no ]]; then
    mapfile -t missing < <(missing_packages)
    ((${#missing[@]} == 0)) || say "--no-install was given, and these packages are missing: ${missing[*]}"
  fi
  exit 1
}

configure() {
  local arch launcher=
  read -r arch _ <<<"$(stamp_line cpu "$now")"
  if ! { command -v cmake && command -v ninja; } >/dev/null; then
    fail "the build needs cmake and ninja (packages cmake and ninja-build), and at least one of them is missing."
  fi
  command -v ccache >/dev/null && launcher=ccache
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "-DTRIREME_ARCH=$arch" \
    "-DCMAKE_CXX_COMPILER_LAUNCHER=$launcher" >>"$build/build.log" 2>&1 ||
    show_failure "the build could not be configured"
}

# Another call that held the lock may have built all that this one wants.
take_lock() {
  if ! { mkdir -p -- "$build" && exec {lock}>"$build/.lock"; } 2>/dev/null; then
    fail "$build is not writable, and the build in it is missing or stale: build once as the owner of $root."
  fi
  flock -n "$lock" && return
  say "another call is building here; waiting for it"
  flock "$lock"
  before=
  [[ -x $program && -r $stamp ]] && before=$(<"$stamp")
  now=$(current_stamp)
}

# Builds a target. Ninja holds the lock too, so that killing this script does not let a second one in.
build_target() {
  take_lock
  [[ $1 != all && $before == "$now" ]] && return
  [[ $install == no ]] || install_missing
  # After the installation, which may bring the compiler; before the build, so that a file saved meanwhile is stale.
  now=$(current_stamp)
  discard_foreign_build
  [[ $before == "$now" ]] || rm -f -- "$stamp"
  head -n 3 <<<"$now" >"$build/.machine"
  : >"$build/build.log"
  # ccache sees only the words -march=native: the CPU must be part of its key.
  export CCACHE_EXTRAFILES=$build/.machine
  [[ -e $build/build.ninja && $(stamp_line packages "$before") == "$(stamp_line packages "$now")" ]] || configure
  ninja -C "$build" -j "$(build_jobs)" "$1" 2>&1 | show_progress >>"$build/build.log"
  [[ ${PIPESTATUS[0]} == 0 ]] || show_failure "the build failed"
  printf '%s\n' "$now" >"$stamp"
  exec {lock}>&-
}

build_program() {
  if [[ -x $program ]]; then
    say "building what changed"
  else
    say "building for this machine, which takes a few minutes once; the log is $build/build.log"
  fi
  build_target trireme
}
build_everything() { build_target all; }

# Passes ctest's output on, but puts the reasons of skipped tests and the scoreboard of injected faults before its
# summary, which then is the end.
reports_before_summary() {
  local line summary=
  while IFS= read -r line; do
    [[ $line =~ ^[0-9]+%\ tests\ passed,\ [0-9]+\ tests?\ failed ]] && summary=yes$'\n'
    if [[ -n $summary ]]; then summary+=$line$'\n'; else printf '%s\n' "$line"; fi
  done
  [[ -n $summary ]] || return 0
  awk -f "$root/cmake/skipped_tests.awk" Testing/Temporary/LastTest.log
  CTEST_SCOREBOARD=now bash "$root/cmake/scoreboard.sh" .
  printf '\n%s' "${summary#*$'\n'}"
}

run_tests() {
  cd "$build" || exit 1
  CTEST_SCOREBOARD=later ctest --output-on-failure -j "$(nproc)" --test-output-size-passed 1048576 "$@" \
    </dev/null 2>&1 | reports_before_summary
  return "${PIPESTATUS[0]}"
}
