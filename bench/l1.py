#!/usr/bin/env python3
"""Runs LIBLINEAR and scikit-learn's LinearSVC next to learner l1smooth, on the
same rows in one go, and prints a table.

    bench/l1.py [--data DIR] [--times N] [SET]...

The rows are those that l1smooth sees: scaled where it scales (covtype15k, of
which the last 3,000 rows are the test set), as they are elsewhere. All solve
lambda/2 |w|^2 + mean hinge with C = 1, a regularised bias and lambda = 1/(C n);
l1smooth also with an l1 term of 0.1 lambda and of lambda, and down to a
smoothing of 1e-5. f is the objective without the l1 term. CPU seconds of all
cores, the best of N, without reading the data; for liblinear-train, which
reads text, that includes reading. LinearSVC and liblinear-train have
loss="hinge" and their default tolerances. census_nominal takes LinearSVC
minutes: name the sets to leave it out.

Needs Go, liblinear-train (Debian package liblinear-tools) and scikit-learn, in
the environment that bench/peers.py installs. What is missing is left out.
"""
import argparse, json, os, shutil, subprocess, sys, tempfile, time, warnings

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.environ.get("STREAMSVM_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "streamsvm")

SETS = ["covtype15k", "a9a", "w8a", "reuters_moneyfx", "census_nominal"]
OURS = [("l1smooth, mu 0", ["mu=0"]), ("l1smooth", []), ("l1smooth, l1 1", ["l1=1"]),
        ("l1smooth, mu 0, alpha 1e-5", ["mu=0", "alpha_min=1e-5"])]


def environment():
    """Go on in the virtual environment that bench/peers.py makes, if it is there."""
    home = os.path.join(CACHE, "peers")
    python = os.path.join(home, "bin", "python")
    if sys.prefix != home and os.path.exists(python):
        env = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
        os.execve(python, [python] + sys.argv, env)


def row(name, accuracy, cpu, wall, nonzero, f=None, more=""):
    print("  %-28s %9.3f %9s %8.2f %8.2f %8d  %s" % (
        name, 100 * accuracy, "" if f is None else "%.6f" % f, cpu, wall, nonzero, more), flush=True)


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
            files = [os.path.join(args.data, name + part) for part in (".train.libsvm.gz", ".test.libsvm.gz")]
            if not os.path.exists(files[0]):
                files = ["-tail", "3000", os.path.join(args.data, name + ".libsvm.gz")]
            prefix = os.path.join(tmp, name)
            subprocess.run([tool, "-dump", prefix] + files, check=True)
            train, test = prefix + ".train", prefix + ".test"
            print("%s\n  %-28s %9s %9s %8s %8s %8s" % (name, "", "accuracy", "f", "CPU s", "wall s", "nonzero"))
            for label, options in OURS:
                sets = [a for o in options for a in ("-set", o)]
                r = json.loads(subprocess.run([tool, "-times", str(args.times), "-scale", "none"] + sets + [train, test],
                                              check=True, capture_output=True, text=True).stdout)
                row(label, r["accuracy"], r["cpu"], r["seconds"], r["nonzero"],
                    r["objective"] if "mu=0" in options else None,
                    "%d steps, %d passes, %d Hessians, %d values, %d CG products" % (
                        r["newton_steps"], r["passes"], r["hessians"], r["function_values"], r["cg_products"]))
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
