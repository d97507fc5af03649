"""Estimators of scikit-learn: they do what the program does, and what scikit-learn asks."""

from __future__ import annotations

import datetime
import importlib
import json
import os
import pickle
import random
import signal
import subprocess
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn cannot be had: the estimators are not tested")

from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

import streamsvm  # noqa: E402
from streamsvm import Classifier, Follower, ProgramError, Regressor, RowError  # noqa: E402

from .test_follower import fraud, payment  # noqa: E402


@pytest.fixture(autouse=True)
def _program(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMSVM_BIN", program)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", [Classifier(), Regressor("online")], ids=str)
def test_check_estimator(estimator: Any) -> None:
    """All checks of scikit-learn pass; none is expected to fail."""
    results = check_estimator(estimator, on_skip=None)
    passed = [r for r in results if r["status"] == "passed"]
    assert len(passed) > 45
    print(f"check_estimator({estimator}): {len(passed)} passed")


def vectors(n: int = 1500) -> tuple[Any, Any]:
    r = np.random.default_rng(1)
    x = r.normal(size=(n, 5))
    return x, np.where(x[:, 0] * x[:, 1] + 0.1 * x[:, 2] > 0, "yes", "no")


def replay(program: str, tmp_path: Path, rows: list[dict[str, Any]], *args: str) -> tuple[str, bytes]:
    """The state hash and the model of `streamsvm replay`. The name of the file is part of
    the state; estimators have that of standard input."""
    file, model = tmp_path / "stdin", tmp_path / "m.ssm"
    file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    done = subprocess.run(
        [program, "replay", str(file), "--codec", "json", "--json", "-", "-q", "--model", str(model), *args],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)["state_hash"], model.read_bytes()


def test_replay(program: str, tmp_path: Path) -> None:
    """What fit learns is what replay learns, to the bit, also in parts, from a pickle,
    and with predictions in between."""
    r = random.Random(3)
    rows = [payment(r) for _ in range(2600)]
    labels = [fraud(e) for e in rows]
    want = replay(program, tmp_path, [{**e, "y": y} for e, y in zip(rows, labels)])
    c = Classifier().fit(rows, labels)
    assert (c.state_hash_, c.to_bytes()) == want
    parts = Classifier()
    for start in range(0, 2600, 400):
        parts.partial_fit(rows[start : start + 400], labels[start : start + 400])
        parts.predict(rows[:3])
        parts = pickle.loads(pickle.dumps(parts))
    assert parts._call("f") == b""  # replay finishes the optimisation
    assert (parts.state_hash_, parts.to_bytes()) == want
    assert list(parts.classes_) == [False, True]


def test_frames() -> None:
    """Columns of pandas go as they are: categories, texts, times and missing values."""
    pd = pytest.importorskip("pandas")
    r = np.random.default_rng(2)
    n = 1500
    frame = pd.DataFrame({
        "number": r.normal(size=n),
        "code": pd.Categorical(r.choice([10, 20, 30], n)),  # texts, though they look like numbers
        "country": r.choice(np.array(["DE", "BR", None]), n),
        "count": pd.array(r.integers(0, 5, n), dtype="Int64"),
        "at": pd.date_range("2026-01-01", periods=n, freq="h"),
        "flag": r.random(n) > 0.5,
    })  # fmt: skip
    y = pd.Series(np.where((frame["code"] == 20) != (frame["country"] == "BR"), "bad", "good"), name="outcome")
    frame.loc[::7, "number"] = np.nan
    frame.loc[::5, "count"] = pd.NA
    frame.loc[::9, "at"] = pd.NaT
    c = Classifier().fit(frame, y)
    assert (c.predict(frame) == y).mean() > 0.95
    assert c.predict_one({"code": "20", "country": "DE"}) == "bad"
    proba = c.predict_proba(frame[:5])
    assert proba.shape == (5, 2) and np.allclose(proba.sum(axis=1), 1)
    assert list(c.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        c.predict(frame[["code", "number"]])
    with pytest.raises(RowError, match='row 1: number: the text "many"') as e:
        c.predict([{"number": 1}, {"number": "many"}])
    assert (e.value.row, e.value.field) == (1, "number")
    assert str(pickle.loads(pickle.dumps(e.value))) == str(e.value)
    with pytest.raises(ValueError, match="fitted on events"):
        c.predict(np.zeros((2, 6)))
    with pytest.raises(RowError, match="row 1: no event"):
        c.predict([{"number": 1}, {"number": object()}])
    aware = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    assert c.predict([{"at": aware, "code": "20"}, {"at": aware.date(), "tags": {"a"}}]).shape == (2,)


def test_vectors() -> None:
    """Dense and sparse rows give the same, and errors name rows of the input."""
    sparse = pytest.importorskip("scipy.sparse")
    x, y = vectors()
    c = Classifier("scs").fit(x, y)
    assert (c.predict(x) == y).mean() > 0.8
    assert c.decision_function(x).shape == (1500,)
    assert list(c.classes_) == ["no", "yes"]
    three = np.where(y == "no", 2, (x[:, 2] > 0).astype(int))
    d = Classifier("online").fit(x, three)
    with ThreadPoolExecutor(4) as pool:  # threads may share an estimator
        assert all((f == d.predict(x)).all() for f in pool.map(d.predict, [x] * 8))
    assert d.decision_function(x).shape == d.predict_proba(x).shape == (1500, 3)
    assert np.array_equal(d.predict(x), d.classes_[d.predict_proba(x).argmax(axis=1)])
    m = sparse.csr_matrix(np.where(np.abs(x) < 0.5, 0, x))
    s = Classifier("online").fit(m, y)
    assert np.array_equal(s.decision_function(m), s.decision_function(sparse.csc_matrix(m)))
    assert np.allclose(s.decision_function(m), s.decision_function(m.toarray()), atol=1e-6)
    far = np.zeros((250_000, 5))
    far[200_000, 3] = 1e39
    with pytest.raises(RowError) as e:
        c.predict(far)
    assert e.value.row == 200_000
    with pytest.raises(NotFittedError):
        Classifier().predict(x)
    with pytest.raises(ValueError, match="one class"):
        Classifier().fit(x, ["a"] * len(x))
    with pytest.raises(ValueError, match="lear?ner"):
        Classifier("nobody").fit(x, y)
    with pytest.raises(ValueError, match="no-such-flag"):
        Classifier(settings={"no_such_flag": 1}).fit(x, y)


def test_weights_and_settings() -> None:
    x, y = vectors()
    assert (Classifier("online", class_weight={"yes": 100}).fit(x, y).predict(x) == "yes").mean() > 0.9
    a = Classifier("online", options={"loss": "logistic"}, settings={"scale": "minmax", "warmup": 300}, random_state=7).fit(x, y)
    assert a.state_hash_ != Classifier("online", random_state=8).fit(x, y).state_hash_


def test_explain() -> None:
    """Contributions and the constant make the decision."""
    x, y = vectors()
    c = Classifier("online").fit(x, y)
    for row, f in zip(c.explain(x[:4]), c.decision_function(x[:4])):
        assert row["decision"] == f
        assert np.isclose(sum(v["value"] for v in row["contributions"]) + row["constant"], f, atol=1e-6)
    rows = [{"a": i % 7, "b": "xyz"[i % 3]} for i in range(1200)]
    e = Regressor("online").fit(rows, [r["a"] + (r["b"] == "x") for r in rows])  # type: ignore[operator]
    assert {v["feature"] for v in e.explain({"a": 5, "b": "x"})["contributions"]} == {"a", "b"}
    z = np.array(["no", "yes", "maybe"])[np.arange(len(x)) % 3]
    for model in (Classifier().fit(x, y), Classifier("online").fit(x, z), Classifier("scs").fit(x, y)):
        (row,) = model.explain(x[:1])
        assert row["label"] == model.predict(x[:1])[0] and row["contributions"]


def test_files(tmp_path: Path) -> None:
    """Models are those of the command and of streamsvm.load."""
    x, y = vectors()
    c = Classifier().fit(x, y)
    path = tmp_path / "model.ssm"
    c.save(path)
    for loaded in (Classifier.load(path), pickle.loads(pickle.dumps(Classifier.load(c.to_bytes())))):
        assert np.array_equal(loaded.predict_proba(x), c.predict_proba(x))
        assert list(loaded.classes_) == ["no", "yes"] and loaded.n_features_in_ == 5
        with pytest.raises(ValueError, match="no state"):
            loaded.partial_fit(x, y)
    assert np.allclose(streamsvm.load(path).decision(x), c.decision_function(x), atol=5e-4)
    with pytest.raises(ValueError, match="classify"):
        Regressor.load(path)
    with pytest.raises(ValueError, match="no model of streamsvm"):
        Classifier.load(b"nothing")


def test_river() -> None:
    """learn_one and predict_one, and River's own evaluation."""
    def large(e: Any) -> bool:
        return bool(e["amount"] > 40)

    r = random.Random(5)
    c, rows = Classifier("online", settings={"tune": "off"}), [payment(r) for _ in range(3000)]
    assert c.predict_one(rows[0]) is None and c.predict_proba_one(rows[0]) == {}
    right = 0
    for i, e in enumerate(rows):
        if i >= 2500:
            right += c.predict_one(e) == large(e)
        c.learn_one(e, large(e))
    assert right > 450
    assert set(c.predict_proba_one(rows[0])) == {False, True}
    assert Regressor().predict_one(rows[0]) == 0.0
    river: Any = pytest.importorskip("river", reason="river cannot be had: its evaluation is not tested")
    for part in ("base", "evaluate", "metrics"):
        importlib.import_module(f"river.{part}")

    river.base.Classifier.register(Classifier)
    metric = river.evaluate.progressive_val_score(((e, large(e)) for e in rows), Classifier("online", settings={"tune": "off"}), river.metrics.Accuracy())
    assert metric.get() > 0.6


def test_regression() -> None:
    x, _ = vectors()
    y = 3 * x[:, 0] + x[:, 1]
    g = Regressor("ridge").fit(x, y)
    assert g.score(x, y) > 0.9
    half = Regressor("ridge").partial_fit(x[:800], y[:800]).partial_fit(x[800:], y[800:])
    assert np.allclose(half.predict(x), g.predict(x), atol=1e-3)
    assert 0 < g.measures_["prequential_mae"] < 1


def test_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that has ended is an exception that says so, and so is a missing program."""
    x, y = vectors()
    c = Classifier("online").fit(x, y)
    assert c._pipe
    os.kill(c._pipe.child.pid, signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(ProgramError, match="has ended"):
            c.predict(x)
    assert (c.fit(x, y).predict(x[:5]) != "").all()
    monkeypatch.setattr(c._pipe, "_owner", 1)
    with pytest.raises(ProgramError, match="fork"):
        c.predict(x)
    monkeypatch.setenv("STREAMSVM_BIN", str(tmp_path / "nowhere"))
    with pytest.raises(ProgramError, match="nowhere"):
        Classifier().fit(x, y)


def test_topics(brokers: str) -> None:
    """Models go to a topic and come back."""
    topic, name = f"models-{uuid.uuid4()}", "payments"
    r = random.Random(8)
    rows = [payment(r) for _ in range(1500)]
    c = Classifier("online").fit(rows, [fraud(e) for e in rows])
    assert c.to_topic(brokers, topic, name) == 1
    assert c.to_topic(brokers, topic, name) == 2
    back = Classifier.from_topic(brokers, topic, name, alias="champion")
    assert np.array_equal(back.predict_proba(rows), c.predict_proba(rows))
    assert back.predict_proba_one(rows[0]) == c.predict_proba_one(rows[0]) != {}
    with Follower(brokers, topic, name, alias="champion") as f:
        f.wait(timeout=60)
        assert f.version == 2
        assert np.allclose(f.decision(rows), c.decision_function(rows), atol=5e-4)
    with pytest.raises((ValueError, ProgramError), match="no-such-topic"):
        Classifier.from_topic(brokers, "no-such-topic", topic_wait="1s")
