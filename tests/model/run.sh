#!/bin/sh
# Check the model of agreement: it must pass and each of its mutants must fail. `run.sh 3` takes three terms (minutes, 1.5 GB).
terms=${1:-2}
model=$(cd "$(dirname "$0")" && pwd)/plan_epoch.pml
if ! command -v spin >/dev/null; then
    echo "skipped: model: spin is not installed"
    exit 0
fi
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

# Prints the number of errors that the search found.
errors() {
    spin -DT="$terms" $1 -a "$model" >spin.log 2>&1 &&
        ${CC:-cc} -w -O2 -DSAFETY -DNOREDUCE -o pan pan.c &&
        ./pan -m100000 -w22 | sed -n 's/.*errors: \([0-9]*\).*/\1/p'
}

bad=0
found=$(errors "")
echo "model: ${found:-no} errors, 0 expected"
[ "$found" = 0 ] || bad=1
for mutant in TIE FORGET NOADOPT RULED OPEN RAISE; do
    found=$(errors "-DBUG_$mutant")
    echo "model with BUG_$mutant: ${found:-no} errors, 1 expected"
    [ "$found" = 1 ] || bad=1
done
exit $bad
