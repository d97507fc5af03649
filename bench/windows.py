#!/usr/bin/env python3
"""Prequential accuracy on drifting streams, one row for each learner and size
of window.

    bench/windows.py [--data DIR] [--examples 20000] [--streams elec2,sea,...] [--learners smo,sbp,...] [--river]

Every learner predicts each example before it learns from it, with default
options, which include the choice of kernel width and C on the first examples;
sbp runs with its preset for drift, scs with the window that it has for it, smo
solves each window to its optimum, pegasos has so many support vectors, the
oldest of which goes. The accuracy is over what follows that
choice. Needs Go; --river adds River's ensembles from the environment that
bench/peers.py makes, on features standardised as they come. Seconds are those
of the processor; a learner that takes more than --most of them has a row that
says so. Rows are printed as they are measured.
"""
import argparse, gzip, json, os, resource, signal, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.environ.get("STREAMSVM_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "streamsvm")
# Name: options of streamsvm generate. Speeds at which a window of the whole
# stream is of little use.
STREAMS = {
    "elec2": None,
    "sea": ["sea", "--set", "block=5000"],
    "hyperplane": ["hyperplane", "--set", "magnitude=0.001"],
    "rbf": ["rbf", "--set", "speed=0.001"],
    "checkerboard": ["checkerboard", "--set", "rotation=0.00002"],
}
SIZES = [250, 1000, 4000]
WARMUP = 1000  # examples on which options are chosen, which do not count


def learners():
    for n in SIZES:
        yield "sbp, %d + %d frozen" % (n, n), ["sbp", "--preset", "drift", "--set", "buffer=%d" % n, "--set", "frozen=%d" % n]
    for n in SIZES:
        yield "sbp, %d, remove" % n, ["sbp", "--preset", "drift", "--set", "buffer=%d" % n, "--set", "eviction=remove"]
    for n in SIZES:
        yield "smo, %d" % n, ["smo", "--set", "buffer=%d" % n, "--set", "updates=1000"]
    for n in SIZES:
        yield "pegasos, %d" % n, ["pegasos", "--set", "budget=%d" % n, "--set", "removal=oldest", "--set", "average=none"]
    for n in SIZES:
        yield "scs, %d" % n, ["scs", "--set", "full=window", "--set", "max_sample=%d" % n, "--set", "initial=%d" % min(256, n // 2)]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--data", default=os.environ.get("STREAMSVM_DATA") or os.path.join(ROOT, "..", "shared", "data"))
    ap.add_argument("--examples", type=int, default=20000, help="of each stream; 0 for all 45,312 of elec2")
    ap.add_argument("--streams", default=",".join(STREAMS))
    ap.add_argument("--learners", default="", help="only those whose name begins so, comma-separated")
    ap.add_argument("--most", type=int, default=3600, metavar="SECONDS", help="processor time that a learner may take")
    ap.add_argument("--river", action="store_true")
    ap.add_argument("--river-only", metavar="FILE", help=argparse.SUPPRESS)
    args = ap.parse_args()
    if args.river_only:
        return river(args.river_only, args)
    chosen = tuple(args.learners.split(","))
    with tempfile.TemporaryDirectory() as tmp:
        exe = os.path.join(tmp, "streamsvm")
        subprocess.run(["go", "build", "-o", exe, "./cmd/streamsvm"], cwd=ROOT, check=True)
        print("| stream | learner | accuracy | last %s | seconds | support | memory, MiB |" % "window")
        print("|" + " --- |" * 7, flush=True)
        for name in args.streams.split(","):
            path = os.path.join(args.data, "elec2.libsvm.gz")
            if STREAMS[name]:
                path = os.path.join(tmp, name + ".libsvm.gz")
                subprocess.run([exe, "generate", *STREAMS[name], "--count", str(args.examples or 20000), "--seed", "7", "--out", path],
                               check=True, stderr=subprocess.DEVNULL)
            for label, options in learners():
                if not label.startswith(chosen):
                    continue
                before = os.times()
                p = subprocess.run([exe, "replay", path, "-q", "--json", "-", "--warmup", str(WARMUP), "--limit", str(args.examples), "--learner", *options],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: bound(args.most))
                after = os.times()
                took = after.children_user + after.children_system - before.children_user - before.children_system
                if p.returncode == -signal.SIGKILL and took >= args.most - 1:
                    show(name, label, None, None, args.most, None, None, "over ")
                    continue
                if p.returncode:
                    print("%s: %s" % (label, p.stderr[-500:]), file=sys.stderr)
                    continue
                r = json.loads(p.stdout)
                show(name, label, r["prequential"]["accuracy"], r["prequential"]["window"].get("accuracy"),
                     took, r["model"]["support"], r["peak_rss_bytes"] / 2**20)
            if args.river:
                python = os.path.join(CACHE, "peers", "bin", "python")
                p = subprocess.run([python, os.path.abspath(__file__), "--river-only", path, "--examples", str(args.examples), "--learners", args.learners,
                                    "--most", str(args.most)],
                                   stdout=subprocess.PIPE, text=True)
                for line in p.stdout.splitlines():
                    show(name, *json.loads(line))


def bound(seconds):
    """Has the process killed after so much processor time."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def show(stream, label, accuracy, last, seconds, support, memory, prefix=""):
    f = lambda form, x: "" if x is None else form % x
    print("| %s | %s | %s | %s | %s | %s | %s |" % (
        stream, label, f("%.4f", accuracy), f("%.4f", last), prefix + f("%.1f", seconds), f("%d", support), f("%.0f", memory)), flush=True)


def river(path, args):
    """Prints a line of JSON for each of River's learners."""
    from river import forest, preprocessing, tree, ensemble, metrics
    examples = []
    with gzip.open(path, "rt") as f:
        for line in f:
            words = line.split()
            x = {k: float(v) for k, v in (w.split(":") for w in words[1:])}
            examples.append((x, float(words[0]) > 0))
            if len(examples) == args.examples:
                break
    names = sorted({k for x, _ in examples for k in x})
    for label, model in [
        ("River ARFClassifier, 10 trees", forest.ARFClassifier(n_models=10, seed=1)),
        ("River HoeffdingAdaptiveTree", tree.HoeffdingAdaptiveTreeClassifier(seed=1)),
        ("River LeveragingBagging, 10 trees", ensemble.LeveragingBaggingClassifier(tree.HoeffdingTreeClassifier(), n_models=10, seed=1)),
    ]:
        if not label.startswith(tuple(args.learners.split(","))):
            continue
        if os.fork():  # a process each, for its memory
            _, status, used = os.wait3(0)
            if status == signal.SIGKILL and used.ru_utime + used.ru_stime >= args.most - 1:
                print(json.dumps([label, None, None, args.most, None, None, "over "]), flush=True)
            continue
        bound(args.most)
        scale, metric, start = preprocessing.StandardScaler(), metrics.Accuracy(), time.process_time()
        for i, (x, y) in enumerate(examples):
            x = {k: x.get(k, 0.0) for k in names}
            scale.learn_one(x)
            x = scale.transform_one(x)
            if i >= WARMUP:
                metric.update(y, bool(model.predict_one(x)))
            model.learn_one(x, y)
        print(json.dumps([label, metric.get(), None, time.process_time() - start, None,
                          resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]), flush=True)
        os._exit(0)


if __name__ == "__main__":
    main()
