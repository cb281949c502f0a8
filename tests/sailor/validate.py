#!/usr/bin/env python3
"""Hold `flotilla plan --evaluate` against measured iterations of the Sailor artifact.

usage: validate.py --data DIR --runs DIR [--flotilla BINARY] [--learn]
  DIR       the measured figures (--data), and a folder of measured runs (--runs): every *.json
            below it that has a pipeline_list and a `real`
  --learn   with the one correction that a node learns by itself, measured over predicted of each
            device type, by the runs that wait for it: learnt on one half of the runs and judged on the
            other, both ways

Each run goes through the replay, told only what its framework did: gradients reduced after the
last backward pass of all stages, in serial buckets of 500 MB, of which it keeps two; neighbours that exchange
a gradient for an activation; sends and receives that hold up who does them, but for what NCCL's own buffers
take for each device (2 channels of 8 chunks of 128 KiB); 8 further bytes a parameter
(communication and the framework's copies) and a process of 2 GB, 3 GB in a tensor-parallel group,
as the artifact states them (configs/model_constants.json); and the gradients of one layer's
activations, in and out. Prints a JSON line for each run: {file,
measured_s, predicted_s, error, measured_bytes, predicted_bytes}; error is (predicted - measured)
/ measured, bytes are of the fullest device. The last line, on standard error, has the means.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from scenario import (BadInput, Data, LAYER_SIZES, LAYER_TIMES, LINKS, PRICES, cluster_text,
                      job_text, profile_of, write, write_json)

MACHINES = "configs/basic_cluster_config.json"
FRAMEWORK = ("framework: {overlap: false, bucket: 500MB, transfer_buffer: 2MiB, bucket_buffers: 2, working_layers: 2, "
             "extra_bytes_per_parameter: 8, fixed: 2GB, fixed_tp: 3GB}")
# Of two pairs of runs the artifact has the very same measurements though batch and machines differ;
# they are printed, and neither learnt from nor counted.
DOUBTFUL = ("mit/N3/plan_config_N3_D1.json", "mit/N6/plan_config_N6_D2.json")
TOKENS = 2048  # of a sequence, in every measured run


def find_runs(folder):
    for root, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            if name.endswith(".json"):
                yield os.path.join(root, name)


def model_of(data, path, run, layers):
    """The model of a run: what it says, what its path says, or the one with so many layers."""
    sizes = data.table(LAYER_SIZES)
    named = [run.get("model")] + os.path.normpath(path).split(os.sep)[::-1]
    for name in named:
        if name in sizes:
            return name
    fitting = [m for m in sizes if len(sizes[m]["1"]) == layers]
    if len(fitting) != 1:
        raise BadInput(f"neither the file nor its path names a model of {LAYER_SIZES}, "
                       f"and {len(fitting)} models have {layers} layers")
    return fitting[0]


def replicas_of(stage):
    """[(device, zone, tp)] of a stage."""
    out = []
    for machines, tp in stage:
        device, _, zone = machines[0]
        if any(m[0] != device or m[2] != zone for m in machines):
            raise BadInput("a replica of several device types or zones has no form in a plan")
        out.append((device, zone, tp))
    return out


def plan_of(run):
    """The run's plan as a document, its pools, and the sequences of its iteration."""
    pipeline, = run["pipeline_list"]
    layers, stages = pipeline["layers_per_stage"], [replicas_of(s) for s in pipeline["tmp_per_stage"]]
    width = len(stages[0])
    if any(len(s) != width for s in stages) or len(stages) != len(layers):
        raise BadInput("its stages have different numbers of replicas")
    micro_batch = run["mbs"]
    total = -(-run["gbs"] // micro_batch)
    counts = [total // width + (j < total % width) for j in range(width)]
    pools, document = {}, {"micro_batch": micro_batch, "stages": []}
    for own, replicas in zip(layers, stages):
        if own != list(range(own[0], own[0] + len(own))):
            raise BadInput("a stage's layers do not follow each other")
        document["stages"].append({"first_layer": own[0], "layers": len(own), "replicas": [
            {"device": d, "zone": z, "tp": t, "micro_batches": n} for (d, z, t), n in zip(replicas, counts)]})
        for device, zone, tp in replicas:
            pools[device, zone] = pools.get((device, zone), 0) + tp
    return document, pools, micro_batch * sum(counts), sum(len(own) for own in layers)


def machine_of(data, device, document):
    """Devices in one machine: what the data says of the type, else as many as a replica of the run takes."""
    if device in data.table(MACHINES):
        return data.find(MACHINES, device, "gpus_per_node")
    return max(r["tp"] for s in document["stages"] for r in s["replicas"] if r["device"] == device)


def evaluate(data, flotilla, folder, path, run, corrections):
    document, pools, sequences, layers = plan_of(run)
    model = model_of(data, path, run, layers)
    profiles, machine = {}, {}
    for device, _ in pools:
        profiles[device] = f"{model}.{device}.json"
        write_json(os.path.join(folder, profiles[device]), profile_of(data, model, device, TOKENS))
        machine[device] = machine_of(data, device, document)
    text = cluster_text(data, pools, profiles, "replay", machine, priced=False, corrections=corrections)
    write(os.path.join(folder, "cluster.yaml"), text)
    write(os.path.join(folder, "job.yaml"), job_text(model, sequences, more=[FRAMEWORK]))
    write(os.path.join(folder, "plan.json"), json.dumps(document))
    command = [flotilla, "plan", "--cluster", os.path.join(folder, "cluster.yaml"), "--job",
               os.path.join(folder, "job.yaml"), "--evaluate", os.path.join(folder, "plan.json"), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if not done.stdout:
        raise BadInput(done.stderr.strip() or f"flotilla ended with {done.returncode}")
    answer = json.loads(done.stdout)
    if "predicted" not in answer:
        raise BadInput(answer["why"])
    predicted, bound = answer["predicted"], answer["bound_by"]
    slowest = answer["stages"][bound["stage"] if bound["what"] != "reduce" else slowest_stage(answer)]
    return {"predicted_s": predicted["iteration_s"], "predicted_bytes": max(m["total"] for m in predicted["memory"]),
            "device": slowest["replicas"][bound["pipeline"]]["device"]}


def slowest_stage(answer):
    """Of the pipeline that ends last."""
    times = [s["timeline"] for s in answer["predicted"]["stages"]]
    return max(range(len(times)), key=lambda s: times[s]["forward_s"] + times[s]["backward_s"])


def trusted(rows):
    return [r for r in rows if r["error"] is not None and not r["path"].endswith(DOUBTFUL)]


def learnt(rows, half):
    """Measured over predicted of each device type, the middle of one half of the runs; a run of several
    types speaks for the one that the others wait for."""
    ratios = {}
    for index, row in enumerate(rows):
        if index % 2 == half and trusted([row]):
            ratios.setdefault(row["device"], []).append(row["measured_s"] / row["predicted_s"])
    return {device: statistics.median(r) for device, r in ratios.items()}


def judge(data, flotilla, runs_folder, corrections_of):
    rows = []
    for index, path in enumerate(find_runs(runs_folder)):
        try:
            with open(path, encoding="utf-8") as file:
                run = json.load(file)
        except ValueError as why:
            raise BadInput(f"{path} is no JSON: {why}") from why
        if not isinstance(run, dict) or "pipeline_list" not in run or "real" not in run:
            continue
        row = {"file": os.path.relpath(path, runs_folder), "path": os.path.realpath(path), "measured_s": run["real"], "predicted_s": None,
               "error": None, "measured_bytes": run.get("max_mem"), "predicted_bytes": None}
        try:
            with tempfile.TemporaryDirectory() as folder:
                row.update(evaluate(data, flotilla, folder, path, run, corrections_of(index)))
            row["error"] = (row["predicted_s"] - run["real"]) / run["real"]
        except BadInput as why:
            row["why"] = str(why)
        rows.append(row)
    return rows


def mean(values):
    return sum(values) / len(values) if values else None


def report(rows):
    for row in rows:
        print(json.dumps({k: v for k, v in row.items() if k not in ("path", "device")}))
    known = trusted(rows)
    time = mean([abs(r["error"]) for r in known])
    memory = mean([abs(r["predicted_bytes"] / r["measured_bytes"] - 1) for r in known if r["measured_bytes"]])
    if known:
        print(f"validate.py: {len(known)} of {len(rows)} runs; mean error of time {time:.1%}, of memory "
              f"{'not measured' if memory is None else format(memory, '.1%')}", file=sys.stderr)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--runs", required=True)
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--flotilla", default=os.path.join(here, "..", "..", "build", "flotilla"))
    parser.add_argument("--learn", action="store_true")
    given = parser.parse_args(argv)
    data = Data(given.data)
    try:
        if not os.path.isdir(given.runs):
            raise BadInput(f"{given.runs} is no folder")
        rows = judge(data, given.flotilla, given.runs, lambda index: {})
        if given.learn:
            halves = [learnt(rows, 1), learnt(rows, 0)]
            rows = judge(data, given.flotilla, given.runs, lambda index: halves[index % 2])
        if not rows:
            raise BadInput(f"no measured run is below {given.runs}")
        report(rows)
    except (BadInput, OSError) as why:
        print(f"validate.py: {why}", file=sys.stderr)
        return 2
    return 0 if all(r["error"] is not None for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
