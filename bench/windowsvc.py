#!/usr/bin/env python3
"""A window of scs against an exact SVC refitted on the same window.

    bench/windowsvc.py [--examples 20000] [--streams elec2,usenet1,sea,...] [--windows 4096,1000] [--t-max 128,512,1024,4096] [-- --set OPTION=VALUE ...]

scs runs with full=window, max_sample=W and t_max=T. scikit-learn's SVC is
refitted from nothing at the very moments at which scs steps, on the very
examples that its window then holds, and both predict each example before they
learn from it. They get the same features, as the preprocessing of streamsvm
left them, in the order of learning, the same gamma and the same C: those that
streamsvm chooses on the first examples, with its defaults. These (1,000, or a
fifth of a short stream) are in the window but not in the accuracy.

The moments, the sizes of the window and the features come from bench/live, so
that nothing depends on how the learner decides when to step; that the window
holds the last examples is checked by its size alone. scs has a regularised bias
(option bias), SVC a free one. A window with one class only predicts that class.

A model of one moment is fitted once for all T that ask for it; its seconds
count for each of them. Seconds are of the processor, on one core,
without the tuning. "equal" is the share of equal predictions.

Needs Go, and scikit-learn in the environment that bench/peers.py makes.
"""
import argparse, csv, gzip, json, os, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.environ.get("STREAMSVM_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "streamsvm")
# Name: a generator with its options, or None for a file.
STREAMS = {
    "elec2": None,
    "usenet1": None,
    "sea": ["sea", "block=5000"],
    "hyperplane": ["hyperplane", "magnitude=0.001"],
    "rbf": ["rbf", "speed=0.001"],
    "checkerboard": ["checkerboard", "rotation=0.00002"],
}


def environment():
    """Go on in the environment of bench/peers.py, on one core."""
    home = os.path.join(CACHE, "peers")
    python = os.path.join(home, "bin", "python")
    if sys.prefix == home:
        return
    if not os.path.exists(python):
        sys.exit("%s is missing: run bench/peers.py features once" % python)
    env = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    os.execve(python, [python] + sys.argv, env)


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def run(cmd):
    p = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ, GOMAXPROCS="1"))
    if p.returncode:
        sys.exit("%s\n%s" % (" ".join(cmd), p.stderr[-2000:]))


class Run:
    """What bench/live says of one run: steps, predictions, features."""

    def __init__(self, tool, tmp, stream, flags):
        import numpy as np
        path = lambda name: os.path.join(tmp, name)
        self.scaled = path("scaled")
        run([tool, *flags, "-csv", path("steps"), "-predictions", path("predictions"), "-scaled", self.scaled, "-json", path("json"), *stream])
        with open(path("json")) as f:
            self.result = json.load(f)
        with open(path("steps")) as f:
            self.steps = [(int(r["examples"]), int(r["sample"])) for r in csv.DictReader(f)]
        p = np.loadtxt(path("predictions"), delimiter=",", skiprows=1, ndmin=2)
        self.first = int(p[0, 0]) - 1  # examples before the first one scored
        self.labels, self.said = p[:, 1], np.where(p[:, 2] >= 0, 1.0, -1.0)


class Constant:
    def __init__(self, y):
        self.y = y

    def predict(self, x):
        import numpy as np
        return np.full(x.shape[0], self.y)


class Exact:
    """SVCs on windows of one stream, each fitted once."""

    def __init__(self, x, y, c, gamma):
        self.x, self.y, self.c, self.gamma = x, y, c, gamma
        self.fits = {}

    def fit(self, end, size):
        from sklearn.svm import SVC
        if (end, size) not in self.fits:
            x, y = self.x[end - size:end], self.y[end - size:end]
            start = time.process_time()
            if len(set(y)) == 1:
                model, support = Constant(y[0]), 0
            else:
                model = SVC(C=self.c, gamma=self.gamma, cache_size=1000).fit(x, y)
                support = int(model.n_support_.sum())
            self.fits[end, size] = model, time.process_time() - start, support
        return self.fits[end, size]

    def prequential(self, steps, first, n):
        """Predictions for the examples from first on, seconds, largest support."""
        import numpy as np
        said, seconds, support = np.empty(n - first), 0.0, 0
        for (end, size), (until, _) in zip(steps, steps[1:] + [(n, 0)]):
            if until <= first:  # the warm-up: no one asks this model
                continue
            model, took, held = self.fit(end, size)
            start = time.process_time()
            at = max(end, first)
            if at < until:
                said[at - first:until - first] = model.predict(self.x[at:until])
            seconds += took + time.process_time() - start
            support = max(support, held)
        return said, seconds, support


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--data", default=os.environ.get("STREAMSVM_DATA") or os.path.join(ROOT, "..", "shared", "data"))
    ap.add_argument("--examples", type=int, default=20000, help="of each stream; 0 for all 45,312 of elec2 and 20,000 of the others")
    ap.add_argument("--streams", default=",".join(STREAMS))
    ap.add_argument("--windows", default="4096,1000")
    ap.add_argument("--t-max", default="128,512,1024,4096", help="only those that are no larger than the window")
    own, more = sys.argv[1:], []
    if "--" in own:
        own, more = own[:own.index("--")], own[own.index("--") + 1:]
    args = ap.parse_args(own)
    environment()
    import numpy as np
    from sklearn.datasets import load_svmlight_file
    with tempfile.TemporaryDirectory() as tmp:
        tool = os.path.join(tmp, "live")
        subprocess.run(["go", "build", "-C", "bench", "-o", tool, "./live"], cwd=ROOT, check=True)
        row("stream", "c, gamma", "window", "t_max", "scs", "SVC", "points above", "equal", "refits", "scs seconds", "SVC seconds", "ratio", "scs support", "SVC support, most")
        print("|" + " --- |" * 14, flush=True)
        for name in args.streams.split(","):
            limit = args.examples or (20000 if STREAMS[name] else 10**9)
            if STREAMS[name]:
                stream = [" ".join(STREAMS[name])]
                flags, n = ["-stream-seed", "7"], limit
            else:
                path = os.path.join(args.data, name + ".libsvm.gz")
                with gzip.open(path) as f:
                    n = min(limit, sum(1 for _ in f))
                flags, stream = [], [path]
            warmup = min(1000, n // 5)
            flags += ["-warmup", str(warmup), "-limit"]
            chosen = os.path.join(tmp, "chosen")
            run([tool, *flags, str(warmup + 1), "-json", chosen, *stream])
            with open(chosen) as f:
                o = json.load(f)["options"]
            flags += [str(n), "-tune", "off", "-set", "c=" + o["c"], "-set", "gamma=" + o["gamma"], "-set", "full=window"]
            exact = None
            for w in map(int, args.windows.split(",")):
                for t in map(int, args.t_max.split(",")):
                    if t > w:
                        continue
                    size = ["-set", "max_sample=%d" % w, "-set", "t_max=%d" % t, "-set", "initial=%d" % min(256, w // 2)]
                    r = Run(tool, tmp, stream, flags + size + more)
                    if exact is None:
                        x, y = load_svmlight_file(r.scaled)
                        # dense is faster where most values are not 0
                        if x.nnz > 0.3 * x.shape[0] * x.shape[1]:
                            x = x.toarray()
                        exact = Exact(x, y, float(o["c"]), float(o["gamma"]))
                    odd = sum(held != min(w, end) for end, held in r.steps)
                    if odd:
                        print("%s: at %d of %d steps the sample is not the last %d examples" % (name, odd, len(r.steps), w), file=sys.stderr)
                    said, seconds, support = exact.prequential(r.steps, r.first, n)
                    a, b = (float(np.mean(p == r.labels)) for p in (r.said, said))
                    refits = sum(end >= r.first for end, _ in r.steps)
                    row(name, "%s, %s" % (o["c"], o["gamma"]), w, t, "%.4f" % a, "%.4f" % b, "%+.2f" % (100 * (a - b)), "%.4f" % np.mean(said == r.said),
                        refits, "%.2f" % r.result["seconds"], "%.2f" % seconds, "%.2f" % (r.result["seconds"] / seconds),
                        r.result["blocks"][-1]["support"], support)


if __name__ == "__main__":
    main()
