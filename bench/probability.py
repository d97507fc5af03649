#!/usr/bin/env python3
"""Probabilities from prequential decisions: log loss and expected calibration
error of several maps, and of other libraries' probabilities.

    bench/probability.py [--data DIR] [--scores DIR] [--peers] [--learners a,b] [stream...]

Needs numpy and scikit-learn; --peers needs River too.

Each learner goes through each stream once (`streamsvm replay --scores`). The
maps get its decisions and labels in their order, and say a probability for each
decision before they learn its label. What is said of the first 1,000 scored
examples is not counted. Of --peers, CalibratedClassifierCV around an SVC learns
from the first half of a stream and is asked about the second, as is the model
that streamsvm has learned from the first half; River's pipelines learn from the
whole stream, one by one, each example predicted first.
"""
import argparse, math, os, subprocess, sys, tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SKIP = 1000
CHOSEN_ON = ["usenet1", "elec2", "a9a.train", "covtype15k"]
SHOWN = ["ijcnn1.train", "magic04", "w8a.train", "sea", "hyperplane"]
SORTED = {"magic04", "w8a.train"}  # files that hold one class after the other
MADE = {  # streams of `streamsvm generate`
    "sea": ["sea", "--set", "block=5000", "--count", "20000"],
    "hyperplane": ["hyperplane", "--count", "20000"],
}
ROWS = 30000  # at most


def sigmoid(z):
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


class Raw:
    def say(self, s):
        return sigmoid(s)

    def learn(self, s, y):
        pass


class Platt:
    """Fitted once, to the first examples."""

    def __init__(self):
        self.s, self.y, self.a, self.b = [], [], 1.0, 0.0

    def say(self, s):
        return sigmoid(self.a * s + self.b)

    def learn(self, s, y):
        if len(self.s) == SKIP:
            return
        self.s.append(s)
        self.y.append(y)
        if len(self.s) < SKIP:
            return
        from sklearn.linear_model import LogisticRegression
        if len(set(self.y)) == 2:
            m = LogisticRegression(C=1e3).fit(np.array(self.s)[:, None] / (np.std(self.s) + 1e-12), self.y)
            self.a, self.b = m.coef_[0, 0] / (np.std(self.s) + 1e-12), m.intercept_[0]


class Newton:
    """Online Newton steps with forgetting, on log odds that are straight between
    knots; without knots on one slope and a bias."""

    def __init__(self, knots, span):
        self.ends, self.rho = [-6.0] + knots + [6.0], 1 - 1 / span
        self.m = self.n = 0.0
        d = len(self.ends) - 1
        self.t, self.A = np.array([1.0] * d + [0.0]), np.eye(d + 1)

    def x(self, s):
        v = s / math.sqrt(self.m / self.n) if self.m > 0 else s
        v = min(max(v, -6.0), 6.0)
        if len(self.ends) == 2:
            return np.array([v, 1.0])
        return np.array([min(max(v - a, 0), b - a) if a >= 0 else max(min(v - b, 0), a - b) for a, b in zip(self.ends, self.ends[1:])] + [1.0])

    def say(self, s):
        return sigmoid(float(self.t @ self.x(s)))

    def learn(self, s, y):
        x = self.x(s)
        p = sigmoid(float(self.t @ x))
        self.m, self.n = self.rho * self.m + s * s, self.rho * self.n + 1
        self.A = self.rho * self.A + max(p * (1 - p), 1e-3) * np.outer(x, x) + (1 - self.rho) * np.eye(len(x))
        t = self.t - np.linalg.solve(self.A, (p - y) * x)
        t[:-1] = np.clip(t[:-1], 0, 20)
        t[-1] = min(max(t[-1], -20), 20)
        self.t = t


class Isotonic:
    """Fitted to the last examples, every so often."""

    def __init__(self, window=4096, every=64):
        self.window, self.every, self.s, self.y, self.m = window, every, [], [], None

    def say(self, s):
        if self.m is None:
            return 0.5
        # A step of the map is no better than the examples it was made of.
        return min(max(float(np.interp(s, *self.m)), 1 / self.window), 1 - 1 / self.window)

    def learn(self, s, y):
        self.s.append(s)
        self.y.append(y)
        if len(self.s) % self.every == 0:
            from sklearn.isotonic import IsotonicRegression
            m = IsotonicRegression(out_of_bounds="clip").fit(self.s[-self.window:], self.y[-self.window:])
            self.m = m.X_thresholds_, m.y_thresholds_


HALVES = [-1.0, -0.5, 0.0, 0.5, 1.0]
MAPS = {
    "sigmoid": Raw, "Platt, first 1000": Platt, "isotonic, last 4096": Isotonic,
    "2 parameters": lambda: Newton([], 1000), "3 parameters": lambda: Newton([0.0], 1000), "7 parameters": lambda: Newton(HALVES, 1000),
}
SPANS = [250, 500, 1000, 2000, 4000, 1e12]


def run_spans(s, y):
    """Newton(HALVES, span) for all spans at a time: the probabilities, by span."""
    rho = 1 - 1 / np.array(SPANS)
    k = len(SPANS)
    m, n = np.zeros(k), np.zeros(k)
    ends = np.array([-6.0] + HALVES + [6.0])
    low, high = ends[:-1], ends[1:]
    d = len(low)
    t, A = np.ones((k, d + 1)), np.tile(np.eye(d + 1), (k, 1, 1))
    t[:, d] = 0
    p, x = np.empty((len(s), k)), np.ones((k, d + 1))
    for i in range(len(s)):
        v = np.clip(s[i] / np.sqrt(m / n) if m[0] > 0 else np.full(k, s[i]), -6, 6)[:, None]
        x[:, :d] = np.where(low >= 0, np.clip(v - low, 0, high - low), np.clip(v - high, low - high, 0))
        q = p[i] = 1 / (1 + np.exp(-(t * x).sum(1)))
        m, n = rho * m + s[i] ** 2, rho * n + 1
        A = rho[:, None, None] * A + np.maximum(q * (1 - q), 1e-3)[:, None, None] * x[:, :, None] * x[:, None, :] + (1 - rho)[:, None, None] * np.eye(d + 1)
        t -= np.linalg.solve(A, ((q - y[i])[:, None] * x)[:, :, None])[:, :, 0]
        t[:, :d] = np.clip(t[:, :d], 0, 20)
        t[:, d] = np.clip(t[:, d], -20, 20)
    return p.T


def log_loss(p, y):
    q = np.where(y > 0, p, 1 - p)
    return float(-np.log(np.maximum(q, 2.0 ** -52)).mean())


def ece(p, y):
    """The error in 15 bins of equal mass, and what chance makes of it."""
    order = np.argsort(p, kind="stable")
    error = noise = 0.0
    for part in np.array_split(order, 15):
        error += abs(float((p[part] - y[part]).sum()))
        noise += math.sqrt(2 / math.pi * float((p[part] * (1 - p[part])).sum()))
    return error / len(p), noise / len(p)


def run_map(make, s, y):
    m, p = make(), np.empty(len(s))
    for i in range(len(s)):
        p[i] = m.say(s[i])
        m.learn(s[i], y[i])
    return p


def path(args, stream):
    if stream not in MADE:
        return os.path.join(args.data, stream + ".libsvm.gz")
    out = os.path.join(args.scores, stream + ".libsvm.gz")
    if not os.path.exists(out):
        subprocess.run([args.exe, "generate"] + MADE[stream] + ["--out", out], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return out


def scores(args, stream, learner):
    out = os.path.join(args.scores, "%s.%s.csv" % (stream, learner))
    if not os.path.exists(out):
        subprocess.run([args.exe, "replay", path(args, stream), "--learner", learner, "--scores", out, "-q", "--json", "-", "--limit", str(ROWS)]
                       + ["--shuffle", "1"] * (stream in SORTED), check=True, stdout=subprocess.DEVNULL)
    t = np.genfromtxt(out, delimiter=",", skip_header=1)
    return t[:, 0], t[:, 1], (t[:, 2] > 0).astype(float)


def sklearn_peer(train, test):
    """Probabilities of an SVC that is calibrated by cross-validation."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC
    m = CalibratedClassifierCV(make_pipeline(StandardScaler(with_mean=False), SVC(cache_size=500)), method="sigmoid", cv=3)
    return m.fit(*train).predict_proba(test[0])[:, 1]


def river_peer(x, y):
    """Prequential probabilities of logistic regression on standardised features."""
    from river import linear_model, preprocessing
    m = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    p = np.empty(len(y))
    for i in range(len(y)):
        row = dict(enumerate(x[i].toarray()[0])) # with zeros, or the scaler would not know of them
        p[i] = m.predict_proba_one(row).get(True, 0.5)
        m.learn_one(row, bool(y[i]))
    return p


def peers(args, streams):
    from sklearn.datasets import dump_svmlight_file, load_svmlight_file
    print("| stream | | log loss | ECE | by chance |")
    print("| --- | --- | --- | --- | --- |")

    def row(stream, name, p, y):
        print("| %s | %s | %.4f | %.4f | %.4f |" % (stream, name, log_loss(p, y), *ece(p, y)), flush=True)

    for stream in streams:
        x, y = load_svmlight_file(path(args, stream))
        if stream in SORTED:
            order = np.random.default_rng(1).permutation(len(y))
            x, y = x[order], y[order]
        x, y = x[:args.rows].tocsr(), (y[:args.rows] > 0).astype(float)
        n = len(y) // 2
        files = [os.path.join(args.scores, "%s.%s.libsvm" % (stream, part)) for part in ("first", "second")]
        for f, a, b in zip(files, (0, n), (n, len(y))):
            dump_svmlight_file(x[a:b], 2 * y[a:b] - 1, f, zero_based=False)
        for learner in args.learners.split(","):
            model = os.path.join(args.scores, "model.ssm")
            subprocess.run([args.exe, "replay", files[0], "--learner", learner, "--model", model, "-q", "--json", "-"], check=True, stdout=subprocess.DEVNULL)
            out = subprocess.run([args.exe, "predict", "--model", model, "--output", "probability", "-q", files[1]], check=True, stdout=subprocess.PIPE, text=True)
            row(stream, "first half, then asked: " + learner, np.array(out.stdout.split(), float), y[n:])
        row(stream, "first half, then asked: CalibratedClassifierCV(SVC)", sklearn_peer((x[:n], y[:n]), (x[n:], y[n:])), y[n:])
        whole = os.path.join(args.scores, stream + ".whole.libsvm")
        dump_svmlight_file(x, 2 * y - 1, whole, zero_based=False)
        p = river_peer(x, y)
        for learner in args.learners.split(","):
            out = os.path.join(args.scores, "whole.csv")
            subprocess.run([args.exe, "replay", whole, "--learner", learner, "--scores", out, "-q", "--json", "-"], check=True, stdout=subprocess.DEVNULL)
            t = np.genfromtxt(out, delimiter=",", skip_header=1)
            own = t[:, 1][-n:]
            if len(t) >= n and not np.isnan(own).any():
                row(stream, "second half, each first predicted: " + learner, own, y[-n:])
        row(stream, "second half, each first predicted: River", p[-n:], y[-n:])


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--data", default=os.path.join(ROOT, "../shared/data"))
    a.add_argument("--scores", default="")
    a.add_argument("--learners", default="adaptive,scs,online")
    a.add_argument("--spans", action="store_true", help="compare how far the map goes back")
    a.add_argument("--peers", action="store_true", help="compare with other libraries")
    a.add_argument("--rows", type=int, default=10000, help="of each stream that the peers get")
    a.add_argument("streams", nargs="*")
    args = a.parse_args()
    args.scores = args.scores or tempfile.mkdtemp()
    args.exe = os.path.join(args.scores, "streamsvm")
    subprocess.run(["go", "build", "-o", args.exe, "./cmd/streamsvm"], check=True, cwd=ROOT)
    if args.peers:
        return peers(args, args.streams or CHOSEN_ON + SHOWN)
    names = ["%d" % n if n < 1e9 else "no forgetting" for n in SPANS] if args.spans else list(MAPS)
    print("| stream | learner | " + " | ".join(names) + " | streamsvm | by chance |")
    print("| --- | --- |" + " --- |" * (len(names) + 2))
    for stream in args.streams or CHOSEN_ON + SHOWN:
        for learner in args.learners.split(","):
            s, own, y = scores(args, stream, learner)
            if len(s) < SKIP + 300:
                continue
            cells = []
            for p in run_spans(s, y) if args.spans else (run_map(make, s, y) for make in MAPS.values()):
                p = p[SKIP:]
                cells.append("%.4f %.4f" % (log_loss(p, y[SKIP:]), ece(p, y[SKIP:])[0]))
            e, noise = ece(own[SKIP:], y[SKIP:])
            cells += ["%.4f %.4f" % (log_loss(own[SKIP:], y[SKIP:]), e), "%.4f" % noise]
            print("| %s | %s | %s |" % (stream, learner, " | ".join(cells)), flush=True)


if __name__ == "__main__":
    main()
