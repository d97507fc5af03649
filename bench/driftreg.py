#!/usr/bin/env python3
"""Prequential errors of regression on streams that change.

    bench/driftreg.py [--streams friedman,trump,...] [--ours adaptive,online,...] [--publish-every 250] [--no-river]

The columns "published" are of a version after every N records, which predicts the N that
follow. All predict each number before they learn from it, and every row but the first
counts, of which nothing can be known. Options are the defaults; online and ridge
get features less their running means, since they have no scaling of their own. The streams are Friedman's function as
`streamsvm generate` makes it and as River changes it, 20,000 rows each, all
regressions of one target that River bundles, and those of scikit-learn named here. Two are made
of $STREAMSVM_DATA or ../shared/data: the price of the first 20,000 rows of elec2, and the alcohol
of winequality. Of a date the features are the
days since the first, the month, the day of the week and the hour. River's
adaptive random forest and its aggregated Mondrian forest have their 10 trees, and where features are not all in [0,1]
it is tried once more with River's StandardScaler before it. The errors that River's environment,
that of bench/peers.py, has computed are kept beside the streams. Needs Go.
"""
import argparse, gzip, json, os, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.environ.get("STREAMSVM_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "streamsvm")
DIR = os.path.join(CACHE, "driftreg")
ROWS = 20000
GENERATED = {"friedman": [], "friedman-block": ["--set", "block=5000"]}
CHANGING = {
    "friedman-local": dict(drift_type="lea", position=(5000, 10000, 15000)),
    "friedman-recurring": dict(drift_type="gra", position=(7000, 14000)),
    "friedman-gradual": dict(drift_type="gsg", position=(5000, 12000), transition_window=4000),
}
BUNDLED = {"trump": "TrumpApproval", "chick": "ChickWeights", "airline": "AirlinePassengers", "water": "WaterFlow", "sp500": "SP500Stocks"}
SCIKIT = {"diabetes": ("load_diabetes", dict(scaled=False)), "friedman2": ("make_friedman2", dict(n_samples=10000, noise=1, random_state=1)),
          "friedman3": ("make_friedman3", dict(n_samples=10000, noise=.1, random_state=1))}
FEATURE = {"elec2-price": ("elec2", 4), "wine-alcohol": ("winequality", 11)}
STREAMS = [*GENERATED, *CHANGING, *BUNDLED, *SCIKIT, *FEATURE]
OURS = {
    "adaptive": ["adaptive"],
    "online": ["online", "--tune", "off", "--scale", "running", "--warmup", "1"],
    "ridge": ["ridge", "--tune", "off", "--scale", "running", "--warmup", "1"],
    "ridge, drift": ["ridge", "--preset", "drift", "--tune", "off", "--scale", "running", "--warmup", "1"],
}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--streams", default=",".join(STREAMS))
    ap.add_argument("--ours", default=",".join(n for n in OURS if "," not in n))
    ap.add_argument("--exe", help="a streamsvm that is there already")
    ap.add_argument("--publish-every", default="250")
    ap.add_argument("--no-river", action="store_true")
    ap.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = ap.parse_args()
    if args.inside:
        return river(args.streams.split(","))
    os.makedirs(DIR, exist_ok=True)
    exe = args.exe or os.path.join(DIR, "streamsvm")
    if not args.exe:
        subprocess.run(["go", "build", "-o", exe, "./cmd/streamsvm"], cwd=ROOT, check=True)
    for name, how in GENERATED.items():
        if not os.path.exists(path(name)):
            subprocess.run([exe, "generate", "friedman", "--count", str(ROWS), "--out", path(name), "-q", *how], check=True)
    if not args.no_river:
        subprocess.run([os.path.join(CACHE, "peers", "bin", "python"), os.path.abspath(__file__), "--inside", "--streams", args.streams], check=True)
    print("| stream | predictor | MAE | RMSE | seconds | published: MAE | RMSE | R² |\n|" + " --- |" * 8)
    for name in args.streams.split(","):
        if os.path.exists(path(name) + ".json"):
            with open(path(name) + ".json") as f:
                for who, r in json.load(f).items():
                    row(name, who, *r)
        for who, how in OURS.items():
            if who.split(",")[0] not in args.ours.split(","):
                continue
            start = time.time()
            p = subprocess.run([exe, "replay", path(name), "--task", "regress", "--learner", *how, "--publish-every", args.publish_every, "--json", "-", "-q"], capture_output=True, text=True)
            if p.returncode:
                print("| %s | %s | %s | | |" % (name, who, p.stderr.strip().splitlines()[-1]), flush=True)
                continue
            result = json.loads(p.stdout)
            q, a = result["prequential"], result["as_published"]
            mae, rmse = q["mae"], q["rmse"]
            if who == "adaptive":  # it has no warm-up: its first prediction is 0
                mae, rmse = but_first(path(name), mae, rmse)
            row(name, who, mae, rmse, time.time() - start, *("" if a[k] is None else "%.4f" % a[k] for k in ("mae", "rmse", "r2")))


def row(name, who, mae, rmse, seconds, *published):
    print("| %s | %s | %.4f | %.4f | %.1f | %s |" % (name, who, mae, rmse, seconds, " | ".join(published or [""] * 3)), flush=True)


def but_first(file, mae, rmse):
    """The errors without that of the first row, of which 0 was predicted."""
    with open(file) as f:
        y = [float(line.split(" ", 1)[0]) for line in f]
    n = len(y)
    return (mae * n - abs(y[0])) / (n - 1), (max(0, rmse * rmse * n - y[0] * y[0]) / (n - 1)) ** .5


def path(name):
    return os.path.join(DIR, name + ".libsvm")


class NoChange:
    last = 0.0

    def predict_one(self, x):
        return self.last

    def learn_one(self, x, y):
        self.last = y


def river(names):
    """Make the streams that River knows, and ask its forest."""
    from river import datasets, forest, preprocessing
    for name in names:
        if not os.path.exists(path(name)):
            if name in CHANGING:
                rows = datasets.synth.FriedmanDrift(seed=1, **CHANGING[name]).take(ROWS)
            elif name in FEATURE:
                rows = feature(*FEATURE[name])
            elif name in SCIKIT:
                import sklearn.datasets
                make, how = SCIKIT[name]
                x, y = getattr(sklearn.datasets, make)(**how) if make[:4] == "make" else getattr(sklearn.datasets, make)(return_X_y=True, **how)
                rows = ((dict(enumerate(map(float, a))), b) for a, b in zip(x, y))
            else:
                rows = getattr(datasets, BUNDLED[name])()
            write(name, rows)
        if os.path.exists(path(name) + ".json"):
            continue
        models = {"no change": NoChange(), "River, ARF of 10": forest.ARFRegressor(seed=1), "River, AMF of 10": forest.AMFRegressor(seed=1)}
        if name in BUNDLED:
            models["River, scaled ARF of 10"] = preprocessing.StandardScaler() | forest.ARFRegressor(seed=1)
        results = {}
        for who, model in models.items():
            errors, start = [], time.process_time()
            with open(path(name)) as f:
                for line in f:
                    y, *x = line.split()
                    y, x = float(y), {k: float(v) for k, v in (kv.split(":") for kv in x)}
                    errors.append(y - (model.predict_one(x) or 0))
                    model.learn_one(x, y)
            e = errors[1:]
            results[who] = sum(map(abs, e)) / len(e), (sum(v * v for v in e) / len(e)) ** .5, time.process_time() - start
        with open(path(name) + ".json", "w") as f:
            json.dump(results, f)


def feature(name, target):
    """One of the features as the number to predict, and the others."""
    data = os.environ.get("STREAMSVM_DATA") or os.path.join(ROOT, "..", "shared", "data")
    with gzip.open(os.path.join(data, name + ".libsvm.gz"), "rt") as f:
        lines = [{int(k): float(v) for k, v in (kv.split(":") for kv in line.split()[1:])} for _, line in zip(range(ROWS), f)]
    listed = sorted({k for x in lines for k in x} - {target})
    return (({k: x.get(k, 0.0) for k in listed}, x.get(target, 0.0)) for x in lines)


def write(name, rows):
    first = None
    with open(path(name), "w") as f:
        for x, y in rows:
            values = []
            for v in x.values():
                if hasattr(v, "toordinal"):
                    first = first or v.toordinal()
                    values += [v.toordinal() - first, v.month, v.weekday(), v.hour]
                else:
                    values.append(v)
            f.write(" ".join([repr(float(y))] + ["%d:%r" % (j + 1, v) for j, v in enumerate(values)]) + "\n")


main()
