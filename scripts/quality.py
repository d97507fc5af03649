#!/usr/bin/env python3
"""Accuracy and time of streamsvm's default preset, compared with LIBSVM's svm-train and
LIBLINEAR.

All learn the same training rows in the same run, one after the other, and are scored on
the same test rows; processor seconds, which include parsing. LIBSVM gets the parameters
that its users would take from the literature, LIBLINEAR its defaults (-s 1 -c 1 -B 1, dual,
L2 loss), streamsvm chooses its own (tune: auto), in one pass. With --fixed LIBSVM and
streamsvm get the same rows, scaled alike, and the same parameters. Whoever needs more
than --limit processor seconds is ended.

    scripts/quality.py [--data DIR] [--sets a9a,ijcnn1] [--runs 1] [--limit 300] [--fixed] [-- replay flags]

Needs svm-train and svm-predict, liblinear-train and liblinear-predict (Debian packages
libsvm-tools and liblinear-tools), Go, and for the bound a C compiler.
"""
import argparse, gzip, json, os, random, re, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench"))
from machine import TooLong, timed

# name: (train file, test file or None for a shuffled 80/20 split, scaling for LIBSVM, gamma, C)
SETS = {
    "a9a": ("a9a.train", "a9a.test", None, 0.05, 1),
    "ijcnn1": ("ijcnn1.train", "ijcnn1.test", None, 2, 32),
    "w8a": ("w8a.train", "w8a.test", None, 0.1, 8),
    "magic04": ("magic04", None, "standard", 0.1, 10),
    "skin_nonskin": ("skin_nonskin", None, "255", 20, 100),
    "mnist8": ("mnist8.train", "mnist8.test", "255", 0.02, 10),
}


def rows(path):
    with gzip.open(path, "rt") as f:
        return f.read().splitlines()


def parse(line):
    label, *pairs = line.split()
    return label, [(int(i), float(v)) for i, v in (p.split(":") for p in pairs)]


def scale(train, test, how):
    """Scale for LIBSVM, with the statistics of the training rows."""
    a, b = [parse(r) for r in train], [parse(r) for r in test]
    if how == "255":
        mean, inv = {}, {}
        f = lambda i, v: v / 255
        dense = None
    else:
        dim = max(i for _, x in a + b for i, _ in x)
        s, q = [0.0] * (dim + 1), [0.0] * (dim + 1)
        for _, x in a:
            for i, v in x:
                s[i] += v
                q[i] += v * v
        n = len(a)
        mean = [v / n for v in s]
        sd = [max(q[i] / n - mean[i] ** 2, 0) ** 0.5 or 1 for i in range(dim + 1)]
        dense = dim
        f = lambda i, v: (v - mean[i]) / sd[i]
    out = []
    for part in (a, b):
        lines = []
        for label, x in part:
            if dense:
                d = dict(x)
                x = [(i, d.get(i, 0.0)) for i in range(1, dense + 1)]
            lines.append(label + " " + " ".join("%d:%.7g" % (i, f(i, v)) for i, v in x))
        out.append(lines)
    return out


def write(path, lines):
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")


def libraries(tmp, train, test, gamma, c, limit, linear):
    """Accuracy and processor seconds of LIBSVM and, if wanted, of LIBLINEAR."""
    model, n = os.path.join(tmp, "m"), float("nan")
    runs = [(["svm-train", "-q", "-m", "1000", "-g", str(gamma), "-c", str(c)], "svm-predict")]
    if linear:
        runs.append((["liblinear-train", "-q", "-B", "1"], "liblinear-predict"))
    for command, predict in runs:
        try:
            _, cpu, _ = timed(command + [train, model], limit=limit)
            *_, out = timed([predict, test, model, os.devnull], limit=limit)
            yield float(re.search(r"([\d.]+)%", out).group(1)), cpu
        except TooLong:
            yield n, n


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--data", default=os.environ.get("STREAMSVM_DATA", os.path.join(ROOT, "..", "shared", "data")))
    ap.add_argument("--sets", default="a9a,ijcnn1,w8a,magic04,skin_nonskin")
    ap.add_argument("--runs", type=int, default=1)
    ap.add_argument("--limit", type=int, default=300, help="processor seconds for each library")
    ap.add_argument("--fixed", action="store_true", help="the same rows and parameters for both")
    # What comes after -- goes to streamsvm as it is.
    own, rest = sys.argv[1:], []
    if "--" in own:
        own, rest = own[:own.index("--")], own[own.index("--") + 1:]
    args = ap.parse_args(own)
    args.replay = rest
    tmp = tempfile.mkdtemp(prefix="quality")
    exe = os.path.join(tmp, "streamsvm")
    subprocess.run(["go", "build", "-o", exe, "./cmd/streamsvm"], cwd=ROOT, check=True)
    table = ["set", "rows", "LIBSVM accuracy", "processor s"]
    if not args.fixed:
        table += ["LIBLINEAR accuracy", "processor s"]
    table += ["streamsvm accuracy", "processor s", "points below LIBSVM", "share of its time", "given" if args.fixed else "chosen", "support"]
    print("| " + " | ".join(table) + " |\n|" + "---|" * len(table))
    for name in args.sets.split(","):
        tr, te, how, gamma, c = SETS[name]
        train = rows(os.path.join(args.data, tr + ".libsvm.gz"))
        if te:
            test = rows(os.path.join(args.data, te + ".libsvm.gz"))
        else:
            random.Random(1).shuffle(train)
            cut = len(train) * 4 // 5
            train, test = train[:cut], train[cut:]
        ftr, fte = os.path.join(tmp, name + ".train.libsvm"), os.path.join(tmp, name + ".test.libsvm")
        write(ftr, train)
        write(fte, test)
        ltr, lte = ftr, fte
        if how:
            str_, ste = scale(train, test, how)
            ltr, lte = ftr[:-7] + ".scaled", fte[:-7] + ".scaled"
            write(ltr, str_)
            write(lte, ste)
        peers = list(libraries(tmp, ltr, lte, gamma, c, args.limit, not args.fixed))
        lacc, lsec = peers[0]
        cells = [a for acc, sec in peers for a in (("%.2f %%" % acc, "%.2f" % sec) if sec == sec else ("", "> %d" % args.limit))]
        if args.fixed:
            ftr, fte = ltr, lte
        model = os.path.join(tmp, "model")
        for seed in range(1, args.runs + 1):
            cmd = [exe, "replay", ftr, "--learner", "scs", "--codec", "libsvm", "--seed", str(seed), "--json", "-", "--model", model]
            if args.fixed:
                cmd += ["--tune=off", "--scale", "none", "--set", "gamma=%g" % gamma, "--set", "c=%g" % c]
            _, sec, out = timed(cmd + args.replay)
            r = json.loads(out)
            *_, out = timed([exe, "predict", "--model", model, "--output", "label", "--codec", "libsvm", fte])
            acc = 100 * sum(float(row.split(None, 1)[0]) == float(got) for row, got in zip(test, out.split())) / len(test)
            o, support = r["options"], r["model"]["support"]
            chosen = " ".join("%s=%s" % (k, o[k]) for k in ("gamma", "c", "lambda") if k in o)
            row = [name, len(train)] + cells + ["%.2f %%" % acc, "%.2f" % sec, "%+.2f" % (lacc - acc), "%.2f" % (sec / lsec), chosen, support]
            print("| " + " | ".join(map(str, row)).replace("nan", "") + " |", flush=True)


main()
