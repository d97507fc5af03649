#!/usr/bin/env python3
"""Measure time and memory of tsgs3vm against the length of the stream.

    bench/semi/growth.py --streamsvm BIN [--sizes 10000,100000,1000000] [--out DIR]

A generated stream of 28 features, 200 labels, all else unlabelled: the default
preset, and the paper's fresh features (32 a step) with and without a window.
Live is what the heap's collections found in use, at most, in MiB; the collector
lets the heap grow to twice that before it collects again.

Prints a table in Markdown and writes DIR/growth.csv, which
`scripts/shots.py growth` draws.
"""
import argparse
import csv
import json
import os
import re
import subprocess
import tempfile

FRESH = ["solver=sgd", "draw=fresh", "block=32", "step=0.1", "serve=semi", "gamma=0.05", "lambda=0.1"]
ROWS = {
    "default": [],
    "fresh, window 132": FRESH,
    "fresh, no window": FRESH + ["window=1048576"],
}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--streamsvm", required=True, help="the program")
    p.add_argument("--sizes", default="10000,100000,1000000")
    p.add_argument("--rows", default="", help="only those whose name begins so, e.g. 'fresh, no'")
    p.add_argument("--longest", type=int, default=1000000, help="largest size without a window, whose time is quadratic")
    p.add_argument("--out", default=".")
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    sizes = [int(s) for s in a.sizes.split(",")]
    with tempfile.TemporaryDirectory() as d, open(os.path.join(a.out, "growth.csv"), "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["learner", "examples", "seconds", "cpu_seconds", "live_mib", "rss_mib", "model_bytes"])
        print("| learner | examples | CPU s | µs an example | live MiB | peak MiB | model bytes |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
        data = os.path.join(d, "stream.libsvm")
        subprocess.run([a.streamsvm, "generate", "rbf", "--count", str(max(sizes)), "--set", "dim=28", "--out", data],
                       check=True, stdout=subprocess.DEVNULL)
        for row, options in ROWS.items():
            for n in sizes:
                if not row.startswith(a.rows) or row.endswith("no window") and n > a.longest:
                    continue
                cmd = [a.streamsvm, "replay", data, "--limit", str(n), "--labelled", "200", "--learner", "tsgs3vm",
                       "--scale", "none", "--tune=off", "--json", "-", "-q"]
                for o in options:
                    cmd += ["--set", o]
                before = os.times()
                run = subprocess.run(cmd, check=True, capture_output=True, text=True,
                                     env={**os.environ, "GOMAXPROCS": "1", "GODEBUG": "gctrace=1"})
                after = os.times()
                r = json.loads(run.stdout)
                # gc 7 @0.5s 1%: …, 12->13->6 MB, 13 MB goal, …: 6 are in use.
                live = max(int(m) for m in re.findall(r"->(\d+) MB,", run.stderr))
                cpu = after.children_user + after.children_system - before.children_user - before.children_system
                rss, size = r["peak_rss_bytes"] / 2**20, r["model"]["bytes"]
                w.writerow([row, n, r["seconds"], cpu, live, rss, size])
                f.flush()
                print(f"| {row} | {n} | {cpu:.1f} | {1e6 * cpu / n:.0f} | {live} | {rss:.0f} | {size} |", flush=True)


if __name__ == "__main__":
    main()
