"""Score DataFrames of Spark, in batches and streams, and fit on them, with the program streamsvm.

`score` adds predictions. `Classifier` is an estimator of Spark ML.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark import keyword_only
    from pyspark.ml import Estimator, Model as Transformer
    from pyspark.ml.param import Param, Params, TypeConverters
    from pyspark.ml.param.shared import (
        HasAggregationDepth, HasInputCols, HasLabelCol, HasMaxIter, HasPredictionCol, HasProbabilityCol, HasRawPredictionCol, HasSeed,
    )  # fmt: skip
    from pyspark.ml.util import DefaultParamsReadable, DefaultParamsReader, DefaultParamsWritable, DefaultParamsWriter, MLReadable, MLReader, MLWritable, MLWriter
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as F
    from pyspark.sql import types as T
except ImportError as e:
    raise ImportError(f"streamsvm.spark needs PySpark 4.1 or later: pip install 'streamsvm[spark]' ({e})") from e

from ._follower import Follower
from ._model import Model
from ._pipe import Pipe, RowError, failure, program

log = logging.getLogger("streamsvm")
F64 = npt.NDArray[np.float64]

#: How long a worker waits for the first version of a model in a topic, in seconds.
WAIT = 60.0


@dataclass(frozen=True)
class Topic:
    """A model in a model topic, which is followed while a query runs.

    The arguments are those of `streamsvm.Follower`. Every executor must reach the brokers.
    """

    brokers: str
    topic: str
    model: str | None = None
    alias: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)


#: A model: the path of a .ssm file on the driver, the bytes of one, or a topic.
Source = str | os.PathLike[str] | bytes | Topic


def score(df: DataFrame, model: Source, *, records: str | None = None, columns: Sequence[str] | None = None, prefix: str = "") -> DataFrame:
    """Adds the predictions of a model to a DataFrame, which may be a stream.

    The columns that are added:

    - ``label``, text: the label predicted; null for a regression.
    - ``probability``: of the second one of two labels; of more labels that of the label
      predicted. Null if the model has no probabilities.
    - ``score``: f(x) of two labels, which is not negative where the second one is
      predicted; the value predicted by a regression; of more labels the score of the one
      predicted.
    - ``version``: that of the model in its topic; 0 for a file.
    - ``error``: why a row cannot be scored. Then the columns before are null, but for the
      version. The job goes on.

    Each executor core has a child process, which scores. A batch of Spark's (10,000 rows
    by default) is scored with one version of the model.

    Args:
        model: a file is read once, here; a topic is followed.
        records: a column, binary or string, with records that are JSON objects. Without it
            the columns themselves are the fields of an event.
        columns: which ones, by default all. Nulls and NaN are missing values.
        prefix: what the names of the new columns begin with.

    Raises:
        ValueError: a column of that name is there already, or a column is not there.
        FormatError: the file is not a model.
    """
    source = _source(model)
    if records is not None and columns is not None:
        raise ValueError("want records or columns, not both")
    names = {n: prefix + n for n in ("label", "probability", "score", "version", "error")}
    if taken := sorted(set(names.values()) & set(df.columns)):
        raise ValueError(f"the DataFrame has a column {taken[0]} already: choose a prefix for the new ones")
    record = F.col(_quoted(records)) if records is not None else _record(df, df.columns if columns is None else columns)
    if records is not None and not isinstance(df.schema[records].dataType, (T.BinaryType, T.StringType)):
        raise ValueError(f"column {records}: records are binary or strings, not {df.schema[records].dataType.simpleString()}")
    scored = _apply(source, _summary, "label string, probability double, score double, version bigint, error string")(record)
    place = "__streamsvm"
    return df.withColumn(place, scored).select(*[F.col(_quoted(c)) for c in df.columns], *[F.col(f"{place}.{n}").alias(a) for n, a in names.items()])


def _quoted(name: str) -> str:
    """A name of a column, which may have dots, for F.col."""
    return "`" + name.replace("`", "``") + "`"


def _source(model: Source) -> bytes | Topic:
    if isinstance(model, Topic):
        return model
    data = bytes(model) if isinstance(model, (bytes, bytearray, memoryview)) else Path(model).read_bytes()
    Model(data)  # fails here rather than on the executors
    return data


def _record(df: DataFrame, columns: Sequence[str]) -> Any:
    """The rows as JSON objects."""
    fields = []
    for c in columns:
        if c not in df.columns:
            raise ValueError(f"there is no column {c}")
        fields.append(_plain(F.col(_quoted(c)), df.schema[c].dataType).alias(c))
    return F.to_json(F.struct(*fields))


def _plain(c: Any, t: T.DataType) -> Any:
    """A column as to_json has to see it: NaN is a missing value, a vector is a list."""
    if isinstance(t, (T.FloatType, T.DoubleType)):
        return F.when(~F.isnan(c), c)
    if isinstance(t, T.ArrayType):
        return F.transform(c, lambda v: _plain(v, t.elementType)) if isinstance(t.elementType, (T.FloatType, T.DoubleType)) else c
    if isinstance(t, T.StructType):
        return F.when(c.isNotNull(), F.struct(*[_plain(c.getField(f.name), f.dataType).alias(f.name) for f in t.fields]))
    if isinstance(t, T.UserDefinedType) and t.typeName() == "vector":
        from pyspark.ml.functions import vector_to_array

        return vector_to_array(c)
    return c


def _apply(source: bytes | Topic, form: Callable[[_Scores], pa.Array], schema: str) -> Any:
    """A function of Spark that scores a column of records."""

    def run(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for records in batches:
            yield form(_score(source, records))

    run.__annotations__ = {"batches": Iterator[pa.Array], "return": Iterator[pa.Array]}
    # Answers change with the version: Spark must neither repeat nor reorder the calls.
    return F.arrow_udf(run, schema).asNondeterministic()


@dataclass(frozen=True)
class _Scores:
    """Answers for a batch: a line of values for each record, NaN where there is an error."""

    model: Model
    values: F64  # see the request p in docs/python.md
    errors: dict[int, str]

    def classes(self) -> tuple[F64, F64]:
        """Scores, of two labels that of the second one, and probabilities of all."""
        k = len(self.model.labels)
        if k == 2:
            return self.values[:, :1], np.stack([1 - self.values[:, 1], self.values[:, 1]], axis=1)
        return self.values[:, :k], self.values[:, k:]

    def chosen(self) -> npt.NDArray[np.int64]:
        """The number of the label predicted."""
        f, _ = self.classes()
        return (f[:, 0] >= 0).astype(np.int64) if f.shape[1] == 1 else np.nan_to_num(f, nan=-np.inf).argmax(axis=1)

    def bad(self) -> npt.NDArray[np.bool_]:
        bad = np.zeros(len(self.values), bool)
        bad[list(self.errors)] = True
        return bad

    def text(self) -> pa.Array:
        return pa.array([self.errors.get(i) for i in range(len(self.values))] if self.errors else [None] * len(self.values), pa.string())


def _summary(s: _Scores) -> pa.Array:
    """The columns that score adds."""
    n, bad, k = len(s.values), s.bad(), len(s.model.labels)
    label, probability = pa.nulls(n, pa.string()), np.full(n, np.nan)
    score = s.values[:, 0]
    if k:
        at = s.chosen()
        texts = [v if isinstance(v, str) else json.dumps(v) for v in s.model.labels]
        label = pa.array(texts, pa.string()).take(pa.array(at, mask=bad))
        f, p = s.classes()
        probability = p[:, 1] if k == 2 else p[np.arange(n), at]
        score = score if k == 2 else f[np.arange(n), at]
    columns = [label, pa.array(probability, from_pandas=True), pa.array(score, mask=bad), pa.array(np.full(n, s.model.version)), s.text()]
    return pa.StructArray.from_arrays(columns, ["label", "probability", "score", "version", "error"])


class _Engine:
    """The child process of a Python worker, with the newest version of a model."""

    def __init__(self, source: bytes | Topic) -> None:
        _threads()
        self._pipe = Pipe(["--codec", "json"])
        self._follower: Follower | None = None
        self._model: Model | None = None
        if isinstance(source, Topic):
            self._follower = Follower(source.brokers, source.topic, source.model, source.alias, source.config)
        else:
            self._use(Model(source), source)

    def close(self) -> None:
        self._pipe.close()
        if self._follower is not None:
            self._follower.close()

    def _use(self, model: Model, data: bytes) -> None:
        self._pipe.call("d", data)
        self._model = model

    def _current(self) -> Model:
        """The newest version."""
        if self._follower is not None:
            self._follower.wait(timeout=WAIT)
            model, update = self._follower.newest()
            if model is not self._model:
                self._use(model, update.payload)
        assert self._model is not None
        return self._model

    def score(self, records: pa.Array) -> _Scores:
        model = self._current()
        k = len(model.labels)
        values = np.full((len(records), 1 if k == 0 else 2 if k == 2 else 2 * k), np.nan)
        lines, at, errors = _lines(records)
        start, size = 0, len(lines)
        while start < len(lines):
            end = min(len(lines), start + size)
            try:
                values[at[start:end]] = self._call(lines[start:end])
                start, size = end, 2 * size
            except RowError as e:
                # Rows before this one are good. Of those after it nothing is known.
                if e.row is None:
                    raise
                end = start + e.row
                if e.row:
                    values[at[start:end]] = self._call(lines[start:end])
                errors[int(at[end])] = f"{e.field}: {e.message}" if e.field else e.message
                start, size = end + 1, max(64, 2 * e.row)
        return _Scores(model, values, errors)

    def _call(self, lines: pa.Array) -> F64:
        return np.frombuffer(self._pipe.call("p", _joined(lines)), "<f8").reshape(len(lines), -1)


def _joined(lines: pa.Array) -> Any:
    """Lines with newlines between them, as a buffer."""
    kind = pa.large_list if pa.types.is_large_binary(lines.type) else pa.list_
    size = pa.int64() if kind is pa.large_list else pa.int32()
    of = (pa.LargeListArray if kind is pa.large_list else pa.ListArray).from_arrays(pa.array([0, len(lines)], size), lines)
    return memoryview(pc.binary_join(of, b"\n")[0].as_buffer())


def _lines(records: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64], dict[int, str]]:
    """Records as lines that begin with a brace, the number of each, and what is wrong with
    the others."""
    large = pa.types.is_large_binary(records.type) or pa.types.is_large_string(records.type)
    lines = records.cast(pa.large_binary() if large else pa.binary())
    at = np.arange(len(lines))
    values = lines.buffers()[2]
    if values is not None and (np.frombuffer(values, np.uint8) == 10).any():
        lines = pc.replace_substring(lines, "\n", " ")  # no text in JSON has one
    if lines.null_count == 0 and pc.all(pc.starts_with(lines, b"{")).as_py() in (True, None):
        return lines, at, {}
    good, errors = [], {}
    for i, r in enumerate(lines.to_pylist()):
        r = r and r.lstrip()
        if r and r[:1] == b"{":
            good.append((i, r))
        else:
            errors[i] = "there is no record" if not r else "a record is a JSON object"
    return pa.array([r for _, r in good], lines.type), np.array([i for i, _ in good], np.int64), errors


_engines: dict[str, _Engine] = {}  # of this Python worker, which Spark uses for many tasks; the last used at the end


def _score(source: bytes | Topic, records: pa.Array) -> _Scores:
    key = repr(source) if isinstance(source, Topic) else xxhash.xxh128_hexdigest(source)
    engine = _engines.pop(key, None) or _Engine(source)
    try:
        scores = engine.score(records)
    except BaseException:
        engine.close()  # Spark tries again, perhaps in this worker
        raise
    _engines[key] = engine
    while len(_engines) > 4:
        _engines.pop(next(iter(_engines))).close()
    return scores


class _Params(HasLabelCol, HasInputCols, HasPredictionCol, HasProbabilityCol, HasRawPredictionCol):
    errorCol: Param[str] = Param(Params._dummy(), "errorCol", "column for why a row cannot be scored", TypeConverters.toString)

    def getErrorCol(self) -> str:
        return str(self.getOrDefault(self.errorCol))

    def setErrorCol(self, value: str) -> Any:
        return self._set(errorCol=value)

    def setLabelCol(self, value: str) -> Any:
        return self._set(labelCol=value)

    def setInputCols(self, value: list[str]) -> Any:
        return self._set(inputCols=value)

    def setPredictionCol(self, value: str) -> Any:
        return self._set(predictionCol=value)

    def setProbabilityCol(self, value: str) -> Any:
        return self._set(probabilityCol=value)

    def setRawPredictionCol(self, value: str) -> Any:
        return self._set(rawPredictionCol=value)


#: An infinite number is a text in JSON. In the sample it would make its field one of texts.
_infinite = re.compile(r'[:,\[]"-?Infinity"')


class Classifier(Estimator, _Params, HasAggregationDepth, HasMaxIter, HasSeed, DefaultParamsReadable, DefaultParamsWritable):
    """A kernel SVM on random features (the learner ``lssvm``), as an estimator of Spark ML.

    Executors sum over their rows (`streamsvm sum`), a tree merges the sums, and the driver
    solves. The sums are exact: the model is the same to the bit however rows are divided
    and ordered. A sample, rows with the smallest hashes, fixes the features, their scales
    and the kernel width. A fit reads the DataFrame three times, and once more for each
    further step: cache one that is costly.

    Params:
        inputCols: fields of the events, by default all columns but the label: numbers,
            texts, categories, times, booleans, vectors, structs. Nulls and NaN are missing.
        labelCol: numbers, texts or booleans. Rows without a label are left out.
        options: options of the learner, such as ``{"features": 256}``; see
            `streamsvm learners lssvm`. ``{"loss": "hinge"}`` minimises the squared hinge, by
            Newton steps from least squares.
        maxIter: the most steps.
        sampleSize: rows in the sample.
        seed: of the sample and of the random features.
        aggregationDepth: of the tree.
        predictionCol, probabilityCol, rawPredictionCol, errorCol: what the model adds.
    """

    options: Param[Any] = Param(Params._dummy(), "options", "options of the learner lssvm, by name", TypeConverters.identity)
    sampleSize: Param[int] = Param(Params._dummy(), "sampleSize", "rows in the sample that fixes the features", TypeConverters.toInt)

    @keyword_only
    def __init__(
        self, *, labelCol: str = "label", inputCols: list[str] | None = None, options: Mapping[str, Any] | None = None, sampleSize: int = 10000, seed: int = 1, maxIter: int = 20,
        aggregationDepth: int = 2, predictionCol: str = "prediction", probabilityCol: str = "probability", rawPredictionCol: str = "rawPrediction", errorCol: str = "error",
    ) -> None:  # fmt: skip
        super().__init__()
        self._setDefault(options={}, sampleSize=10000, seed=1, maxIter=20, aggregationDepth=2, errorCol="error")
        self.setParams(**self._input_kwargs)

    @keyword_only
    def setParams(self, **kwargs: Any) -> Classifier:
        """Sets params by name."""
        self._set(**(kwargs or self._input_kwargs))
        return self

    def _fit(self, df: DataFrame) -> ClassifierModel:
        label = self.getLabelCol()
        inputs = self.getInputCols() if self.isDefined("inputCols") else [c for c in df.columns if c != label]
        df = df.filter(F.col(_quoted(label)).isNotNull())
        records = df.select(_record(df, [*inputs, label]).alias("record"))
        labels = [r[0] for r in df.select(F.col(_quoted(label))).distinct().limit(1001).collect()]
        if not 2 <= len(labels) <= 1000:
            raise ValueError(f"column {label}: {len(labels)} different labels, where 2 to 1,000 are possible")
        # The JSON is made of the rows of the sample alone.
        simple = [c for c in [*inputs, label] if isinstance(df.schema[c].dataType, T.AtomicType)]
        values = [*(F.col(_quoted(c)) for c in simple), *([_record(df, rest)] if (rest := [c for c in inputs if c not in simple]) else [])]
        rows = df.withColumn("__streamsvm", F.xxhash64(F.lit(self.getSeed()), *values)).orderBy("__streamsvm").limit(self.getOrDefault("sampleSize"))
        sample = sorted(zip(*(c.to_pylist() for c in rows.select("__streamsvm", _record(df, [*inputs, label])).toArrow().columns)))
        with tempfile.TemporaryDirectory() as d:
            plan = Path(d) / "plan.ssm"
            (Path(d) / "sample.jsonl").write_text("\n".join(r for _, r in sample if not _infinite.search(r)))
            args = [f"--set={k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in self.getOrDefault("options").items()]
            args += [f"--label={label}", "--labels=" + ",".join(json.dumps(v, ensure_ascii=False, default=float) for v in sorted(labels))]
            _filter("replay", f"{d}/sample.jsonl", "--learner=lssvm", "--tolerance=data", f"--seed={self.getOrDefault('seed')}", f"--model={plan}", *args)
            passes: list[str] = []
            for i in range(self.getMaxIter()):
                sketches = records.mapInArrow(_summing(plan.read_bytes()), "sketch binary").rdd.map(lambda r: bytes(r[0]))
                passes.append(f"{d}/{i}.sketch")
                Path(passes[-1]).write_bytes(sketches.treeReduce(_merge, self.getAggregationDepth()))
                data, summary = _filter("sum", "--solve", *passes)
                plan.write_bytes(data)
                if self.getOrDefault("options").get("loss") != "hinge" or "converged" in summary:
                    break
            else:
                log.warning("not converged after %d steps: %s", self.getMaxIter(), summary)
        model = ClassifierModel(data, summary)
        model._set(inputCols=inputs)
        return self._copyValues(model)


class ClassifierModel(Transformer, _Params, MLReadable, MLWritable):
    """The model that `Classifier` fits.

    `transform` adds the label predicted, a double if labels are numbers; probabilities and
    raw predictions as vectors in the order of `labels`; and errors, as `score` does. The
    probabilities are the logistic function, or the softmax, of raw predictions.

    Attributes:
        data: the bytes of a .ssm file, for `streamsvm predict --model` and `score`.
        labels: the labels.
        summary: how many rows have been summed, and how many could not be used.
    """

    def __init__(self, data: bytes, summary: str = "") -> None:
        super().__init__()
        self._setDefault(errorCol="error")
        self.data, self.summary = data, summary
        self.labels = Model(data).labels

    def _transform(self, df: DataFrame) -> DataFrame:
        from pyspark.ml.functions import array_to_vector

        first = self.labels[0]
        kind = "boolean" if isinstance(first, bool) else "string" if isinstance(first, str) else "double"
        scored = _apply(self.data, _vectors, f"raw array<double>, probability array<double>, prediction {kind}, error string")
        columns = [F.col(_quoted(c)) for c in df.columns]
        for name, value in (("rawPrediction", array_to_vector("__streamsvm.raw")), ("probability", array_to_vector("__streamsvm.probability")), ("prediction", F.col("__streamsvm.prediction")), ("error", F.col("__streamsvm.error"))):
            if name := self.getOrDefault(name + "Col"):
                columns.append(value.alias(name))
        return df.withColumn("__streamsvm", scored(_record(df, self.getInputCols()))).select(*columns)

    def write(self) -> MLWriter:
        """Returns a writer: the params as Spark ML keeps them, and the model in a Parquet file."""
        return _Writer(self)

    @classmethod
    def read(cls) -> MLReader[ClassifierModel]:
        """Returns a reader of what `write` writes."""
        return _Reader(cls)


class _Writer(MLWriter):
    def __init__(self, model: ClassifierModel) -> None:
        super().__init__()
        self.model = model

    def saveImpl(self, path: str) -> None:
        DefaultParamsWriter.saveMetadata(self.model, path, self.sparkSession)
        row = [(bytearray(self.model.data), self.model.summary)]
        self.sparkSession.createDataFrame(row, "model binary, summary string").coalesce(1).write.parquet(f"{path}/data")


class _Reader(MLReader[ClassifierModel]):
    def __init__(self, cls: type[ClassifierModel]) -> None:
        super().__init__()
        self.cls = cls

    def load(self, path: str) -> ClassifierModel:
        metadata = DefaultParamsReader.loadMetadata(path, self.sparkSession)
        row = self.sparkSession.read.parquet(f"{path}/data").first()
        model = self.cls(bytes(row.model), row.summary)
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model


def _vectors(s: _Scores) -> pa.Array:
    """The columns of a ClassifierModel."""
    f, p = s.classes()
    if f.shape[1] == 1:
        f = np.concatenate([-f, f], axis=1)
        one = 1 / (1 + np.exp(-np.clip(f[:, 1], -700, 700)))
        p = np.where(np.isnan(p), np.stack([1 - one, one], axis=1), p)
    else:
        e = np.exp(f - f.max(axis=1, keepdims=True))
        p = np.where(np.isnan(p), e / e.sum(axis=1, keepdims=True), p)
    bad = s.bad()
    offsets = pa.array(np.arange(len(f) + 1, dtype=np.int32) * f.shape[1], mask=np.append(bad, False))
    lists = [pa.ListArray.from_arrays(offsets, np.ascontiguousarray(v).ravel()) for v in (f, p)]
    number = not isinstance(s.model.labels[0], (bool, str))
    labels = pa.array([float(v) for v in s.model.labels] if number else s.model.labels)
    label = labels.take(pa.array(s.chosen(), mask=bad))
    return pa.StructArray.from_arrays([*lists, label, s.text()], ["raw", "probability", "prediction", "error"])


def _summing(plan: bytes) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function that sums over a partition, for mapInArrow."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with tempfile.TemporaryDirectory() as d:
            (Path(d) / "plan.ssm").write_bytes(plan)
            sketch, _ = _filter("sum", f"--model={d}/plan.ssm", "--codec=json", "--tolerance=data", records=(b.column(0) for b in batches))
        yield pa.RecordBatch.from_arrays([pa.array([sketch], pa.binary())], ["sketch"])

    return run


def _merge(a: bytes, b: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as d:
        for name, data in (("a", a), ("b", b)):
            (Path(d) / name).write_bytes(data)
        return _filter("sum", f"{d}/a", f"{d}/b")[0]


def _filter(command: str, *args: str, records: Iterator[pa.Array] = iter(())) -> tuple[bytes, str]:
    """Runs a command of the program on records. Returns what is on standard output, and on
    standard error.

    Raises:
        ValueError: it refuses the arguments or the data.
        ProgramError: it fails for another reason.
    """
    _threads()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
        with subprocess.Popen([program(), command, *args], stdin=subprocess.PIPE, stdout=out, stderr=said) as child:
            assert child.stdin
            try:
                for r in records:
                    if len(r):
                        child.stdin.write(_joined(r.cast(pa.binary())))
                        child.stdin.write(b"\n")
                child.stdin.close()
            except BrokenPipeError:
                pass  # its exit code says why
        out.seek(0)
        said.seek(0)
        text = said.read().decode(errors="replace")
        if child.returncode:
            raise failure(child.returncode, text[-4000:])
        return out.read(), text


def _threads() -> None:
    """Lets a child process use as many cores as the task has."""
    from pyspark import TaskContext

    if task := TaskContext.get():
        os.environ.setdefault("GOMAXPROCS", str(task.cpus()))
