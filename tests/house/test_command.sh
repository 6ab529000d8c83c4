#!/usr/bin/env bash
# ./trireme test builds everything, runs ctest, tells the reasons of skipped tests and adds up the injected faults, ends
# with ctest's summary and status.
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
[faults] R13 | bit flips | runs 2000 | injected 1999 | lost 0
[faults] R6 | power cuts | runs 400 | injected 400 | lost 0
[faults] R6 | power cuts | runs 800 | injected 1000000 | lost 1
LOG
[[ $CTEST_SCOREBOARD == later ]] || echo "no word from whoever started this"
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

row  what              runs    injected    lost
R6   power cuts       1,200   1,000,400       1
R13  bit flips        2,000       1,999       0
all                   3,200   1,002,399       1
lost: 1

50% tests passed, 1 tests failed out of 2

Total Test time (real) = 1.0 sec'
forget_calls; run train
expect "the program is then up to date" equal "$code $(calls ninja)" "7 0"
