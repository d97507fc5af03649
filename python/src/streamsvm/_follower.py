"""Following a model topic: always the newest version, swapped while in use."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy.typing as npt

from ._fields import FormatError
from ._model import Inputs, Model
from ._rows import F64
from ._topic import Reader, Update, model_of

log = logging.getLogger("streamsvm")


class NoModel(RuntimeError):
    """There is no model yet, or none that can be used; the message says why."""


class Follower:
    """Follows a model in a model topic and answers with its newest version.

    A thread reads the topic, as a subscriber without a group: nothing is committed
    or changed. Each call of `predict` and the like takes the version of the moment;
    to make several calls of one version, take `model` once. A version that cannot be
    read is logged (logger ``streamsvm``) and leaves the one before in use.

    Args:
        brokers: addresses, ``host:port``, with commas between them.
        topic: the model topic.
        model: name of the model; may be left out if the topic holds only one.
        alias: follow what the model's alias points to, such as ``champion``,
            instead of every version.
        config: further settings of confluent-kafka's consumer, such as
            ``security.protocol``.

    Use it as a context manager, or call `close`.
    """

    def __init__(
        self,
        brokers: str,
        topic: str,
        model: str | None = None,
        alias: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            import confluent_kafka
        except ImportError:
            raise ImportError("Follower needs confluent-kafka: pip install 'streamsvm[kafka]'") from None
        if alias is not None and model is None:
            raise ValueError(f"the alias {alias!r} is one of which model?")
        self.topic = topic
        self._name = model if alias is None else f"{model}@{alias}"
        self._kafka = confluent_kafka
        self._consumer = confluent_kafka.Consumer(
            {
                "client.id": "streamsvm-python",
                "enable.metrics.push": False,  # its log is on standard error
                **(config or {}),
                "bootstrap.servers": brokers,
                "group.id": "streamsvm-follower",  # wanted, and never joined
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "error_cb": self._trouble,
            }
        )
        self._readers: dict[str, Reader] = {}
        self._model: Model | None = None
        self._update: Update | None = None
        self._swaps = 0
        self._error = ""  # why there is no model, or no newer one
        self._failed: BaseException | None = None
        self._changed = threading.Condition()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"streamsvm {topic}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends the thread. The last model stays usable."""
        self._ending.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    @property
    def model(self) -> Model:
        """The newest version. Raises NoModel if there is none; see `wait`."""
        m = self._model
        if m is None:
            raise NoModel(self._why())
        return m

    @property
    def update(self) -> Update:
        """Where the newest version comes from: epoch, examples, offsets, evaluation."""
        u = self._update
        if u is None:
            raise NoModel(self._why())
        return u

    def newest(self) -> tuple[Model, Update]:
        """Returns `model` and `update` of one version."""
        with self._changed:
            return self.model, self.update

    @property
    def version(self) -> int:
        """The version of `model`, from 1 on; 0 as long as there is none."""
        m = self._model
        return m.version if m else 0

    @property
    def swaps(self) -> int:
        """How many versions have been taken into use."""
        return self._swaps

    def wait(self, version: int = 1, timeout: float | None = None) -> Model:
        """Waits until there is a model of this version or a newer one, and returns it.

        Raises:
            TimeoutError: there was none within timeout seconds; the message says what
                the topic holds, and what has gone wrong.
            NoModel: there will be none: the topic holds several models, or the
                follower was closed.
        """
        until = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while self.version < version:
                if self._failed or not self._thread.is_alive():
                    raise NoModel(self._why()) from self._failed
                rest = 1.0 if until is None else until - time.monotonic()
                if rest <= 0:
                    raise TimeoutError(f"after {timeout} s: {self._why(version)}")
                self._changed.wait(min(rest, 1.0))
            return self.model

    def predict(self, x: Inputs) -> npt.NDArray[Any]:
        """`Model.predict` of the newest version."""
        return self.model.predict(x)

    def predict_proba(self, x: Inputs) -> F64:
        """`Model.predict_proba` of the newest version."""
        return self.model.predict_proba(x)

    def decision(self, x: Inputs) -> F64:
        """`Model.decision` of the newest version."""
        return self.model.decision(x)

    def _why(self, version: int = 1) -> str:
        what = self._name or "any model"
        have = f"the newest version is {self.version}, not yet {version}" if self._model else f"there is no version of {what}"
        if self._failed:
            have = str(self._failed)
        elif self._ending.is_set() and not self._model:
            have = "the follower is closed"
        others = sorted(n for n in self._readers if n != self._name)
        if others and not self._model and not self._failed:
            have += f"; the topic holds {', '.join(others[:10])}"
        return f"topic {self.topic}: {have}" + (f": {self._error}" if self._error else "")

    def _trouble(self, e: Any) -> None:
        text = str(e.str())
        if text != self._error:  # it comes again and again
            log.warning("topic %s: %s", self.topic, text)
        self._error = text

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as e:
            log.error("topic %s: %s", self.topic, e)
            self._failed = e
        finally:
            self._consumer.close()
            with self._changed:
                self._changed.notify_all()

    def _partitions(self) -> set[int]:
        """The partitions of the topic; none as long as it is not there."""
        try:
            t = self._consumer.list_topics(self.topic, timeout=2).topics[self.topic]
        except self._kafka.KafkaException as e:
            self._trouble(e.args[0])
            return set()
        if t.error is not None:
            self._error = str(t.error.str())
            return set()
        return set(t.partitions)

    def _follow(self) -> None:
        known: set[int] = set()
        behind: set[int] = set()  # partitions not yet read to their end
        looked = 0.0
        while not self._ending.is_set():
            if time.monotonic() - looked > (60 if known else 0.5):
                if new := self._partitions() - known:
                    if not known:
                        self._error = ""
                    parts = [self._kafka.TopicPartition(self.topic, p, self._kafka.OFFSET_BEGINNING) for p in sorted(new)]
                    self._consumer.incremental_assign(parts)
                    known |= new
                    behind |= new
                looked = time.monotonic()
            if not known:
                self._consumer.poll(0.2)  # for errors
                continue
            changed = False
            for m in self._consumer.consume(500, 0.1):
                e = m.error()
                if e is None:
                    changed |= self._take(m)
                elif e.code() == self._kafka.KafkaError._PARTITION_EOF:
                    changed |= m.partition() in behind
                    behind.discard(m.partition())
                elif e.code() in (self._kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED, self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART):
                    self._trouble(e)
                else:
                    log.warning("topic %s: %s", self.topic, e)
            # No version that is older than the newest one in the topic is ever used.
            if changed and not behind:
                self._swap()

    def _take(self, m: Any) -> bool:
        """Takes a record in, and returns whether there may be a new version."""
        value = m.value()
        if value is None:  # a tombstone
            name, _, rest = (m.key() or b"").decode(errors="replace").partition("/")
            if rest == "full/0" and name in self._readers:
                self._readers[name].delete()
            return False
        try:
            name = model_of(value)
            if name is None:
                return False
            reader = self._readers.get(name)
            if reader is None:
                reader = self._readers[name] = Reader(name)
            if self._name is None and "@" not in name or self._name == name:
                return reader.add(value)
        except FormatError as e:
            self._error = f"partition {m.partition()} offset {m.offset()}: {e}"
            log.warning("topic %s: %s", self.topic, self._error)
        return False

    def _swap(self) -> None:
        if self._name is None:
            names = sorted(n for n, r in self._readers.items() if "@" not in n and r.newest)
            if len(names) > 1:
                raise NoModel(f"it holds {len(names)} models, choose one: {', '.join(names)}")
            if not names:
                return
            self._name = names[0]
        reader = self._readers.get(self._name)
        u = reader.newest if reader else None
        if u is None or u is self._update:
            return
        try:
            model = Model(u.payload, u.version)
        except FormatError as e:
            self._error = f"version {u.version} of {u.model}: {e}"
            log.warning("topic %s: %s", self.topic, self._error)
            return
        with self._changed:
            self._model, self._update, self._error = model, u, ""
            self._swaps += 1
            self._changed.notify_all()
