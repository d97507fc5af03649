#!/usr/bin/env python3
"""Predictions of the package in python/ and of scikit-learn's SVC.predict, with the
same support vectors, in turns in one process; and events; and what estimators learn and
predict, together with their child process. Rates are for a second of processor time, on
one core, so that other work on the machine matters less.

    PYTHONPATH=python/src bench/python.py STREAMSVM

STREAMSVM is the program. Needs numpy, msgpack, xxhash, scikit-learn.
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # libsvm takes one core

import numpy as np
from sklearn.svm import SVC

import streamsvm
from streamsvm import _forms

program = os.path.abspath(sys.argv[1])
ROUNDS = 3


def rate(f, n):
    start = time.process_time()
    f()
    return n / (time.process_time() - start)


def kernel(dim, n):
    """An SVC and the same expansion as a model of the package."""
    r = np.random.default_rng(1)
    x = r.normal(size=(n, dim))
    y = np.sign(np.sin(x[:, 0] * 2) + x[:, 1] * x[:, 2] + r.normal(size=n) * 0.7)
    svc = SVC(gamma=1 / dim, C=1).fit(x, y)
    points = _forms.Dense(svc.support_vectors_.astype(np.float32)).sparse()
    dense = svc.support_vectors_.astype(np.float64)
    ours = _forms.Kernel(0, 1 / dim, 0.0, 0, 0.0, np.arange(dim), points, svc.dual_coef_[0], float(svc.intercept_[0]), dense)
    return svc, ours, r.normal(size=(4000, dim)).astype(np.float32)


print("| features | support vectors | rows a call | scikit-learn, rows/s | package, rows/s | times |")
print("| --- | --- | --- | --- | --- | --- |")
for dim, n in ((10, 2000), (100, 2000), (10, 8000)):
    svc, ours, rows = kernel(dim, n)
    off = np.abs(svc.decision_function(rows[:2000]) - ours.scores(_forms.Dense(rows[:2000]))).max()
    assert off < 1e-4, off
    for batch in (1, 100, 4000):
        calls = max(1, 1000 // batch)
        few = [rows[i * batch : (i + 1) * batch] for i in range(calls)]
        a, b = [], []
        for _ in range(ROUNDS):
            a.append(rate(lambda: [svc.predict(z) for z in few], batch * calls))
            b.append(rate(lambda: [ours.scores(_forms.Dense(z)) >= 0 for z in few], batch * calls))
        a, b = np.median(a), np.median(b)
        print(f"| {dim} | {len(svc.support_vectors_)} | {batch} | {a:,.0f} | {b:,.0f} | {b / a:.1f} |", flush=True)

r = random.Random(1)
pick = r.choice
events = [
    {
        "amount": round(r.expovariate(0.02), 2), "country": pick(["DE", "FR", "US", "BR", "CN"]), "merchant": f"m{r.randrange(40)}",
        "hour": r.randrange(24), "card_present": r.random() < 0.5, "age": 18 + r.randrange(60), "balance": r.gauss(0, 1000),
        "channel": pick(["web", "app", "pos"]), "device": pick(["ios", "android", "other"]), "attempts": r.randrange(5),
        "score": r.random(), "note": pick(["gift for you", "rent of May", "food", "old debt"]),
    }
    for _ in range(20000)
]  # fmt: skip
with tempfile.TemporaryDirectory() as d:
    path = os.path.join(d, "events.json")
    with open(path, "w") as f:
        for e in events[:5000]:
            f.write(json.dumps({**e, "fraud": (e["amount"] > 40) != (e["country"] in "BRCN")}) + "\n")
    print("\n| learner | model | events a call | events/s | of them encoding, events/s |\n| --- | --- | --- | --- | --- |")
    for learner in ("online", "adaptive"):
        model = os.path.join(d, learner + ".ssm")
        subprocess.run([program, "replay", path, "--codec", "json", "--label", "fraud", "--learner", learner, "--model", model, "-q"], check=True, stdout=subprocess.DEVNULL)
        m = streamsvm.load(model)
        for batch in (1, 100, 4000):
            few = [events[i * batch : (i + 1) * batch] for i in range(max(1, 500 // batch))]
            n = batch * len(few)
            whole = np.median([rate(lambda: [m.predict(z) for z in few], n) for _ in range(ROUNDS)])
            part = np.median([rate(lambda: [m._schema.rows(z) for z in few], n) for _ in range(ROUNDS)])
            print(f"| {learner} | {len(m.features)} features | {batch} | {whole:,.0f} | {part:,.0f} |", flush=True)

os.environ["STREAMSVM_BIN"] = program
r = np.random.default_rng(0)
x = r.normal(size=(200_000, 18))
y = x[:, 0] + 0.5 * x[:, 1] + 0.3 * r.normal(size=len(x)) > 0


def used(estimator):
    """Seconds of processor time that this process and the child have used."""
    with open(f"/proc/{estimator._pipe.child.pid}/stat") as f:
        return sum(map(int, f.read().split()[13:15])) / os.sysconf("SC_CLK_TCK") + time.process_time()


print("\n| estimator, 18 features | learned, rows/s | predicted, rows/s |\n| --- | --- | --- |")
for learner, n in (("online", len(x)), ("adaptive", 20_000)):
    model = streamsvm.Classifier(learner)  # imports scikit-learn
    start = time.process_time()
    model.fit(x[:n], y[:n])
    between = used(model)
    model.predict(x)
    print(f"| {learner} | {n / (between - start):,.0f} | {len(x) / (used(model) - between):,.0f} |", flush=True)
