#!/usr/bin/env python3
"""Prequential accuracy on elec2 for every learner of the registry, next to that
of the prediction that nothing changes.

    bench/elec2.py [--data DIR] [--limit N] [learner...]

The features are those of the file. Everything that is chosen (the scale and
its span, and one or two options of a learner, from the small grids below) is
chosen by the prequential accuracy on the first 5,000 rows; then the learner
goes through all 45,312 rows once, from the beginning, predicting each row
before it learns from it. Scales that are fitted are fitted to the first 1,000
rows, which are then not scored. The first table leaves out the scale that
follows the stream, the second allows it.
"""
import argparse, gzip, itertools, json, os, shutil, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FIRST = 5000
LIMIT = 300 # seconds for a run
FROZEN = [["--scale", s] for s in ("none", "standard", "minmax")]
RUNNING = [["--scale", "running", "--warmup", "1", "--scale-span", str(n)] for n in (12, 24, 48, 96, 192, 1000)]


def grid(**options):
    """All combinations of the options' values, as arguments."""
    names = list(options)
    return [sum((["--set", "%s=%s" % (k, v)] for k, v in zip(names, vs) if v is not None), [])
            for vs in itertools.product(*options.values())]


GRIDS = {
    "online": grid(update=["pa"], c=[0.1, 1]) + grid(update=["nag"], memory=[0, 200], rate=[0.5, 2]) + grid(update=["sgd"], power=[0], rate=[0.1, 1]),
    "perceptron": grid(budget=[200, 1000], average=["false"], gamma=["auto", 0.02]),
    "pegasos": grid(**{"lambda": [1e-4, 1e-3], "budget": [1000], "average": ["none"], "gamma": ["auto", 0.02]}),
    "scs": grid(max_sample=[500, 2000], full=["window"], c=[1, 10]),
    # What preset drift sets besides the buffer: on this stream the last label says most.
    "sdca": grid(buffer=[500, 2000], c=[1, 10], every=[1], visits=[2], choice=[1], average=[0]),
    "sbp": grid(buffer=[500, 2000], frozen=[1], c=[1, 10]),
    "smo": grid(buffer=[500, 2000], c=[1, 10]),
    "wolfe": grid(max_sample=[2000]),
    "tsgs3vm": grid(features=[512], labels=[500, 2000], keep=["window"]),
    "frs3vm": grid(features=[512], labels=[500, 2000], keep=["window"]),
    "dsg": grid(features=[512], labels=[500, 2000], keep=["window"]),
}


def run(exe, data, learner, args, limit):
    cmd = [exe, "replay", data, "--learner", learner, "--task", "classify", "--tune=off", "--json", "-", "-q", "--limit", str(limit)] + args
    try:
        p = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return None, "more than %d s" % LIMIT
    if p.returncode:
        return None, p.stderr.strip().splitlines()[-1]
    return json.loads(p.stdout), ""


def choose(exe, data, learner, scales, workers):
    """The arguments that do best on the first rows."""
    tries = [s + o for s in scales for o in GRIDS.get(learner, [[]])]
    with ThreadPoolExecutor(workers) as pool:
        results = list(pool.map(lambda a: run(exe, data, learner, a + ["--window", "4000"], FIRST), tries))
    # A warm-up is not scored, and not all have one: they are compared by their
    # mistakes on the last 4,000 of these rows.
    best, why = None, ""
    for a, (r, e) in zip(tries, results):
        if r is None:
            why = e
        elif best is None or r["prequential"]["window"]["accuracy"] > best[0]:
            best = r["prequential"]["window"]["accuracy"], a
    return (best[1] if best else None), why


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--data", default=os.environ.get("STREAMSVM_DATA", os.path.join(ROOT, "..", "shared", "data")))
    ap.add_argument("--limit", type=int, default=0, help="rows, 0 for all")
    ap.add_argument("learners", nargs="*")
    args = ap.parse_args()
    data = os.path.join(args.data, "elec2.libsvm.gz")
    tmp = tempfile.mkdtemp(prefix="elec2")
    try:
        exe = os.path.join(tmp, "streamsvm")
        subprocess.run(["go", "build", "-o", exe, "./cmd/streamsvm"], cwd=ROOT, check=True)
        names = args.learners or [l["name"] for l in json.loads(subprocess.run([exe, "learners", "--json"], stdout=subprocess.PIPE, check=True, text=True).stdout)]
        with gzip.open(data, "rt") as f:
            y = [l.split(" ", 1)[0] for l in f]
        y = y[:args.limit or None]
        same = sum(a == b for a, b in zip(y, y[1:])) / len(y)
        print("No change: %.4f of %d rows are like the one before (kappa-temporal 0 by definition).\n" % (same, len(y)))
        for title, scales in (("Features as they are, or scaled by the first rows", FROZEN), ("Features less their running means", RUNNING)):
            print("%s:\n" % title)
            print("| learner | accuracy | kappa | kappa-temporal | rows/s | chosen on the first %d rows |" % FIRST)
            print("|" + " --- |" * 6)
            for name in names:
                chosen, why = choose(exe, data, name, scales, os.cpu_count())
                if chosen is None:
                    print("| %s | | | | | %s |" % (name, why), flush=True)
                    continue
                r, why = run(exe, data, name, chosen, args.limit)
                if r is None:
                    print("| %s | | | | | %s |" % (name, why), flush=True)
                    continue
                q = r["prequential"]
                print("| %s | %.4f | %.3f | %.3f | %.0f | `%s` |" % (name, q["accuracy"], q["kappa"], q["kappa_t"], r["examples_per_second"],
                      " ".join(chosen).replace("--set ", "")), flush=True)
            print()
    finally:
        shutil.rmtree(tmp)


main()
