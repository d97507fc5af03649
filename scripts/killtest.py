#!/usr/bin/env python3
"""Kills a trainer and its broker again and again and shows that nothing is lost.

Produces a data file to a topic of several partitions on a real Apache Kafka
(scripts/kafka.sh), trains once without disturbance, then once more while the
trainer is killed with SIGKILL at random moments and the broker twice, and
compares: state hash, the published model, and the fates of all records. Ends
with exit code 1 if anything differs.

    scripts/killtest.py FILE.libsvm.gz [--partitions 4] [--kills 10] [--broker-kills 2] [--seed 1] [-- train flags]

Needs Go, Java 17 and Maven; kcat (Debian) is used to list the model topic if it is there.
"""
import argparse, json, os, random, shutil, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def sh(*cmd, **kw):
    p = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)
    if p.returncode:
        sys.exit("%s: exit code %d\n%s%s" % (" ".join(cmd), p.returncode, p.stdout[-2000:], p.stderr[-4000:]))
    return p.stdout.strip()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("file")
    ap.add_argument("--partitions", type=int, default=4)
    ap.add_argument("--kills", type=int, default=10)
    ap.add_argument("--broker-kills", type=int, default=2)
    ap.add_argument("--seed", type=int, default=1)
    # What comes after -- goes to streamsvm as it is.
    own, rest = sys.argv[1:], []
    if "--" in own:
        own, rest = own[:own.index("--")], own[own.index("--") + 1:]
    args = ap.parse_args(own)
    args.train = rest
    rnd = random.Random(args.seed)
    tmp = tempfile.mkdtemp(prefix="killtest")
    exe = os.path.join(tmp, "streamsvm")
    sh("go", "build", "-o", exe, "./cmd/streamsvm", cwd=ROOT)
    kafka, kdir = os.path.join(ROOT, "scripts", "kafka.sh"), os.path.join(tmp, "kafka")
    broker = sh(kafka, "start", kdir)
    try:
        run(args, rnd, tmp, exe, kafka, kdir, broker)
    finally:
        subprocess.run([kafka, "clean", kdir])
        shutil.rmtree(tmp, ignore_errors=True)


def state(exe, directory):
    """What the newest checkpoint says, or None."""
    p = subprocess.run([exe, "inspect", "--json", directory], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return json.loads(p.stdout)[0] if p.returncode == 0 else None


def run(args, rnd, tmp, exe, kafka, kdir, broker):
    print("broker", broker, flush=True)
    sh(exe, "produce", args.file, "--brokers", broker, "--topic", "examples", "--partitions", str(args.partitions))

    def train(name):
        return [exe, "train", "--brokers", broker, "--topics", "examples", "--codec", "libsvm", "--merge", "ordered",
                "--until-end", "--model-topic", "models-" + name, "--model-name", "m", "--checkpoint", os.path.join(tmp, name),
                "--checkpoint-every", "2000", "--listen", ""] + args.train

    t = time.time()
    sh(*train("plain"))
    plain_sec = time.time() - t
    print("undisturbed run: %.1f s" % plain_sec, flush=True)

    kills = broker_kills = starts = 0
    broker_at = sorted(rnd.sample(range(args.kills), min(args.broker_kills, args.kills)))
    while True:
        starts += 1
        with open(os.path.join(tmp, "log"), "ab") as log:
            p = subprocess.Popen(train("killed"), stdout=log, stderr=log)
        if kills < args.kills:
            # Early moments are drawn too: start-up and warm-up must survive as well.
            time.sleep(rnd.uniform(0.05, 1) * max(0.5, 1.2 * plain_sec / args.kills))
            if broker_kills < len(broker_at) and kills == broker_at[broker_kills]:
                sh(kafka, "kill", kdir)
                time.sleep(rnd.uniform(0.2, 1))
                if p.poll() is None:
                    broker_kills += 1
                    print("  broker killed under the running trainer", flush=True)
                broker2 = sh(kafka, "start", kdir)
                assert broker2 == broker, (broker, broker2)
                time.sleep(rnd.uniform(0.2, 1))
            if p.poll() is None:
                p.kill()
                p.wait()
                kills += 1
                s = state(exe, os.path.join(tmp, "killed"))
                print("  kill %2d: newest checkpoint after %s records" % (kills, s.get("examples", 0) if s else "no"), flush=True)
                continue
        code = p.wait()
        if code:
            print(open(os.path.join(tmp, "log")).read()[-3000:])
            sys.exit("the trainer ended with exit code %d" % code)
        if kills < args.kills:
            print("  the stream ended after %d kills; starting afresh with shorter lives" % kills)
            sys.exit("not enough kills: use a larger file or a slower learner")
        break
    a, b = state(exe, os.path.join(tmp, "plain")), state(exe, os.path.join(tmp, "killed"))
    models = []
    for name in ("plain", "killed"):
        out = sh(exe, "subscribe", "--brokers", broker, "--model-topic", "models-" + name, "--model-name", "m", "--once", "--json")
        models.append(json.loads(out.splitlines()[-1]))
    print("| | undisturbed | killed %d times, broker %d times |\n|---|---|---|" % (kills, broker_kills))
    print("| state_hash | %s | %s |" % (a["state_hash"], b["state_hash"]))
    print("| model hash | %s | %s |" % (models[0]["hash"], models[1]["hash"]))
    fates = [{k: int(s["meta"][k]) for k in ("consumed", "learned", "sampled_out", "dead", "pending")} for s in (a, b)]
    for k in fates[0]:
        print("| %s | %d | %d |" % (k, fates[0][k], fates[1][k]))
    if shutil.which("kcat"):
        out = sh("kcat", "-C", "-b", broker, "-t", "models-killed", "-e", "-q", "-f", "%o %k %S bytes\n")
        print("model topic as kcat shows it:\n" + out)
    f = fates[1]
    ok = (a["state_hash"] == b["state_hash"] and models[0]["hash"] == models[1]["hash"] and fates[0] == f
          and f["learned"] + f["sampled_out"] + f["dead"] == f["consumed"] and f["pending"] == 0)
    print("EQUAL" if ok else "DIFFERENT")
    sys.exit(0 if ok else 1)


main()
