#!/usr/bin/env python3
"""How much of a run goes on two processors at once, and how much of it is tuning.

    bench/cores.py [--data DIR] [--set NAME] [--exe FILE] [--runs N] [learner...]

Each learner replays the set at GOMAXPROCS 1 and 2 in turn; of the walls and of
the processor seconds the least counts. On a machine that has other work to do
walls say little. So a second figure comes from Linux' own accounts: every few
milliseconds, how many threads of the run want a processor, and how much
processor time each has had since. What was had while two wanted one is the
part that goes in parallel, p; the ratio of walls on two free processors is then
(1 - p + p/2) times that of the processor seconds. With Amdahl's law, n
processors are 1/(1 - p + p/n) times as fast as one, if the parts that go in
parallel could be divided further, which a pipeline of two stages cannot.

Tuning is the difference to a run that is given the options which were chosen, with
the warm-up on which they were, and must predict the same. dsg and tsgs3vm choose
theirs as they learn, after the warm-up of learners that are not tuned: there is no
difference. Runs on one and two processors must end in the same state.
"""
import argparse, json, os, resource, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LEARNERS = ["scs", "dsg", "tsgs3vm", "l1smooth", "online", "sbp"]
AS_THEY_LEARN = ["dsg", "tsgs3vm"]


def threads(pid):
    """Nanoseconds of processor time and whether it wants one, of each thread."""
    out = {}
    try:
        for t in os.listdir("/proc/%d/task" % pid):
            try:
                with open("/proc/%d/task/%s/schedstat" % (pid, t)) as f:
                    ns = int(f.read().split()[0])
                with open("/proc/%d/task/%s/stat" % (pid, t)) as f:
                    out[t] = ns, f.read().rsplit(")", 1)[1].split()[0] == "R"
            except (OSError, IndexError):
                pass
    except OSError:
        pass
    return out


def run(exe, args, cores):
    """Result, wall, processor seconds, and share of them that went in parallel."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began, alone, together = time.monotonic(), 0, 0
    with tempfile.TemporaryFile("w+") as out:
        p = subprocess.Popen([exe, "replay", *args, "--json", "-", "-q"], stdout=out, env=dict(os.environ, GOMAXPROCS=str(cores)))
        last = {}
        while p.poll() is None:
            now = threads(p.pid)
            used = sum(ns - last.get(t, (0, False))[0] for t, (ns, _) in now.items())
            if sum(r for _, r in now.values()) > 1:
                together += used
            else:
                alone += used
            last = now or last
            time.sleep(0.004)
        wall = time.monotonic() - began
        if p.returncode:
            raise SystemExit("%s failed" % args)
        out.seek(0)
        result = json.load(out)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return result, wall, cpu, together / max(1, alone + together)


def find(result, name):
    for k, v in result.items():
        if k == name:
            return v
        if isinstance(v, dict):
            found = find(v, name)
            if found is not None:
                return found


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--data", default=os.environ.get("STREAMSVM_DATA", os.path.join(ROOT, "..", "shared", "data")))
    ap.add_argument("--set", default="ijcnn1.train.libsvm.gz")
    ap.add_argument("--exe", help="the program, otherwise it is built")
    ap.add_argument("--runs", type=int, default=3)
    ap.add_argument("learners", nargs="*", default=LEARNERS)
    args = ap.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        exe = args.exe or os.path.join(tmp, "streamsvm")
        if not args.exe:
            subprocess.run(["go", "build", "-o", exe, "./cmd/streamsvm"], cwd=ROOT, check=True)
        path = os.path.join(args.data, args.set)
        print("| learner | wall 1 | wall 2 | ratio | processor s 1 | 2 | in parallel | ratio, two free processors | 16 processors | tuning, of all |")
        print("|" + " --- |" * 10)
        for name in args.learners:
            base = [path, "--learner", name]
            wall, cpu, share, hashes = {1: [], 2: []}, {1: [], 2: []}, [], set()
            for _ in range(args.runs):
                for cores in 1, 2:
                    result, w, c, p = run(exe, base, cores)
                    wall[cores].append(w)
                    cpu[cores].append(c)
                    hashes.add(find(result, "state_hash"))
                    if cores == 2:
                        share.append(p)
            if len(hashes) != 1 or None in hashes:
                raise SystemExit("%s: the states differ: %s" % (name, hashes))
            given = [x for k, v in result["options"].items() for x in ("--set", "%s=%s" % (k, v))]
            fixed = float("inf")
            for _ in range(args.runs):
                warmup = [] if name in AS_THEY_LEARN else ["--warmup", "4000"]
                again, _, c, _ = run(exe, base + ["--tune=off"] + warmup + given, 1)
                fixed = min(fixed, c)
                if again["prequential"]["hinge"] != result["prequential"]["hinge"]:
                    print("%s: given its options it predicts something else" % name, file=sys.stderr)
            w1, w2, c1, c2 = min(wall[1]), min(wall[2]), min(cpu[1]), min(cpu[2])
            p = sorted(share)[len(share) // 2]
            print("| %s | %.2f | %.2f | %.2f | %.2f | %.2f | %.0f %% | %.2f | %.1f times | %s |" % (
                name, w1, w2, w2 / w1, c1, c2, 100 * p, c2 / c1 * (1 - p / 2), 1 / (1 - p + p / 16),
                "as it learns" if name in AS_THEY_LEARN else "%.0f %%" % (100 * max(0, 1 - fixed / c1))), flush=True)


main()
