#!/bin/sh
# Run test programs one after the other and add up what the check library says of each; ends in "N passed, N failed, N skipped".
passed=0 failed=0 skipped=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT
for program; do
    echo "== ${program##*/}"
    "$program" >"$out" 2>&1
    status=$?
    grep -v '^100%: Checks' "$out"
    # "95%: Checks: 40, Failures: 1, Errors: 1" per program; tests print "skipped: NAME: why".
    line=$(grep -E '^[0-9]+%: Checks: [0-9]+' "$out" | tail -n 1)
    if [ -z "$line" ]; then
        echo "${program##*/} ended without a summary, status $status"
        failed=$((failed + 1))
        continue
    fi
    checks=$(echo "$line" | sed 's/.*Checks: \([0-9]*\).*/\1/')
    failures=$(echo "$line" | sed 's/.*Failures: \([0-9]*\).*/\1/')
    errors=$(echo "$line" | sed 's/.*Errors: \([0-9]*\).*/\1/')
    bad=$((failures + errors))
    skips=$(grep -c '^skipped: ' "$out")
    if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
    passed=$((passed + checks - bad - skips))
    failed=$((failed + bad))
    skipped=$((skipped + skips))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
