#!/usr/bin/env python3
"""Prequential errors of regression on streams that change.

    bench/driftreg.py [--streams friedman,trump,...] [--ours adaptive,online,...] [--no-river]

All predict each number before they learn from it, and every row but the first
counts, of which nothing can be known. Options are the defaults; online and ridge
get features less their running means, since they have no scaling of their own. The streams are Friedman's function as
`streamsvm generate` makes it and as River changes it, 20,000 rows each, and all
regressions of one target that River bundles. Of a date the features are the
days since the first, the month, the day of the week and the hour. River's
adaptive random forest has its 10 trees, and where features are not all in [0,1]
it is tried once more with River's StandardScaler before it. The errors that River's environment,
that of bench/peers.py, has computed are kept beside the streams. Needs Go.
"""
import argparse, json, os, subprocess, sys, time

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
STREAMS = [*GENERATED, *CHANGING, *BUNDLED]
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
    print("| stream | predictor | MAE | RMSE | seconds |\n|" + " --- |" * 5)
    for name in args.streams.split(","):
        if os.path.exists(path(name) + ".json"):
            with open(path(name) + ".json") as f:
                for who, r in json.load(f).items():
                    row(name, who, *r)
        for who, how in OURS.items():
            if who.split(",")[0] not in args.ours.split(","):
                continue
            start = time.time()
            p = subprocess.run([exe, "replay", path(name), "--task", "regress", "--learner", *how, "--json", "-", "-q"], capture_output=True, text=True)
            if p.returncode:
                print("| %s | %s | %s | | |" % (name, who, p.stderr.strip().splitlines()[-1]), flush=True)
                continue
            q = json.loads(p.stdout)["prequential"]
            mae, rmse = q["mae"], q["rmse"]
            if who == "adaptive":  # it has no warm-up: its first prediction is 0
                mae, rmse = but_first(path(name), mae, rmse)
            row(name, who, mae, rmse, time.time() - start)


def row(name, who, mae, rmse, seconds):
    print("| %s | %s | %.4f | %.4f | %.1f |" % (name, who, mae, rmse, seconds), flush=True)


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
            else:
                rows = getattr(datasets, BUNDLED[name])()
            write(name, rows)
        if os.path.exists(path(name) + ".json"):
            continue
        models = {"no change": NoChange(), "River, ARF of 10": forest.ARFRegressor(seed=1)}
        if name in BUNDLED:
            models["River, scaled ARF of 10"] = preprocessing.StandardScaler() | forest.ARFRegressor(seed=1)
        results = {}
        for who, model in models.items():
            errors, start = [], time.process_time()
            with open(path(name)) as f:
                for line in f:
                    y, *x = line.split()
                    y, x = float(y), {k: float(v) for k, v in (kv.split(":") for kv in x)}
                    errors.append(y - model.predict_one(x))
                    model.learn_one(x, y)
            e = errors[1:]
            results[who] = sum(map(abs, e)) / len(e), (sum(v * v for v in e) / len(e)) ** .5, time.process_time() - start
        with open(path(name) + ".json", "w") as f:
            json.dump(results, f)


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
