#!/usr/bin/env python3
"""Shows that TestSimulation finds defects: plants some in copies of the tree and
counts the seeds until the first one that fails.

    scripts/planted.py [--seeds N] [NAME...]
    scripts/planted.py --check

Each defect is a few lines replaced. One whose lines are not in the tree any more,
or not once, is an error: it must be brought up to date, or go."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# name, why it is wrong, replacements: (file, old text, new text)
DEFECTS = [
    ("dropped-challenger", "the default learner compares with a machine that it has dropped, and cuts to it",
     [("algos/adaptive/adaptive.go", "l.kernels[k.at] != nil && p.scores[e].ok", "true"),
      ("algos/adaptive/panel.go", "if l.kernels[k64+k] == nil { // not started: no cut to it is possible", "if false {")]),
    ("directory-not-synced", "a checkpoint counts as stored before its name is durable",
     [("checkpoint/store.go", "if err := s.fs.SyncDir(s.dir); err != nil {\n\t\t\treturn fmt.Errorf(\"checkpoint: cannot make the snapshot durable",
       "if err := error(nil); err != nil {\n\t\t\treturn fmt.Errorf(\"checkpoint: cannot make the snapshot durable")]),
    ("new-directory-not-synced", "a directory that a failed run has made is not made durable by the next one",
     [("checkpoint/fs.go", "err := f.SyncDir(filepath.Dir(dir))\n", "err = nil\n")]),
    ("file-not-synced", "a checkpoint gets its name before its bytes are durable",
     [("checkpoint/store.go", "err = f.Sync()", "err = nil")]),
    ("directory-unfenced", "a trainer stores checkpoints though another one has claimed the directory",
     [("checkpoint/store.go", "if err := s.check(*claim); err != nil {\n\t\t\treturn err\n\t\t}\n\t\tcrash.Hold()", "crash.Hold()")]),
    ("letters-after-checkpoint", "a checkpoint is stored before the dead letters of its records are durable",
     [("internal/engine/persist.go", "if r.DeadLetters != nil {\n\t\tif err := r.DeadLetters.Flush(r.after); err != nil && r.Tolerance != TolerateAll {",
       "if r.DeadLetters != nil {\n\t\tif err := error(nil); err != nil && r.Tolerance != TolerateAll {")]),
    ("letters-sent-again", "dead letters sent after the checkpoint are sent again after a restart",
     [("internal/deadletter/queue.go", "d.sent[l.Origin()] = sentLetter{stream.Partition{Topic: r.Topic, ID: r.Partition}, r.Offset, l.Timestamp}", "_ = l")]),
    ("letters-not-looked-for", "letters whose transaction was interrupted are written again, whether they are there or not",
     [("internal/deadletter/queue.go", "bool { return found[keyOf(&r)] }", "bool { return false && found[keyOf(&r)] }")]),
    ("endless-write", "a write in a transaction does not end with its context",
     [("stream/kafkaio/transactor.go", "defer context.AfterFunc(ctx, crash.Func(t.kgo.Close))()", "")]),
    ("dials-without-pause", "a client whose broker is down dials in a loop",
     [("internal/reach/reach.go", "if wait > 0 {", "if false {")]),
    ("label-used-forgotten", "a restart forgets which labels have met their example",
     [("internal/engine/joinstate.go", 'f.Bool("used", &labels[i].used)', 'used := false\n\t\tf.Bool("used", &used)')]),
    ("missed-forgotten", "a restart forgets which examples have gone on without a label",
     [("internal/engine/joinstate.go", 'f.List("missed", len(missed), 3,', 'missed = nil\n\tf.List("missed", len(missed), 3,')]),
    ("waiting-weight-lost", "an example that waits loses its weight in a checkpoint",
     [("internal/columns/columns.go", "c.weights.Set(i, i+1, x.Importance())", "c.weights.Set(i, i+1, 1)")]),
    ("calibration-bias-lost", "a number of the map to probabilities is not part of the state",
     [("internal/calibrate/calibrate.go", 'f.Float64("bias", &o.bias)', 'none := 0.\n\tf.Float64("bias", &none)')]),
    ("random-state-lost", "learners' random numbers begin again after a restart",
     [("internal/rng/rng.go", "return s.pcg.UnmarshalBinary(data)", "return new(rand.PCG).UnmarshalBinary(data)")]),
    ("published-unfenced", "a publisher that has been replaced does not look before it takes its id back",
     [("stream/modeltopic/publisher.go", "if err := p.log.Fenced(); err != nil {", "if err := error(nil); err != nil {")]),
    ("version-by-steps", "a model that has changed without a step gets no version of its own",
     [("internal/engine/persist.go", "(r.e.steps != r.lastSteps || u.Hash != r.lastHash ||", "(r.e.steps != r.lastSteps ||")]),
    ("not-republished", "a restart does not publish the model whose checkpoint was stored last",
     [("trainer/models.go", "if r.snap == nil {\n\t\treturn nil\n\t}\n\tif err := engine.Republish", "if true {\n\t\treturn nil\n\t}\n\tif err := engine.Republish")]),
    ("broker-open-transactions", "the built-in broker, after it was killed, leaves open transactions without an end",
     [("contrib/broker/broker.go", "if killed {", "if killed && len(opts) == 0 {")]),
    ("position-lost", "a restart begins one partition a record early",
     [("trainer/job.go", "from = r.snap.Header.Offsets", "from = r.snap.Header.Offsets.Clone()\n\t\tfor p, n := range from {\n\t\t\tfrom[p] = max(0, n-1)\n\t\t\tbreak\n\t\t}")]),
    ("order-by-arrival", "a partition that has nothing to deliver yet does not hold the others back",
     [("stream/kafkaio/merge.go", "return q.done()", "return q.done() || len(q.queue) == 0 && q.next > q.stop/2")]),
    ("weights-by-block", "chosen class weights depend on when checkpoints are made",
     [("internal/engine/classweight.go", "back := min(recentLabels, e.cfg.Window)", "back := recentLabels")]),
    ("limit-in-float64", "a feature of 1e18 passes admission, and ends training",
     [("internal/engine/admit.go", "func below(val []float32, limit float32) bool {", "func below(val []float32, most float32) bool {\n\tlimit := math.Nextafter32(most, 2*most)"),
      ("internal/engine/admit.go", "float32(a) >= algos.TooLarge || e.cfg", "a >= algos.TooLarge || e.cfg")]),
]


def copy(to):
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in names.split("\0"):
        source = os.path.join(ROOT, name)
        if name and os.path.isfile(source):
            os.makedirs(os.path.dirname(os.path.join(to, name)), exist_ok=True)
            shutil.copy2(source, os.path.join(to, name))


def planted(replacements):
    """Returns the files with a defect, by name."""
    files = {}
    for name, old, new in replacements:
        if name not in files:
            with open(os.path.join(ROOT, name)) as f:
                files[name] = f.read()
        if files[name].count(old) != 1:
            raise ValueError(f"{name} has {files[name].count(old)} times, want 1: {old!r}")
        files[name] = files[name].replace(old, new)
    return files


def run(tree, seeds):
    """Builds the test, and returns the seed that fails first, and why."""
    test = os.path.join(tree, "sim.test")
    subprocess.run(["go", "test", "-c", "-trimpath", "-o", test, "./cmd/streamsvm"], cwd=tree, check=True)
    done = subprocess.run([test, "-test.run", "TestSimulation$", "-test.timeout", "0", "-test.v", "-sim.stop", "-sim.seeds", str(seeds)],
                          cwd=os.path.join(tree, "cmd", "streamsvm"), capture_output=True, text=True)
    found = re.search(r"seed (\d+): (.*)", done.stdout)
    if not found and done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return found.groups() if found else None


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--seeds", type=int, default=2000, help="most seeds for each defect")
    args.add_argument("--check", action="store_true", help="only look whether the lines are still in the tree")
    args.add_argument("names", nargs="*", metavar="NAME", help="defects to plant; all if none is given")
    args = args.parse_args()
    unknown = set(args.names) - {d[0] for d in DEFECTS}
    if unknown:
        sys.exit(f"no such defect: {', '.join(sorted(unknown))}")
    try:
        files = {name: planted(replacements) for name, _, replacements in DEFECTS}
    except ValueError as e:
        sys.exit(str(e))
    if args.check:
        return
    print("| defect | seeds until found | what the simulation said |\n| --- | ---: | --- |", flush=True)
    missed = 0
    with tempfile.TemporaryDirectory() as tree:
        copy(tree)
        for name, why, _ in DEFECTS:
            if args.names and name not in args.names:
                continue
            for path, text in files[name].items():
                with open(os.path.join(tree, path), "w") as f:
                    f.write(text)
            found = run(tree, args.seeds)
            missed += not found
            seed, said = found or (f"not in {args.seeds}", "")
            said = said if len(said) < 160 else said[:120] + " … " + said[-30:]
            print(f"| {name}: {why} | {seed} | {said.replace('|', '/')} |", flush=True)
            for path in files[name]:
                shutil.copy2(os.path.join(ROOT, path), os.path.join(tree, path))
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
