#!/usr/bin/awk -f
# Formats the output of e2e/fuzz.sh as a table.
BEGIN {
  print "| target | started | duration | executions | new inputs | result |"
  print "| --- | --- | --- | --- | --- | --- |"
}
$1 == "==" { row(); package = $2; target = $3; begun = $4; time = $5; execs = fresh = "0"; result = "no result" }
$1 == "fuzz:" && $4 == "execs:" { execs = $5; fresh = $9 }
$1 == "ok" { result = "no finding" }
$1 == "---" && $2 == "FAIL:" { result = "**finding**" }
$1 == "FAIL" && result == "no result" { result = "**failed**" }
END { row() }

function row() {
  if (target != "") {
    printf "| `%s` of %s | %s | %s | %s | %s | %s |\n", target, substr(package, 3), begun, time, execs, fresh, result
  }
}
