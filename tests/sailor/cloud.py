#!/usr/bin/env python3
"""Invent a large cluster for `flotilla plan`: types of device that are the measured A100-40, scaled.

usage: cloud.py --data DIR --seed N --types K --zones Z --devices N --global-batch B [--published] -o OUT

Writes OUT/cluster.yaml, OUT/job.yaml and a profile for each type. Type i computes 1 to 4 times as
slowly as the A100-40 and has 16 to 96 GiB; zones lie in regions of three; the devices, in machines of
four, are dealt out by chance to all (type, zone). The same seed gives the same files everywhere.
"""
import argparse
import os

from scenario import Data, job_text, profile_of, write, write_json

MODEL, DEVICE, TOKENS = "OPT-350", "A100-40", 2048
MEMORY_GIB = [40, 16, 80, 24, 96, 32, 48, 16]


class Chance:
    """splitmix64: the same numbers in every Python."""

    def __init__(self, seed):
        self.state = seed & (2**64 - 1)

    def below(self, bound):
        self.state = (self.state + 0x9E3779B97F4A7C15) & (2**64 - 1)
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        return (z ^ (z >> 31)) % bound


def scaled(profile, name, factor):
    out = dict(profile, device=name, times=[])
    for entry in profile["times"]:
        slower = {key: [round(x * factor, 9) for x in entry[key]] for key in ("forward_s", "backward_s", "update_s")}
        out["times"].append(dict(entry, **slower))
    return out


def deal(chance, machines, places):
    """Machines dealt out to places by chance; every place gets one before any gets a second."""
    counts = [min(1, max(0, machines - i)) for i in range(places)]
    for _ in range(machines - sum(counts)):
        counts[chance.below(places)] += 1
    return counts


def cluster_text(chance, given, names, factors):
    zones = [f"zone-{z + 1}" for z in range(given.zones)]
    counts = deal(chance, given.devices // 4, given.types * given.zones)
    out = [f"cost_model: {'published' if given.published else 'replay'}", "zones:"]
    out += [f"  - {{name: {z}, region: region-{i // 3 + 1}}}" for i, z in enumerate(zones)]
    out += ["devices:"]
    out += [f"  - {{name: {n}, memory: {MEMORY_GIB[i % len(MEMORY_GIB)]}GiB, usd_per_hour: {4.0 / f:.4f}, per_machine: 4, "
            f"profiles: [{MODEL}.{n}.json]}}" for i, (n, f) in enumerate(zip(names, factors))]
    out += ["pools:"]
    out += [f"  - {{device: {n}, zone: {z}, count: {4 * counts[i * len(zones) + j]}}}"
            for i, n in enumerate(names) for j, z in enumerate(zones)]
    out += ["links:"]
    for i, a in enumerate(zones):
        for j, b in enumerate(zones):
            near = i // 3 == j // 3
            rate = (20000 if a == b else 14000 if near else 4000) + chance.below(2000)
            delay = 0.1 if a == b else 1 if near else 30
            out.append(f"  - {{from: {a}, to: {b}, mbit_per_s: {rate}, round_trip_ms: {delay}}}")
    out += ["egress:"] if len(zones) > 1 else []
    out += [f"  - {{from: {a}, to: {b}, usd_per_gb: {0.01 if i // 3 == j // 3 else 0.02}}}"
            for i, a in enumerate(zones) for j, b in enumerate(zones) if a != b]
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", required=True)
    for name in ("seed", "types", "zones", "devices", "global-batch"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--published", action="store_true", help="the cost model as published; else the replay")
    parser.add_argument("-o", "--out", required=True)
    given = parser.parse_args()
    chance = Chance(given.seed)
    profile = profile_of(Data(given.data), MODEL, DEVICE, TOKENS)
    names = [f"gpu-{i + 1}" for i in range(given.types)]
    factors = [1.0 + 3.0 * chance.below(1000) / 1000.0 for _ in names]
    os.makedirs(given.out, exist_ok=True)
    for name, factor in zip(names, factors):
        write_json(os.path.join(given.out, f"{MODEL}.{name}.json"), scaled(profile, name, factor))
    write(os.path.join(given.out, "cluster.yaml"), cluster_text(chance, given, names, factors))
    write(os.path.join(given.out, "job.yaml"), job_text(MODEL, given.global_batch))


if __name__ == "__main__":
    main()
