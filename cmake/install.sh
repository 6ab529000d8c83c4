# shellcheck shell=bash disable=SC2154
# Sourced by the root script before a build: installs the packages of packages.txt that are missing.
# Uses root, build, install, say and fail of the root script.

# The package names, or with an argument that one's reason.
package_names() { sed -n 's/^\([a-z0-9][a-z0-9.+-]*\).*/\1/p' "$root/cmake/packages.txt"; }
package_reason() { awk -v name="$1" '$1 == name { sub(/^[^#]*# */, ""); print }' "$root/cmake/packages.txt"; }

# One name a line: those that dpkg does not hold as installed.
missing_packages() {
  local name names have
  mapfile -t names < <(package_names)
  have=" $(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${names[@]}" 2>/dev/null |
    awk '$2 == "installed" { printf "%s ", $1 }')"
  for name in "${names[@]}"; do [[ $have == *" $name "* ]] || echo "$name"; done
}

# Runs apt-get with the words given before the packages ("sudo", "sudo -n" or nothing); its output goes to a log.
apt_install() {
  local log=$build/install.log get
  get=("${become[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120)
  say "installing; apt's output goes to $log"
  # A fresh machine has no package lists, an old one may have outdated ones: both need one update.
  "${get[@]}" install -y --no-install-recommends "$@" </dev/null >"$log" 2>&1 && return
  "${get[@]}" update </dev/null >>"$log" 2>&1
  "${get[@]}" install -y --no-install-recommends "$@" </dev/null >>"$log" 2>&1 && return
  tail -n 15 "$log" >&2
  return 1
}

install_missing() {
  local missing name become=() answer line
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "this is not Debian or Ubuntu, so nothing is installed. The build needs what these Debian packages hold:" \
      "$(package_names | tr '\n' ' ')"
    return
  fi
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]})) || return 0
  line="apt-get install -y --no-install-recommends ${missing[*]}"
  say "these packages are missing:"
  for name in "${missing[@]}"; do printf '  %-30s %s\n' "$name" "$(package_reason "$name")" >&2; done

  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null || fail "installing needs root, and there is no sudo; as root run: $line"
    become=(sudo)
    if [[ -t 0 && -t 2 ]]; then
      read -r -p 'trireme: install them with sudo? [Y/n] ' answer
      [[ $answer == [Nn]* ]] && fail "not installed; to do it yourself: sudo $line"
    else
      become=(sudo -n)
      sudo -n true 2>/dev/null ||
        fail "installing needs root, and without a terminal nobody can be asked; run: sudo $line"
    fi
  fi
  apt_install "${missing[@]}" ||
    fail "apt could not install them (no network? see $build/install.log); to try again by hand: ${become:+sudo }$line"
}
