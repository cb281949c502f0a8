#!/bin/sh
# Run every scenario of testnet/scenarios, or those named, and add up the verdicts.
# Scenarios named in "same_loss_as" of another are run by that one too; that is the runner's business.
build=${BUILD:-build}
passed=0 failed=0
[ $# -gt 0 ] || set -- testnet/scenarios/*.yaml
mkdir -p "$build/verdicts"
for scenario; do
    name=$(basename "$scenario" .yaml)
    echo "== scenario $name"
    if "$build/flotilla" testnet run "$scenario" --json "$build/verdicts/$name.json"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "scenario $name failed"
    fi
done
echo "scenarios: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
