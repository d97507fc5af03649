"""Estimators of scikit-learn, whose learning and predicting the program streamsvm does."""

from __future__ import annotations

import datetime
import json
import os
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_feature_names, check_is_fitted, column_or_1d, validate_data

from ._model import Model
from ._pipe import BATCH, Pipe, ProgramError, RowError, run

if TYPE_CHECKING:
    from typing import Self

F64 = npt.NDArray[np.float64]


def _plain(v: Any) -> Any:
    """A value of numpy or pandas as Python has it, and None for a missing one."""
    if isinstance(v, np.generic):
        v = v.item()
    if isinstance(v, float) and v != v or v is None or v.__class__.__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(v, datetime.datetime):
        return (v if v.tzinfo else v.replace(tzinfo=datetime.timezone.utc)).isoformat()
    return v


def _default(v: Any) -> Any:
    """What json does not know."""
    if isinstance(v, (set, frozenset)):
        return sorted(v)
    if isinstance(v, np.ndarray):
        return v.tolist()
    p = _plain(v)
    if p is v:
        if isinstance(v, datetime.date):
            return v.isoformat()
        raise TypeError(f"a {type(v).__name__}")
    return p


def _pack(y: Any) -> bytes:
    """A label in MessagePack."""
    if isinstance(y, bool):
        return b"\xc3" if y else b"\xc2"
    if isinstance(y, str):
        text = y.encode()
        return struct.pack(">BI", 0xDB, len(text)) + text
    return struct.pack(">Bd", 0xCB, y)


class _Events:
    """Events as lines of JSON."""

    codec = "json"

    def __init__(self, x: Any) -> None:
        self.names: list[str] = []
        if hasattr(x, "iloc"):  # pandas
            self.names = list(x.columns)
            columns = [x[c].astype(object) if x[c].dtype.name != "category" else x[c].astype(object).map(str, na_action="ignore") for c in x]
            values = [[_plain(v) for v in c] for c in columns]
            self.rows: Sequence[Mapping[str, Any]] = [dict(zip(self.names, row)) for row in zip(*values)]
        elif hasattr(x, "to_dicts"):  # polars
            self.names, self.rows = list(x.columns), x.to_dicts()
        else:
            self.rows = [{k: _plain(v) for k, v in e.items()} for e in x]

    def __len__(self) -> int:
        return len(self.rows)

    def frames(self, label: str, y: Sequence[Any] | None) -> Iterator[tuple[int, list[bytes]]]:
        parts: list[bytes] = []
        size, n = 0, 0
        for i, row in enumerate(self.rows):
            try:
                if y is not None:
                    row = {**row, label: y[i]}
                line = json.dumps(row, default=_default, allow_nan=False).encode() + b"\n"
            except (TypeError, ValueError) as e:
                raise RowError(f"no event of numbers, texts, booleans, times and lists: {e}", row=i) from None
            parts.append(line)
            if (size := size + len(line)) > BATCH:
                yield n, parts
                parts, size, n = [], 0, i + 1
        if parts:
            yield n, parts


class _Vectors:
    """Vectors, dense or sparse, as MessagePack."""

    codec = "msgpack"

    def __init__(self, x: Any) -> None:
        self.x, self.sparse = x, hasattr(x, "tocsr")
        if self.sparse:
            self.x = x.tocsr().copy()
            self.x.sum_duplicates()
            self.x.sort_indices()

    def __len__(self) -> int:
        return int(self.x.shape[0])

    def frames(self, label: str, y: Sequence[Any] | None) -> Iterator[tuple[int, list[bytes]]]:
        """Yields records, and the number of the first of them."""
        fields = 1 if y is None else 2
        tails = {} if y is None else {v: b"\xa1y" + _pack(v) for v in set(y)}
        n, width = self.x.shape
        if self.sparse:
            width = 2 * self.x.nnz // max(1, n)
        step = max(1, BATCH // (4 * width + 16))
        for start in range(0, n, step):
            end = min(n, start + step)
            heads, bodies = self._sparse(start, end, fields) if self.sparse else self._dense(start, end, fields)
            parts: list[bytes] = []
            for i, head, body in zip(range(start, end), heads, bodies):
                parts += (head, body) if y is None else (head, body, tails[y[i]])
            yield start, parts

    def _dense(self, start: int, end: int, fields: int) -> tuple[Iterable[bytes], Iterable[bytes]]:
        with np.errstate(over="ignore"):  # the program says which value is too large
            data = np.ascontiguousarray(self.x[start:end], "<f4").tobytes()
        size = len(data) // (end - start)
        head = bytes([0x80 | fields]) + b"\xa1x" + struct.pack(">BI", 0xC6, size)
        return [head] * (end - start), [data[i : i + size] for i in range(0, len(data), size)] if size else [b""] * (end - start)

    def _sparse(self, start: int, end: int, fields: int) -> tuple[Iterable[bytes], Iterable[bytes]]:
        m = self.x
        with np.errstate(over="ignore"):
            idx, val = m.indices.astype("<i4").tobytes(), m.data.astype("<f4").tobytes()
        head = bytes([0x80 | fields]) + b"\xa1x\x82\xa1i"
        bodies = []
        for a, b in zip(m.indptr[start:end], m.indptr[start + 1 : end + 1]):
            size = struct.pack(">BI", 0xC6, 4 * (b - a))
            bodies.append(size + idx[4 * a : 4 * b] + b"\xa1v" + size + val[4 * a : 4 * b])
        return [head] * len(bodies), bodies


def _free(event: Mapping[str, Any], name: Any = None) -> str:
    """A name for the label that no field has, if possible the one given."""
    names = [name] if isinstance(name, str) and name else []
    return next(n for n in [*names, "y", "label", "target", "class", "outcome", "label_of_this_event"] if n not in event)


def _flags(settings: Mapping[str, Any]) -> list[str]:
    """Settings as flags of the command."""
    out = []
    for name, v in settings.items():
        values = v if isinstance(v, (list, tuple)) else [v]
        text = ",".join(str(x).lower() if isinstance(x, bool) else str(x) for x in values)
        out.append(f"--{name.replace('_', '-')}={text}")
    return out


class _Estimator(BaseEstimator):
    _task = ""

    _pipe: Pipe | None = None
    _state: bytes | None = None  # of a pickle, to continue from
    _model: bytes | None = None  # of a file, to predict with
    _form: type[_Events] | type[_Vectors] | None = None  # None before the first example
    _live = False  # the warm-up has given a model
    _supervised = _multiclass = True  # what River's evaluation asks of models
    _label = "y"  # the field of events with the label

    def __init__(self, learner: str = "adaptive", *, options: Mapping[str, Any] | None = None, settings: Mapping[str, Any] | None = None, random_state: Any = None) -> None:
        self.learner = learner
        self.options = options
        self.settings = settings
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return self._form is not None

    def _args(self) -> list[str]:
        seed = self.random_state
        if seed is None:
            seed = 1
        elif not isinstance(seed, (int, np.integer)):
            seed = seed.randint(1 << 31)
        assert self._form is not None
        args = ["--codec", self._form.codec, "--task", self._task, f"--learner={self.learner}", f"--seed={seed}"]
        args += ["--label", self._label] if self._form is _Events else ["--events", "vectors"]
        for name, v in (self.options or {}).items():
            args.append(f"--set={name}={str(v).lower() if isinstance(v, bool) else v}")
        return args + self._more() + _flags(self.settings or {})

    def _more(self) -> list[str]:
        return []

    # What goes in.

    def _rows(self, x: Any, y: Any = "no_validation", reset: bool = False) -> tuple[_Events | _Vectors, Any]:
        """x, and y if it is given, as records."""
        if isinstance(x, Mapping) and not hasattr(x, "tocsr"):  # a dok_matrix is a dict, too
            raise ValueError("want a list of events: for one event e that is [e]")
        # Columns without names are those of a matrix.
        frame = hasattr(x, "columns") and (hasattr(x, "iloc") or hasattr(x, "to_dicts")) and all(isinstance(c, str) for c in x.columns)
        if not frame and not (isinstance(x, (list, tuple)) and x and all(isinstance(e, Mapping) for e in x)):
            if not reset and self._form is _Events:
                raise ValueError("the estimator was fitted on events: want a DataFrame or a list of dicts")
            kwargs: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "reset": reset}
            if isinstance(y, str):
                return _Vectors(validate_data(self, x, **kwargs)), None
            x, y = validate_data(self, x, y, multi_output=True, y_numeric=self._task == "regress", **kwargs)
            return _Vectors(x), column_or_1d(y, warn=True)
        if not reset and self._form is _Vectors:
            raise ValueError("the estimator was fitted on vectors, and takes no events")
        if frame:
            if reset or hasattr(self, "feature_names_in_"):
                _check_feature_names(self, x, reset=reset)
            if reset:
                self.n_features_in_ = len(x.columns)
        rows = _Events(x)
        if isinstance(y, str):
            return rows, None
        label = getattr(y, "name", None)
        y = column_or_1d(y, warn=True)
        if len(y) != len(rows):
            raise ValueError(f"{len(rows)} rows, {len(y)} labels")
        if reset:
            self._label = _free(rows.rows[0] if len(rows) else {}, label)
        return rows, y

    def _start(self, form: type[_Events] | type[_Vectors]) -> Pipe:
        self._form, self._live, self._state, self._model = form, False, None, None
        self._pipe = Pipe(self._args())
        return self._pipe

    def _learn(self, rows: _Events | _Vectors, y: Sequence[Any] | None) -> None:
        for start, parts in rows.frames(self._label, y):
            self._live = self._call("l", b"".join(parts), start=start) == b"\1"

    def _call(self, kind: str, payload: bytes = b"", start: int = 0) -> bytes:
        """A request about records, the first of which is row number start."""
        check_is_fitted(self)
        if self._model is not None and kind in "lfc":
            raise ValueError("a model from a file has no state to learn on from: fit a new one, or keep estimators with pickle")
        if self._pipe is None:
            self._pipe = Pipe(self._args())
            if self._state is not None:
                self._live = self._pipe.call("r", self._state) == b"\1"
                self._state = None
            elif self._model is not None:
                self._pipe.call("d", self._model)
        try:
            return self._pipe.call(kind, payload)
        except RowError as e:
            if e.message == "nothing has been learned yet":
                raise NotFittedError(e.message) from None
            raise RowError(e.message, e.field, None if e.row is None else e.row + start) from None

    def _fit(self, x: Any, y: Any) -> Self:
        rows, y = self._rows(x, y, reset=True)
        if len(rows) == 1:
            raise ValueError("one sample is too few, n_samples = 1")
        self._begin(y)
        self._start(type(rows))
        self._learn(rows, [_plain(v) for v in y])
        self._call("f")
        self._live = True
        return self

    def _begin(self, y: Any) -> None:
        """Takes note of all labels."""

    def _partial_fit(self, x: Any, y: Any) -> Self:
        first = self._form is None
        rows, y = self._rows(x, y, reset=first)
        if first:
            self._start(type(rows))
        self._learn(rows, [_plain(v) for v in y])
        return self

    def learn_one(self, x: Mapping[str, Any], y: Any) -> None:
        """Learns from one event, as models of River do."""
        rows = _Events([x])
        if self._form is None:
            self._label = _free(x)
            self._start(_Events)
        self._learn(rows, [_plain(y)])

    def _scores(self, x: Any) -> F64:
        """A line for each row; see contrib/pipe/pipe.go."""
        check_is_fitted(self)
        rows, _ = self._rows(x)
        out = [np.frombuffer(self._call("p", b"".join(parts), start), "<f8") for start, parts in rows.frames("", None)]
        return np.concatenate(out).reshape(len(rows), -1) if out else np.zeros((0, 1))

    def explain(self, x: Any) -> Any:
        """Returns for each row a dict with ``decision``, ``label`` and ``contributions``: how
        much the decision changes when a field is replaced by a value that says nothing, the
        largest first; of more than two classes, how much the log odds of the predicted
        class change. A number is replaced by its mean, a category, text or time by none; a
        missing value contributes what its absence says. ``constant`` is the decision with
        all fields replaced. For one event, a dict, returns one dict.
        """
        if isinstance(x, Mapping):
            return self.explain([x])[0]
        check_is_fitted(self)
        rows, _ = self._rows(x)
        return [json.loads(line) for start, parts in rows.frames("", None) for line in self._call("x", b"".join(parts), start).splitlines()]

    @property
    def measures_(self) -> dict[str, float]:
        """Prequential measures, by name: each example was predicted before it was
        learned from."""
        return dict(json.loads(self._call("s")).get("measures", {}))

    @property
    def state_hash_(self) -> str:
        """The hash of the state, which `streamsvm replay` prints, too. Equal streams
        give equal hashes."""
        return str(json.loads(self._call("s")).get("state_hash", ""))

    def to_bytes(self) -> bytes:
        """Returns the model as the bytes of a .ssm file."""
        return self._call("m")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model to a .ssm file, which `load` and the command `streamsvm predict`
        read."""
        Path(path).write_bytes(self.to_bytes())

    @classmethod
    def load(cls, source: str | os.PathLike[str] | bytes) -> Self:
        """Returns an estimator with the model of a .ssm file, or of the bytes of one. It
        predicts, but does not learn on: a model holds less than a pickled estimator.

        Raises:
            ValueError: it is no model, or one for another task.
        """
        e = cls()
        e._model = bytes(source) if isinstance(source, (bytes, bytearray, memoryview)) else Path(source).read_bytes()
        model = Model(e._model)
        if model.task != cls._task:
            raise ValueError(f"a model for the task {model.task}, where {cls.__name__} needs {cls._task}")
        e.learner, e.options = model.learner, model.options
        e._form, e._live = _Events if model.events else _Vectors, True
        if model.length:
            e.n_features_in_ = model.length
        e._found(model)
        return e

    def _found(self, model: Model) -> None:
        """Takes note of the labels of the model."""

    def __getstate__(self) -> Any:
        state = {**super().__getstate__()}
        if self._pipe is not None and self._model is None:
            state["_state"] = self._call("c")
        state.pop("_pipe", None)
        return state

    def to_topic(self, brokers: str, topic: str, name: str, *, alias: str = "champion", version: int | None = None, **settings: Any) -> int:
        """Writes the model to a model topic as the version that the alias stands for.
        `streamsvm predict --alias` and `Follower` switch to it at once.

        Args:
            version: its number; by default one more than the topic holds.
            settings: flags of the command, such as ``sasl_username``.

        Returns:
            The version.
        """
        where = [f"--brokers={brokers}", f"--model-topic={topic}", *_flags(settings)]
        if version is None:
            try:
                held = json.loads(run("model", "list", "--json", *where, f"--model-name={name}"))
            except (ValueError, ProgramError):  # there is none yet; otherwise promote fails, too
                held = {"versions": [], "aliases": []}
            version = 1 + max((v["version"] for v in held["versions"] + held["aliases"]), default=0)
        with tempfile.TemporaryDirectory() as d:
            path = Path(d) / f"model-{version}.ssm"
            self.save(path)
            run("model", "promote", *where, f"--model-name={name}", f"--alias={alias}", f"--model={path}", f"--version={version}")
        return version

    @classmethod
    def from_topic(cls, brokers: str, topic: str, name: str = "", *, alias: str = "", **settings: Any) -> Self:
        """Returns an estimator with the newest version of a model in a model topic, or with
        the one that an alias stands for. It does not follow later versions, as `Follower`
        does, and does not learn on.

        Args:
            settings: flags of the command, such as ``sasl_username``.
        """
        args = [f"--brokers={brokers}", f"--model-topic={topic}", *_flags(settings)]
        args += [f"--model-name={name}"] if name else []
        args += [f"--alias={alias}"] if alias else []
        with tempfile.TemporaryDirectory() as d:
            run("model", "follow", *args, f"--save={d}", "--until=1")
            return cls.load(max(Path(d).glob("*.ssm")))


class Classifier(ClassifierMixin, _Estimator):
    """A classifier that learns from a stream in one pass.

    Args:
        learner: its name; `streamsvm learners` lists them.
        options: options of the learner, by name; `streamsvm learners NAME` lists them.
        class_weight: ``auto`` weighs rare classes more, ``none`` does not; a dict has the
            weight of each class.
        settings: further flags of `streamsvm replay`, such as ``{"scale": "minmax"}``.
        random_state: the seed; None is 1. Equal seeds give equal models.

    Attributes:
        classes_: the labels.
    """

    _task = "classify"

    def __init__(self, learner: str = "adaptive", *, options: Mapping[str, Any] | None = None, class_weight: Any = "auto", settings: Mapping[str, Any] | None = None, random_state: Any = None) -> None:
        super().__init__(learner, options=options, settings=settings, random_state=random_state)
        self.class_weight = class_weight

    def _more(self) -> list[str]:
        w = self.class_weight
        if isinstance(w, Mapping):
            w = ",".join(f"{_plain(k)}={v}" for k, v in w.items())
        args = [f"--class-weight={'none' if w is None else 'auto' if w == 'balanced' else w}"]
        if self._model is None and hasattr(self, "classes_"):
            args.append("--labels=" + ",".join(json.dumps(v, ensure_ascii=False) for v in self.classes_.tolist()))
        return args

    def _rows(self, x: Any, y: Any = "no_validation", reset: bool = False) -> tuple[_Events | _Vectors, Any]:
        rows, y = super()._rows(x, y, reset)
        if y is not None:
            check_classification_targets(y)
        return rows, y

    def fit(self, X: Any, y: Any) -> Self:
        """Learns from examples in their order, from scratch.

        Args:
            X: a matrix, dense or sparse, of finite numbers; or events, in a DataFrame or a
                list of dicts, with numbers, texts, categories, booleans, times and missing
                values.
            y: the labels: numbers, texts or booleans.

        Raises:
            RowError: a row cannot be used.
            ValueError: nothing can be learned from these rows, or with these settings.
            ProgramError: the program streamsvm cannot be run.
        """
        return self._fit(X, y)

    def _begin(self, y: Any) -> None:
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"all labels are of one class: {self.classes_.tolist()}")

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learns on from further examples; see `fit`.

        Args:
            classes: all labels, in the first call. Without them they are inferred from the
                first examples, up to 1,000.
        """
        if self._form is None and classes is not None:
            self.classes_ = np.unique(classes)
        return self._partial_fit(X, y)

    def _found(self, model: Model) -> None:
        self.classes_ = np.array(model.labels)

    def _scores(self, x: Any) -> F64:
        """For each row decision and probability of two classes; of more, scores and then
        probabilities."""
        out = super()._scores(x)
        k = out.shape[1] // 2 if out.shape[1] > 2 else 2
        if len(out) and (not hasattr(self, "classes_") or len(self.classes_) != k):
            self._found(Model(self.to_bytes()))
        return out

    def decision_function(self, X: Any) -> F64:
        """Returns of two classes f(x), which is not negative where the second one is
        predicted; of more a score for each, of which the largest wins."""
        out = self._scores(X)
        return out[:, 0] if out.shape[1] < 3 else out[:, : out.shape[1] // 2]

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Returns the label of each row. Before the warm-up ends, it comes from the model
        that `fit` would give for the examples so far.

        Raises:
            RowError: a row cannot be used.
            ValueError: the rows are not such as the estimator was fitted on.
        """
        f = self.decision_function(X)
        at = f.argmax(axis=1) if f.ndim == 2 else (f >= 0).astype(np.int64)
        return np.asarray(self.classes_[at] if len(f) else np.zeros(0))

    def predict_proba(self, X: Any) -> F64:
        """Returns the probability of each class. They are calibrated on earlier predictions
        as soon as 200 of these could be compared with their labels. Before that, they are
        the logistic function of the decision, or the softmax of the scores."""
        out = self._scores(X)
        if out.shape[1] > 2:
            k = out.shape[1] // 2
            p, f = out[:, k:], out[:, :k]
            e = np.exp(f - f.max(axis=1, keepdims=True))
            return np.where(np.isnan(p), e / e.sum(axis=1, keepdims=True), p)
        with np.errstate(over="ignore"):
            q = np.where(np.isnan(out[:, 1]), 1 / (1 + np.exp(-out[:, 0])), out[:, 1]) if len(out) else np.zeros(0)
        return np.stack([1 - q, q], axis=1)

    def predict_one(self, x: Mapping[str, Any]) -> Any:
        """Returns the label predicted for one event; None before the warm-up ends."""
        return self.predict([x]).tolist()[0] if self._live else None

    def predict_proba_one(self, x: Mapping[str, Any]) -> dict[Any, float]:
        """Returns the probability of each label for one event; none before the warm-up
        ends."""
        return dict(zip(self.classes_.tolist(), self.predict_proba([x])[0].tolist())) if self._live else {}


class Regressor(RegressorMixin, _Estimator):
    """A regression that learns from a stream in one pass.

    Args:
        learner: its name; `streamsvm learners` lists them.
        options: options of the learner, by name; `streamsvm learners NAME` lists them.
        settings: further flags of `streamsvm replay`, such as ``{"scale": "minmax"}``.
        random_state: the seed; None is 1. Equal seeds give equal models.
    """

    _task = "regress"

    def fit(self, X: Any, y: Any) -> Self:
        """Learns from examples in their order, from scratch; see `Classifier.fit`. The
        labels are numbers."""
        return self._fit(X, y)

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learns on from further examples; see `fit`."""
        return self._partial_fit(X, y)

    def predict(self, X: Any) -> F64:
        """Returns the value predicted for each row; see `Classifier.predict`."""
        return self._scores(X)[:, 0]

    def predict_one(self, x: Mapping[str, Any]) -> float:
        """Returns the value predicted for one event; 0 before the warm-up ends."""
        return float(self.predict([x])[0]) if self._live else 0.0
