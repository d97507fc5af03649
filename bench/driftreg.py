#!/usr/bin/env python3
"""Prequential errors of regression on streams that change.

    bench/driftreg.py [--streams friedman,trump,...] [--ours adaptive,online,...] [--no-river]

All predict each number before they learn from it, and every row counts. Options
are the defaults; online and ridge get features less their running means, since
they have no scaling of their own. The streams are Friedman's function as
`streamsvm generate` makes it and as River changes it, 20,000 rows each, and all
regressions of one target that River bundles. Of a date the features are the
days since the first, the month, the day of the week and the hour. River's
adaptive random forest has its 10 trees. The errors that River's environment,
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
            row(name, who, q["mae"], q["rmse"], time.time() - start)


def row(name, who, mae, rmse, seconds):
    print("| %s | %s | %.4f | %.4f | %.1f |" % (name, who, mae, rmse, seconds), flush=True)


def path(name):
    return os.path.join(DIR, name + ".libsvm")


def river(names):
    """Make the streams that River knows, and ask its forest."""
    from river import datasets, forest
    for name in names:
        if not os.path.exists(path(name)):
            if name in CHANGING:
                rows = datasets.synth.FriedmanDrift(seed=1, **CHANGING[name]).take(ROWS)
            else:
                rows = getattr(datasets, BUNDLED[name])()
            write(name, rows)
        if os.path.exists(path(name) + ".json"):
            continue
        model = forest.ARFRegressor(seed=1)
        errors, start, last = {"no change": [], "River, ARF of 10": []}, time.process_time(), 0.0
        with open(path(name)) as f:
            for line in f:
                y, *x = line.split()
                y, x = float(y), {k: float(v) for k, v in (kv.split(":") for kv in x)}
                errors["no change"].append(y - last)
                errors["River, ARF of 10"].append(y - model.predict_one(x))
                model.learn_one(x, y)
                last = y
        seconds = time.process_time() - start
        results = {who: (sum(map(abs, e)) / len(e), (sum(v * v for v in e) / len(e)) ** .5, seconds * (who != "no change")) for who, e in errors.items()}
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
