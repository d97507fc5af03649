"""Writes what a trainer writes: records of a model topic, and small predictors."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import msgpack
import xxhash

DOCS = Path(__file__).resolve().parents[2] / "docs"


def fields(*pairs: Any) -> bytes:
    """A field sequence; integers take their full width."""
    out = b""
    for name, v in zip(pairs[::2], pairs[1::2]):
        out += msgpack.packb(name)
        if isinstance(v, int) and not isinstance(v, bool):
            signed = name in ("partition", "next", "created_ms", "max_features", "dim", "index", "hash_dim")
            out += struct.pack(">Bq", 0xD3, v) if signed else struct.pack(">BQ", 0xCF, v)
        elif isinstance(v, list):
            out += bytes([0x90 + len(v)]) + b"".join(v)
        elif v is not None:
            out += msgpack.packb(v, use_bin_type=True)
    return out


def records(model: str, version: int, epoch: int, payload: bytes, base: int = 0, chunks: int = 1) -> list[bytes]:
    """The values of an update's records: a full, or with a base a delta."""
    size = -(-len(payload) // chunks)
    out = []
    for k in range(chunks):
        data = payload[k * size : (k + 1) * size]
        out.append(
            fields(
                "format", 1, "kind", "delta" if base else "full", "model", model, "learner", "online",
                "version", version, "base", base, "epoch", epoch, "step", 70, "examples", 700,
                "offsets", [fields("topic", "in", "partition", 0, "next", 7)], "created_ms", 1700000000000,
                "evaluation", [fields("name", "accuracy", "value", 0.9)],
                "payload_hash", xxhash.xxh64_intdigest(payload), "payload_size", len(payload),
                "chunk", k, "chunks", chunks, "chunk_hash", xxhash.xxh64_intdigest(data), "data", data,
            )
        )  # fmt: skip
    return out


def claim(model: str, epoch: int) -> bytes:
    return fields("format", 1, "kind", "claim", "model", model, "epoch", epoch, "owner", "o", "by", "b", "created_ms", 0)


def predictor(bias: float, weights: tuple[float, ...] = (1.0, 0.0)) -> bytes:
    """A linear model of two features with the labels 0 and 1."""
    n = len(weights)
    model = b"lin1" + struct.pack(f"<IQd{n}d", 0, n, bias, *weights)
    body = b"streamsvm-predictor-3\n" + fields(
        "learner", "online", "task", "classify", "options", [],
        "signature", None, "codec", "json", "labels", "0,1", "max_features", 100, "dim", n, "index", n,
        "transform", None, "hash_dim", 0, "scale", "none", "auto", False, "dense", False,
        "index", b"", "shift", b"", "factor", b"", "common", 0.0,
        "model", model, "probability", None, "form", "none",
    )  # fmt: skip
    return body + xxhash.xxh64_intdigest(body).to_bytes(8, "little")


def insert(base: bytes, result: bytes) -> bytes:
    """A delta that copies what is equal at the start and at the end, of equal lengths."""
    a = next(i for i in range(len(base)) if base[i] != result[i])
    b = next(i for i in range(len(base)) if base[-1 - i] != result[-1 - i])

    def uvarint(v: int) -> bytes:
        return bytes([v]) if v < 0x80 else bytes([v & 0x7F | 0x80]) + uvarint(v >> 7)

    end = len(base) - b
    steps = uvarint(a) + b"\0" + uvarint(end - a) + result[a:end] + (uvarint(b) + b"\0\0" if b else b"")
    hashes = b"".join(xxhash.xxh64_intdigest(x).to_bytes(8, "little") for x in (base, result))
    return b"ssd1" + uvarint(len(base)) + uvarint(len(result)) + hashes + steps


def hexdump(page: str, number: int = 0) -> bytes:
    """The bytes of a hexdump in a page of docs/formats."""
    blocks = (DOCS / "formats" / page).read_text().split("```hexdump\n")[1:]
    out = b""
    for line in blocks[number].split("```")[0].splitlines():
        out += bytes.fromhex(line.split("  ", 1)[1].split("|")[0])
    return out
