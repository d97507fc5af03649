#!/usr/bin/env python3
"""Peak memory, processor time, and what a second processor saves, of learners on a file.

    bench/memory.py [FILE] [--learners adaptive,scs,sbp,tsgs3vm,dsg] [--runs 7] [--binary STREAMSVM]

Without a FILE: 30,000 examples of a synthetic stream with 18 features. Times are the least
of several runs, with one and two processors by turns. The states at 1, 2 and 4 must agree.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STREAM = "rbf --count 30000 --set dim=18 --set centroids=200 --set noise=0.1 --set spread=1".split()


def replay(binary, data, learner, procs, out):
    """Peak MB, processor seconds, seconds on the clock, and the hash of the state."""
    start = time.perf_counter()
    p = subprocess.Popen([binary, "replay", data, "--learner", learner, "--json", out], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, env=dict(os.environ, GOMAXPROCS=str(procs)))
    _, status, used = os.wait4(p.pid, 0)
    wall = time.perf_counter() - start
    if status:
        sys.exit(f"{learner}: exit status {status}")
    with open(out) as f:
        state = f.read().split('"state_hash": "')[1][:16]
    return used.ru_maxrss / 1024, used.ru_utime + used.ru_stime, wall, state


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("file", nargs="?")
    a.add_argument("--learners", default="adaptive,scs,sbp,tsgs3vm,dsg")
    a.add_argument("--binary", help="instead of that of this directory")
    a.add_argument("--runs", type=int, default=7)
    a = a.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        binary, out = a.binary or os.path.join(tmp, "streamsvm"), os.path.join(tmp, "out.json")
        if not a.binary:
            subprocess.run(["go", "build", "-o", binary, "./cmd/streamsvm"], cwd=ROOT, check=True)
        data = a.file or os.path.join(tmp, "stream.libsvm")
        if not a.file:
            subprocess.run([binary, "generate", *STREAM, "--out", data], check=True, stderr=subprocess.DEVNULL)
        print("| learner | peak MB | CPU s | seconds, 1 processor | 2 processors | ratio |\n| --- | --- | --- | --- | --- | --- |")
        for learner in a.learners.split(","):
            runs = {1: [], 2: []}
            for _ in range(a.runs):
                for procs, list_ in runs.items():
                    list_.append(replay(binary, data, learner, procs, out))
            if len({r[3] for rs in runs.values() for r in rs} | {replay(binary, data, learner, 4, out)[3]}) > 1:
                sys.exit(f"{learner}: states differ")
            one, two = (min(r[2] for r in runs[k]) for k in (1, 2))
            peak = max(r[0] for rs in runs.values() for r in rs)
            print(f"| {learner} | {peak:.0f} | {min(r[1] for r in runs[1]):.2f} | {one:.2f} | {two:.2f} | {two / one:.2f} |", flush=True)


if __name__ == "__main__":
    main()
