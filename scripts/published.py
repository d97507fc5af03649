#!/usr/bin/env python3
"""What a subscriber of the default learner gets, beside single learners.

    scripts/published.py [--streams elec2,sea] [--intervals 250,2500] [--learners adaptive,scs]
        [--delay 0] [--positives 0.01] [--program BINARY] [--results FILE] [--markdown]

A version of the model is published after every N records of a stream and predicts the N
that follow (streamsvm replay --publish-every N). For each stream, N and learner the script
prints accuracy, AUC and log loss of these predictions, from which record on they were
measured (a learner that tunes itself publishes its first version later), and the trainer's
own accuracy, for which each record is predicted just before it is learned from.

Then it says for each stream and N how adaptive compares with the best single learner in
each of the three, on the records that all learners have predicted: better, within .005 in
accuracy and AUC and 2 % in log loss, or not. With fewer than ten intervals, marked °, the
bounds are .01 and 4 %. The default learner's versions are more than the intervals: after a
change it publishes early, up to twenty times an interval. The base rate is the log loss of
predicting the share of positive labels so far.

The constants of adaptive were chosen on the streams of DEVELOPMENT; those of SHOWING were
named before anything had been measured on them. All are in file order, which in magic04 and
w8a is one class after the other; magic04-shuffled, w8a-shuffled and skin_nonskin, the first
50,859 rows of which are of one class, are shuffled. Files of LIBSVM's collection are read from
$STREAMSVM_DATA or ../shared/data; streams that are not there are left out, with a message. The
other streams are generated, the same on every machine.

--results keeps what was measured in FILE, and measures only what is not there yet.
--markdown prints a row for each stream as docs/measured/adaptive.md has it: accuracy/AUC/log
loss of adaptive and of the single learner with the least log loss; ↓ marks what misses its
bound, ‡ a log loss above the base rate's. All of it takes a quarter of an hour on one core,
half of that without census_nominal, w8a and w8a-shuffled. Needs Python 3, and Go unless there
is a --program.
"""
import argparse, gzip, itertools, json, math, os, random, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.environ.get("STREAMSVM_DATA") or os.path.join(ROOT, "..", "shared", "data")
ROWS = 30000  # of a generated stream
OURS, SINGLE = "adaptive", ["scs", "dsg", "online", "sbp"]
MEASURES = ("accuracy", "auc", "log_loss")
MANY = 10  # versions from which on the narrow bounds hold
WARMUPS = 4000, 1000, 0  # examples before the first version: of learners that tune themselves, of dsg, of adaptive


# Streams with drift, from their papers. A generator yields a label and the features of
# each row. random() is the only method used: it gives the same numbers in every version
# of Python.

def phase(i, length):
    return i // length


def agrawal(r):
    """Agrawal, Imielinski, Swami, "Database mining: a performance perspective", IEEE TKDE 5(6), 1993:
    people who apply for a loan; functions 1, 2, 4 and 7 of its ten, 7,500 rows each. Numbers are
    perturbed by 5 % of their range."""
    uniform = lambda a, b: a + (b - a) * r.random()
    integer = lambda a, b: a + int((b - a + 1) * r.random())
    perturb = lambda v, a, b: min(max(v + .05 * (b - a) * (r.random() - .5), a), b)
    for i in itertools.count():
        salary = uniform(20000, 150000)
        commission = 0 if salary >= 75000 else uniform(10000, 75000)
        age, level, car, zipcode = integer(20, 80), integer(0, 4), integer(1, 20), integer(1, 9)
        value = 100000 * zipcode * uniform(.5, 1.5)
        years, loan = integer(1, 30), uniform(0, 500000)
        young, old = age < 40, age >= 60
        function = phase(i, 7500) % 4
        if function == 0:
            y = young or old
        elif function == 1:
            low = 50000 if young else 25000 if old else 75000
            y = low <= salary <= low + 50000
        elif function == 2:
            some = {0, 1} if young else {2, 3, 4} if old else {1, 2, 3}
            low = (25000, 50000) if young else (50000, 25000) if old else (50000, 75000)
            low = low[0] if level in some else low[1]
            y = low <= salary <= low + 50000
        else:
            y = .67 * (salary + commission) - .2 * loan - 20000 > 0
        yield y, [perturb(salary, 20000, 150000), commission and perturb(commission, 10000, 75000), perturb(age, 20, 80),
                  level, car, zipcode, perturb(value, 50000, 1350000), perturb(years, 1, 30), perturb(loan, 0, 500000)]


def sine(r):
    """SINE1 and SINE2 of Gama, Medas, Castillo, Rodrigues, "Learning with drift detection", SBIA 2004: two
    features, below a sine curve or not. Every 7,500 rows the classes are exchanged, or the curve changes."""
    for i in itertools.count():
        x, z = r.random(), r.random()
        at = phase(i, 7500) % 4
        below = z < math.sin(x) if at < 2 else z < .5 + .3 * math.sin(3 * math.pi * x)
        yield below != (at % 2 == 1), [x, z]


def stagger(r):
    """Schlimmer, Granger, "Incremental learning from noisy data", Machine Learning 1, 1986: size, colour and
    shape of a block; three concepts in turn, 5,000 rows each; 10 % of the labels are wrong."""
    for i in itertools.count():
        size, colour, shape = (int(3 * r.random()) for _ in range(3))
        y = (size == 0 and colour == 0, colour == 1 or shape == 1, size > 0)[phase(i, 5000) % 3]
        yield y != (r.random() < .1), [float(v == k) for v in (size, colour, shape) for k in range(3)]


SEGMENTS = ("1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010", "1111111", "1111011")


def led(r):
    """The LED display of Breiman, Friedman, Olshen, Stone, "Classification and regression trees", 1984: seven
    segments, each wrong with probability .1, and 17 features that say nothing; odd digits against even ones.
    Every 7,500 rows two of the segments change places with features that say nothing, as in MOA's
    LEDGeneratorDrift."""
    for i in itertools.count():
        digit = int(10 * r.random())
        x = [float((s == "1") != (r.random() < .1)) for s in SEGMENTS[digit]] + [float(r.random() < .5) for _ in range(17)]
        for k in range(2 * (phase(i, 7500) % 4)):
            x[k], x[7 + k] = x[7 + k], x[k]
        yield digit % 2 == 1, x


def mixed(r):
    """MIXED of Gama and others, 2004: two boolean features and two numbers; +1 where two of three conditions
    hold. The classes are exchanged every 5,000 rows."""
    for i in itertools.count():
        v, w, x, z = r.random() < .5, r.random() < .5, r.random(), r.random()
        y = v + w + (z < .5 + .3 * math.sin(3 * math.pi * x)) >= 2
        yield y != (phase(i, 5000) % 2 == 1), [float(v), float(w), x, z]


def file(name, limit=None, shuffle=False):
    """Lines of a file of the collection; None if it is not there."""
    def read(_):
        path = os.path.join(DATA, name + ".libsvm.gz")
        if not os.path.exists(path):
            return None
        with gzip.open(path, "rt") as f:
            rows = f.read().splitlines()
        if shuffle:
            r = random.Random(1)
            rows = [row for _, row in sorted((r.random(), row) for row in rows)]
        return rows[:limit]
    return read


def generated(name, *options):
    """Lines of a stream of streamsvm generate."""
    def read(program):
        cmd = [program, "generate", name, "-q", "--codec", "libsvm", "--count", str(ROWS)]
        return subprocess.run(cmd + [a for o in options for a in ("--set", o)], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    return read


def drifting(generator):
    """Lines of one of the generators above."""
    def read(_):
        rows = itertools.islice(generator(random.Random(1)), ROWS)
        return [" ".join(["+1" if y else "-1"] + ["%d:%.9g" % (k, v) for k, v in enumerate(x, 1) if v]) for y, x in rows]
    return read


DEVELOPMENT = {
    "elec2": file("elec2"), "usenet1": file("usenet1"), "skin_nonskin": file("skin_nonskin", 40000, shuffle=True),
    "ijcnn1": file("ijcnn1.train"), "magic04": file("magic04"), "magic04-shuffled": file("magic04", shuffle=True),
    "census_nominal": file("census_nominal.train", 30000),
    "heart_failure": file("heart_failure"), "reuters_moneyfx": file("reuters_moneyfx.train"),
    "sea": generated("sea", "block=5000"), "hyperplane": generated("hyperplane"), "rbf": generated("rbf", "speed=0.001"),
}
SHOWING = {
    "covtype15k": file("covtype15k"), "winequality": file("winequality"), "w8a": file("w8a.train"), "w8a-shuffled": file("w8a.train", shuffle=True),
    "mnist8": file("mnist8.train", 10000), "a9a": file("a9a.train"),
    "agrawal": drifting(agrawal), "sine": drifting(sine), "stagger": drifting(stagger), "led": drifting(led), "mixed": drifting(mixed),
}
STREAMS = {**DEVELOPMENT, **SHOWING}


def common(labels, every, delay):
    """The number of records before the first one that all learners predict: they publish
    nothing before their warm-up is over and both classes have come. On a stream that is too
    short for the longest warm-up only those with a shorter one publish anything."""
    both = max(labels.index(True), labels.index(False)) + 1
    for warmup in WARMUPS:
        first = -(-(max(warmup, both) + delay) // every) * every
        if first < len(labels):
            return first


def replay(program, path, learner, every, delay, rows, skip, *flags):
    """What was measured of the predictions by published versions, and in "common" without the first records, of which all learners skip some."""
    cmd = [program, "replay", path, "-q", "--learner", learner, "--publish-every", str(every), "--delay", str(delay), "--window", str(rows - skip), "--json", "-", *flags]
    p = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if p.returncode:
        raise SystemExit("%s\n%s" % (" ".join(cmd), p.stderr[-2000:]))
    r = json.loads(p.stdout)
    published = r["as_published"]
    known, measures = published["examples"] >= rows - skip, lambda of: {m: of[m] for m in MEASURES}
    return {**measures(published), "versions": published["versions"], "early": published.get("early", 0), "from": rows - published["examples"] + 1,
            "common": measures(published["window"]) if known else None, "own": r["prequential"]["accuracy"], "seconds": r["seconds"]}


def thinned(rows, share):
    """Without so many of the positive rows that about this share is positive."""
    positive, r = sum(not row.startswith("-") for row in rows), random.Random(1)
    keep = share / (1 - share) * (len(rows) - positive) / positive
    return [row for row in rows if row.startswith("-") or r.random() < keep]


def base_rate(labels, skip, delay):
    """Log loss of the share of positive labels that are known, on all records but the first ones."""
    loss, positive = 0, 0
    for i, y in enumerate(labels):
        known = max(0, i - delay)
        positive += known > 0 and labels[known - 1]
        if i >= skip:
            p = (positive + .5) / (known + 1)
            loss -= math.log(p if y else 1 - p)
    return loss / (len(labels) - skip)


def many(of):
    """Whether the narrow bounds hold. Early versions do not count."""
    return of[OURS]["versions"] - of[OURS]["early"] >= MANY


def compare(of):
    """How adaptive compares with the best single learner: for each measure how much better
    it is (log loss: as a share), the name of that learner, and "better", "within" or "misses"."""
    narrow, of = many(of), {l: r["common"] for l, r in of.items() if r["common"]}
    ours = of[OURS]
    share, relative = (.005, .02) if narrow else (.01, .04)
    found = {}
    for m in MEASURES:
        rivals = {l: of[l][m] for l in of if l != OURS and of[l][m] is not None}
        if not rivals or ours[m] is None:
            continue
        best = (min if m == "log_loss" else max)(rivals, key=rivals.get)
        gain = 1 - ours[m] / rivals[best] if m == "log_loss" else ours[m] - rivals[best]
        found[m] = gain, best, "better" if gain > 0 else "within" if gain >= -(relative if m == "log_loss" else share) else "misses"
    return found


def least_loss(of):
    """The single learner with the least log loss."""
    return min((l for l in of if l != OURS and of[l]["common"] and of[l]["common"]["log_loss"] is not None), key=lambda l: of[l]["common"]["log_loss"], default=None)


def short(v):
    return "-" if v is None else ("%.*f" % (3 if v >= .01 else 4, v)).removeprefix("0")


def amount(m, gain):
    return "%s %s" % (m.replace("_", " "), "%+.1f %%" % (-100 * gain) if m == "log_loss" else "%+.4f" % gain)


def line(name, every, of, base):
    """The verdict on one stream and interval."""
    found = compare(of)
    parts = ["%s (%s)%s" % (amount(m, gain), best, "" if how == "within" else " " + how) for m, (gain, best, how) in found.items()]
    if of[OURS]["common"]["log_loss"] > base:
        parts.append("log loss worse than the base rate's %s" % short(base))
    if not found:
        parts.append("no single learner has published")
    missed = any(how == "misses" for _, _, how in found.values())
    return "%-16s %6d%s %s %s" % (name, every, " " if many(of) else "°", "MISSES" if missed else "holds ", "; ".join(parts))


def cell(of, base):
    """Adaptive and the best single learner, for Markdown."""
    if OURS not in of:
        return ""
    found, ours = compare(of), of[OURS]["common"]
    marked = [short(ours[m]) + ("↓" if m in found and found[m][2] == "misses" else "") for m in MEASURES]
    if ours["log_loss"] > base:
        marked[-1] += "‡"
    best = least_loss(of)
    text = "/".join(marked) + ("" if many(of) else "°")
    return text + (" %s:%s" % (best, "/".join(short(of[best]["common"][m]) for m in MEASURES)) if best else "")


def markdown(names, intervals, results, bases):
    intervals = sorted(intervals)
    print("| stream | " + " | ".join("N={:,}".format(n) for n in intervals) + " |\n" + "|---" * (1 + len(intervals)) + "|")
    for name in names:
        cells = [cell(results[name, n], bases[name, n]) for n in intervals if (name, n) in results]  # the short intervals
        print("| " + " | ".join([name] + cells) + " |")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    split = lambda s: [v for v in s.split(",") if v]
    ap.add_argument("--streams", type=split, default=list(STREAMS))
    ap.add_argument("--intervals", type=lambda s: [int(v) for v in split(s)], default=[250, 2500, 20000], metavar="N,...")
    ap.add_argument("--learners", type=split, default=[OURS, *SINGLE])
    ap.add_argument("--delay", type=int, default=0, metavar="RECORDS", help="how many records a label comes after its own")
    ap.add_argument("--positives", type=float, metavar="SHARE", help="leave out positive rows so that this share is positive")
    ap.add_argument("--program", metavar="BINARY", help="streamsvm; by default it is built")
    ap.add_argument("--results", metavar="FILE", help="keep results in FILE, and take those that are there")
    ap.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    args = ap.parse_args()
    for unknown in set(args.streams) - set(STREAMS):
        ap.error("stream %r is not one of %s" % (unknown, ", ".join(STREAMS)))
    known = {}
    if args.results and os.path.exists(args.results):
        with open(args.results) as f:
            known = json.load(f)
    results, bases = {}, {}
    with tempfile.TemporaryDirectory() as tmp:
        program = args.program
        if not program:
            program = os.path.join(tmp, "streamsvm")
            subprocess.run(["go", "build", "-o", program, "./cmd/streamsvm"], cwd=ROOT, check=True)
        if not args.markdown:
            print("stream           interval learner   accuracy   AUC  log loss  trainer's own  versions  from record")
        for name in args.streams:
            rows = STREAMS[name](program)
            if rows is None:
                print("%s: not in %s, left out" % (name, DATA), file=sys.stderr)
                continue
            if args.positives:
                rows = thinned(rows, args.positives)
            labels = [not row.startswith("-") for row in rows]
            path = os.path.join(tmp, name + ".libsvm")
            with open(path, "w") as f:
                f.write("\n".join(rows) + "\n")
            for every, learner in itertools.product(args.intervals, args.learners):
                skip = common(labels, every, args.delay)
                if skip is None:
                    continue
                key = "%s/%d/%d/%s" % (name, every, args.delay, learner) + ("/%g" % args.positives if args.positives else "")
                if key not in known:
                    known[key] = replay(program, path, learner, every, args.delay, len(rows), skip)
                    if args.results:
                        with open(args.results, "w") as f:
                            json.dump(known, f, indent=0)
                r = known[key]
                if r["accuracy"] is None:
                    print("%s: the stream is too short for %s, which would publish its first version later" % (name, learner), file=sys.stderr)
                    continue
                results.setdefault((name, every), {})[learner] = r
                if learner == OURS:
                    bases[name, every] = base_rate(labels, skip, args.delay)
                if not args.markdown:
                    print("%-16s %8d %-9s %8s %6s %9s %14s %8d%s %11s" % (name, every, learner, *(short(r[m]) for m in MEASURES), short(r["own"]),
                          r["versions"], " " if r["versions"] - r["early"] >= MANY else "°", "{:,}".format(r["from"])), flush=True)
            os.remove(path)
    if args.markdown:
        for title, group in ("Development", DEVELOPMENT), ("Showing", SHOWING):
            names = [n for n in args.streams if n in group]
            if names:
                print("\n%s:\n" % title)
                markdown(names, args.intervals, results, bases)
    if OURS in args.learners:
        print("\nadaptive beside the best single learner in each measure:\n")
        tally = {True: [0, 0, 0], False: [0, 0, 0]}
        for (name, every), of in results.items():
            if OURS in of:
                print(("    " if args.markdown else "") + line(name, every, of, bases[name, every]))
                how = [h for _, _, h in compare(of).values()]
                if how:
                    at = tally[many(of)]
                    at[0], at[1], at[2] = at[0] + 1, at[1] + ("misses" not in how), at[2] + (set(how) == {"better"})
        for narrow, (lines, held, better) in tally.items():
            if lines:
                print("\n%s intervals: %d lines, %d within their bounds, %d of them better in everything" % ("ten or more" if narrow else "fewer than ten", lines, held, better))


if __name__ == "__main__":
    main()
