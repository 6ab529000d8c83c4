# Reads ctest's LastTest.log and prints one line for each skipped test with its reason. GoogleTest prints
# "file:line: Skipped", the reason, "[  SKIPPED ] Suite.Name (0 ms)"; a script prints "SKIPPED: reason".
/^[0-9]+\/[0-9]+ Test: / { program = $3 }
/^SKIPPED: / { print "skipped: " program ": " substr($0, 10) }
/: Skipped$/ { collecting = 1; reason = ""; next }
/^\[  SKIPPED \] .*\([0-9]+ ms\)$/ {
  print "skipped: " program ": " $4 ": " (reason == "" ? "no reason given" : reason)
  collecting = 0
  next
}
collecting && NF { sub(/^[ \t]+/, ""); reason = reason (reason == "" ? "" : " ") $0 }
