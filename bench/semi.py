#!/usr/bin/env python3
"""Compare semi-supervised learners on few labels among many examples.

    bench/semi.py --streamsvm BIN [--seeds 10] [--rows 20000] [--sets mnist8,moons] [--out DIR]

Each seed shuffles a set, keeps the labels of 200 rows and hides the others.
All learners get the same rows, scaled the same way, and choose their options
on the labelled rows only: ours as they always do, scikit-learn's SVC by
5-fold cross-validation over C and gamma. LIBSVM with all labels is the ceiling;
its options are those of the table below. Prints a table in Markdown (mean test
error in percent, and p-values of paired t-tests over the seeds: each learner
from both kinds of rows against the same without unlabelled ones) and
writes every figure to DIR/semi.csv. "exact twin" is the
cluster kernel of tsgs3vm on exact kernel values, its options chosen by the same
folds as SVC's.

Python with numpy, scipy and scikit-learn is needed; see bench/peers.py.
"""
import argparse
import csv
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
from scipy.stats import ttest_rel
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.svm import SVC
import scipy.sparse as sp

warnings.filterwarnings("ignore", category=FutureWarning)  # SVC(probability=True) is what users have

# name: scaling, C and gamma for the ceiling
SETS = {
    "moons": ("standard", 10, 5),
    "checkerboard": ("standard", 100, 20),
    "skin_nonskin": ("standard", 100, 2),
    "magic04": ("standard", 10, 0.1),
    "ijcnn1": ("none", 32, 2),
    "a9a": ("none", 1, 0.05),
    "w8a": ("none", 8, 0.1),
    "reuters_moneyfx": ("none", 1, 1),
    "mnist8": ("255", 10, 0.02),
}
# What is compared with what.
PAIRS = [("tsgs3vm", "dsg"), ("tsgs3vm", "dsg, best alone"), ("SelfTraining(SVC)", "SVC, labels")]
SYNTH = {"moons": ["--set", "spread=0.3"], "checkerboard": []}


@functools.lru_cache(2)
def load(path, features=None):
    return load_svmlight_file(path, n_features=features)


def read(data, binary, name, seed, rows, tests):
    """Return train and test rows of one draw, scaled."""
    rng = np.random.default_rng(seed)
    if name in SYNTH:
        with tempfile.NamedTemporaryFile(suffix=".libsvm") as f:
            subprocess.run([binary, "generate", name, "--count", str(rows + tests), "--seed", str(seed),
                            "--out", f.name, *SYNTH[name]], check=True, stdout=subprocess.DEVNULL)
            x, y = load_svmlight_file(f.name, zero_based=False)
        a, b = np.arange(rows), np.arange(rows, rows + tests)
        train, test = (x[a], y[a]), (x[b], y[b])
    elif os.path.exists(f"{data}/{name}.libsvm.gz"):
        x, y = load(f"{data}/{name}.libsvm.gz")
        p = rng.permutation(len(y))
        k = len(y) * 4 // 5
        train, test = (x[p[:k]], y[p[:k]]), (x[p[k:]], y[p[k:]])
    else:
        x, y = load(f"{data}/{name}.train.libsvm.gz")
        p = rng.permutation(len(y))
        tx, ty = load(f"{data}/{name}.test.libsvm.gz", x.shape[1])
        train, test = (x[p], y[p]), (tx, ty)
    train = tuple(v[:rows] for v in train)
    p = rng.permutation(len(test[1]))[:tests]
    test = tuple(v[p] for v in test)
    scale = SETS[name][0]
    if scale == "standard":
        s = StandardScaler().fit(train[0].toarray())
        train = (sp.csr_matrix(s.transform(train[0].toarray())), train[1])
        test = (sp.csr_matrix(s.transform(test[0].toarray())), test[1])
    elif scale == "255":
        train, test = (train[0] / 255, train[1]), (test[0] / 255, test[1])
    return train, test


def choose(y, n, rng):
    """Return the rows whose labels are kept: at random, with both classes."""
    while True:
        keep = rng.permutation(len(y))[:n]
        if min((y[keep] > 0).sum(), (y[keep] < 0).sum()) >= 2:
            return np.sort(keep)


def write(path, x, y):
    x = x.tocsr()
    with open(path, "w") as f:
        for i, label in enumerate(y):
            a, b = x.indptr[i], x.indptr[i + 1]
            order = np.argsort(x.indices[a:b])
            text = {1: "+1", -1: "-1", 0: "?"}[int(label)]
            f.write(text + "".join(f" {j + 1}:{v:.7g}" for j, v in zip(x.indices[a:b][order], x.data[a:b][order])) + "\n")


def ours(binary, train, test, learner, seed, *options):
    cmd = [binary, "replay", train, "--test", test, "--learner", learner, "--seed", str(seed), "--scale", "none",
           "--tune=off", "--json", "-", "-q"]
    for o in options:
        cmd += ["--set", o]
    out = subprocess.run(cmd, check=True, capture_output=True, text=True).stdout
    r = json.loads(out)
    return 100 * r["test"]["error"], r["seconds"]


def gammas(x, rng):
    d = x[rng.permutation(x.shape[0])[:200]].toarray()
    sq = ((d[:, None, :] - d[None, :, :]) ** 2).sum(-1) if d.shape[1] < 50 else np.maximum(
        (d**2).sum(1)[:, None] + (d**2).sum(1)[None] - 2 * d @ d.T, 0)
    m = np.median(sq[np.triu_indices(len(d), 1)])
    return [f / m for f in (0.2, 0.6, 2, 6, 20)]


def affinities(gamma, x, marks):
    """Return k(x, u) and the same less its mean over the landmarks u."""
    squares = [np.asarray(v.multiply(v).sum(1)).ravel() for v in (x, marks)]
    dense = x.nnz > 0.1 * x.shape[0] * x.shape[1]
    inner = x.toarray() @ marks.toarray().T if dense else (x @ marks.T).toarray()
    sq = np.maximum(squares[0][:, None] + squares[1][None] - 2 * inner, 0)
    k = np.exp(-gamma * sq)
    return k, k - k.mean(1, keepdims=True)


def form(x):
    """Return x as the form of matrix on which scikit-learn is faster."""
    return x.toarray() if x.nnz > 0.1 * x.shape[0] * x.shape[1] else x


def grid(x, y, folds, widths):
    """Return the C and gamma of fewest errors in cross-validation."""
    best = None
    for gamma in widths:
        k, _ = affinities(gamma, x, x)
        for c in (0.1, 0.5, 2, 10, 50, 250, 1000):
            wrong = 0
            for i, j in folds.split(x, y):
                wrong += (SVC(C=c, kernel="precomputed").fit(k[np.ix_(i, i)], y[i]).predict(k[np.ix_(j, i)]) != y[j]).sum()
            if best is None or (wrong, c) < best[:2]:
                best = wrong, c, gamma
    return {"C": best[1], "gamma": best[2]}


def exact(x, y, marks, tx, ty, folds, widths):
    """Return the test error of an SVM with the cluster kernel of the landmarks."""
    best = None
    folds = list(folds.split(x, y))
    for gamma in widths:
        k, _ = affinities(gamma, x, x)
        _, t = affinities(gamma, x, marks)
        walk = t @ t.T / len(marks.indptr)
        walk /= np.diag(walk).mean() / (1 - k.mean())
        for a in (0, 1, 10):
            gram = (k + a * walk) / (1 + a)
            for c in (2, 10, 50, 250):
                wrong = 0
                for i, j in folds:
                    m = SVC(C=c, kernel="precomputed").fit(gram[np.ix_(i, i)], y[i])
                    wrong += (m.predict(gram[np.ix_(j, i)]) != y[j]).sum()
                if best is None or wrong < best[0]:
                    best = wrong, gamma, a, c
    _, gamma, a, c = best
    k, _ = affinities(gamma, x, x)
    _, t = affinities(gamma, x, marks)
    walk = t @ t.T
    scale = a / (np.diag(walk).mean() / (1 - k.mean()))
    m = SVC(C=c, kernel="precomputed").fit((k + scale * walk) / (1 + a), y)
    wrong = 0
    for i in range(0, len(ty), 2000):
        part = tx[i:i + 2000]
        wrong += (m.predict((affinities(gamma, part, x)[0] + scale * affinities(gamma, part, marks)[1] @ t.T) / (1 + a))
                  != ty[i:i + 2000]).sum()
    return 100 * wrong / len(ty)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--streamsvm", required=True, help="the program")
    p.add_argument("--data", default=os.environ.get("STREAMSVM_DATA", "../shared/data"))
    p.add_argument("--seeds", type=int, default=10)
    p.add_argument("--first", type=int, default=1, help="the first seed")
    p.add_argument("--labels", type=int, default=200)
    p.add_argument("--rows", type=int, default=20000, help="most training rows")
    p.add_argument("--tests", type=int, default=10000, help="most test rows")
    p.add_argument("--pseudo", type=int, default=2000, help="most unlabelled rows for SelfTrainingClassifier")
    p.add_argument("--sets", default=",".join(SETS))
    p.add_argument("--out", default=".")
    p.add_argument("--losses", action="store_true", help="add rows with the loss on unlabelled rows alone")
    p.add_argument("--no-peers", action="store_true")
    p.add_argument("--learners", default="tsgs3vm,dsg", help="which of ours")
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    figures = []
    log = open(os.path.join(a.out, "semi.csv"), "w", newline="")
    table = csv.writer(log)
    table.writerow(["set", "seed", "learner", "error", "seconds"])
    print_head = True
    for name in a.sets.split(","):
        errors = {}

        def add(seed, learner, error, seconds):
            errors.setdefault(learner, []).append(error)
            table.writerow([name, seed, learner, f"{error:.4f}", f"{seconds:.3f}"])
            log.flush()

        for seed in range(a.first, a.seeds + 1):
            (x, y), (tx, ty) = read(a.data, a.streamsvm, name, seed, a.rows, a.tests)
            rng = np.random.default_rng(1000 + seed)
            keep = choose(y, min(a.labels, len(y)), rng)
            hidden = np.zeros(len(y))
            hidden[keep] = y[keep]
            with tempfile.TemporaryDirectory() as d:
                tr, te = os.path.join(d, "train.libsvm"), os.path.join(d, "test.libsvm")
                write(tr, x, hidden)
                write(te, tx, ty)
                for learner, row, options in [
                    ("tsgs3vm", "tsgs3vm", []),
                    ("tsgs3vm", "tsgs3vm rho=0.1", ["rho=0.1"]),
                    ("tsgs3vm", "tsgs3vm rho=1", ["rho=1"]),
                    ("dsg", "dsg", []),
                ]:
                    if learner not in a.learners.split(",") or "rho" in row and not a.losses:
                        continue
                    add(seed, row, *ours(a.streamsvm, tr, te, learner, seed, *options))
                if not a.no_peers:
                    start = time.time()
                    lx, ly = x[keep], y[keep]
                    folds = StratifiedKFold(min(5, int(min((ly > 0).sum(), (ly < 0).sum()))), shuffle=True, random_state=seed)
                    chosen = grid(lx, ly, folds, gammas(x, rng))
                    svc = SVC(**chosen).fit(form(lx), ly)
                    add(seed, "SVC, labels", 100 * (1 - svc.score(form(tx), ty)), time.time() - start)
                    start = time.time()
                    rest = rng.permutation(np.setdiff1d(np.arange(len(y)), keep))[:1024]
                    add(seed, "exact twin", exact(lx, ly, x[rest], tx, ty, folds, gammas(x, rng)), time.time() - start)
                    start = time.time()
                    some = np.concatenate([keep, rng.permutation(np.setdiff1d(np.arange(len(y)), keep))[:a.pseudo]])
                    st = SelfTrainingClassifier(SVC(probability=True, random_state=seed, **chosen), threshold=0.9)
                    target = np.where(hidden[some] == 0, -1, (hidden[some] > 0).astype(int))
                    st.fit(form(x[some]), target)
                    add(seed, "SelfTraining(SVC)", 100 * np.mean((st.predict(form(tx)) > 0) != (ty > 0)), time.time() - start)
                    if seed == 1:
                        start = time.time()
                        write(tr, x, y)
                        _, c, g = SETS[name]
                        subprocess.run(["svm-train", "-q", "-m", "1000", "-c", str(c), "-g", str(g), tr, d + "/model"], check=True)
                        out = subprocess.run(["svm-predict", te, d + "/model", d + "/out"], check=True, capture_output=True, text=True).stdout
                        add(seed, "LIBSVM, all labels", 100 - float(out.split("=")[1].split("%")[0]), time.time() - start)
        figures.append((name, errors))
        if print_head:
            tests = [f"{one} / {other}" for one, other in PAIRS]
            print("| set | " + " | ".join(errors) + " | p " + " | p ".join(tests) + " |")
            print("| --- |" + " ---: |" * (len(errors) + len(tests)))
            print_head = False
        cells = [f"{np.mean(v):.2f}" for v in errors.values()]
        for one, other in PAIRS:
            if not {one, other} <= errors.keys():
                cells.append("-")
                continue
            d = np.subtract(errors[one], errors[other])
            p = f"{ttest_rel(errors[one], errors[other]).pvalue:.3f}" if len(d) > 1 and d.any() else "-"
            cells.append(f"{p} ({(d < 0).sum()} better, {(d > 0).sum()} worse)")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    log.close()


if __name__ == "__main__":
    sys.exit(main())
