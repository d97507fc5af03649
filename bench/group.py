#!/usr/bin/env python3
"""Scores a topic with a changing number of equal processes, some of which are killed or paused.

    bench/group.py [--records 1000000] [--seed 1]

starts three brokers of Apache Kafka (scripts/kafka.sh cluster), writes records to 8
partitions, and scores them by `predict --group scorers` with 1, then 8, then 2 processes.
Meanwhile one is killed by SIGKILL, or stopped for longer than its session, every few
seconds, and another one started in its place. At the end readers of committed records must
find exactly one prediction for each record, in the order of its partition.
Needs confluent-kafka.
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PARTITIONS = 8


def sh(*args, **kw):
    return subprocess.run(args, check=True, text=True, capture_output=True, **kw).stdout


def committed(brokers, topic, count):
    """Yields the committed records of a topic, partition by partition in their order: at
    least so many, unless that takes a minute, for which brokers keep transactions open whose
    writer was killed."""
    c = Consumer({"bootstrap.servers": brokers, "group.id": "check", "isolation.level": "read_committed", "auto.offset.reset": "earliest",
                  "enable.auto.commit": False})
    c.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    until = time.time() + 60
    while time.time() < until:
        batch = c.consume(10000, timeout=2)
        yield from (m for m in batch if not m.error())
        count -= sum(not m.error() for m in batch)
        if count <= 0 and not batch:
            break
    c.close()


def lag(positions, ends):
    """How many records the group has not scored; positions is a consumer of its name."""
    try:
        at = positions.committed([TopicPartition("examples", p) for p in ends], timeout=10)
    except KafkaException:  # the coordinator is moving
        return sum(ends.values())
    return sum(ends[t.partition] - max(t.offset, 0) for t in at)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--records", type=int, default=1_000_000)
    args.add_argument("--seed", type=int, default=1)
    args = args.parse_args()
    rand = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as tmp:
        program, model = os.path.join(tmp, "streamsvm"), os.path.join(tmp, "m.ssm")
        sh("go", "build", "-o", program, "./cmd/streamsvm", cwd=ROOT)
        sample = os.path.join(tmp, "sample.jsonl")
        sh(program, "generate", "moons", "--count", "5000", "--codec", "json", "--out", sample, "-q")
        sh(program, "replay", sample, "--learner", "online", "--model", model, "-q")
        with open(sample) as f:
            values = [line.strip() for line in f]
        cluster = os.path.join(tmp, "cluster")
        procs = []
        try:
            # One address for each of three brokers.
            brokers = ",".join(sh(os.path.join(ROOT, "scripts/kafka.sh"), "cluster", cluster).split()[:3])
            admin = AdminClient({"bootstrap.servers": brokers})
            for t in ("examples", "scored"):
                admin.create_topics([NewTopic(t, PARTITIONS, 3)])[t].result()
            p = Producer({"bootstrap.servers": brokers, "log_level": 2, "linger.ms": 50, "compression.type": "lz4", "queue.buffering.max.messages": 200000})
            for i in range(args.records):
                while True:
                    try:
                        p.produce("examples", values[i % len(values)], partition=i % PARTITIONS)
                        break
                    except BufferError:
                        p.poll(.1)
            p.flush()
            ends = {q: len(range(q, args.records, PARTITIONS)) for q in range(PARTITIONS)}

            def start():
                log = open(os.path.join(tmp, f"log-{len(procs)}-{time.time():.0f}"), "w")
                procs.append(subprocess.Popen([program, "predict", "--brokers", brokers, "--model", model, "--topics", "examples",
                                               "--predictions-topic", "scored", "--group", "scorers", "--batch", "500"],
                                              stdout=log, stderr=log))

            positions = Consumer({"bootstrap.servers": brokers, "group.id": "scorers"})
            began, kills, pauses, ended, paused, next_at = time.time(), 0, 0, 0, [], 0.
            while True:
                left = lag(positions, ends)
                done = 1 - left / args.records
                want = 1 if done < .1 else 8 if done < .7 else 2
                for q in [q for q in procs if q.poll() is not None]:
                    if q.returncode not in (0, -signal.SIGKILL, 75):
                        sys.exit(f"a process ended with {q.returncode}")
                    ended += q.returncode == 75
                    procs.remove(q)
                for q, until in [x for x in paused if time.time() > x[1]]:
                    q.send_signal(signal.SIGCONT)
                    paused.remove((q, until))
                while len(procs) < want:
                    start()
                while len(procs) > want:
                    q = procs.pop(rand.randrange(len(procs)))
                    paused = [x for x in paused if x[0] is not q]
                    q.send_signal(signal.SIGCONT)
                    q.terminate()
                    q.wait()
                if left == 0:
                    break
                print(f"{time.time()-began:5.0f} s: {args.records-left} scored, {len(procs)} processes, {kills} kills, {pauses} pauses", flush=True)
                if time.time() > next_at and done > .02:
                    next_at = time.time() + rand.uniform(3, 9)
                    q = rand.choice(procs)
                    if rand.random() < .6:
                        kills += 1
                        q.kill()
                    elif all(x[0] is not q for x in paused):
                        pauses += 1
                        q.send_signal(signal.SIGSTOP)
                        paused.append((q, time.time() + rand.uniform(5, 20)))
                time.sleep(1)
            took = time.time() - began
            for q in procs:
                q.send_signal(signal.SIGCONT)
                q.terminate()
            for q in procs:
                q.wait()
            at = {q: 0 for q in range(PARTITIONS)}
            for m in committed(brokers, "scored", args.records):
                got = json.loads(m.value())
                if got["partition"] != m.partition() or got["offset"] != at[m.partition()] or "label" not in got:
                    sys.exit(f"partition {m.partition()}: {m.value()[:200]} comes where offset {at[m.partition()]} is due")
                at[m.partition()] += 1
            if at != ends:
                sys.exit(f"predictions: {at}, records: {ends}")
            print(f"{args.records} records in {took:.0f} s, {kills} kills, {pauses} pauses, {ended} ended by themselves to be restarted: one prediction each, in order")
        finally:
            for q in procs:
                q.kill()
            subprocess.run([os.path.join(ROOT, "scripts/kafka.sh"), "clean", cluster], check=False)


if __name__ == "__main__":
    main()
