#!/bin/sh
# The model of the agreement and its mutants, the mistakes that the simulator has to find, the seeds that once broke something, SEEDS
# more; one closing line. BUILD, SEEDS, JOBS from the environment.
build=${BUILD:-build} seeds=${SEEDS:-2000} jobs=${JOBS:-$(nproc)}
cd "$(dirname "$0")/.." || exit 1
began=$(date +%s)
tests/model/run.sh
model=$?
case $model in 0) said=ok ;; *) said=FAILED ;; esac
command -v spin >/dev/null || said=skipped
"$build"/sim_mutants --mutants 2000 --jobs "$jobs" >"$build"/sim_mutants.out 2>&1
mutants=$?
cat "$build"/sim_mutants.out
caught=$(sed -n 's/^sim: \(.*\) mutants caught.*/\1/p' "$build"/sim_mutants.out)
"$build"/sim --recorded tests/data/sim_seeds.txt --known tests/data/sim_known.txt --seeds "$seeds" --jobs "$jobs" --twice 10 >"$build"/sim.out 2>&1
sim=$?
grep -v '^sim:' "$build"/sim.out
line=$(grep '^sim:' "$build"/sim.out | tail -n 1)
echo "${line:-sim: ended without a result, status $sim}; model $said; mutants ${caught:-none} caught; $(($(date +%s) - began)) s"
[ "$model" -eq 0 ] && [ "$mutants" -eq 0 ] && [ "$sim" -eq 0 ]
