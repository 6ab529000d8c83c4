#!/usr/bin/env bash
# The root script installs missing packages: as root or without a terminal it never asks.
. "$(dirname "$0")/world.sh"
make_world
missing() { echo libthing-dev >"$world/missing"; rm -rf "$clone/build"; forget_calls; }
apt_line="apt-get install -y --no-install-recommends libthing-dev"

missing; run train
expect "root installs without a question" equal "$code $(calls sudo)" "7 0"
expect "what and why" has "$err" "libthing-dev                   things"
expect "only what is missing" grep -q 'install -y --no-install-recommends libthing-dev$' "$world/calls"

missing; echo g++ >>"$world/missing"; run train
expect "a machine that has none of them gets all" grep -q 'install -y --no-install-recommends g++ libthing-dev$' "$world/calls"

missing; run --no-install train x
expect "--no-install installs nothing" equal "$(calls apt-get)" 0
expect "--no-install is not passed on" equal "$out" "$PWD|train|x|"
touch "$world/break"; missing; run --no-install train
expect "a failure then names the missing package" has "$err" "these packages are missing: libthing-dev"
rm "$world/break"

missing; touch "$world/offline"; run train
expect "offline ends with 1" equal "$code" 1
expect "offline prints the line to run" has "$err" "to try again by hand: $apt_line"
expect "offline shows apt's words" has "$err" "Could not resolve host"
rm "$world/offline"

export FAKE_UID=1000
missing; run train
expect "no terminal, no root: fails" equal "$code $(calls apt-get) $out" "1 0 "
expect "no terminal, no root: the line" has "$err" "sudo $apt_line"
missing; FAKE_SUDO=1 run train
expect "no terminal, sudo without password: installs" equal "$code $(calls apt-get)" "7 1"

on_terminal() { # on_terminal ANSWER: the script on a pseudo-terminal, asked by the question
  code=0
  out=$(echo "$1" | script -qec "'$clone/trireme' train" /dev/null) || code=$?
}
if command -v script >/dev/null; then
  missing; on_terminal n
  expect "a no installs nothing" equal "$code $(calls apt-get)" "1 0"
  expect "the question comes after what and why" has "${out#*things}" "install them with sudo?"
  missing; on_terminal y
  expect "a yes installs with sudo" equal "$code $(calls sudo) $(calls apt-get)" "7 1 1"
fi
missing; mv "$bin/sudo" "$bin/no-sudo"
if ! command -v sudo >/dev/null; then
  run train
  expect "no sudo: the line for root" has "$err" "as root run: $apt_line"
fi

# Not Debian: the same tools, no dpkg-query.
unset FAKE_UID
mkdir "$world/other"
for name in bash env awk sed grep cat find sort stat mkdir rm head tail cut nproc flock tr touch chmod printf; do
  path=$(type -P "$name") && ln -s "$path" "$world/other/$name"
done
rm "$bin/dpkg-query"
missing
PATH="$bin:$world/other" run train
expect "elsewhere it names the packages and builds" has "$code $err" "g++ libthing-dev"
expect "elsewhere nothing is installed" equal "$(calls apt-get)" 0
