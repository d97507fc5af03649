"""The bytes of the documented formats, and what is made of damaged ones."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import xxhash

import streamsvm
from streamsvm import FormatError, _forms, _topic
from streamsvm._rows import Dense

from . import wire

X = np.array([[0.5, 2]], np.float32)


def test_examples_of_the_docs() -> None:
    model = streamsvm.load(wire.hexdump("predictor.md"))
    assert (model.learner, model.task, model.labels, model.options) == ("sbp", "classify", [0, 1], {"gamma": "0.5"})
    assert model.decision([[0.5, 2]]) == pytest.approx(1.4951, abs=1e-4)
    assert model.predict([[0.5, 2], [1, -1]]).tolist() == [1, 1]
    packed, linear = (wire.hexdump("models.md", k) for k in range(2))
    assert _forms.read("scs", packed).scores(Dense(X)) == pytest.approx(1.4951, abs=1e-4)
    assert _forms.read("online", linear).scores(Dense(X)) == pytest.approx(2.5)
    base = b"0123456789 the quick brown fox jumps over the lazy dog"
    assert _topic.patch(base, wire.hexdump("delta.md")) == b"0123456789! the quick brown fox jumps over the lazy cat"
    text = (wire.DOCS / "formats" / "model-topic.md").read_text().split("## Example")[1].split("```\n")[3].split("```")[0]
    record = b"".join(bytes.fromhex(line[6:54]) for line in text.splitlines())
    assert record == wire.records("m", 7, 2, b"abc")[0].replace(b"\xa6online", b"\xa3scs")
    chunk = _topic.read(record)
    assert isinstance(chunk, _topic.Chunk) and chunk.update.payload == b"abc" and chunk.update.offsets == {("in", 0): 7}


def test_inputs() -> None:
    model = streamsvm.load(wire.predictor(0.5))
    assert model.predict([[1, 1], [-1, 1]]).tolist() == [1, 0]
    assert model.predict([]).shape == (0,) and model.decision(np.zeros((0, 2))).shape == (0,)
    for bad, why in [
        ([[1, 2, 3]], "vectors of 3 features, where the model has 2"),
        ([1, 2], "2: a row for each vector"),
        ([[1, float("nan")]], "row 0: feature 1 is not finite"),
        ([[1, 1e39]], "row 0: feature 1 is not finite"),
        ([{"a": 1}], "takes no events"),
        ({"a": 1}, "a list of events"),
        ([["a", "b"]], "neither a matrix"),
        ([[1, 2], [1]], "neither a matrix"),
    ]:
        with pytest.raises(ValueError, match=why), np.errstate(over="ignore"):
            model.predict(bad)
    with pytest.raises(ValueError, match="no probabilities"):
        model.predict_proba([[1, 2]])


def test_damaged_models(golden: Path, tmp_path: Path) -> None:
    """Whatever is done to a model, reading it gives a FormatError or a model that answers."""
    r = random.Random(1)
    names = sorted(golden.glob("*.ssm"), key=lambda p: p.stat().st_size)
    names = [n for n in names if n.stat().st_size < 60_000]
    refused = 0
    for name in r.sample(names, 100):
        data = name.read_bytes()
        with pytest.raises(FormatError, match="checksum"):
            streamsvm.load(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :])
        dim = json.loads(name.with_suffix(".json").read_text())["dim"]
        for _ in range(12):
            body = bytearray(data[:-8])
            for _ in range(r.choice((1, 1, 3))):
                at = r.randrange(22, len(body)) if r.random() < 0.5 else r.randrange(22, 600)
                at = min(at, len(body) - 1)
                how = r.randrange(3)
                if how == 0:
                    body[at] = r.choice((0, 0xFF, 0x80, body[at] ^ 1 << r.randrange(8)))
                elif how == 1:
                    del body[at : at + r.choice((1, 8, 64))]
                else:
                    body[at:at] = r.randbytes(r.choice((1, 8)))
            sealed = bytes(body) + xxhash.xxh64_intdigest(bytes(body)).to_bytes(8, "little")
            try:
                model = streamsvm.load(sealed)
            except FormatError:
                refused += 1
                continue
            try:
                with np.errstate(all="ignore"):
                    model.decision(np.ones((1, dim), np.float32))
            except ValueError:
                pass
    assert refused > 300
    (tmp_path / "m.ssm").write_bytes(b"streamsvm-predictor-4\n" + bytes(100))
    with pytest.raises(FormatError, match="m.ssm: a model in a newer format"):
        streamsvm.load(tmp_path / "m.ssm")
    with pytest.raises(FormatError, match="no model of streamsvm: it begins with b'PK"):
        streamsvm.load(b"PK\3\4" + bytes(100))


def test_class_without_its_points(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points that another class of the model has are missing if a class is read alone."""
    lent: list[bytes] = []
    real = _forms._read

    def read(learner: str, data: bytes) -> _forms.Form:
        form = real(learner, data)
        if isinstance(form, _forms.Ensemble) and form.near and form.near.missing:
            lent.append(data)
        return form

    monkeypatch.setattr(_forms, "_read", read)
    for name in golden.glob("*.ssm"):
        streamsvm.load(name)
    assert lent
    for data in list(lent):
        with pytest.raises(FormatError, match="points: they are missing"):
            _forms.read("adaptive", data)


def test_reader() -> None:
    """Chunks, deltas, epochs and versions as docs/formats/model-topic.md says."""
    one, two, three = wire.predictor(1), wire.predictor(2), wire.predictor(3)
    r = _topic.Reader("m")
    first = wire.records("m", 4, 2, one, chunks=3)
    assert [r.add(v) for v in (first[2], first[0], first[0], first[1])] == [False, False, False, True]
    assert r.newest and r.newest.payload == one and r.newest.evaluation == {"accuracy": 0.9}
    assert not r.add(wire.records("m", 3, 2, two)[0])  # older
    assert not r.add(wire.records("m", 6, 2, wire.insert(two, three), base=5)[0])  # of a version that is not there
    assert r.add(wire.records("m", 5, 2, wire.insert(one, two), base=4)[0])
    assert r.newest.payload == two
    with pytest.raises(FormatError, match="version 6 of m: delta: it is for another version"):
        r.add(wire.records("m", 6, 2, wire.insert(one, three), base=5)[0])
    assert not r.add(wire.claim("m", 4))
    assert not r.add(wire.records("m", 9, 3, three)[0])  # of a trainer that has been replaced
    assert not r.add(wire.records("m", 6, 4, wire.insert(two, three), base=5)[0])  # an epoch begins with a full
    assert r.add(wire.records("m", 6, 4, three)[0]) and r.newest.version == 6
    assert not r.add(wire.fields("format", 2, "kind", "other"))
    damaged = wire.records("m", 7, 4, one)[0]
    with pytest.raises(FormatError, match="chunk 0 of 1 is damaged"):
        r.add(damaged[:-1] + bytes([damaged[-1] ^ 1]))
    with pytest.raises(FormatError, match="the data end"):
        r.add(damaged[:100])
    random_bytes = random.Random(2)
    for _ in range(2000):
        data = bytearray(damaged)
        for _ in range(3):
            data[random_bytes.randrange(len(data))] = random_bytes.randrange(256)
        try:
            _topic.Reader("m").add(bytes(data))
        except FormatError:
            pass


def test_damaged_deltas() -> None:
    r = random.Random(3)
    base, result = wire.predictor(1), wire.predictor(2)
    delta = wire.insert(base, result)
    assert _topic.patch(base, delta) == result
    for _ in range(3000):
        data = bytearray(delta)
        for _ in range(r.choice((1, 3))):
            data[r.randrange(len(data))] = r.randrange(256)
        try:
            assert _topic.patch(base, bytes(data[: r.randrange(len(data))] if r.random() < 0.2 else data)) == result
        except FormatError:
            pass
