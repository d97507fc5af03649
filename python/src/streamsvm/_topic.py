"""Updates of a model from the records of its topic (docs/formats/model-topic.md)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import xxhash

from ._fields import Fields, FormatError

log = logging.getLogger("streamsvm")

_LARGEST = 1 << 30  # bytes of a payload, and of what a patch makes


@dataclass(frozen=True)
class Update:
    """One version of a model, as a record or several say."""

    model: str
    learner: str
    version: int
    epoch: int
    examples: int  # learned from
    created_ms: int  # since 1970-01-01 UTC
    evaluation: dict[str, float]  # measures at that moment, by name
    offsets: dict[tuple[str, int], int]  # by topic and partition, the next to be read
    payload: bytes = field(repr=False)  # an encoded predictor


@dataclass(frozen=True)
class Chunk:
    update: Update
    delta: bool
    base: int
    hash: int
    size: int
    chunk: int
    chunks: int


def model_of(value: bytes) -> str | None:
    """The model of a record; None of one that is not for this version."""
    f = Fields(value, "record")
    if f.integer("format") != 1:
        return None
    f.text("kind")
    return f.text("model")


def read(value: bytes) -> Chunk | int | None:
    """Reads a record: part of an update, the epoch of a claim, or None for what a
    version of its own is needed for."""
    f = Fields(value, "record")
    if f.integer("format") != 1:
        return None
    kind, model = f.text("kind"), f.text("model")
    if kind == "claim":
        return f.integer("epoch")
    if kind not in ("full", "delta"):
        return None
    learner, version, base, epoch = f.text("learner"), f.integer("version", 1), f.integer("base"), f.integer("epoch")
    f.integer("step")
    examples, offsets = f.integer("examples"), {}
    for _ in range(f.count("offsets")):
        place = f.text("topic"), f.integer("partition")
        offsets[place] = f.integer("next")
    created, evaluation = f.integer("created_ms"), {}
    for _ in range(f.count("evaluation")):
        name = f.text("name")
        evaluation[name] = f.number("value", finite=False)
    payload_hash, size = f.integer("payload_hash"), f.integer("payload_size", 0, _LARGEST)
    chunk, chunks = f.integer("chunk", 0), f.integer("chunks", 1, max(1, size))
    chunk_hash, data = f.integer("chunk_hash"), f.blob("data")
    if xxhash.xxh64_intdigest(data) != chunk_hash or chunk >= chunks or len(data) > size:
        raise f.fail(f"chunk {chunk} of {chunks} is damaged")
    u = Update(model, learner, version, epoch, examples, created, evaluation, offsets, data)
    return Chunk(u, kind == "delta", base, payload_hash, size, chunk, chunks)


class Reader:
    """Puts the updates of one model together, records in any order of partitions."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.newest: Update | None = None
        self._epoch = 0
        self._parts: dict[tuple[int, int, bool, int, int, int], dict[int, Chunk]] = {}

    def delete(self) -> None:
        """Forgets the model, which has been deleted. Only a larger epoch is newer."""
        if self.newest:
            self._epoch = max(self._epoch, self.newest.epoch + 1)
            self.newest = None
            self._parts.clear()

    def add(self, value: bytes) -> bool:
        """Takes a record of the model in, and returns whether `newest` is another.

        Raises:
            FormatError: the record or the update cannot be used.
        """
        c = read(value)
        if c is None:
            return False
        if isinstance(c, int):
            self._epoch = max(self._epoch, c)
            return False
        u = c.update
        if u.epoch < self._epoch:  # of a trainer that has been replaced
            return False
        self._epoch = u.epoch
        key = (u.epoch, u.version, c.delta, c.hash, c.size, c.chunks)
        parts = self._parts.setdefault(key, {})
        parts[c.chunk] = c
        if len(parts) < c.chunks:
            while len(self._parts) > 3:
                del self._parts[next(iter(self._parts))]
            return False
        del self._parts[key]
        payload = b"".join(parts[k].update.payload for k in range(c.chunks))
        if len(payload) != c.size or xxhash.xxh64_intdigest(payload) != c.hash:
            raise FormatError(f"version {u.version} of {u.model}: the payload is damaged")
        now = self.newest
        if now and (u.epoch, u.version) <= (now.epoch, now.version):
            return False
        if c.delta:
            if not now or (now.epoch, now.version) != (u.epoch, c.base):
                return False  # the next full will do
            try:
                payload = patch(now.payload, payload)
            except FormatError as e:
                raise FormatError(f"version {u.version} of {u.model}: {e}") from None
        self.newest = Update(
            u.model, u.learner, u.version, u.epoch, u.examples, u.created_ms, u.evaluation, u.offsets, payload
        )
        return True


def patch(base: bytes, delta: bytes) -> bytes:
    """Returns what the delta makes of base (docs/formats/delta.md)."""
    at = 4

    def uvarint() -> int:
        nonlocal at
        v = shift = 0
        while True:
            if at >= len(delta) or shift > 63:
                raise FormatError("delta: it ends within a number")
            b = delta[at]
            at += 1
            v |= (b & 0x7F) << shift
            if b < 0x80:
                return v
            shift += 7

    if delta[:4] != b"ssd1":
        raise FormatError("delta: not of a known version")
    before, after = uvarint(), uvarint()
    hashes, at = delta[at : at + 16], at + 16
    if before != len(base) or xxhash.xxh64_intdigest(base).to_bytes(8, "little") != hashes[:8]:
        raise FormatError("delta: it is for another version")
    if after > _LARGEST:
        raise FormatError(f"delta: a result of {after} bytes")
    out, shift = bytearray(), 0
    while len(out) < after:
        n = uvarint()
        if n:
            z = uvarint()
            shift += z >> 1 ^ -(z & 1)
            start = len(out) + shift
            if start < 0 or start + n > len(base) or len(out) + n > after:
                raise FormatError("delta: it copies from outside")
            out += base[start : start + n]
        m = uvarint()
        if m > len(delta) - at or len(out) + m > after or not n and not m:
            raise FormatError("delta: it does not hold what it inserts")
        out += delta[at : at + m]
        at += m
    result = bytes(out)
    if at != len(delta) or xxhash.xxh64_intdigest(result).to_bytes(8, "little") != hashes[8:]:
        raise FormatError("delta: the result is not the one that was meant")
    return result
