#!/usr/bin/env python3
"""Writes the data sets with several classes of docs/measured/classes.md, in libsvm
text, to classes/ under $STREAMSVM_CACHE (default $XDG_CACHE_HOME or ~/.cache,
streamsvm).

    bench/classes.py

Needs numpy and scikit-learn.
"""
import os
import numpy as np
from sklearn.datasets import load_digits

CACHE = os.environ.get("STREAMSVM_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "streamsvm")
DIR = os.path.join(CACHE, "classes", "")
os.makedirs(DIR, exist_ok=True)

def write(name, x, y):
    with open(DIR + name, "w") as f:
        for row, label in zip(x, y):
            f.write(str(label) + "".join(f" {j+1}:{v:.6g}" for j, v in enumerate(row) if v) + "\n")

x, y = load_digits(return_X_y=True)
order = np.random.RandomState(1).permutation(len(y))
x, y = x[order] / 16, y[order]
write("digits.train", x[:1200], y[:1200])
write("digits.test", x[1200:], y[1200:])

def blobs(name, classes, share, dim=16):  # three a class
    r = np.random.RandomState(7)
    centre = 1.5 * r.randn(classes, 3, dim)
    p = np.array([share(k) for k in range(classes)])
    for part, n in ("train", 20000), ("test", 10000):
        k = r.choice(classes, n, p=p / p.sum())
        x = centre[k, r.randint(3, size=n)] + r.randn(n, dim)
        write(f"{name}.{part}", x, k + 1)
        if name == "ten":
            write(f"odd.{part}", x, 2 * ((k + 1) % 2) - 1)

blobs("zipf", 20, lambda k: 1 / (k + 1))
blobs("ten", 10, lambda k: 1)
blobs("steep", 20, lambda k: 1 / (k + 1) ** 2)
