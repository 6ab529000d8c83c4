#!/usr/bin/env bash
# ./trireme test builds everything, runs ctest, tells the reasons of skipped tests, ends with ctest's summary and status.
. "$(dirname "$0")/world.sh"
make_world
tool ctest <<'EOT'
mkdir -p Testing/Temporary
cat >Testing/Temporary/LastTest.log <<'LOG'
1/2 Testing: base
1/2 Test: base
[ RUN      ] Base.Disk
/x/y.cpp:12: Skipped
this machine has
no disk

[  SKIPPED ] Base.Disk (0 ms)
[  SKIPPED ] Base.Disk
2/2 Testing: house
2/2 Test: house
SKIPPED: no script command
LOG
printf '1/2 Test #1: base\n50%% tests passed, 1 tests failed out of 2\n\nTotal Test time (real) = 1.0 sec\n'
exit 8
EOT
run test -R base
expect "ctest's status" equal "$code" 8
expect "everything is built" grep -Eq '^ninja .* all$' "$world/calls"
expect "ctest's arguments" grep -Eq '^ctest --output-on-failure -j [0-9]+ .*-R base$' "$world/calls"
expect "reasons, then the summary, at the end" equal "$out" '1/2 Test #1: base
skipped: base: Base.Disk: this machine has no disk
skipped: house: no script command

50% tests passed, 1 tests failed out of 2

Total Test time (real) = 1.0 sec'
forget_calls; run train
expect "the program is then up to date" equal "$code $(calls ninja)" "7 0"
