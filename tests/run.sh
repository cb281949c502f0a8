#!/bin/sh
# Run test programs one after the other and add up what the check library says of each; those after
# "--beside" reckon and wait for nothing, and run meanwhile with what the others leave of the cores.
# Ends in "N passed, N failed, N skipped".
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

run() { # NICENESS PROGRAM ...: the output of each to a file by its name, and its status
    niceness=$1
    shift
    for program; do
        nice -n "$niceness" "$program" >"$folder/${program##*/}.out" 2>&1
        echo $? >"$folder/${program##*/}.status"
    done
}

# The programs before "--beside", and after it, in their order.
before= after= met=
for program; do
    if [ "$program" = --beside ]; then met=1
    elif [ -n "$met" ]; then after="$after $program"
    else before="$before $program"
    fi
done
run 10 $after &
run 0 $before
wait

passed=0 failed=0 skipped=0
for program in $before $after; do
    echo "== ${program##*/}"
    out=$folder/${program##*/}.out
    status=$(cat "$folder/${program##*/}.status")
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
# What failed stands beside the closing line, whatever came after it.
grep -hE '^[^ ]+:[0-9]+:[FE]:' "$folder"/*.out
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
