#!/usr/bin/env python3
"""Hold `flotilla plan` against the referee, its own words and the published planner's faults.

usage: check.py [--flotilla BINARY] [--long] [NAME...]
  --long   also the rows that take a while

Each check is a function whose name is a sentence. Prints a line for one that fails, and at the
end the line that tests/run.sh adds up. Needs nothing but this folder and the binary.
"""
import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import traceback
import xml.dom.minidom

import referee
import scenario
import validate

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "data")
A, V, G = "A100-40", "V100-16", "GH-96"
C, B = "us-central1-a", "us-central1-b"
FIVE = ["us-central1-a", "us-central1-b", "us-central1-c", "us-central1-f", "us-west1-b"]
FLOTILLA = None


class Wrong(Exception):
    """What a check found; its text is for people."""


def that(condition, text):
    if not condition:
        raise Wrong(text)


def pools_text(pools):
    return ",".join(f"{d}:{z}:{n}" for (d, z), n in pools.items())


class Case:
    """A scenario's files in a folder of their own, and what flotilla says of them."""

    def __init__(self, pools, model="OPT-350", batch=1024, objective=None, max_usd=None, min_rate=None):
        self.pools, self.model, self.batch = pools, model, batch
        self.folder = tempfile.TemporaryDirectory(prefix="flotilla-plan-")
        argv = ["--data", DATA, "--model", model, "--global-batch", str(batch), "--pools", pools_text(pools),
                "-o", self.folder.name]
        argv += ["--objective", objective] if objective else []
        argv += ["--max-usd-per-iteration", repr(max_usd)] if max_usd is not None else []
        argv += ["--min-iterations-per-s", repr(min_rate)] if min_rate is not None else []
        that(scenario.main(argv) == 0, "scenario.py ended with an error")

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def edit(self, name, piece, other):
        with open(self.path(name), encoding="utf-8") as file:
            text = file.read()
        that(piece in text, f"{name} has no \"{piece}\" to replace")
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text.replace(piece, other, 1))

    def run(self, *options):
        command = [FLOTILLA, "plan", "--cluster", self.path("cluster.yaml"), "--job", self.path("job.yaml"), *options]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)

    def plan(self, *options):
        done = self.run("--json", *options)
        that(done.returncode == 0, f"exit status {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def score(self, plan):
        return referee.score(DATA, self.model, self.batch, self.pools, plan)

    def refused(self, status, *words):
        done = self.run("--json")
        that(done.returncode == status, f"exit status {done.returncode}, not {status}: {done.stderr.strip()}")
        if status == 1:
            document = json.loads(done.stdout)
            that(document["stages"] is None and document["why"] in done.stderr, f"not why: {done.stdout!r}")
        else:
            that(done.stdout == "", "something is on standard output")
        that(done.stderr.startswith("flotilla plan: ") and len(done.stderr.strip().splitlines()) == 1,
             f"not one sentence: {done.stderr!r}")
        for word in words:
            that(word in done.stderr, f"\"{done.stderr.strip()}\" does not say \"{word}\"")


def valid(case, plan):
    """The plan as the referee sees it: no fault, and its figures are those predicted."""
    score = case.score(plan)
    that(not score["faults"], f"the referee finds {score['faults']}")
    for name in ("iteration_s", "usd_per_iteration"):
        ours, theirs = plan["predicted"][name], score[name]
        that(abs(ours / theirs - 1) <= 1e-6, f"{name} is {ours}, the referee has {theirs}")
    return score


def at_least(pools, rate, **job):
    case = Case(pools, **job)
    score = valid(case, case.plan())
    that(score["iterations_per_s"] >= rate - 5e-5, f"{score['iterations_per_s']:.5f} it/s, known is {rate}")


def zones(count):
    return {(A, zone): count for zone in FIVE}


# ---- rows of the table ----

def row_of_32_a100():
    at_least({(A, C): 32}, 0.1297)


def row_of_80_a100():
    at_least({(A, C): 80}, 0.2722)


def row_of_32_a100_and_32_v100():
    at_least({(A, C): 32, (V, C): 32}, 0.1505)


def row_of_80_a100_and_80_v100():
    at_least({(A, C): 80, (V, C): 80}, 0.3207)


def row_of_32_a100_and_96_v100():
    at_least({(A, C): 32, (V, C): 96}, 0.2035)


def row_of_five_zones_of_32():
    at_least(zones(32), 0.4153)


def row_of_three_zones_in_a_row():
    at_least({(V, FIVE[3]): 25, (A, FIVE[4]): 10, (A, FIVE[2]): 18}, 0.06479, model="GPT-Neo-2.7", batch=512)


def row_of_four_zones_in_a_row():
    pools = {(V, FIVE[2]): 71, (G, C): 23, (A, FIVE[3]): 46, (A, FIVE[4]): 61}
    at_least(pools, 0.05893, model="GPT-Neo-2.7", batch=2048)


def row_of_the_least_cost():
    case = Case({(A, C): 128, (V, C): 128, (A, B): 128, (V, B): 128}, objective="cost", min_rate=0.2)
    score = valid(case, case.plan())
    that(score["usd_per_iteration"] <= 0.2774, f"{score['usd_per_iteration']:.4f} USD, known is 0.2773")
    that(score["iterations_per_s"] >= 0.2, f"{score['iterations_per_s']} it/s, asked for 0.2")


def long_row_of_128_a100():
    at_least({(A, C): 128}, 0.4175)


def long_row_of_128_a100_and_384_v100():
    at_least({(A, C): 128, (V, C): 384}, 0.5862)


def long_row_of_five_zones_of_128():
    at_least(zones(128), 1.0208)


def long_row_of_three_types_of_256():
    case = Case({(A, C): 256, (V, C): 256, (G, C): 256})
    valid(case, case.plan())


def sets_of(pools):
    """The pools without each zone, each type and each one of them."""
    parts = [{k: n for k, n in pools.items() if zone != k[1]} for _, zone in pools]
    parts += [{k: n for k, n in pools.items() if device != k[0]} for device, _ in pools]
    parts += [{k: n for k, n in pools.items() if k != without} for without in pools]
    return [part for at, part in enumerate(parts) if part and part not in parts[:at]]


def fewer_of(pools):
    """The pools with a machine less of each, and with half of it."""
    few = [(without, left) for without, n in pools.items() for left in (n - 4, n // 2) if left > 0]
    return [{k: left if k == without else n for k, n in pools.items()} for without, left in few]


def no_part_is_better(pools, model, batch, parts):
    case = Case(pools, model=model, batch=batch)
    found = case.run("--json").returncode == 0
    took = valid(case, case.plan())["iteration_s"] if found else float("inf")
    for part in parts:
        done = Case(part, model=model, batch=batch).run("--json")
        part_s = json.loads(done.stdout)["predicted"]["iteration_s"] if done.returncode == 0 else took
        that(took <= part_s * (1 + 1e-9), f"{took:.6f} s with {pools_text(pools)}, {part_s:.6f} s with {pools_text(part)}")


def no_part_of_devices_of_five_sorts_is_better():
    pools = {(G, C): 25, (V, C): 13, (A, B): 34, (A, FIVE[2]): 7, (V, FIVE[2]): 41}
    no_part_is_better(pools, "GPT-Neo-2.7", 512, sets_of(pools))


def long_no_part_of_random_pools_is_better():
    first, count = int(os.environ.get("FLOTILLA_SEED", 1)), int(os.environ.get("FLOTILLA_SEEDS", 12))
    for seed in range(first, first + count):
        chance = random.Random(seed)
        pools = {}
        for _ in range(chance.randint(2, 5)):
            device = chance.choice([A, A, V, V, G])
            pools[device, C if device == G else chance.choice(FIVE)] = chance.randint(2, 96)
        try:
            model, batch = chance.choice(["OPT-350", "GPT-Neo-2.7"]), chance.choice([512, 1024, 2048])
            no_part_is_better(pools, model, batch, sets_of(pools) + fewer_of(pools))
        except Wrong as wrong:
            raise Wrong(f"seed {seed}: {wrong}") from wrong


# ---- the published planner's faults, by their numbers ----

def fault_1_the_cost_objective_considers_more_than_one_stage():
    case = Case({(V, C): 32}, model="GPT-Neo-2.7", batch=256, objective="cost")
    plan = case.plan()
    valid(case, plan)
    that(len(plan["stages"]) > 1, "the model does not fit one stage of these devices, yet there is one")


def fault_1_more_than_one_stage_is_the_cheapest_where_one_would_do():
    case = Case({(A, C): 64, (V, C): 128}, model="GPT-Neo-2.7", objective="cost", min_rate=0.06)
    plan = case.plan()
    score = valid(case, plan)
    that(len(plan["stages"]) > 1, "one stage")
    whole = Case({(A, C): 64, (V, C): 128}, model="GPT-Neo-2.7", objective="cost", min_rate=0.06)
    whole.edit("job.yaml", "objective: cost", "objective: cost\nplan: {pipeline: 1}")
    alone = whole.plan()["predicted"]["usd_per_iteration"]
    that(score["usd_per_iteration"] < alone, f"{score['usd_per_iteration']} USD, {alone} in one stage")


def fault_2_a_request_for_less_does_not_get_the_plan_for_more():
    for count in (128, 32):
        case = Case({(A, C): count})
        plan = case.plan()
        used = sum(r["tp"] for s in plan["stages"] for r in s["replicas"])
        that(used <= count, f"{used} devices of {count}")
        valid(case, plan)


def fault_3_a_zone_has_no_more_than_it_has_and_the_batch_is_kept():
    for batch in (1024, 1000, 94):
        case = Case({(A, C): 12, (A, B): 20, (V, C): 8}, batch=batch)
        score = valid(case, case.plan())
        that(score["batch_kept"] and score["feasible"], "the batch or a pool is not kept")


def fault_4_slow_devices_beside_fast_ones_make_nothing_worse():
    alone = Case({(A, C): 80}).plan()["predicted"]["iteration_s"]
    both = Case({(A, C): 80, (V, C): 80}).plan()["predicted"]["iteration_s"]
    that(both <= alone, f"{both} s with V100s, {alone} s without")


def fault_5_a_reduction_across_zones_costs_what_it_costs():
    case = Case({(A, C): 16, (A, "us-west1-b"): 16})
    ring = [{"device": A, "zone": z, "tp": 4, "micro_batches": 32} for z in (C, C, "us-west1-b", "us-west1-b")]
    given = {"micro_batch": 8, "stages": [{"first_layer": 0, "layers": 26, "replicas": ring}]}
    with open(case.path("given.json"), "w", encoding="utf-8") as file:
        json.dump(given, file)
    plan = case.plan("--evaluate", case.path("given.json"))
    valid(case, plan)
    near = Case({(A, C): 32})
    for replica in ring:
        replica["zone"] = C
    with open(near.path("given.json"), "w", encoding="utf-8") as file:
        json.dump(given, file)
    inside = near.plan("--evaluate", near.path("given.json"))["predicted"]
    that(plan["predicted"]["iteration_s"] > inside["iteration_s"] * 1.05, "as fast as inside one zone")
    that(plan["predicted"]["egress_usd"] > 0 and inside["egress_usd"] == 0, "what leaves a zone costs nothing")


def fault_5_a_budget_of_nothing_is_a_limit():
    case = Case({(A, C): 8})
    case.edit("job.yaml", "objective: throughput", "objective: throughput\nlimits: {usd_per_iteration: 0}")
    case.refused(1, "USD")


def fault_5_a_budget_is_kept():
    free = Case({(A, C): 32, (V, C): 32}).plan()["predicted"]
    limit = free["usd_per_iteration"] * 0.9
    case = Case({(A, C): 32, (V, C): 32}, max_usd=limit)
    plan = case.plan()
    valid(case, plan)
    that(plan["predicted"]["usd_per_iteration"] <= limit, "dearer than the limit")
    that(plan["predicted"]["iteration_s"] >= free["iteration_s"], "faster under a limit than without")


def fault_5_a_limit_that_is_met_exactly_is_met():
    free = Case({(A, C): 16}).plan()["predicted"]
    same = Case({(A, C): 16}, max_usd=free["usd_per_iteration"]).plan()["predicted"]
    that(same == free, f"{same['usd_per_iteration']} USD of {free['usd_per_iteration']}")


def a_budget_of_what_a_plan_costs_allows_that_plan():
    """A draft sums its cost in another order than the evaluator, which may differ in the last bit."""
    for pools, rate in (({(A, FIVE[2]): 16, (G, C): 14}, 0.7627), ({(V, C): 4, (A, B): 8, (V, B): 40}, 0.244)):
        known = Case(pools, batch=93, objective="cost", min_rate=rate).plan()["predicted"]
        found = Case(pools, batch=93, max_usd=known["usd_per_iteration"]).plan()["predicted"]
        that(found["usd_per_iteration"] <= known["usd_per_iteration"], "dearer than the limit")
        that(found["iteration_s"] <= known["iteration_s"] * (1 + 1e-9),
             f"{found['iteration_s']} s, {known['iteration_s']} s are known for {known['usd_per_iteration']} USD")


def a_floor_at_the_fastest_rate_keeps_the_fastest_plan():
    """The climb by cost may see no plan at the edge of what can be had; the one by throughput ends there."""
    pools = {(A, C): 4, (A, B): 8}
    fastest = Case(pools, batch=93).plan()["predicted"]
    rate = (1 - 1e-12) / fastest["iteration_s"]
    found = Case(pools, batch=93, objective="cost", min_rate=rate).plan()["predicted"]
    that(found["iteration_s"] * rate <= 1, f"{found['iteration_s']} s, the floor is {rate} it/s")


def fault_5_what_was_not_measured_is_not_planned():
    case = Case({(A, C): 16})
    name = f"OPT-350.{A}.json"
    with open(case.path(name), encoding="utf-8") as file:
        profile = json.load(file)
    profile["times"] = [t for t in profile["times"] if (t["tp"], t["micro_batch"]) == (4, 2)]
    with open(case.path(name), "w", encoding="utf-8") as file:
        json.dump(profile, file)
    plan = case.plan()
    that(plan["micro_batch"] == 2 and all(r["tp"] == 4 for s in plan["stages"] for r in s["replicas"]),
         "the plan has what the profile has not")


def fault_6_an_answer_takes_no_tables_and_little_memory():
    case = Case({(A, C): 32, (V, C): 96})
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    case.plan()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if os.environ.get("SAN"):
        print("skipped: fault_6: a build with sanitizers takes its own time and memory")
        return
    that(seconds < 3, f"{seconds:.2f} s of computing, from load to answer")
    that(after.ru_maxrss < 200 * 1024, f"{after.ru_maxrss / 1024:.0f} MB at the peak")


def fault_7_layers_degrees_and_micro_batches_are_free():
    split = Case({(A, C): 32, (V, C): 32}).plan()
    that(len({s["layers"] for s in split["stages"]}) > 1, "the layers are split evenly")
    mixed = Case({(A, C): 32, (V, C): 96}).plan()
    counts = {r["micro_batches"] for r in mixed["stages"][0]["replicas"]}
    that(len(counts) > 1, "every pipeline takes as many micro-batches, fast or slow")


def fault_7_a_type_has_more_than_one_degree_in_a_stage():
    plan = Case({(A, C): 30, (V, C): 50}, batch=768).plan()
    degrees = [{r["tp"] for r in s["replicas"] if r["device"] == A} for s in plan["stages"]]
    that(max(len(d) for d in degrees) > 1, f"{plan['summary']}")


# ---- words and numbers ----

def without_seconds(plan):
    plan["search"].pop("seconds")
    return plan


def two_runs_differ_in_the_seconds_alone():
    case = Case({(A, C): 16, (V, C): 16})
    first, second = case.plan(), case.plan()
    that(without_seconds(first) == without_seconds(second), "two answers to one question")


def an_evaluated_plan_is_what_was_predicted():
    case = Case({(A, C): 16, (V, C): 16})
    plan = case.plan()
    with open(case.path("plan.json"), "w", encoding="utf-8") as file:
        json.dump(plan, file)
    again = case.plan("--evaluate", case.path("plan.json"))
    that(again["predicted"] == plan["predicted"] and again["stages"] == plan["stages"], "another plan")


def after_a_change_the_cheapest_way_is_taken():
    before, after = Case({(A, C): 32, (V, C): 32}), Case({(A, C): 30, (V, C): 32})
    scenario.write(before.path("plan.json"), json.dumps(before.plan()))
    for now, ways in ((before, ("stay",)), (after, ("mend", "afresh"))):
        plan = now.plan("--before", before.path("cluster.yaml"), "--current", before.path("plan.json"))
        valid(now, plan)
        repair = plan["repair"]
        prices = {way: repair[way]["total_s"] for way in ("stay", "mend", "afresh") if repair[way]["possible"]}
        that(repair["way"] in ways and prices[repair["way"]] == min(prices.values()), f"{repair}")
        that((repair[repair["way"]]["moved"] > 0) == (now is after), f"bytes that need not move: {repair}")


def numbers_of(value, out):
    """Every number of a document, as the page may write it."""
    if isinstance(value, dict):
        for member in value.values():
            numbers_of(member, out)
    elif isinstance(value, list):
        for member in value:
            numbers_of(member, out)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        out.update({format(value, ".6g"), format(value, ".5g"), format(value / 2**30, ".2f")})
        if isinstance(value, int):
            out.add(str(value))
    elif isinstance(value, str):
        out.update(re.findall(r"\d+(?:\.\d+)?", value))
    return out


def what_was_ruled_out_for_memory_would_be_better_with_it():
    pools, batch = {(V, C): 16}, 512
    plan = Case(pools, batch=batch).plan()
    better = [r for r in plan["ruled_out"] if r["iteration_s"] is not None]
    that(better, "nothing would be better with more memory, on devices of 16 GiB")
    shapes = [(r["device"], r["tp"], r["micro_batch"], r["first_layer"], r["layers"]) for r in plan["ruled_out"]]
    that(len(set(shapes)) == len(shapes), f"one shape twice: {shapes}")
    for one in plan["ruled_out"]:
        that(one["missing"] == one["need"] - one["room"] > 0 and one["room"] == 16 * 2**30, f"{one}")
    for one in better:
        that(one["iteration_s"] < plan["predicted"]["iteration_s"], f"not better: {one}")
        case = Case(pools, batch=batch)
        case.edit("cluster.yaml", "memory: 16GiB", f"memory: {one['need'] // 2**30 + 1}GiB")
        rich = case.plan()["predicted"]["iteration_s"]
        that(rich <= one["iteration_s"] * (1 + 1e-9), f"{rich} s with the memory that {one} lacked")


def one_more_machine_is_in_the_document_when_asked_for():
    case = Case({(A, C): 8, (V, C): 8}, batch=256)
    that(case.plan()["one_more"] == [], "it takes searches that nobody asked for")
    plan = case.plan("--explain")
    that([(g["device"], g["zone"], g["devices"]) for g in plan["one_more"]] == [(A, C, 4), (V, C, 4)],
         f"{plan['one_more']}")
    for gain, pools in zip(plan["one_more"], ({(A, C): 12, (V, C): 8}, {(A, C): 8, (V, C): 12})):
        there = Case(pools, batch=256).plan()["predicted"]["iteration_s"]
        that(gain["iteration_s"] == there <= plan["predicted"]["iteration_s"], f"{gain}, planned there: {there}")


def every_number_on_the_page_is_in_the_document():
    for case in (Case({(A, C): 32, (V, C): 32}), Case({(A, C): 16, (A, B): 16}, objective="cost", min_rate=0.05)):
        page = case.run("--explain").stdout
        plan = case.plan("--explain")
        known = numbers_of(plan, set()) | {"0"}
        for stages in (plan["stages"], (plan["runner_up"] or {}).get("stages", [])):
            for number, stage in enumerate(stages):
                known |= {str(number), str(stage["first_layer"] + stage["layers"] - 1)}
                kinds = [(r["device"], r["zone"], r["tp"], r["micro_batches"]) for r in stage["replicas"]]
                known |= {str(kinds.count(kind)) for kind in kinds}
        known |= {str(r["first_layer"] + r["layers"] - 1) for r in plan["ruled_out"]}
        for line in page.splitlines():
            for number in re.findall(r"(?<![A-Za-z0-9.-])\d+(?:\.\d+)?(?:e[-+]\d+)?(?![A-Za-z0-9.-])", line):
                that(number in known, f"{number} is on the page and not in the document: {line}")
        for part in ("STAGES BY ZONE", "MEMORY OF A DEVICE", "ONE STEP", "WHAT BOUNDS IT", "RUNNER-UP", "RULED OUT",
                     "ONE MORE MACHINE"):
            that(part in page, f"the page lacks {part}")


def the_picture_parses_and_has_the_iteration():
    case = Case({(A, C): 32, (V, C): 32})
    plan = case.plan("--svg", case.path("plan.svg"))
    with xml.dom.minidom.parse(case.path("plan.svg")) as picture:
        texts = [t.firstChild.data for t in picture.getElementsByTagName("text") if t.firstChild]
        that(picture.documentElement.tagName == "svg", "no svg")
    that(any(format(plan["predicted"]["iteration_s"], ".6g") in t for t in texts), "the iteration is not on it")


def bars_name_what_is_there():
    case = Case({(A, C): 8})
    plan = case.plan()
    for memory in plan["predicted"]["memory"]:
        parts = sum(memory[k] for k in ("weights", "gradients", "optimizer", "activations", "workspace"))
        that(parts == memory["total"] <= memory["room"], f"the parts of {memory} do not add up")
    seconds = plan["bound_by"]["seconds"]
    that(abs(sum(seconds.values()) - plan["predicted"]["iteration_s"]) < 1e-9, "the parts of the time do not add up")


def what_this_machine_measures_is_planned():
    with tempfile.TemporaryDirectory() as folder:
        def path(name):
            return os.path.join(folder, name)
        scenario.write(path("job.yaml"), "name: small\nmodel: {layers: 2, heads: 2, hidden: 32, context: 32}\n"
                       "data: {train: a.txt}\nbatch: {sequences: 8}\nsteps: 1\n")
        done = subprocess.run([FLOTILLA, "profile", path("job.yaml"), "--device", "desk", "--threads", "1", "-o",
                               path("desk.json")], stderr=subprocess.PIPE, text=True, check=False)
        that(done.returncode == 0, done.stderr.strip())
        scenario.write(path("cluster.yaml"), "zones: [{name: a}]\n"
                       "devices: [{name: desk, memory: 1GiB, usd_per_hour: 0.5, profiles: [desk.json]}]\n"
                       "pools: [{device: desk, zone: a, count: 2}]\n"
                       "links: [{from: a, to: a, mbit_per_s: 1000, round_trip_ms: 0.1}]\n")
        done = subprocess.run([FLOTILLA, "plan", "--cluster", path("cluster.yaml"), "--job", path("job.yaml"), "--json"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        that(done.returncode == 0, done.stderr.strip())
        plan = json.loads(done.stdout)
        that(sum(s["layers"] for s in plan["stages"]) == 4 and plan["predicted"]["usd_per_iteration"] > 0, "no plan")


# ---- what cannot be ----


def a_given_plan_that_cannot_be_says_why():
    case = Case({(A, C): 8}, batch=64)
    edits = [({"micro_batches": 9}, 2, "72 sequences"), ({"tp": 8}, 2, "tp 8"), ({"device": V}, 2, V),
             ({"tp": 1}, 1, "does not fit the memory")]
    for change, status, word in edits:
        replica = {"device": A, "zone": C, "tp": 4, "micro_batches": 8, **change}
        given = {"micro_batch": 8, "stages": [{"first_layer": 0, "layers": 26, "replicas": [replica]}]}
        scenario.write(case.path("given.json"), json.dumps(given))
        done = case.run("--json", "--evaluate", case.path("given.json"))
        that(done.returncode == status, f"{change}: exit status {done.returncode}, not {status}")
        that(word in done.stderr, f"{change}: {done.stderr.strip()}")


def what_does_not_fit_is_said_with_numbers():
    Case({(V, C): 1}, model="GPT-Neo-2.7", batch=64).refused(1, "GiB")
    Case({(V, C): 1}, batch=64).refused(1, "the model: whole it needs 19.82 GiB", "has 16 GiB")


def a_degree_that_no_machine_has_is_said_with_both_numbers():
    case = Case({(A, C): 8}, batch=64)
    case.edit("job.yaml", "objective", "plan: {tp: 8}\nobjective")
    case.refused(1, "tp to 8", "has 4 of")


def a_rate_out_of_reach_is_said_with_numbers():
    Case({(A, C): 8}, min_rate=100.0).refused(1, "iterations")


def wrong_files_get_a_sentence():
    edits = [("cluster.yaml", "memory: 40GiB", "memroy: 40GiB", 2, ["did you mean \"memory\""]),
             ("cluster.yaml", "count: 8", "count: 1000000000", 2, ["1000000000", "65536"]),
             ("cluster.yaml", "count: 8", "count: 0", 1, ["no devices"]),
             ("cluster.yaml", "count: 8", "count: -1", 2, ["-1"]),
             ("cluster.yaml", "zone: us-central1-a", "zone: us-central1-x", 2, ["us-central1-x", "did you mean"]),
             ("cluster.yaml", "to: us-central1-a", "to: mars", 2, ["mars"]),
             ("cluster.yaml", "curve: k3", "mbit_per_s: -5", 2, ["mbit_per_s is -5"]),
             ("job.yaml", "objective", "objektive", 2, ["line 4", "did you mean \"objective\""]),
             ("job.yaml", "sequences: 64", "sequences: 0", 2, ["batch.sequences is 0"]),
             ("job.yaml", "profiled: OPT-350", "profiled: OPT-351", 2, ["OPT-351"]),
             (f"OPT-350.{A}.json", "[0.0004, ", "[", 2, ["forward_s has 25 entries"]),
             (f"OPT-350.{A}.json", "[0.0004, ", "[-0.0004, ", 2, ["forward_s[0] is -0.0004"])]
    for name, piece, other, status, words in edits:
        case = Case({(A, C): 8}, batch=64)
        case.edit(name, piece, other)
        case.refused(status, *words)


def a_price_that_is_missing_is_named_under_cost():
    case = Case({(A, C): 8}, batch=64, objective="cost")
    case.edit("cluster.yaml", "usd_per_hour: 3.673385, ", "")
    case.refused(2, "price")


def a_zone_without_prices_is_named_under_cost():
    case = Case({(A, C): 8, (A, B): 8}, batch=64, objective="cost")
    with open(case.path("cluster.yaml"), encoding="utf-8") as file:
        head, tail = file.read().split("egress:")
    scenario.write(case.path("cluster.yaml"), head)
    that("usd_per_gb" in tail, "the scenario has no prices of what leaves a zone")
    case.refused(2, "price", C, B, "0 where a region's zones send for nothing")


def no_group_spans_machines():
    case = Case({(A, C): 8}, batch=64)
    small = "".join(f"  - {{name: n{i}, device: {A}, zone: {C}, count: 1}}\n" for i in range(8))
    case.edit("cluster.yaml", f"pools:\n  - {{device: {A}, zone: {C}, count: 8}}\n", f"nodes:\n{small}")
    degrees = {r["tp"] for s in case.plan()["stages"] for r in s["replicas"]}
    that(degrees == {1}, f"groups of {degrees} on machines of one device")
    replica = {"device": A, "zone": C, "tp": 4, "micro_batches": 8}
    scenario.write(case.path("given.json"), json.dumps(
        {"micro_batch": 8, "stages": [{"first_layer": 0, "layers": 26, "replicas": [replica]}]}))
    done = case.run("--evaluate", case.path("given.json"))
    that(done.returncode == 2 and "tp 4" in done.stderr, f"{done.returncode} {done.stderr}")


def a_zone_that_nothing_joins_is_not_planned_into_pipelines():
    """A link to nowhere is refused; zones without a link are planned apart."""
    case = Case({(A, C): 8, (A, B): 4}, batch=64)
    with open(case.path("cluster.yaml"), encoding="utf-8") as file:
        lines = file.read().splitlines()
    between = [x for x in lines if "from:" in x and "curve" in x and f"from: {C}" in x and f"to: {B}" in x]
    back = [x for x in lines if "from:" in x and "curve" in x and f"from: {B}" in x and f"to: {C}" in x]
    that(between or back, "the scenario joins no zones")
    scenario.write(case.path("cluster.yaml"), "\n".join(x for x in lines if x not in between + back) + "\n")
    zones_used = {r["zone"] for s in case.plan()["stages"] for r in s["replicas"]}
    that(len(zones_used) == 1, f"one plan over {zones_used}, which nothing joins")


def a_scenario_that_is_not_in_the_data_names_the_table():
    for pools, model, table in (("GH-96:us-central1-b:4", "OPT-350", scenario.LINKS),
                                ("Titan-RTX:us-central1-a:4", "OPT-350", scenario.PRICES),
                                ("A100-40:us-central1-a:4", "LLAMA-3-8", "configs/training_config")):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, os.path.join(HERE, "scenario.py"), "--data", DATA, "--model", model,
                                   "--global-batch", "64", "--pools", pools, "-o", folder],
                                  stderr=subprocess.PIPE, text=True, check=False)
            that(done.returncode == 2 and table in done.stderr and len(done.stderr.splitlines()) == 1,
                 f"{pools}: {done.returncode} {done.stderr!r}")


# ---- measured runs ----

def measured_runs_are_predicted():
    data = scenario.Data(DATA)
    runs = os.path.join(DATA, "validation")
    judged = validate.judge(data, FLOTILLA, runs, lambda index: {})
    rows = validate.trusted(judged)
    that(len(judged) == 24 and len(rows) == 22, "a run has no prediction")
    for part, count, most in (("clariden", 15, 0.075), ("mit", 7, 0.09)):
        errors = [abs(r["error"]) for r in rows if r["file"].startswith(part)]
        that(len(errors) == count and sum(errors) / count <= most, f"{part}: {sum(errors) / count:.1%} of {most:.1%}")
    halves = [validate.learnt(judged, 1), validate.learnt(judged, 0)]
    corrected = validate.trusted(validate.judge(data, FLOTILLA, runs, lambda index: halves[index % 2]))
    for part in ("clariden", "mit", ""):
        errors = [abs(r["error"]) for r in corrected if r["file"].startswith(part)]
        mean = sum(errors) / len(errors)
        that(mean <= 0.06, f"{part or 'all'} with a correction learnt on the other half: {mean:.1%} of 6.0%")
    sizes = [abs(r["predicted_bytes"] / r["measured_bytes"] - 1) for r in rows if r["file"].startswith("clariden")]
    that(sum(sizes) / len(sizes) <= 0.05, f"memory: {sum(sizes) / len(sizes):.1%} of 5%")


def a_run_of_any_model_and_device_in_the_data_is_judged():
    def run_of(name, model, device, tp, micro_batch, layers):
        half = layers // 2
        return name, {"model": model, "mbs": micro_batch, "gbs": 64, "real": 10.0, "max_mem": 2**34, "pipeline_list": [
            {"layers_per_stage": [list(range(half)), list(range(half, layers))],
             "tmp_per_stage": [[[[[device, tp, C]], tp]], [[[[device, tp, C]], tp]]]}]}
    with tempfile.TemporaryDirectory() as folder:
        for name, run in (run_of("x.json", "GPT-Neo-2.7", A, 4, 2, 34), run_of("y.json", "LLAMA-3-8", G, 4, 1, 35),
                          run_of("z.json", "OPT-350", V, 2, 1, 26)):
            scenario.write(os.path.join(folder, name), json.dumps(run))
        rows = validate.judge(scenario.Data(DATA), FLOTILLA, folder, lambda index: {})
    that(len(rows) == 3 and all(r["predicted_s"] for r in rows), f"{rows}")
    for row in rows:
        that(abs(row["error"] - (row["predicted_s"] / 10.0 - 1)) < 1e-9 and row["predicted_bytes"] > 2**30, f"{row}")


# ---- all of them ----

def checks(long):
    own = [f for name, f in list(globals().items())
           if callable(f) and getattr(f, "__module__", "") == __name__ and not isinstance(f, type)]
    tools = {that, pools_text, valid, at_least, zones, without_seconds, numbers_of, checks, main,
             sets_of, fewer_of, no_part_is_better}
    return [f for f in own if f not in tools and (long or not f.__name__.startswith("long_"))]


def main():
    global FLOTILLA
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    build = os.environ.get("BUILD", "build")
    parser.add_argument("--flotilla", default=os.path.join(build, "flotilla"))
    parser.add_argument("--long", action="store_true")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    FLOTILLA = os.path.abspath(given.flotilla)
    failures = errors = 0
    chosen = [f for f in checks(given.long or given.names) if not given.names or f.__name__ in given.names]
    if os.environ.get("SAN") and not given.names:
        chosen = [f for f in chosen if not f.__name__.startswith(("row_", "long_"))]
    for check in chosen:
        try:
            check()
        except Wrong as why:
            failures += 1
            print(f"tests/sailor/check.py:F:{check.__name__}: {why}")
        except Exception:  # a check that breaks has failed, too
            errors += 1
            print(f"tests/sailor/check.py:E:{check.__name__}: {traceback.format_exc()}")
    good = len(chosen) - failures - errors
    print(f"{100 * good // max(1, len(chosen))}%: Checks: {len(chosen)}, Failures: {failures}, Errors: {errors}")
    return 1 if failures or errors or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
