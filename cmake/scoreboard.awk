# Reads ctest's LastTest.log and adds up what the suites of injected faults told (tests/support/fault_count.h):
#   [faults] R6 | power cuts in a save | runs 1200 | injected 1200 | lost 0
# Prints a table by row, and nothing when no suite told anything.
function value(part, word) { sub("^ *" word " +", "", part); return part + 0 }
function number(n,   digits, text) { # 1,234,567
  digits = sprintf("%.0f", n)
  while (length(digits) > 3) {
    text = "," substr(digits, length(digits) - 2) text
    digits = substr(digits, 1, length(digits) - 3)
  }
  return digits text
}
function order(key,   digits) { # R6 before R13, then by words
  digits = key
  sub(/^[^0-9]*/, "", digits)
  return sprintf("%06d %s", digits + 0, key)
}
function line(row, what, a, b, c) { printf "%-" rows "s  %-" words "s  %10s  %10s  %6s\n", row, what, a, b, c }
/^\[faults\] / {
  if (split(substr($0, 10), part, " [|] ") != 5) { print "not understood: " $0; next }
  key = part[1] SUBSEP part[2]
  if (!(key in runs)) keys[++n] = key
  runs[key] += value(part[3], "runs")
  injected[key] += value(part[4], "injected")
  lost[key] += value(part[5], "lost")
}
END {
  if (!n) exit
  rows = 3; words = 4
  for (i = 1; i <= n; i++) {
    for (j = i; j > 1 && order(keys[j]) < order(keys[j - 1]); j--) { k = keys[j]; keys[j] = keys[j - 1]; keys[j - 1] = k }
  }
  for (i = 1; i <= n; i++) {
    split(keys[i], part, SUBSEP)
    if (length(part[1]) > rows) rows = length(part[1])
    if (length(part[2]) > words) words = length(part[2])
  }
  print ""
  line("row", "what", "runs", "injected", "lost")
  for (i = 1; i <= n; i++) {
    k = keys[i]
    split(k, part, SUBSEP)
    line(part[1], part[2], number(runs[k]), number(injected[k]), number(lost[k]))
    all_runs += runs[k]; all_injected += injected[k]; all_lost += lost[k]
  }
  line("all", "", number(all_runs), number(all_injected), number(all_lost))
  print "lost: " number(all_lost)
}
