"""Models: an encoded predictor, read and asked (docs/formats/predictor.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from . import _forms
from ._events import Event, EventError, Schema
from ._fields import Fields, FormatError
from ._rows import F64, Dense, Rows, matrix
from ._transform import Transform

_MAGIC = b"streamsvm-predictor-"

#: What can be predicted: events, that is dicts with the fields that the model was
#: trained on, or vectors, a row each: an array, lists of numbers, or a sparse
#: matrix of scipy.
Inputs = Any


class Model:
    """A model with its preprocessing. It never changes, and threads may share it.

    Attributes:
        learner: the algorithm that made it, such as ``adaptive``.
        task: ``classify`` or ``regress``.
        labels: what the data calls the classes, the negative one first of two;
            empty for a regression.
        options: the learner's options as text, tuned ones included.
        features: names of the features, where they have any.
        version: version in the model topic; 0 for a model that was in a file.
        events: whether it was made of events.
        length: number of features of vectors; 0 where it is not known.
    """

    def __init__(self, data: bytes, version: int = 0) -> None:
        size = len(_MAGIC) + 2
        form = data[len(_MAGIC) : size]
        if data[: len(_MAGIC)] != _MAGIC or form not in (b"1\n", b"2\n", b"3\n") or len(data) < size + 8:
            newer = data[: len(_MAGIC)] == _MAGIC and form[:1].isdigit()
            raise FormatError(
                "a model in a newer format: this package reads 1 to 3"
                if newer
                else f"no model of streamsvm: it begins with {data[:24]!r}"
            )
        if xxhash.xxh64_intdigest(data[:-8]) != int.from_bytes(data[-8:], "little"):
            raise FormatError("the model is damaged: its checksum is wrong")
        f = Fields(data[size:-8], "model")
        self.version = version
        self.learner = f.text("learner")
        self.task = f.text("task")
        self.options = {}
        for _ in range(f.count("options")):
            name = f.text("name")
            self.options[name] = f.text("value")
        self._schema: Schema | None = None
        self._columns: list[str] = []
        self._length = 0
        labels = self._signature(f) if form > b"1" else ""
        f.group("transform")
        self._transform = Transform.read(f)
        model = f.blob("model")
        self._probability: tuple[F64, F64] | tuple[float, float] | None = None
        self._costs: F64 | None = None
        if form > b"2":
            self._read_probability(f)
        f.end()
        self._form = _forms.read(self.learner, model)
        self._read_labels(f, labels)
        self.events, self.length = self._schema is not None, 0 if self._schema else self._length
        self.features: list[str] = self._schema.features() if self._schema else self._columns

    def _signature(self, f: Fields) -> str:
        f.group("signature")
        codec, labels = f.text("codec"), f.text("labels")
        f.integer("max_features")
        dim, index = f.integer("dim", 0), f.integer("index", 0)
        self._length = dim or index
        if f.next("schema"):
            self._schema = Schema(f.text("schema"), csv=codec == "csv")
        if codec == "csv":
            f.flag("header")
            columns = [f.text("name") for _ in range(f.count("columns"))]
            drop = {f.text("label_column")} | {f.text("name") for _ in range(f.count("drop_columns"))}
            f.flag("empty_as_zero")
            f.text("separator")
            if not self._schema:
                self._columns = [c for c in columns if c not in drop]
        return labels

    def _read_probability(self, f: Fields) -> None:
        f.group("probability")
        form = f.text("form")
        if form == "log_odds":
            x, z = f.floats("decisions"), f.floats("log_odds")
            if not len(x) or len(x) != len(z) or (np.diff(x) <= 0).any():
                raise f.fail(f"log_odds: {len(z)} for {len(x)} decisions, which increase")
            self._probability = x, z
        elif form == "softmax":
            self._probability = f.number("slope"), f.number("scale")
            if self._probability[0] < 0 or self._probability[1] <= 0:
                raise f.fail("scale: it is not positive")
        elif form != "none":
            raise f.fail(f"form: {form!r} is not known")
        if f.next("costs"):
            self._costs = f.floats("costs")
            if len(self._costs) < 2 or (self._costs <= 0).any():
                raise f.fail(f"costs: {self._costs}")

    def _read_labels(self, f: Fields, text: str) -> None:
        classes = len(self._form.heads) if isinstance(self._form, _forms.Classes) else 2
        if self.task not in ("classify", "regress"):
            raise f.fail(f"task: {self.task!r} is not known")
        if self.task == "regress":
            self.labels: list[Any] = []
            return
        try:
            self.labels = json.loads(f"[{text}]")
        except (ValueError, RecursionError):
            raise f.fail(f"labels: {text!r}") from None
        if not all(isinstance(v, (bool, int, float, str)) for v in self.labels):
            raise f.fail(f"labels: {text!r}")
        if not self.labels:
            self.labels = [-1, 1] if classes == 2 else list(range(classes))
        if len(self.labels) != classes:
            raise f.fail(f"labels: {len(self.labels)} for {classes} classes")
        if (self._probability is not None) and isinstance(self._probability[0], float) != (classes > 2):
            raise f.fail("form: probabilities of another number of classes")
        if self._costs is not None and len(self._costs) != classes:
            raise f.fail(f"costs: {len(self._costs)} for {classes} classes")

    def __repr__(self) -> str:
        what = f"of {len(self.labels)} classes" if self.labels else "of a regression"
        return f"<streamsvm model {what} by {self.learner}, version {self.version}>"

    def _rows(self, x: Inputs) -> Rows:
        if isinstance(x, (Mapping, str, bytes)):
            raise ValueError("want a list of events, or of vectors: for one event e that is [e]")
        if isinstance(x, (list, tuple)) and any(isinstance(e, Mapping) for e in x):
            if self._schema:
                return self._schema.rows(x)
            if not self._columns:
                raise ValueError(f"the model was made of vectors of {self._length} features, and takes no events")
            x = [[self._value(i, e, c) for c in self._columns] for i, e in enumerate(x)]
        elif self._schema and not hasattr(x, "tocsr") and not (isinstance(x, Sequence) and not x):
            raise ValueError("the model was made of events: want a list of dicts with their fields")
        if isinstance(x, Sequence) and not len(x):
            return Dense(np.zeros((0, self._schema.dim if self._schema else self._length), np.float32))
        rows = matrix(x)
        if isinstance(rows, Dense) and self._length and rows.dim != self._length:
            raise ValueError(f"vectors of {rows.dim} features, where the model has {self._length}")
        return rows

    @staticmethod
    def _value(i: int, event: Event, column: str) -> Any:
        v = event.get(column)
        if v is None or v == "":
            raise EventError(f"event {i}: {column}: missing")
        return v

    def _scores(self, x: Inputs) -> F64:
        rows = self._rows(x)
        if not len(rows):
            return np.zeros((0, len(self.labels)) if len(self.labels) > 2 else 0)
        return self._form.scores(self._transform.apply(rows))

    def decision(self, x: Inputs) -> F64:
        """Returns f(x) for each of n inputs: of two classes the second one is
        predicted where it is not negative, of a regression it is the prediction.
        With K > 2 classes the scores, n by K, of which the largest wins.

        Raises:
            EventError: an event misses a field that must be there, or holds what
                the schema does not allow.
            ValueError: the inputs are not such as the model was trained on.
        """
        return self._scores(x)

    def predict(self, x: Inputs) -> npt.NDArray[Any]:
        """Returns the label predicted for each input, as the data calls it, or the
        value of a regression. A trainer with `--cost` chose the label of the least
        expected cost, which is predicted once probabilities are known. Raises what
        `decision` does."""
        f = self._scores(x)
        if not self.labels:
            return f
        if self._costs is not None and self._probability is not None:
            cost = self._chances(f) * self._costs
            best = cost.argmax(axis=1)
            if cost.shape[1] == 2:  # of equal costs the second one
                best = (cost[:, 1] >= cost[:, 0]).astype(np.int64)
            return np.asarray(np.array(self.labels)[best])
        at = f.argmax(axis=1) if f.ndim == 2 else (f >= 0).astype(np.int64)
        return np.asarray(np.array(self.labels)[at])

    def predict_proba(self, x: Inputs) -> F64:
        """Returns the probability of each label, in the order of `labels`: n by K.

        Raises:
            ValueError: the model has none: it is a regression, or its trainer had
                not compared 200 predictions with their labels yet; or what
                `decision` raises.
        """
        if self._probability is None:
            raise ValueError(
                "the model has no probabilities: "
                + ("it has not been compared with 200 labels yet" if self.labels else "it is a regression")
            )
        return self._chances(self._scores(x))

    def _chances(self, f: F64) -> F64:
        assert self._probability is not None
        a, b = self._probability
        if f.ndim == 2:
            e = np.exp(a * np.maximum((f - f.max(axis=1, keepdims=True)) / b, -12)) if len(f) else f
            return np.asarray(e / e.sum(axis=1, keepdims=True))
        p = _forms.sigmoid(np.interp(f, np.asarray(a), np.asarray(b)))
        return np.stack([1 - p, p], axis=1)


def load(source: str | os.PathLike[str] | bytes) -> Model:
    """Reads a model from a file that a trainer or `--model FILE.ssm` has written, or
    from the bytes of one.

    Raises:
        FormatError: it is no model, damaged, or of a newer format.
        OSError: the file cannot be read.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return Model(bytes(source))
    try:
        return Model(Path(source).read_bytes())
    except FormatError as e:
        raise FormatError(f"{source}: {e}") from None
