#!/usr/bin/env python3
"""Accuracy and time of streamsvm's default preset, compared with LIBSVM's svm-train.

Both learn the same training rows in the same run, one after the other, on one
core each, and are scored on the same test rows; wall seconds include parsing.
LIBSVM gets the parameters that its users would take from the literature,
streamsvm chooses its own (tune: auto), in one pass. With --fixed both get the
same rows, scaled alike, and the same parameters, and what is compared is
processor seconds, since the tuning, which uses both cores, is absent.

    scripts/quality.py [--data DIR] [--sets a9a,ijcnn1] [--runs 1] [--fixed] [-- replay flags]

Needs svm-train and svm-predict (Debian package libsvm-tools) and Go.
"""
import argparse, gzip, json, os, random, re, resource, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

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


def timed(cmd):
    """Wall seconds, processor seconds and standard output of a command."""
    t, before = time.time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    p = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wall, after = time.time() - t, resource.getrusage(resource.RUSAGE_CHILDREN)
    if p.returncode:
        sys.exit("%s\n%s" % (" ".join(cmd), p.stderr[-2000:]))
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, p.stdout


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--data", default=os.environ.get("STREAMSVM_DATA", os.path.join(ROOT, "..", "shared", "data")))
    ap.add_argument("--sets", default="a9a,ijcnn1,w8a,magic04,skin_nonskin")
    ap.add_argument("--runs", type=int, default=1)
    ap.add_argument("--no-libsvm", action="store_true")
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
    unit = "processor s" if args.fixed else "seconds"
    print("| set | rows | LIBSVM accuracy | %s | streamsvm accuracy | %s | points below | time ratio | %s | support |" % (unit, unit, "given" if args.fixed else "chosen"))
    print("|---|---|---|---|---|---|---|---|---|---|")
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
        lacc, lsec = float("nan"), float("nan")
        if not args.no_libsvm:
            wall, cpu, _ = timed(["svm-train", "-q", "-m", "1000", "-g", str(gamma), "-c", str(c), ltr, os.path.join(tmp, "m")])
            lsec = cpu if args.fixed else wall
            *_, out = timed(["svm-predict", lte, os.path.join(tmp, "m"), os.devnull])
            lacc = float(re.search(r"([\d.]+)%", out).group(1))
        for seed in range(1, args.runs + 1):
            # --test is scored in a run of its own, so that the seconds are those of training
            cmd = [exe, "replay", ltr if args.fixed else ftr, "--learner", "scs", "--codec", "libsvm", "--seed", str(seed), "--json", "-"]
            if args.fixed:
                cmd += ["--tune=off", "--scale", "none", "--set", "gamma=%g" % gamma, "--set", "c=%g" % c]
            cmd += args.replay
            wall, cpu, _ = timed(cmd + ["--model", os.path.join(tmp, "model")])
            sec = cpu if args.fixed else wall
            *_, out = timed(cmd + ["--test", lte if args.fixed else fte])
            r = json.loads(out)
            acc = 100 * r["test"]["accuracy"]
            o = r["options"]
            chosen = " ".join("%s=%s" % (k, o[k]) for k in ("gamma", "c", "lambda") if k in o)
            print("| %s | %d | %.2f %% | %.2f | %.2f %% | %.2f | %+.2f | %.2f | %s | %s |" % (
                name, len(train), lacc, lsec, acc, sec, lacc - acc, sec / lsec if lsec == lsec else float("nan"), chosen, r["model"]["support"]), flush=True)


main()
