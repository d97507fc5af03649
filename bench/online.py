#!/usr/bin/env python3
"""Runs Vowpal Wabbit and River next to streamsvm's online learner, on the same
rows and in one go, each on one core, and prints a table.

    bench/online.py [--data DIR] [--rows N] [set...]

Every program predicts each row, learns from it, and counts its mistakes:
streamsvm and Vowpal Wabbit from text files and from their binary forms, River
from text and from dicts that are in memory already. The set events is generated: six
numbers and six categories, also as JSON. Rates are for a second of processor time, the
least of five runs in turn; start-up is not counted.

Needs Go. Vowpal Wabbit and River are installed from PyPI, once, into a virtual
environment under $STREAMSVM_CACHE (default $XDG_CACHE_HOME or ~/.cache,
streamsvm). What is missing is left out and said.
"""
import argparse, gzip, json, math, os, random, re, resource, shutil, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.environ.get("STREAMSVM_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "streamsvm")
PEERS = ["vowpalwabbit==9.11.9", "river==0.26.1"]

# What a child with Vowpal Wabbit runs: it goes through its file as it starts.
VW = """
import json, sys, time, vowpalwabbit
began = time.process_time()
w = vowpalwabbit.Workspace(sys.argv[1])
took = time.process_time() - began
assert w.get_weighted_examples() == float(sys.argv[2])
print(json.dumps({"cpu": took, "error": w.get_sum_loss() / w.get_weighted_examples()}))
w.finish()
"""


def environment():
    """Go on in the virtual environment with the peers, made if it is absent."""
    home = os.path.join(CACHE, "online")
    if sys.prefix == home:
        return
    done = os.path.join(home, "complete")
    if not os.path.exists(done) or open(done).read() != " ".join(PEERS):
        print("installing %s into %s" % (" ".join(PEERS), home), file=sys.stderr)
        try:
            subprocess.run([sys.executable, "-m", "venv", home], check=True, stdout=sys.stderr)
            subprocess.run([os.path.join(home, "bin", "python"), "-m", "pip", "-q", "install"] + PEERS, check=True, stdout=sys.stderr)
        except subprocess.CalledProcessError as e:
            print("no peers: %s" % e, file=sys.stderr)
            return
        with open(done, "w") as f:
            f.write(" ".join(PEERS))
    python = os.path.join(home, "bin", "python")
    os.execve(python, [python] + sys.argv, dict(os.environ))


def run(cmd):
    """Run cmd on this core; its output and processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    p = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
                       env=dict(os.environ, GOMAXPROCS="1"))
    if p.returncode:
        raise RuntimeError("%s\n%s" % (" ".join(cmd), p.stderr[-2000:]))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return p.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def river(model, rows):
    right, began = 0, time.process_time()
    for x, y in rows:
        right += model.predict_one(x) == y
        model.learn_one(x, y)
    return time.process_time() - began, 1 - right / len(rows)


def write(path, lines):
    with open(path, "w") as f:
        f.writelines(l + "\n" for l in lines)


def generate(rows):
    """Events as LIBSVM text, as JSON, and as Vowpal Wabbit's text."""
    r, lines, events, fields, index = random.Random(1), [], [], [], {}
    kinds = {"city": 200, "device": 4, "payment": 5, "merchant": 2000, "currency": 4, "member": 3}
    for _ in range(rows):
        num = {"amount": round(math.exp(r.gauss(3, 1)), 2), "age": r.randint(18, 90), "hour": r.randint(0, 23),
               "balance": round(r.gauss(1000, 400), 2), "distance": round(r.expovariate(.1), 1), "visits": r.randint(0, 50)}
        cat = {k: r.randrange(n) for k, n in kinds.items()}
        score = .8 * math.log(num["amount"]) - 2.4 + .03 * (num["distance"] - 10) + .2 * (cat["merchant"] % 11 - 5)
        y = 1 if score + r.gauss(0, 1) > 0 else -1
        words = {k: "%s%d" % (k, v) for k, v in cat.items()}
        x = [(j + 1, v) for j, v in enumerate(num.values())] + sorted((index.setdefault(w, 7 + len(index)), 1) for w in words.values())
        lines.append("%d %s" % (y, " ".join("%d:%s" % f for f in x)))
        events.append(json.dumps({**num, **words, "fraud": y}))
        fields.append("%d | %s" % (y, " ".join(["%s:%s" % f for f in num.items()] + ["%s=%s" % f for f in words.items()])))
    return lines, events, fields


class Set:
    """The rows of a data set, repeated, in the forms of all programs."""

    def __init__(self, data, tmp, name, rows):
        self.json = self.fields = None
        if name == "events":
            lines, events, fields = generate(rows)
            self.json, self.fields = os.path.join(tmp, "events.jsonl"), os.path.join(tmp, "fields.vw")
            write(self.json, events)
            write(self.fields, fields)
        else:
            with gzip.open(os.path.join(data, name + ".train.libsvm.gz"), "rt") as f:
                lines = f.read().splitlines()
        self.name, self.lines = name, [lines[i % len(lines)] for i in range(rows)]
        self.text, self.vw = os.path.join(tmp, name + ".libsvm"), os.path.join(tmp, name + ".vw")
        write(self.text, self.lines)
        pairs = (l.partition(" ") for l in self.lines)
        write(self.vw, ("%d | %s" % (float(y), x) for y, _, x in pairs))

    def dicts(self, n):
        out = []
        for l in self.lines[:n]:
            y, *x = l.split()
            out.append(({int(k): float(v) for k, v in (t.split(":") for t in x)}, float(y) > 0))
        return out


class Row:
    def __init__(self, program, form, n):
        self.program, self.form, self.n, self.cpu, self.error, self.why = program, form, n, float("inf"), None, ""

    def take(self, measure):
        try:
            cpu, error = measure()
            self.cpu, self.error = min(self.cpu, cpu), error
        except Exception as e:
            self.why = str(e).splitlines()[-1]


def measure(s, exe, tmp, startup):
    n = len(s.lines)

    def own(*options, path=s.text):
        def do():
            out, cpu = run([exe, "replay", path, "--learner", "online", "--scale", "none", "--tune=off", "--json", "-", "-q", *options])
            return cpu - startup, json.loads(out)["prequential"]["error"]
        return do

    def recording():
        if s.name not in ("a9a", "ijcnn1"):
            raise RuntimeError("not measured")
        out, _ = run(["go", "test", "-run", "^$", "-bench", "^BenchmarkOnline$/^%s$/^recording$" % s.name,
                      "-benchtime", "1x", "-cpu", "1", "./internal/engine"])
        return n / float(re.search(r"([\d.e+]+) examples/cpu-s", out).group(1)), None

    def vw(args):
        def do():
            out, _ = run([sys.executable, "-c", VW, "--quiet --binary --loss_function logistic -b 18 " + args, str(n)])
            r = json.loads(out)
            return r["cpu"], r["error"]
        return do

    cache = os.path.join(tmp, s.name + ".cache")
    rows = [
        (Row("streamsvm", "libsvm text", n), own()),
        (Row("streamsvm", "libsvm text, features hashed to 2^18", n), own("--hash-dim", str(1 << 18))),
        (Row("streamsvm", "recording of msgpack", n), recording),
        (Row("Vowpal Wabbit", "text", n), vw("-d " + s.vw)),
        (Row("Vowpal Wabbit", "its cache", n), vw("--cache_file %s -d %s" % (cache, s.vw))),
    ]
    if s.json:
        rows += [(Row("streamsvm", "JSON", n), own("--label", "fraud", path=s.json)), (Row("Vowpal Wabbit", "text of named fields", n), vw("-d " + s.fields))]
    try:
        vw("-k --cache_file %s -d %s" % (cache, s.vw))()  # writes the cache
    except RuntimeError:
        pass  # it will be said in the table
    try:
        from river import linear_model, optim, stream
        few = s.dicts(20_000)
        part = os.path.join(tmp, s.name + ".part")
        with open(part, "w") as f:
            f.write("\n".join(s.lines[:len(few)]) + "\n")

        def text():
            model, right, began = linear_model.LogisticRegression(optim.SGD(0.1)), 0, time.process_time()
            for x, y in stream.iter_libsvm(part):
                y = y > 0
                right += model.predict_one(x) == y
                model.learn_one(x, y)
            return time.process_time() - began, 1 - right / len(few)

        rows.append((Row("River LogisticRegression, SGD 0.1", "libsvm text", len(few)), text))
        for name, make in [
            ("LogisticRegression, SGD 0.1", lambda: linear_model.LogisticRegression(optim.SGD(0.1))),
            ("PAClassifier", lambda: linear_model.PAClassifier()),
        ]:
            rows.append((Row("River " + name, "dicts", len(few)), lambda make=make: river(make(), few)))
    except ImportError as e:
        print("River is missing: %s" % e, file=sys.stderr)
    for _ in range(5):
        for r, do in rows:
            r.take(do)
    return [r for r, _ in rows]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--data", default=os.environ.get("STREAMSVM_DATA", os.path.join(ROOT, "..", "shared", "data")))
    ap.add_argument("--rows", type=int, default=400_000)
    ap.add_argument("sets", nargs="*", default=["a9a", "w8a", "ijcnn1", "reuters_moneyfx", "events"])
    args = ap.parse_args()
    environment()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    tmp = tempfile.mkdtemp(prefix="online")
    try:
        exe = os.path.join(tmp, "streamsvm")
        subprocess.run(["go", "build", "-o", exe, "./cmd/streamsvm"], cwd=ROOT, check=True)
        startup = min(run([exe, "learners", "-q"])[1] for _ in range(3))
        print("| set | program | form | rows | error | rows/s | streamsvm is faster |")
        print("|" + " --- |" * 7)
        for name in args.sets:
            done = measure(Set(args.data, tmp, name, args.rows), exe, tmp, startup)
            best = {"text": done[0], "its cache": done[2], "dicts": done[0], "libsvm text": done[0]}
            best.update({"text of named fields": r for r in done if r.form == "JSON"})
            for r in done:
                if r.error is None and r.cpu == float("inf"):
                    print("| %s | %s | %s | | %s | | |" % (name, r.program, r.form, r.why))
                    continue
                ratio = ""
                if r.form in best and r.program != "streamsvm" and best[r.form].cpu < float("inf"):
                    ratio = "%.1f times" % (r.cpu / r.n * best[r.form].n / best[r.form].cpu)
                error = "" if r.error is None else "%.2f %%" % (100 * r.error)
                print("| %s | %s | %s | %d | %s | %.0f k | %s |" % (name, r.program, r.form, r.n, error, r.n / r.cpu / 1e3, ratio), flush=True)
    finally:
        shutil.rmtree(tmp)


main()
