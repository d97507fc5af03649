#!/usr/bin/env python3
"""Fits what a record costs each learner and each form of model, and predicts other jobs with it.

    bench/cost.py [BINARY]

Processor time of whole commands, GOMAXPROCS=1, the least of RUNS (5). A settled record is the difference between
20,000 and 10,000 records. Coefficients are not negative and have the least squared relative errors.
Needs numpy, scipy and scikit-learn, and the data sets of data/README.md.
"""
import gzip
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
from scipy.optimize import nnls
from sklearn.datasets import dump_svmlight_file

import machine

DATA = os.environ.get("STREAMSVM_DATA") or os.path.join(machine.ROOT, "..", "shared", "data")
RUNS = int(os.environ.get("RUNS", 5))
N = 20000  # rows of a generated file
LENGTH = {"online": 10 * N, "dsg": 2 * N, "adaptive": N}  # records learned from; the second half is measured
tmp = tempfile.TemporaryDirectory()


def path(name):
    return os.path.join(tmp.name, name)


if len(sys.argv) > 1:
    binary = sys.argv[1]
else:
    binary = path("streamsvm")
    subprocess.run(["go", "build", "-o", binary, "./cmd/streamsvm"], cwd=machine.ROOT, check=True)


def streamsvm(*args):
    """The least processor seconds of a command, and what it printed."""
    runs = [machine.timed([binary, *map(str, args)], {"GOMAXPROCS": "1"}) for _ in range(RUNS)]
    return min(r[1] for r in runs), runs[0][2]


def generated(d, k):
    """A file of N rows of d features and k classes, which are sectors of noisy products of features."""
    name = path(f"{d}-{k}.libsvm")
    if not os.path.exists(name):
        rng = np.random.default_rng(1)
        x = rng.normal(size=(N, d))
        z = x[:, 0] * x[:, 1] + x[:, 2] + 0.3 * rng.normal(size=N)
        y = np.searchsorted(np.quantile(z, np.arange(1, k) / k), z)
        dump_svmlight_file(np.round(x, 4), y, name, zero_based=False)
    return name


def repeated(file, rows):
    """A file of the first rows of file, which begins again at its end."""
    with open(file) as f:
        lines = f.readlines()
    name = path(f"{rows}-{os.path.basename(file)}")
    with open(name, "w") as f:
        for at in range(0, rows, len(lines)):
            f.writelines(lines[:rows - at])
    return name


def train(file, learner, rows=N):
    return streamsvm("replay", repeated(file, rows), "--learner", learner, "--quiet", "--model", path("model.ssm"))[0]


def settled(file, learner, n=N):
    """Microseconds of the processor for a record of the second half of n."""
    return (train(file, learner, n) - train(file, learner, n // 2)) / (n - n // 2) * 1e6


def scoring(file, rows):
    """Microseconds of the processor for a record that the model scores, and the model's support vectors."""
    few, many = (streamsvm("predict", repeated(file, n), "--model", path("model.ssm"), "--output", "label", "--quiet")[0]
                 for n in (rows // 10, rows))
    said = subprocess.run([binary, "model", "inspect", path("model.ssm")], stdout=subprocess.PIPE, text=True, check=True).stdout
    support = re.search(r"^support: (\d+)$", said, re.M)
    return (many - few) / (rows - rows // 10) * 1e6, int(support.group(1)) if support else 0


def fit(rows, y):
    """Coefficients that are not negative, with the least squared relative errors, and the largest of these."""
    rows, y = np.array(rows, float), np.array(y)
    w = nnls(rows / y[:, None], np.ones(len(y)))[0]
    return w, np.max(np.abs(rows @ w / y - 1))


def unpacked(name):
    """The path and the mean number of features of a data set in LIBSVM's form."""
    with gzip.open(os.path.join(DATA, name + ".libsvm.gz"), "rt") as f:
        lines = f.readlines()
    with open(path(name + ".libsvm"), "w") as f:
        f.writelines(lines)
    return path(name + ".libsvm"), machine.nonzero(lines)


bounds = machine.Machine()
GHZ = float(os.environ.get("GHZ", 0)) or bounds.fma and 1 / (bounds.fma * 1e9) / 32  # two units of 16 lanes
cells = [(4, 2), (16, 2), (64, 2), (16, 4), (16, 8)]
models = {}
print("# What a record costs\n\nWritten by `bench/cost.py`: processor time of whole commands that read LIBSVM text, GOMAXPROCS=1.\n")
print(f"A cycle is 1/{GHZ:.2f} ns here, from the rate of multiply-adds (two of 16 lanes a cycle).\n")
print("## Learning\n\nCycles a record, once tens of thousands have been learned from: a + b d + K (c + e d), with d features that are not 0 "
      "and K = 1 for two classes, else the number of classes.\n")
print("| learner | a | b | c | e | largest error of the fit |\n|---|---|---|---|---|---|")
for learner in LENGTH:
    rows, y = [], []
    for d, k in cells:
        heads = 1 if k == 2 else k
        rows.append([1, d, heads, heads * d])
        y.append(settled(generated(d, k), learner, LENGTH[learner]))
    models[learner], worst = fit(rows, y)
    print(f"| {learner} | " + " | ".join(f"{w * GHZ * 1e3:.0f}" for w in models[learner]) + f" | {worst:.0%} |", flush=True)

print("\n## Predicting\n\nCycles a record: a + b d + S (c + e d), with S support vectors, or for random features S = 1.\n")
print("| model | a | b | c | e | largest error of the fit | e against its bound |\n|---|---|---|---|---|---|---|")
for learner, scored, sizes in (("online", 10 * N, [N]), ("dsg", 5 * N, [N]), ("scs", N, [1000, 4000, N])):
    rows, y = [], []
    for d in (4, 16, 64):
        for n in sizes:
            train(generated(d, 2), learner, n)
            cost, s = scoring(generated(d, 2), scored)
            rows.append([1, d, s, s * d] if s else [1, d, 0, 0])
            y.append(cost)
    models["predict " + learner], worst = w, _ = fit(rows, y)
    bound = f"{w[3] * 1e-6 / bounds.fma:.1f}" if w[3] else ""
    print(f"| {learner} | {w[0] * GHZ * 1e3:.0f} | {w[1] * GHZ * 1e3:.1f} | {w[2] * GHZ * 1e3:.2f} | {w[3] * GHZ * 1e3:.3f} | {worst:.0%} | {bound} |", flush=True)

print("\n## Jobs that were not used to fit it\n\n| job | predicted, µs a record | measured | ratio |\n|---|---|---|---|")


def job(name, predicted, measured):
    print(f"| {name} | {predicted:.1f} | {measured:.1f} | {predicted / measured:.2f} |", flush=True)


file, d = unpacked("elec2")
job("train `adaptive` on elec2", models["adaptive"] @ [1, d, 1, d], settled(file, "adaptive", 40000))
file, d = unpacked("a9a.train")
job("train `online` on a9a", models["online"] @ [1, d, 1, d], settled(file, "online", 200000))
file, d = unpacked("ijcnn1.train")
job("train `online` on ijcnn1", models["online"] @ [1, d, 1, d], settled(file, "online", 200000))
train(file, "scs")
cost, s = scoring(file, N)
job(f"predict with `scs` on ijcnn1, {s} support vectors", models["predict scs"] @ [1, d, s, s * d], cost)
