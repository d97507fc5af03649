#!/usr/bin/env python3
"""How many bytes models take: support vectors as they are, coded, and compacted.

    bench/compact.py [--data DIR] [--max-change 0.5] [SET ...]

Learns each set once with scs, and compares the decisions of the model on the rows
for testing with those of the compacted one. Prints a table.
"""
import argparse, gzip, json, os, random, subprocess, tempfile

from machine import timed

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SETS = ["ijcnn1", "a9a", "w8a", "mnist8", "magic04", "skin_nonskin"]


def rows(data, name):
    """Rows to learn from and to test on; of a single file every fifth, shuffled."""
    read = lambda n: gzip.open(os.path.join(data, n + ".libsvm.gz"), "rt").read().splitlines()
    try:
        return read(name + ".train"), read(name + ".test")
    except FileNotFoundError:
        all = read(name)
        random.Random(1).shuffle(all)
        return [l for i, l in enumerate(all) if i % 5], all[::5]


def plain(model):
    """Bytes of support vectors and coefficients as float32, indices and float64."""
    n, filled = len(model["points"]), 0
    for p in model["points"]:
        filled += len(p["index"]) if isinstance(p, dict) else sum(v != 0 for v in p)
    return 8 * n + min(4 * n * model["features"], 8 * filled + 4 * n)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--data", default=os.environ.get("STREAMSVM_DATA", os.path.join(ROOT, "..", "shared", "data")))
    ap.add_argument("--max-change", default="0.5")
    ap.add_argument("sets", nargs="*", metavar="SET")
    args = ap.parse_args()
    print("| set | support vectors | bytes as they are | coded | % | accuracy % | compacted | % | proved change | largest seen | "
          "labels changed | accuracy % | processor s |")
    print("|" + " --- |" * 13)
    with tempfile.TemporaryDirectory() as tmp:
        at = lambda name: os.path.join(tmp, name)
        subprocess.run(["go", "build", "-o", at("streamsvm"), "./cmd/streamsvm"], cwd=ROOT, check=True)
        for name in args.sets or SETS:
            train, test = rows(args.data, name)
            for file, lines in ("train", train), ("test", test):
                with open(at(file + ".libsvm"), "w") as f:
                    f.write("\n".join(lines) + "\n")
            call = lambda *a: timed([at("streamsvm"), *a])
            call("replay", "--learner", "scs", "--model", at("m.ssm"), at("train.libsvm"))
            model = json.loads(call("model", "export", at("m.ssm"))[2])["model"]
            coded, before = os.path.getsize(at("m.ssm")), plain(model)
            labels = [float(l.split(" ", 1)[0]) for l in test]
            truth = [y == max(labels) for y in labels]
            ask = lambda m: [float(v) for v in call("predict", "--model", at(m), "--output", "decision", at("test.libsvm"))[2].split()]
            f = ask("m.ssm")
            accuracy = lambda f: "%.2f" % (100 * sum((v >= 0) == y for v, y in zip(f, truth)) / len(f))
            cells = [name, len(model["coef"]), before, coded, "%.1f" % (100 * coded / before), accuracy(f)]
            try:
                _, cpu, said = call("model", "compact", at("m.ssm"), "--max-change", args.max_change, "--out", at("c.ssm"))
            except SystemExit:  # nothing to round
                cells += ["no smaller form"] + [""] * 6
            else:
                g, size = ask("c.ssm"), os.path.getsize(at("c.ssm"))
                cells += [size, "%.1f" % (100 * size / before), said.split()[-1], "%.4f" % max(abs(a - b) for a, b in zip(f, g)),
                          "%d of %d" % (sum((a >= 0) != (b >= 0) for a, b in zip(f, g)), len(f)), accuracy(g), "%.1f" % cpu]
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)


main()
