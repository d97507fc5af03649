#!/usr/bin/env python3
"""Prints what a record costs the processes of predict --group, sift and sum
on a broker, in seconds of the processor, and what 1 to 64 such processes can take
in, if each has a core of its own.

    bench/capacity.py BINARY BROKER FILE    FILE: a data file, such as ijcnn1.train.libsvm.gz

Measured are one and two processes. The table for more multiplies: it leaves out
what brokers and network can bear, which is for you to measure.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

binary, broker, data = sys.argv[1:4]
run = f"capacity-{os.getpid()}-"
port = 19600 + os.getpid() % 300


def local(*args, out=subprocess.DEVNULL):
    return subprocess.Popen([binary, *args], stderr=subprocess.PIPE, stdout=out, text=True)


def start(*args, **kw):
    return subprocess.Popen([binary, *args, "--brokers", broker], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, **kw)


def end(p):
    """The seconds of the processor that p has taken, and what it said."""
    said = p.stderr.read()
    _, status, used = os.wait4(p.pid, 0)
    if status != 0:
        sys.exit(f"{p.args}: status {status}\n{said}")
    return used.ru_utime + used.ru_stime, said


def call(*args):
    return end(start(*args))


def drained(p, port, topics):
    """Waits until the partitions are read to their ends, and ends p."""
    time.sleep(2)
    quiet = 0
    while quiet < 4:
        time.sleep(0.25)
        try:
            text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
        except OSError:
            continue
        lags = [float(v) for v in re.findall(r"^streamsvm_lag_records\{.*\} (\S+)$", text, re.M)]
        quiet = quiet + 1 if len(lags) == 8 and not any(lags) else 0
    p.send_signal(signal.SIGTERM)
    return end(p)[0]


def rows(topic):
    """The number of records of a topic."""
    with tempfile.TemporaryDirectory() as d:
        _, said = call("copy", d + "/x.ssr", "--topics", topic, "--until-end")
        return int(re.search(r"(\d+) records", said).group(1))


def produce(topic, passes):
    _, said = call("copy", data, "--topic", topic, "--partitions", "8", "--partition-by", "rr", "--passes", str(passes))
    return int(re.search(r"(\d+) records", said).group(1))


ex = run + "examples"
many = run + "many"
n, m = produce(ex, 1), produce(many, 6)
costs = {}

# Scoring and sifting, with a linear model.
models = run + "models"
with tempfile.TemporaryDirectory() as d:
    call("train", "--topics", ex, "--codec", "libsvm", "--learner", "online", "--until-end", "--model-topic", models, "--checkpoint", d)
p = start("predict", "--model-topic", models, "--topics", many, "--predictions-topic", run + "scored", "--group", run + "p", "--listen", f"127.0.0.1:{port}")
costs["predict"] = drained(p, port, [many]) / m
p = start("sift", "--model-topic", models, "--topics", many, "--distilled-topic", run + "distilled", "--group", run + "s", "--listen", f"127.0.0.1:{port+1}")
costs["sift"] = drained(p, port + 1, [many]) / m
kept = rows(run + "distilled")
with tempfile.TemporaryDirectory() as d:
    cpu, _ = call("train", "--topics", run + "distilled", "--codec", "libsvm", "--learner", "online", "--until-end", "--model-topic", run + "models2", "--checkpoint", d)
trainer = cpu / kept
print(f"{m} records of {os.path.basename(data)} in 8 partitions; seconds of the processor, user and system\n")
print("| process | µs a record |")
print("| --- | --- |")
print(f"| `predict --group`, `online` | {1e6*costs['predict']:.1f} |")
print(f"| `sift`, `online`, of which {100*kept/m:.1f} % are forwarded | {1e6*costs['sift']:.1f} |")
print(f"| `train`, `online`, a record forwarded | {1e6*trainer:.1f} |")

# Sums, of the file.
solving = {}
dir = tempfile.TemporaryDirectory()
plan, sums = dir.name + "/plan.ssm", dir.name + "/part.sketch"
for size in (256, 1024):
    end(local("replay", data, "--learner", "lssvm", "--set", f"features={size}", "--tune", "off", "--model", plan))
    with open(sums, "w") as f:
        costs[f"sum {size}"] = end(local("sum", data, "--model", plan, out=f))[0] / n
    solving[size] = end(local("sum", "--solve", sums))[0]
    print(f"| `sum`, {size} features | {1e6*costs[f'sum {size}']:.1f} |")
print()
for size, s in solving.items():
    print(f"`sum --solve` with {size} features takes {s:.2f} s for one file of sums, however many records it is of.")
print("\nMillions of records a second, extrapolated:\n")
counts = (1, 2, 4, 8, 16, 32, 64)
print("| | " + " | ".join(map(str, counts)) + " |")
print("| --- |" + " --- |" * len(counts))
for name in ("predict", "sift", "sum 256", "sum 1024"):
    bound = m / kept / trainer if name == "sift" else float("inf")
    print(f"| `{name}` | " + " | ".join(f"{min(c/costs[name], bound)/1e6:.3g}" for c in counts) + " |")
print(f"\nThe bound of sift, {m/kept/trainer/1e6:.3g} million, is one trainer's core.")
