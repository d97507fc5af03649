#!/usr/bin/env python3
"""Runs LIBLINEAR and scikit-learn's LinearSVC next to learner l1smooth, on the
same rows in one go, and prints a table.

    bench/l1.py [--data DIR] [--times N] [SET]...

The rows are those that l1smooth sees: scaled where it scales (covtype15k, of
which the last 3,000 rows are the test set), as they are elsewhere. All solve
lambda/2 |w|^2 + mean hinge with C = 1, a regularised bias and lambda = 1/(C n),
which is -s 3 of LIBLINEAR; l1smooth also with an l1 term of 0.1 lambda and of
lambda, and without coordinate ascent. pixels is mnist8 averaged to 16 by 16, and as many rows as USPS has.
gap is the certificate. f is the objective without the l1 term. CPU seconds of all
cores, the best of N, without reading the data; for liblinear-train, which
reads text, that includes reading. LinearSVC and liblinear-train have
loss="hinge" and their default tolerances. census_nominal takes LinearSVC
minutes: name the sets to leave it out.

Needs Go, liblinear-train (Debian package liblinear-tools) and scikit-learn, in
the environment that bench/peers.py installs. What is missing is left out.
"""
import argparse, gzip, itertools, json, math, os, shutil, subprocess, sys, tempfile, time, warnings

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.environ.get("STREAMSVM_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "streamsvm")

SETS = ["covtype15k", "a9a", "w8a", "reuters_moneyfx", "pixels", "mnist8", "census_nominal"]
OURS = [("l1smooth, mu 0", ["l1=0"]), ("l1smooth", []), ("l1smooth, l1 1", ["l1=1"])]


def environment():
    """Go on in the virtual environment that bench/peers.py makes, if it is there."""
    home = os.path.join(CACHE, "peers")
    python = os.path.join(home, "bin", "python")
    if sys.prefix != home and os.path.exists(python):
        env = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
        os.execve(python, [python] + sys.argv, env)


def row(name, accuracy, cpu, wall, nonzero, f=None, more=""):
    print("  %-29s %9.3f %9s %8.2f %8.2f %8d  %s" % (
        name, 100 * accuracy, "" if f is None else "%.6f" % f, cpu, wall, nonzero, more), flush=True)


def pixels(source, target, rows):
    """Writes the first rows of 28 by 28 images as means over 16 by 16 areas, from 0 to 1."""
    side = 28 / 16
    parts = [[(p, min(hi, p + 1) - max(lo, p)) for p in range(math.floor(lo), math.ceil(hi))]
             for lo, hi in ((k * side, (k + 1) * side) for k in range(16))]
    with gzip.open(source, "rt") as lines, open(target, "w") as out:
        for line in itertools.islice(lines, rows):
            y, *values = line.split()
            x = [0.0] * 784
            for v in values:
                j, v = v.split(":")
                x[int(j) - 1] = float(v) / 255
            means = (sum(x[28 * p + q] * a * b for p, a in r for q, b in c) / side**2 for r in parts for c in parts)
            print(y, *("%d:%.5g" % (j + 1, v) for j, v in enumerate(means) if v), file=out)


def files(args, name, tmp):
    """Returns the arguments of command l1 for a set: its files, made if need be."""
    at = lambda part: os.path.join(tmp, name + part)
    if name == "pixels":
        for part, rows in ((".train", 7291), (".test", 2007)):
            pixels(os.path.join(args.data, "mnist8" + part + ".libsvm.gz"), at(part + "16"), rows)
        return ["-scale", "none", at(".train16"), at(".test16")]
    both = [os.path.join(args.data, name + part) for part in (".train.libsvm.gz", ".test.libsvm.gz")]
    return both if os.path.exists(both[0]) else ["-tail", "3000", os.path.join(args.data, name + ".libsvm.gz")]


def objective(np, w, b, x, y):
    u = 1 - y * (x @ w + b)
    return (w @ w + b * b) / (2 * len(y)) + np.maximum(0, u).mean()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data", default=os.environ.get("STREAMSVM_DATA") or os.path.join(ROOT, "..", "shared", "data"))
    p.add_argument("--times", type=int, default=3)
    p.add_argument("sets", nargs="*", default=SETS)
    args = p.parse_args()
    environment()
    try:
        import numpy as np
        from sklearn.datasets import load_svmlight_files
        from sklearn.svm import LinearSVC
        warnings.simplefilter("ignore")
    except ImportError:
        np = None
    with tempfile.TemporaryDirectory() as tmp:
        tool = os.path.join(tmp, "l1")
        subprocess.run(["go", "build", "-C", "bench", "-o", tool, "./l1"], cwd=ROOT, check=True)
        for name in args.sets:
            prefix = os.path.join(tmp, name)
            subprocess.run([tool, "-dump", prefix] + files(args, name, tmp), check=True)
            train, test = prefix + ".train", prefix + ".test"
            print("%s\n  %-29s %9s %9s %8s %8s %8s" % (name, "", "accuracy", "f", "CPU s", "wall s", "nonzero"))
            for label, options in OURS:
                sets = [a for o in options for a in ("-set", o)]
                r = json.loads(subprocess.run([tool, "-times", str(args.times), "-scale", "none"] + sets + [train, test],
                                              check=True, capture_output=True, text=True).stdout)
                row(label, r["accuracy"], r["cpu"], r["seconds"], r["nonzero"],
                    r["objective"] if "l1=0" in options else None,
                    "gap %.1e, %d steps, %d passes, %d Hessians, %d values, %d CG products" % (
                        r.get("certificate", float("nan")), r["newton_steps"], r["passes"], r["hessians"], r["function_values"], r["cg_products"]))
            if shutil.which("liblinear-train"):
                model, best, wall = prefix + ".model", float("inf"), float("inf")
                for _ in range(args.times):
                    before, start = os.times(), time.time()
                    subprocess.run(["liblinear-train", "-s", "3", "-B", "1", "-q", train, model], check=True)
                    after = os.times()
                    wall = min(wall, time.time() - start)
                    best = min(best, after.children_user + after.children_system - before.children_user - before.children_system)
                said = subprocess.run(["liblinear-predict", test, model, os.devnull], check=True, capture_output=True, text=True).stdout
                lines = open(model).read().split("\nw\n")[1].split()
                row("liblinear-train -s 3", float(said.split("=")[1].split("%")[0]) / 100, best, wall,
                    sum(float(v) != 0 for v in lines[:-1]))
            if np is None:
                continue
            x, y, xt, yt = load_svmlight_files([train, test])
            for m in (x, xt):  # scipy makes 64-bit indices, which LinearSVC refuses
                m.indices, m.indptr = m.indices.astype("i4"), m.indptr.astype("i4")
            y, yt = np.where(y > 0, 1, -1), np.where(yt > 0, 1, -1)
            best, wall = float("inf"), float("inf")
            for _ in range(args.times):
                cpu, start = time.process_time(), time.time()
                svc = LinearSVC(loss="hinge", dual=True, random_state=0).fit(x, y)
                wall, best = min(wall, time.time() - start), min(best, time.process_time() - cpu)
                if wall > 10:
                    break
            w, b = svc.coef_.ravel(), svc.intercept_[0]
            row("LinearSVC(loss='hinge')", svc.score(xt, yt), best, wall, (w != 0).sum(),
                objective(np, w, b, x, y), "%d epochs" % np.max(svc.n_iter_))


if __name__ == "__main__":
    main()
