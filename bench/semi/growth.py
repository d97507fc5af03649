#!/usr/bin/env python3
"""Measure time and memory of tsgs3vm against the length of the stream.

    bench/semi/growth.py --streamsvm BIN [--sizes 10000,100000,1000000] [--out DIR]

A generated stream of 28 features, 200 labels, all else unlabelled: the default
preset, and the paper's fresh features (32 a step) with and without a window.
Prints a table in Markdown and writes DIR/growth.csv, which
`go run ./bench/semi/growthplot` draws.
"""
import argparse
import csv
import json
import os
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
    p.add_argument("--longest", type=int, default=1000000, help="largest size without a window, whose time is quadratic")
    p.add_argument("--out", default=".")
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    sizes = [int(s) for s in a.sizes.split(",")]
    figures = []
    with tempfile.TemporaryDirectory() as d:
        data = os.path.join(d, "stream.libsvm")
        subprocess.run([a.streamsvm, "generate", "rbf", "--count", str(max(sizes)), "--set", "dim=28", "--out", data],
                       check=True, stdout=subprocess.DEVNULL)
        for row, options in ROWS.items():
            for n in sizes:
                if row.endswith("no window") and n > a.longest:
                    continue
                cmd = [a.streamsvm, "replay", data, "--limit", str(n), "--labelled", "200", "--learner", "tsgs3vm",
                       "--scale", "none", "--tune=off", "--json", "-", "-q"]
                for o in options:
                    cmd += ["--set", o]
                before = os.times()
                out = subprocess.run(cmd, check=True, capture_output=True, text=True, env={**os.environ, "GOMAXPROCS": "1"}).stdout
                after = os.times()
                r = json.loads(out)
                cpu = after.children_user + after.children_system - before.children_user - before.children_system
                figures.append((row, n, r["seconds"], cpu, r["peak_rss_bytes"] / 2**20, r["model"]["bytes"]))
    with open(os.path.join(a.out, "growth.csv"), "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["learner", "examples", "seconds", "cpu_seconds", "rss_mib", "model_bytes"])
        w.writerows(figures)
    print("| learner | examples | CPU s | µs an example | peak MiB | model bytes |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for row, n, _, cpu, rss, size in figures:
        print(f"| {row} | {n} | {cpu:.1f} | {1e6 * cpu / n:.0f} | {rss:.0f} | {size} |")


if __name__ == "__main__":
    main()
