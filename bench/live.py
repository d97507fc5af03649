#!/usr/bin/env python3
"""Live accuracy in blocks on streams that do not change, next to LIBSVM's batch
solver.

    bench/live.py [--examples 500000] [--sets sea,xor5,...] [--no-libsvm] [-- flags of bench/live]

For each set bench/live runs a learner with its defaults (scaling and tuning
included) and never calls Finish; a row has the accuracy of each block of
examples, each of them scored before it was learned from. A further row has the
processor seconds of the blocks and one the support vectors.

svm-train then gets C and gamma that streamsvm chose, and the first rows of the
same stream with the same scaling, as the learner got them: as many of
--libsvm-rows as it can take in --libsvm-seconds of processor time, fewer first.
Both are scored on the same fresh rows: of a generator, --test of them from
behind the stream; of a9a its test file; of covtype15k the last 3,000 rows of a
fixed shuffle, which the stream does not have. The streams of these two repeat
the other rows, in another order each pass. A learner has then seen, and may
hold, the very rows it is asked about, so that its blocks compare with one
another and with nothing else. What compares with LIBSVM, trained on all rows
but those of the test, each once, is the last column.

The test columns of streamsvm are of the live model after the last example, and
of the same learner after Finish.

Needs Go and svm-train, svm-predict (Debian package libsvm-tools). Data files are
looked for in --data.
"""
import argparse, gzip, json, os, random, re, resource, shutil, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Name: a generator with its options without drift, or None for what prepare makes.
SETS = {
    "sea": ["sea", "block=0"],
    "waveform": ["waveform"],
    "hyperplane": ["hyperplane", "magnitude=0"],
    "rbf": ["rbf", "speed=0"],
    "xor5": None,
    "a9a": None,
    "covtype15k": None,
}
FLIPPED = 0.12  # share of labels that are wrong in xor5
HELD = 3000     # rows of covtype15k for the test


def say(*args):
    print(*args, flush=True)


def row(*cells):
    say("| " + " | ".join(str(c) for c in cells) + " |")


def timed(cmd, limit=None):
    """Processor seconds and standard output; None for one that takes too long."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    bound = (lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))) if limit else None
    p = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=bound)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if limit and p.returncode < 0 and seconds >= limit - 1:
        return None, ""
    if p.returncode:
        sys.exit("%s\n%s" % (" ".join(cmd), p.stderr[-2000:]))
    return seconds, p.stdout


def lines(path):
    with gzip.open(path, "rt") as f:
        return f.read().splitlines()


def write(path, rows):
    with open(path, "w") as f:
        f.writelines(r + "\n" for r in rows)


def xor(n, seed):
    """The sign of the product of five coordinates of the cube [-1,1]^5."""
    r = random.Random(seed)
    for _ in range(n):
        x = [r.uniform(-1, 1) for _ in range(5)]
        y = 1
        for v in x:
            y = y if v >= 0 else -y
        if r.random() < FLIPPED:
            y = -y
        yield "%+d " % y + " ".join("%d:%.6f" % (i + 1, v) for i, v in enumerate(x))


class Set:
    """A stream file, how bench/live goes through it, and rows for the test."""

    def __init__(self, name, tmp, exe, args):
        self.name, self.flags = name, ["-limit", str(args.examples)]
        self.path, self.test = (os.path.join(tmp, name + "." + part + ".libsvm") for part in ("stream", "test"))
        self.rows = args.examples  # different ones
        if SETS[name]:
            kind, *options = SETS[name]
            for path, skip, n in (self.path, 0, args.examples), (self.test, args.examples, args.test):
                cmd = [exe, "generate", kind, "--seed", "7", "--skip", str(skip), "--count", str(n), "--out", path]
                timed(cmd + [w for o in options for w in ("--set", o)])
        elif name == "xor5":
            write(self.path, xor(args.examples, 1))
            write(self.test, xor(args.test, 2))
        else:
            if name == "a9a":
                train, test = (lines(os.path.join(args.data, "a9a.%s.libsvm.gz" % part)) for part in ("train", "test"))
            else:
                train = lines(os.path.join(args.data, name + ".libsvm.gz"))
                random.Random(1).shuffle(train)
                train, test = train[:-HELD], train[-HELD:]
            write(self.path, train)
            write(self.test, test)
            self.rows = len(train)
            self.flags += ["-passes", "0", "-shuffle", "1"]
        self.repeats = args.examples / self.rows > 1


class LIBSVM:
    """svm-train on the first rows of a scaled stream."""

    def __init__(self, tmp, args):
        self.path = lambda name: os.path.join(tmp, name)
        self.sizes = [int(n) for n in args.libsvm_rows.split(",")]
        self.seconds = args.libsvm_seconds

    def run(self, scaled, test, options, rows):
        """The largest training in time: rows, accuracy, seconds, support."""
        best, last = None, None
        sizes = sorted({min(n, rows) for n in self.sizes} | ({rows} if rows <= 2 * max(self.sizes) else set()))
        for n in sizes:
            # Time grows with the square of the rows at least.
            if last and last[1] * (n / last[0]) ** 2 > self.seconds:
                break
            with open(scaled) as f, open(self.path("libsvm.train"), "w") as out:
                out.writelines(l for _, l in zip(range(n), f))
            seconds, _ = timed(["svm-train", "-q", "-m", "1000", "-c", options["c"], "-g", options["gamma"],
                                self.path("libsvm.train"), self.path("libsvm.model")], self.seconds)
            if seconds is None:
                break
            last = n, seconds
            _, out = timed(["svm-predict", test, self.path("libsvm.model"), os.devnull])
            with open(self.path("libsvm.model")) as f:
                support = int(re.search(r"total_sv (\d+)", f.read()).group(1))
            best = n, float(re.search(r"([\d.]+)%", out).group(1)) / 100, seconds, support
        return best


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--data", default=os.environ.get("STREAMSVM_DATA") or os.path.join(ROOT, "..", "shared", "data"))
    ap.add_argument("--examples", type=int, default=500000)
    ap.add_argument("--block", type=int, default=50000)
    ap.add_argument("--test", type=int, default=50000, help="fresh rows of a generator")
    ap.add_argument("--sets", default=",".join(SETS))
    ap.add_argument("--no-libsvm", action="store_true")
    ap.add_argument("--libsvm-rows", default="5000,10000,20000,50000", help="sizes to try; of a file that is read again, also all its rows")
    ap.add_argument("--libsvm-seconds", type=int, default=600, help="processor time that one training may take")
    ap.add_argument("--no-finish", action="store_true", help="leave out the accuracy after Finish")
    own, live = sys.argv[1:], []
    if "--" in own:
        own, live = own[:own.index("--")], own[own.index("--") + 1:]
    args = ap.parse_args(own)
    args.live = live
    tmp = tempfile.mkdtemp(prefix="live")
    try:
        measure(args, tmp)
    finally:
        shutil.rmtree(tmp)


def measure(args, tmp):
    exe, tool = os.path.join(tmp, "streamsvm"), os.path.join(tmp, "live")
    for out, module, pkg in (exe, ".", "./cmd/streamsvm"), (tool, "bench", "./live"):
        subprocess.run(["go", "build", "-C", module, "-o", out, pkg], cwd=ROOT, check=True)
    libsvm = None if args.no_libsvm else LIBSVM(tmp, args)
    ends = list(range(args.block, args.examples, args.block)) + [args.examples]
    row("set", "live", *("to %d k" % (n // 1000) if n >= 1000 else "to %d" % n for n in ends), "test, live model")
    say("|" + " --- |" * (len(ends) + 3))
    tests, bad = [], []
    for name in args.sets.split(","):
        s = Set(name, tmp, exe, args)
        scaled, scaled_test, result = (os.path.join(tmp, f) for f in ("scaled", "scaled.test", "result.json"))
        timed([tool, *s.flags, "-block", str(args.block), "-test", s.test, "-scaled", scaled, "-test-scaled", scaled_test,
               "-json", result, *(["-finish=false"] if args.no_finish else []), *args.live, s.path])
        with open(result) as f:
            r = json.load(f)
        b = r["blocks"]
        f = lambda form, v: "" if v is None else form % v
        row(name, "accuracy", *(f("%.4f", x["accuracy"]) for x in b), "%.4f" % r["test_live"]["accuracy"])
        row("", "seconds", *(f("%.1f", x["seconds"]) for x in b), "")
        row("", "support", *(x["support"] for x in b), r["test_live"]["support"])
        if any(x["certificate_of_bound"] is not None for x in b):
            row("", "gap of bound", *(f("%.2g", x["certificate_of_bound"]) for x in b), "")
        else:
            row("", "gap", *(f("%.2g", x["certificate"]) for x in b), "")
        bad += ["%s: %s" % (name, x) for x in r["bad"] or []]
        o, done = r["options"], r["test_finished"]
        l = libsvm and libsvm.run(scaled, scaled_test, o, s.rows)
        tests.append([name, "c=%s gamma=%s" % (o["c"], o["gamma"]), r["preprocessing"], "%d%s" % (s.rows, ", repeated" if s.repeats else ""),
                      r["test_live"]["examples"], "%.4f" % r["test_live"]["accuracy"], r["test_live"]["support"],
                      "%.1f" % r["seconds"], f("%.4f", done and done["accuracy"]), f("%.1f", done and done["seconds"]),
                      *(["%.4f" % l[1], l[0], l[3], "%.1f" % l[2]] if l else ["", "", "", ""]),
                      "%+.2f" % (100 * (r["test_live"]["accuracy"] - l[1])) if l else ""])
        for path in s.path, s.test, scaled, scaled_test:
            os.remove(path)
    say("\nOn the same fresh rows, accuracy; seconds of the processor:\n")
    row("set", "chosen", "scaling", "rows", "tested on", "live model", "support", "seconds", "after Finish", "its seconds", "LIBSVM", "rows", "support", "seconds", "points above")
    say("|" + " --- |" * 15)
    for t in tests:
        row(*t)
    say()
    for x in bad:
        say("bad: " + x)


if __name__ == "__main__":
    main()
