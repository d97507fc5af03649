"""Followers of a broker: while a trainer runs, and of records that a test writes."""

from __future__ import annotations

import json
import math
import random
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import streamsvm
from streamsvm import Follower, NoModel

from . import wire


@pytest.fixture
def topic(brokers: str) -> str:
    """A topic of one partition."""
    name = f"python-{uuid.uuid4()}"
    admin = AdminClient({"bootstrap.servers": brokers})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
    return name


def produce(brokers: str, topic: str, values: list[bytes], key: str | None = None) -> None:
    p = Producer({"bootstrap.servers": brokers})
    for v in values:
        p.produce(topic, v, key)
        p.poll(0)
    assert p.flush(60) == 0


def until(what: str, good: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not good():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def payment(r: random.Random) -> dict[str, object]:
    amount, country = round(r.expovariate(0.02), 2), r.choice(["DE", "FR", "BR", "CN"])
    return {"amount": amount, "card": {"country": country}, "hour": r.randrange(24), "note": r.choice(["gift", "rent"])}


def fraud(e: dict[str, object]) -> bool:
    return (float(str(e["amount"])) > 40) != (e["card"] in ({"country": "BR"}, {"country": "CN"}))


def test_trainer(brokers: str, program: str, tmp_path: Path, topic: str) -> None:
    """Versions are swapped while calls are made and the trainer runs, is stopped, and goes
    on; they decide as `streamsvm predict` does."""
    r = random.Random(5)

    def write(n: int) -> None:
        events = [payment(r) for _ in range(n)]
        produce(brokers, topic, [json.dumps({**e, "fraud": fraud(e)}).encode() for e in events])

    def train() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [program, "train", "--topics", topic, "--label", "fraud", "--model-topic", f"{topic}-models",
             "--model-name", "payments", "--checkpoint", str(tmp_path / "state"), "--checkpoint-every", "300",
             "--max-record-bytes", "20000", "--brokers", brokers],
            stdout=log, stderr=log, cwd=tmp_path,
        )  # fmt: skip

    probe = [payment(random.Random(k)) for k in range(200)]
    with ExitStack() as stack:
        log = stack.enter_context(open(tmp_path / "log", "w+b"))
        f = stack.enter_context(Follower(brokers, f"{topic}-models", "payments"))
        with pytest.raises(TimeoutError, match="after 0.1 s: topic .*-models: there is no version of payments"):
            f.wait(timeout=0.1)
        with pytest.raises(NoModel, match="there is no version of payments"):
            f.predict(probe)
        trouble: list[BaseException] = []
        ending = threading.Event()

        def ask() -> None:
            seen = 0
            try:
                f.wait(timeout=120)
                while not ending.is_set():
                    m = f.model
                    assert m.version >= seen
                    seen = m.version
                    assert len(m.predict(probe[:20])) == 20
            except BaseException as e:
                trouble.append(e)

        asking = threading.Thread(target=ask)
        asking.start()
        stack.callback(asking.join)
        stack.callback(ending.set)
        versions = 0
        for _ in range(2):
            trainer = train()
            stack.callback(trainer.kill)
            for _ in range(4):
                write(2000)
                versions = f.wait(f.version + 1, timeout=120).version
            trainer.terminate()
            trainer.wait(60)
        f.wait(versions, timeout=30)
        assert not trouble
        assert f.swaps >= 8 and f.update.model == "payments"
        out = subprocess.run(
            [program, "predict", "--model-topic", f"{topic}-models", "--brokers", brokers, "-q"],
            input="".join(json.dumps(e) + "\n" for e in probe).encode(), capture_output=True, check=True, cwd=tmp_path,
        ).stdout  # fmt: skip
        lines = [json.loads(line) for line in out.splitlines()]
        until("the last version", lambda: f.version == lines[0]["version"])
        m = f.model
        size = math.sqrt(sum(line["decision"] ** 2 for line in lines) / len(lines))
        got = m.decision(probe)
        for k, line in enumerate(lines):
            assert got[k] == pytest.approx(line["decision"], rel=1e-4, abs=1e-4 * size)
        assert m.predict(probe).tolist() == [line["label"] for line in lines]
        assert np.allclose(m.predict_proba(probe)[:, 1], [line["probability"] for line in lines], atol=1e-3)
        assert (m.predict(probe) == [fraud(e) for e in probe]).mean() > 0.9
        assert "card.country=BR" in m.features and "amount" in m.features


def test_alias(brokers: str, topic: str) -> None:
    """An alias is followed by itself, and passed over by those who follow the model."""
    with Follower(brokers, topic) as all_, Follower(brokers, topic, "m", alias="champion") as champion:
        produce(brokers, topic, wire.records("m", 1, 1, wire.predictor(1)))
        all_.wait(timeout=60)
        with pytest.raises(TimeoutError, match="no version of m@champion; the topic holds m"):
            champion.wait(timeout=0.5)
        produce(brokers, topic, wire.records("m@champion", 1, 1, wire.predictor(1)))
        champion.wait(timeout=30)
        produce(brokers, topic, wire.records("m", 2, 1, wire.predictor(2), chunks=4))
        produce(brokers, topic, wire.records("m", 3, 1, wire.insert(wire.predictor(2), wire.predictor(3)), base=2))
        all_.wait(3, timeout=30)
        assert all_.decision([[0, 0]]) == [3] and champion.decision([[0, 0]]) == [1]
        produce(brokers, topic, wire.records("m@champion", 3, 2, wire.predictor(3)))
        champion.wait(3, timeout=30)
        produce(brokers, topic, wire.records("m@champion", 1, 3, wire.predictor(1)))  # rolled back
        until("the roll back", lambda: champion.version == 1)
        assert champion.update.epoch == 3 and all_.version == 3


def test_deleted(brokers: str, topic: str, program: str) -> None:
    """A deleted model stays in use until there is another, but whoever starts gets none."""
    produce(brokers, topic, wire.records("m", 7, 1, wire.predictor(1)), "m/full/0")
    with Follower(brokers, topic, "m") as f:
        f.wait(timeout=60)
        subprocess.run([program, "model", "delete", "--model-topic", topic, "--model-name", "m", "--brokers", brokers], check=True)
        with Follower(brokers, topic, "m") as late, pytest.raises(TimeoutError, match="there is no version of m"):
            late.wait(timeout=2)
        assert f.version == 7 and f.predict([[0, 0]]) == [1]
        produce(brokers, topic, wire.records("m", 8, 1, wire.predictor(8)))  # of the trainer that was replaced
        produce(brokers, topic, wire.records("m", 1, 3, wire.predictor(-1)))
        until("the next model", lambda: f.version == 1 and f.predict([[0, 0]]) == [0])
        assert f.update.epoch == 3 and f.swaps == 2


def test_trouble(brokers: str, topic: str) -> None:
    """What cannot be used leaves the version before in use, and is told."""
    produce(brokers, topic, [b"what?", *wire.records("m", 1, 1, wire.predictor(1)), *wire.records("m", 2, 1, b"nonsense")])
    with Follower(brokers, topic, "m") as f:
        with pytest.raises(TimeoutError, match="version 2 of m: no model of streamsvm: it begins with b'nonsense'"):
            f.wait(timeout=10)
        produce(brokers, topic, wire.records("m", 3, 1, wire.predictor(3)))
        assert f.wait(timeout=30).version == 3
        produce(brokers, topic, wire.records("m", 4, 1, b"nonsense"))
        with pytest.raises(TimeoutError, match="the newest version is 3, not yet 4: version 4 of m"):
            f.wait(4, timeout=2)
        assert f.predict([[0, 0]]) == [1]
    with pytest.raises(NoModel):
        f.wait(5)
    assert f.version == 3  # stays usable
    produce(brokers, topic, wire.records("n", 1, 1, wire.predictor(1)))
    with Follower(brokers, topic) as f, pytest.raises(NoModel, match="it holds 2 models, choose one: m, n"):
        f.wait(timeout=30)
    with Follower("127.0.0.1:1", topic) as f, pytest.raises(TimeoutError, match="(?i)connect|refused|transport|down"):
        f.wait(timeout=3)
    with pytest.raises(ValueError, match="which model"):
        Follower(brokers, topic, alias="champion")
    with pytest.raises(streamsvm.NoModel):
        with Follower(brokers, topic + "-none") as f:
            f.predict([[1, 2]])
