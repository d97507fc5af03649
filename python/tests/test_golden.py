"""Models and events against what streamsvm makes of them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsvm
from streamsvm._events import EventError, Schema
from streamsvm._rows import Rows, Sparse


class Csr:
    """As much of a matrix of scipy as is looked at."""

    def __init__(self, rows: list[dict[str, Any]], dim: int) -> None:
        self.indptr = np.cumsum([0] + [len(r["index"]) for r in rows])
        self.indices = np.array([j for r in rows for j in r["index"]], np.int32)
        self.data = np.array([v for r in rows for v in r["value"]])
        self.shape = len(rows), dim

    def tocsr(self) -> Csr:
        return self

    copy = tocsr

    def sum_duplicates(self) -> None: ...
    def sort_indices(self) -> None: ...


def inputs(doc: dict[str, Any]) -> Any:
    return doc["rows"] if isinstance(doc["rows"][0], list) else Csr(doc["rows"], doc["dim"])


def test_models(golden: Path) -> None:
    names = sorted(golden.glob("*.ssm"))
    assert len(names) > 150
    worst, of = 0.0, ""
    for name in names:
        doc = json.loads(name.with_suffix(".json").read_text())
        model = streamsvm.load(name)
        x = inputs(doc)
        got, want = np.atleast_2d(model.decision(x).T).T, np.array(doc["scores"])
        assert got.shape == want.shape, doc["name"]
        # The program's kernel values are float32, and their sums cancel: so a decision near 0 is compared
        # with what is usual.
        size = np.maximum(np.abs(want), math.sqrt((want**2).mean()))
        off = np.abs(got - want)
        assert (off <= 2e-4 * size + 1e-6).all(), f"{doc['name']}: {got} want {want}"
        if (part := (off / (size + 1e-2)).max()) > worst:
            worst, of = part, doc["name"]
        labels = model.predict(x)
        for k, label in enumerate(doc["labels"]):
            if not model.labels:
                assert labels[k] == pytest.approx(label, rel=2e-4, abs=2e-4 * size[k, 0] + 1e-6)
                continue
            top = np.sort(want[k])
            if (abs(top[0]) if len(top) == 1 else top[-1] - top[-2]) > 2 * (1e-4 * size[k].max() + 1e-6):
                assert labels[k] == label, doc["name"]
        if doc["probable"]:
            assert np.allclose(model.predict_proba(x), doc["probable"], atol=1e-3), doc["name"]
        else:
            with pytest.raises(ValueError, match="no probabilities"):
                model.predict_proba(x)
        # A row does not depend on its company.
        one = model.decision(doc["rows"][:1] if isinstance(doc["rows"][0], list) else Csr(doc["rows"][:1], doc["dim"]))
        assert np.allclose(np.atleast_2d(one.T).T, got[:1], rtol=1e-9, atol=1e-9 * size.max())
    print(f"{len(names)} models; the largest relative difference is {worst:.2g}, of {of}")


def dense(rows: Rows) -> Any:
    return rows.take(np.arange(rows.dim))


def test_events(golden: Path) -> None:
    for case in json.loads((golden / "events.json").read_text()):
        schema = Schema(case["schema"], csv=case["codec"] == "csv")
        assert len(schema.features()) == schema.dim
        good = [i for i, e in enumerate(case["errors"]) if case["rows"][i] is not None]
        assert len(good) > 10, case["name"]
        for i, field in enumerate(case["errors"]):
            if i in good:
                continue
            with pytest.raises(EventError) as e:
                schema.rows([case["events"][i]])
            assert str(e.value).startswith(f"event 0: {field.split('[')[0]}"), (case["events"][i], field)
        rows = schema.rows([case["events"][i] for i in good])
        assert isinstance(rows, Sparse) == (schema.dim > 512)
        x = dense(rows)
        for k, i in enumerate(good):
            want = np.zeros(schema.dim, np.float32)
            want[: len(case["rows"][i])] = case["rows"][i]
            assert np.allclose(x[k], want, rtol=1e-6, atol=1e-7), (case["name"], case["events"][i])
            alone = dense(schema.rows([case["events"][i]]))
            assert (alone[0] == x[k]).all()


def test_not_finite() -> None:
    """A category that is NaN or infinite is an invalid value, not the category "NaN"."""
    fields = [{"name": n, "type": t, **how, "gaps": [True]} for n, t, how in (
        ("c", "categorical", {"categories": ["1", "2"]}), ("h", "categorical", {"hash": 8}), ("t", "tags", {"categories": ["1"]}))]  # fmt: skip
    refuse, missing = (Schema(json.dumps({"label": "y", "invalid": p, "fields": fields}), csv=False) for p in ("refuse", "missing"))
    for event in {"c": math.nan}, {"h": -math.inf}, {"t": [1, math.nan]}:
        with pytest.raises(EventError, match="not finite"):
            refuse.rows([event])
        assert (dense(missing.rows([event])) == dense(missing.rows([{}]))).all()
