#!/usr/bin/env python3
"""Kills a trainer that sends dead letters, and shows that each bad record has one.

Produces a stream with bad records in it, in many ways, to a topic of several
partitions on a real Apache Kafka (scripts/kafka.sh), and trains with tolerance
and dead letters, in the deterministic ordered merge, while the trainer is
killed with SIGKILL again and again when it has sent letters about records
behind its newest checkpoint, and the broker too if asked to. Then it reads
topic and letters with kcat and compares:

  - each bad record has exactly one letter, found by the headers with its topic,
    partition and offset, with its value and the stage and reason that it
    should have, and no good record has one;
  - the learner, the published model and the fates are those of a run over the
    good records alone, in the order of the merge (by timestamp and partition,
    worked out here from what kcat shows), from a topic of one partition.

Ends with exit code 1 if anything differs.

    scripts/dlqtest.py [--records 100000] [--bad 0.01] [--partitions 4] [--kills 5] [--broker-kills 0] [--seed 1] [-- train flags]

Needs Go, Java 17, Maven and kcat (Debian).
"""
import argparse, collections, glob, heapq, json, os, random, shutil, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# What is wrong, a value (N is a number, so that no two are equal), stage and
# reason, for a stream of two features.
WAYS = [
    ("another format", '+1 1:0.5 2:N', "decode", "syntax"),
    ("cut off", '{"id":"N","x":[0.5,1.2', "decode", "syntax"),
    ("more behind the object", '{"id":"N","x":[1,2],"y":1}}', "decode", "syntax"),
    ("a number as text", '{"id":"N","x":["0.5",1],"y":1}', "decode", "syntax"),
    ("no object but a list", '[N,1]', "decode", "syntax"),
    ("features that are text", '{"id":"N","x":"1,2","y":1}', "decode", "syntax"),
    ("NaN", '{"id":"N","x":[NaN,1],"y":1}', "feature", "not_finite"),
    ("infinity", '{"id":"N","x":[1,-Infinity],"y":1}', "feature", "not_finite"),
    ("more than a float32 holds", '{"id":"N","x":[1e60,1],"y":1}', "feature", "not_finite"),
    ("one feature too many", '{"id":"N","x":[1,2,3],"y":1}', "feature", "dimension"),
    ("one feature too few", '{"id":"N","x":[1],"y":1}', "feature", "dimension"),
    ("index 0", '{"id":"N","x":{"0":1},"y":1}', "decode", "index"),
    ("a feature twice", '{"id":"N","x":{"1":1,"01":2},"y":1}', "decode", "duplicate"),
    ("index above the limit", '{"id":"N","x":{"16777217":1},"y":1}', "feature", "limit"),
    ("unknown label", '{"id":"N","x":[1,2],"y":7}', "label", "label"),
    ("a label as text", '{"id":"N","x":[1,2],"y":"1"}', "decode", "syntax"),
    ("no features", '{"id":"N","y":1}', "decode", "missing"),
]
H = "__streamsvm.errors."


def sh(*cmd, **kw):
    p = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)
    if p.returncode:
        sys.exit("%s: exit code %d\n%s%s" % (" ".join(cmd), p.returncode, p.stdout[-2000:], p.stderr[-4000:]))
    return p.stdout.strip()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--records", type=int, default=100000)
    ap.add_argument("--bad", type=float, default=0.01)
    ap.add_argument("--partitions", type=int, default=4)
    ap.add_argument("--kills", type=int, default=5)
    ap.add_argument("--broker-kills", type=int, default=0)
    ap.add_argument("--seed", type=int, default=1)
    # What comes after -- goes to streamsvm as it is.
    own, rest = sys.argv[1:], ["--learner", "pegasos", "--tune=off", "--warmup", "1000"]
    if "--" in own:
        own, rest = own[:own.index("--")], own[own.index("--") + 1:]
    args = ap.parse_args(own)
    args.train = rest
    if not shutil.which("kcat"):
        sys.exit("kcat is missing (Debian: apt-get install kcat)")
    tmp = tempfile.mkdtemp(prefix="dlqtest")
    exe = os.path.join(tmp, "streamsvm")
    sh("go", "build", "-o", exe, "./cmd/streamsvm", cwd=ROOT)
    kafka, kdir = os.path.join(ROOT, "scripts", "kafka.sh"), os.path.join(tmp, "kafka")
    broker = sh(kafka, "start", kdir)
    try:
        run(args, random.Random(args.seed), tmp, exe, kafka, kdir, broker)
    finally:
        subprocess.run([kafka, "clean", kdir])
        shutil.rmtree(tmp, ignore_errors=True)


def stream(args, rnd, tmp, exe):
    """Writes the stream to a file, and returns its path and the way of each bad value."""
    n = round(args.records * args.bad)
    good, path, bad = os.path.join(tmp, "good.jsonl"), os.path.join(tmp, "mixed.jsonl"), {}
    sh(exe, "generate", "checkerboard", "--count", str(args.records - n), "--codec", "json", "--out", good)
    # The first record says how many features there are.
    at = set(rnd.sample(range(1, args.records), n))
    with open(good) as f, open(path, "w") as out:
        for i in range(args.records):
            if i in at:
                way = len(bad) % len(WAYS)
                value = WAYS[way][1].replace("N", str(i))
                if "NaN" in WAYS[way][1]:
                    value = WAYS[way][1].replace('"N"', '"%d"' % i)
                bad[value] = way
                out.write(value + "\n")
            else:
                out.write(f.readline())
    assert len(bad) == n
    return path, bad


def read(broker, topic):
    """All records of the topic, as kcat shows them."""
    out = sh("kcat", "-C", "-b", broker, "-t", topic, "-o", "beginning", "-e", "-q", "-J")
    recs = [json.loads(line) for line in out.splitlines()]
    for r in recs:
        h = r.get("headers") or {}
        r["headers"] = dict(zip(h[::2], h[1::2])) if isinstance(h, list) else h
    return recs


def state(exe, directory):
    """What the newest checkpoint says, or None."""
    p = subprocess.run([exe, "inspect", "--json", directory], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return json.loads(p.stdout)[0] if p.returncode == 0 else None


def seq(directory):
    return max(glob.glob(os.path.join(directory, "*.ssc")), default="")


def run(args, rnd, tmp, exe, kafka, kdir, broker):
    print("broker", broker, flush=True)
    path, bad = stream(args, rnd, tmp, exe)
    sh(exe, "produce", path, "--brokers", broker, "--topic", "mixed", "--partitions", str(args.partitions), "--partition-by", "rr")
    every = max(1, args.records // (5 * max(1, args.kills)))

    def train(topic, *more):
        return [exe, "train", "--brokers", broker, "--topics", topic, "--codec", "json", "--merge", "ordered", "--until-end",
                "--tolerance", "data", "--dlq", "--model-topic", "models-" + topic, "--model-name", "m",
                "--checkpoint", os.path.join(tmp, topic), "--checkpoint-every", str(every), "--checkpoint-interval", "0"] + args.train

    kills = broker_kills = repeated = 0
    t = time.time()
    broker_at = sorted(rnd.sample(range(args.kills), min(args.broker_kills, args.kills)))
    while True:
        before = seq(os.path.join(tmp, "mixed"))
        with open(os.path.join(tmp, "log"), "ab") as log:
            p = subprocess.Popen(train("mixed"), stdout=log, stderr=log)
        if kills < args.kills:
            # A life ends somewhere between two checkpoints, the first one
            # perhaps before it has read anything.
            lives, since, last = rnd.randint(0, 6), 0, time.time()
            took = 1.0
            while p.poll() is None and since < lives:
                now = seq(os.path.join(tmp, "mixed"))
                if now != before:
                    before, since, took, last = now, since + 1, time.time() - last, time.time()
                time.sleep(0.002)
            time.sleep(rnd.uniform(0, 1) * took)
            if broker_kills < len(broker_at) and kills == broker_at[broker_kills]:
                sh(kafka, "kill", kdir)
                broker_kills += 1
                assert sh(kafka, "start", kdir) == broker
                time.sleep(rnd.uniform(0.2, 1))
            if p.poll() is None:
                p.kill()
                p.wait()
                kills += 1
                s = state(exe, os.path.join(tmp, "mixed"))
                at = s["meta"] if s else {"consumed": "0", "dead": "0"}
                made = "mixed.dlq" in sh("kcat", "-L", "-b", broker)
                ahead = (len(read(broker, "mixed.dlq")) if made else 0) - int(at["dead"])
                repeated += ahead
                print("  kill %d: newest checkpoint after %s records, %d letters about records behind it" % (kills, at["consumed"], ahead), flush=True)
                continue
        code = p.wait()
        if code:
            print(open(os.path.join(tmp, "log")).read()[-3000:])
            sys.exit("the trainer ended with exit code %d" % code)
        if kills < args.kills:
            sys.exit("the stream ended after %d kills: use more records or a slower learner" % kills)
        break
    print("all lives of the trainer: %.1f s" % (time.time() - t), flush=True)

    # The good records in the order of the merge, and the bad ones by offset.
    parts = collections.defaultdict(list)
    for r in read(broker, "mixed"):
        parts[r["partition"]].append(r)
    for p in parts.values():
        p.sort(key=lambda r: r["offset"])
    wrong, clean = {}, os.path.join(tmp, "clean.jsonl")
    with open(clean, "w") as out:
        for r in heapq.merge(*parts.values(), key=lambda r: (r["ts"], r["partition"])):
            if r["payload"] in bad:
                wrong["mixed", str(r["partition"]), str(r["offset"])] = r["payload"]
            else:
                out.write(r["payload"] + "\n")
    sh(exe, "produce", clean, "--brokers", broker, "--topic", "clean", "--partitions", "1")
    sh(*train("clean"))

    seen, odd, ways = collections.Counter(), [], collections.Counter()
    letters = read(broker, "mixed.dlq")
    for r in letters:
        h = r["headers"]
        origin = (h.get(H + "topic"), h.get(H + "partition"), h.get(H + "offset"))
        seen[origin] += 1
        value = wrong.get(origin)
        if value is None:
            odd.append("a letter about %s, with which nothing is wrong" % (origin,))
            continue
        what, _, stage, reason = WAYS[bad[value]]
        if r["payload"] != value or h.get(H + "stage") != stage or h.get(H + "reason") != reason:
            odd.append("%s: letter %s %s" % (what, h, r["payload"]))
        elif seen[origin] == 1:
            ways[what] += 1
    missing = sum(1 for o in wrong if not seen[o])
    twice = sum(1 for o in seen if seen[o] > 1)
    a, b = state(exe, os.path.join(tmp, "clean")), state(exe, os.path.join(tmp, "mixed"))
    learners = [{s["name"]: s["hash"] for s in x["sections"]}["learner"] for x in (a, b)]
    models = [json.loads(sh(exe, "subscribe", "--brokers", broker, "--model-topic", "models-" + n, "--model-name", "m", "--once", "--json").splitlines()[-1])["hash"]
              for n in ("clean", "mixed")]
    listed = sh(exe, "dlq", "list", "mixed.dlq", "--brokers", broker).splitlines()[-1]

    print("| | good records alone | with bad ones, killed %d times%s |\n|---|---|---|" % (kills, ", broker %d times" % broker_kills if broker_kills else ""))
    print("| learner | %s | %s |" % tuple(learners))
    print("| model hash | %s | %s |" % tuple(models))
    fates = [{k: int(s["meta"][k]) for k in ("consumed", "learned", "sampled_out", "dead", "pending")} for s in (a, b)]
    for k in fates[0]:
        print("| %s | %d | %d |" % (k, fates[0][k], fates[1][k]))
    print("bad records: %d in %d ways, %s" % (len(wrong), len(ways), ", ".join("%s %d" % w for w in ways.items())))
    print("letters: %d; bad records without one: %d, with more than one: %d; other letters: %d" % (len(letters), missing, twice, len(odd)))
    print("letters about records behind the newest checkpoint when the trainer was killed: %d" % repeated)
    print("dlq list: " + listed)
    for o in odd[:10]:
        print("  " + o)
    f, n = fates[1], len(bad)
    ok = (learners[0] == learners[1] and models[0] == models[1] and not (missing or twice or odd) and len(letters) == n == f["dead"]
          and f["consumed"] == args.records and f["learned"] + f["sampled_out"] == args.records - n and f["pending"] == 0
          and fates[0]["dead"] == 0 and {k: f[k] for k in ("learned", "sampled_out")} == {k: fates[0][k] for k in ("learned", "sampled_out")}
          and len(ways) == len(WAYS) and listed.startswith("%d dead letters" % n))
    print("EQUAL, EACH ONCE" if ok else "DIFFERENT")
    sys.exit(0 if ok else 1)


main()
