#!/usr/bin/env python3
"""Turn the measured figures of the Sailor artifact into files that `flotilla plan` reads.

usage: scenario.py --data DIR --model OPT-350 --global-batch 1024 --pools POOLS [--objective cost]
                   [--max-usd-per-iteration X] [--min-iterations-per-s Y] -o OUT
  DIR    the measured figures: tests/sailor/data, or the artifact's data in the same folders
  POOLS  the devices of the cluster: "A100-40:us-central1-a:32,V100-16:us-central1-a:96"

Writes OUT/cluster.yaml, OUT/job.yaml and one profile for each device type (docs/planning.md has the
schemas). Exit status 0, or 2 with a sentence that names the table that lacks something.
"""
import argparse
import json
import os
import sys

LAYER_TIMES = "profiles/profiles_tmp.json"
LAYER_SIZES = "profiles/llm_info.json"
LINKS = "network/multizone_bandwidths_het.json"
MACHINES = "network/intra_node_bandwidths.json"
EGRESS = "network/communication_cost.json"
PRICES = "configs/prices_and_memory.json"
SHAPES = {"OPT-350": "configs/training_config_opt_350.json",
          "GPT-Neo-2.7": "configs/training_config_gpt_neo27.json"}
MACHINE_DEVICES = 4


class BadInput(Exception):
    """What the caller can mend; its text is the whole message."""


class Data:
    """The tables of a folder, read when they are first asked for."""

    def __init__(self, folder):
        self.folder, self.tables = folder, {}

    def table(self, name):
        if name not in self.tables:
            path = os.path.join(self.folder, name)
            try:
                with open(path, encoding="utf-8") as file:
                    self.tables[name] = json.load(file)
            except OSError as why:
                raise BadInput(f"the table {name} cannot be read: {why.strerror} ({path})") from why
            except ValueError as why:
                raise BadInput(f"the table {name} is no JSON: {why}") from why
        return self.tables[name]

    def find(self, name, *keys):
        """table[keys...], or a sentence that names the table and the key."""
        value = self.table(name)
        for depth, key in enumerate(keys):
            if not isinstance(value, dict) or key not in value:
                inside = f" under {', '.join(keys[:depth])}" if depth else ""
                raise BadInput(f"the table {name} has no \"{key}\"{inside}")
            value = value[key]
        return value


def in_order(degrees):
    return sorted(degrees, key=int)


# ---- profiles ----

def profile_of(data, model, device, tokens):
    """The profile document of one device type."""
    times = data.find(LAYER_TIMES, model, device)
    shapes = data.find(LAYER_SIZES, model)
    layers = len(data.find(LAYER_SIZES, model, "1"))
    sizes, entries = [], []
    for tp in in_order(shapes):
        layer = [data.find(LAYER_SIZES, model, tp, str(i)) for i in range(layers)]
        parameters = [x["params_floats"] for x in layer]
        # The optimizer was timed once, on a model of the embedding, two blocks and the head.
        timed = sum(parameters[i] for i in {0, 1, 2, layers - 1})
        sizes.append({"tp": int(tp), "parameters": parameters,
                      "output_elements": [x["act_output_floats"] for x in layer],
                      "kept_elements": [x["act_mem_floats"] for x in layer], "update_parameters": timed})
    for micro_batch in in_order(times):
        for tp in in_order(times[micro_batch]):
            if tp not in shapes:
                continue  # without its sizes a degree cannot be planned
            layer = [data.find(LAYER_TIMES, model, device, micro_batch, tp, str(i)) for i in range(layers)]
            entries.append({"tp": int(tp), "micro_batch": int(micro_batch),
                            "forward_s": [x[0] for x in layer], "backward_s": [x[1] for x in layer],
                            "update_s": [x[2] for x in layer]})
    return {"format": "flotilla profile 1", "model": model, "device": device, "layers": layers,
            "tokens": tokens, "element_bytes": 4, "sizes": sizes, "times": entries}


def write_json(path, document):
    """One line for each list of numbers."""
    text = json.dumps(document, indent=1)
    out, inside = [], False
    for line in text.split("\n"):
        stripped = line.strip()
        if inside:
            out[-1] += stripped if stripped.startswith("]") else " " + stripped if out[-1][-1] == "," else stripped
            inside = not stripped.startswith("]")
        else:
            out.append(line)
            inside = stripped.endswith("[") and stripped not in ('"sizes": [', '"times": [')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


# ---- the cluster ----

class Curves:
    """Bandwidth curves by name; equal ones are written once."""

    def __init__(self):
        self.names = {}

    def name(self, curve):
        key = tuple(float(x) for x in curve)
        return self.names.setdefault(key, f"k{len(self.names) + 1}")

    def lines(self):
        return [f"  - {{name: {name}, quadratic: [{', '.join(map(repr, key))}]}}"
                for key, name in self.names.items()]


def pair_links(table, curves, send, receive):
    """Lines for what one pool sends to another: {curve: its pairs of degrees}, as few lines as they fit in."""
    (from_device, from_zone), (to_device, to_zone) = send, receive
    by_curve = {}
    for n, ways in table.get(from_zone, {}).get(from_device, {}).items():
        for m, entry in ways.get(to_zone, {}).get(to_device, {}).items():
            by_curve.setdefault(curves.name(entry[0]), {}).setdefault(n, []).append(m)
    lines = []
    for curve, senders in by_curve.items():
        receivers = {}
        for n, ms in senders.items():
            receivers.setdefault(tuple(in_order(ms)), []).append(n)
        for ms, ns in receivers.items():
            lines.append(f"  - {{from: {from_zone}, to: {to_zone}, from_device: {from_device}, "
                         f"to_device: {to_device}, from_tp: [{', '.join(in_order(ns))}], "
                         f"to_tp: [{', '.join(ms)}], curve: {curve}}}")
    return lines


def device_line(data, device, profile, curves, machine, priced, correction):
    memory = data.find(PRICES, "gpu_memory_GiB", device)
    text = f"  - {{name: {device}, memory: {memory}GiB, "
    if priced:
        text += f"usd_per_hour: {data.find(PRICES, 'simulator_gpu_price_usd_per_gpu_hour', device)!r}, "
    if correction is not None:
        text += f"correction: {correction!r}, "
    inside = data.table(MACHINES).get(device, {})
    text += f"per_machine: {machine}, profiles: [{profile}]"
    if inside:
        text += ", inside: [" + ", ".join(f"{{devices: {n}, curve: {curves.name(inside[n][0])}}}"
                                          for n in in_order(inside)) + "]"
    return text + "}"


def cluster_text(data, pools, profiles, cost_model, machine, priced=True, corrections=None):
    """cluster.yaml. pools: {(device, zone): count}; profiles: {device: file}; machine: {device: devices of a machine}."""
    links, curves = data.table(LINKS), Curves()
    zones = sorted({zone for _, zone in pools})
    devices = sorted({device for device, _ in pools})
    device_lines = [device_line(data, d, profiles[d], curves, machine[d], priced, (corrections or {}).get(d))
                    for d in devices]
    link_lines = []
    for send in sorted(pools):
        for receive in sorted(pools):
            found = pair_links(links, curves, send, receive)
            if not found and send == receive:
                raise BadInput(f"the table {LINKS} has no link of {send[0]} within {send[1]}")
            link_lines += found
    out = [f"cost_model: {cost_model}", "zones:"]
    out += [f"  - {{name: {z}, region: {z.rsplit('-', 1)[0]}}}" for z in zones]
    out += ["devices:"] + device_lines
    out += ["pools:"] + [f"  - {{device: {d}, zone: {z}, count: {n}}}" for (d, z), n in sorted(pools.items())]
    out += ["curves:"] + curves.lines() + ["links:"] + link_lines
    if priced:
        out += ["egress:"] + [f"  - {{from: {a}, to: {b}, usd_per_gb: {data.find(EGRESS, a, b)!r}}}"
                              for a in zones for b in zones]
    return "\n".join(out) + "\n"


def job_text(model, batch, objective="throughput", limits=None, more=()):
    out = [f"name: {model}", f"model: {{profiled: {model}}}", f"batch: {{sequences: {batch}}}",
           f"objective: {objective}"]
    if limits:
        out.append("limits: {" + ", ".join(f"{k}: {v!r}" for k, v in limits.items()) + "}")
    return "\n".join(out + list(more)) + "\n"


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


# ---- the command ----

def read_pools(text):
    pools = {}
    for part in text.split(","):
        fields = part.strip().split(":")
        if len(fields) != 3 or not all(fields):
            raise BadInput(f"a pool is \"{part.strip()}\"; write device:zone:count, such as A100-40:us-central1-a:32")
        device, zone, count = fields
        if not count.isascii() or not count.isdigit():
            raise BadInput(f"the pool \"{part.strip()}\" counts \"{count}\" devices; give a whole number")
        pools[device, zone] = pools.get((device, zone), 0) + int(count)
    return pools


def read_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", required=True, help="folder of the measured figures")
    parser.add_argument("--model", required=True, help=" or ".join(SHAPES))
    parser.add_argument("--global-batch", type=int, required=True, help="sequences of one iteration")
    parser.add_argument("--pools", required=True, help="device:zone:count,...")
    parser.add_argument("--objective", choices=["throughput", "cost"], default="throughput")
    parser.add_argument("--max-usd-per-iteration", type=float)
    parser.add_argument("--min-iterations-per-s", type=float)
    parser.add_argument("-o", "--out", required=True, metavar="OUT", help="folder to write to")
    given = parser.parse_args(argv)
    for name in ("max_usd_per_iteration", "min_iterations_per_s"):
        value = getattr(given, name)
        if value is not None and not 0 < value < float("inf"):
            parser.error(f"--{name.replace('_', '-')} is {value}; give a number above 0")
    if given.global_batch < 1:
        parser.error(f"--global-batch is {given.global_batch}; give a whole number of at least 1")
    return given


def write_scenario(given):
    data = Data(given.data)
    pools = read_pools(given.pools)
    if given.model not in SHAPES:
        raise BadInput(f"there is no table configs/training_config for the model \"{given.model}\"; "
                       f"there are those of {' and '.join(SHAPES)}")
    tokens = data.find(SHAPES[given.model], "sequence_length")
    documents, files = {}, {}
    for device, zone in pools:
        data.find(LAYER_TIMES, given.model, device)
        data.find(PRICES, "simulator_gpu_price_usd_per_gpu_hour", device)
        data.find(LINKS, zone, device)
        data.find(EGRESS, zone)
        files[device] = f"{given.model}.{device}.json"
        documents[device] = profile_of(data, given.model, device, tokens)
    cluster = cluster_text(data, pools, files, "published", dict.fromkeys(files, MACHINE_DEVICES))
    limits = {}
    if given.max_usd_per_iteration is not None:
        limits["usd_per_iteration"] = given.max_usd_per_iteration
    if given.min_iterations_per_s is not None:
        limits["min_iterations_per_s"] = given.min_iterations_per_s
    os.makedirs(given.out, exist_ok=True)
    for device, document in documents.items():
        write_json(os.path.join(given.out, files[device]), document)
    write(os.path.join(given.out, "cluster.yaml"), cluster)
    write(os.path.join(given.out, "job.yaml"),
          job_text(given.model, given.global_batch, given.objective, limits))


def main(argv=None):
    given = read_arguments(argv)
    try:
        write_scenario(given)
    except (BadInput, OSError) as why:
        if isinstance(why, OSError):
            why = f"could not write to \"{given.out}\": {why.strerror}; name another folder with -o"
        print(f"scenario.py: {why}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
