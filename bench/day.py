#!/usr/bin/env python3
"""Producer, workers that sift, and a trainer, side by side: do they keep up?

    bench/day.py [--brokers HOST:PORT] [--rate 20000] [--records 2000000] [--workers 2] [--learner scs] [--stream rbf]

Writes records at a rate to a topic of 8 partitions, with so many `sift` behind
it and a `train` behind them, and prints every --every seconds: records written,
those that sift and the trainer have not taken yet, those learned, processor
seconds and resident memory of each. At the end everything is waited for, and
counted: what was decided must be what was written, and what was learned what
was forwarded. Without --brokers, Apache Kafka is started (scripts/kafka.sh).
Needs Go; Linux, for the memory.
"""
import argparse, os, re, subprocess, sys, tempfile, time, urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PORT = 19300


def metrics(port):
    """Returns the sums of the metrics of a process, by name."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as r:
            text = r.read().decode()
    except OSError:
        return {}
    out = {}
    for name, labels, value in re.findall(r"^(\w+)(\{[^}]*\})? (\S+)$", text, re.M):
        out[name] = out.get(name, 0) + float(value)
        if labels:
            out[name + labels] = float(value)
    return out


def usage(pid):
    """Returns processor seconds and resident MB of a process."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            ticks = f.read().rsplit(")", 1)[1].split()[11:13]
        with open(f"/proc/{pid}/status") as f:
            rss = int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), rss / 1024
    except (OSError, AttributeError):
        return float("nan"), float("nan")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--brokers")
    p.add_argument("--rate", type=float, default=20000)
    p.add_argument("--records", type=int, default=2000000)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--learner", default="scs")
    p.add_argument("--stream", default="rbf")
    p.add_argument("--every", type=float, default=20)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        program = os.path.join(tmp, "streamsvm")
        subprocess.run(["go", "build", "-o", program, "./cmd/streamsvm"], cwd=ROOT, check=True)
        kafka, running = os.path.join(ROOT, "scripts", "kafka.sh"), []
        brokers = a.brokers or subprocess.run([kafka, "start", tmp + "/kafka"], check=True, capture_output=True, text=True).stdout.strip()
        topics = [f"{name}-{os.getpid()}" for name in ("examples", "distilled", "models")]
        examples, distilled, models = topics

        def start(*args):
            log = open(os.path.join(tmp, f"{len(running)}.log"), "w")
            running.append(subprocess.Popen([program, *args, "--brokers", brokers], stdout=log, stderr=log))
            return running[-1]

        try:
            subprocess.run([program, "generate", a.stream, "--count", "1", "--skip", str(a.records), "--topic", examples, "--partitions", "8", "--codec", "json", "-q", "--brokers", brokers], check=True)
            sifts = [start("sift", "--topics", examples, "--model-topic", models, "--distilled-topic", distilled, "--codec", "json", "--topic-wait", "-1s",
                           "--group", "day", "--member", str(i), "--listen", f"127.0.0.1:{PORT + i}") for i in range(a.workers)]
            trainer = start("train", "--topics", distilled, "--model-topic", models, "--codec", "json", "--checkpoint", tmp + "/state", "--learner", a.learner,
                            "--topic-wait", "-1s", "--listen", f"127.0.0.1:{PORT + 99}")
            started = time.time()
            producer = start("generate", a.stream, "--count", str(a.records), "--topic", examples, "--codec", "json", "--rate", str(a.rate), "-q")
            print(f"{a.records} records of {a.stream} at {a.rate:g}/s, {a.workers} workers, learner {a.learner}\n")
            print("| s | decided | lag of sift | forwarded | learned | model age | sift: CPU s, MB | train: CPU s, MB |")
            print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
            last, still = None, 0
            while True:
                time.sleep(a.every)
                for q in running:
                    if q is not producer and q.poll() is not None:
                        sys.exit(f"a process has ended:\n{open(os.path.join(tmp, str(running.index(q)) + '.log')).read()[-2000:]}")
                ms, t = [metrics(PORT + i) for i in range(a.workers)], metrics(PORT + 99)
                total = lambda name: int(sum(m.get(name, 0) for m in ms))
                decided = total("streamsvm_sift_records_total")
                dropped = total('streamsvm_sift_records_total{decision="dropped"}')
                learned = int(t.get("streamsvm_records_total", 0))
                use, own = [usage(q.pid) for q in sifts], usage(trainer.pid)
                print(f"| {time.time() - started:.0f} | {decided} | {total('streamsvm_lag_records')} | {decided - dropped} | {learned} | {total('streamsvm_sift_model_age_examples')} | "
                      f"{sum(u[0] for u in use):.0f}, {max(u[1] for u in use):.0f} | {own[0]:.0f}, {own[1]:.0f} |", flush=True)
                still = still + 1 if producer.poll() is not None and (decided, learned) == last else 0
                last = decided, learned
                if still >= 2:
                    break
            if producer.returncode or decided != a.records + 1 or learned != decided - dropped:
                sys.exit(f"written {a.records + 1}, decided {decided}, forwarded {decided - dropped}, learned {learned}; producer: exit code {producer.returncode}")
            print(f"\nall {decided} decided, all {learned} forwarded learned")
        finally:
            for q in running:
                q.terminate()
            for q in running:
                q.wait()
            if not a.brokers:
                subprocess.run([kafka, "clean", tmp + "/kafka"], check=False)


main()
