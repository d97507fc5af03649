"""The preprocessing that belongs to a model (docs/formats/predictor.md, plain.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import _draws
from ._fields import Fields
from ._rows import F32, F64, I64, Dense, Rows, Sparse

_FLOAT32 = float(np.finfo(np.float32).max)
_DENSE_LIMIT = 1024  # features up to which sparse vectors are made dense


class Asinh:
    """The features of n that v → asinh((v − center) / size) is for, by position."""

    def __init__(self, at: I64, center: F64, size: F64, n: int):
        self.center, self.size = np.zeros(n), np.zeros(n)
        self.center[at], self.size[at] = center, size

    @staticmethod
    def read(f: Fields, n: int) -> Asinh | None:
        if not f.next("asinh"):
            return None
        at, center, size = f.ints("asinh"), f.floats("asinh_center"), f.floats("asinh_size")
        if not len(at) == len(center) == len(size) or (at < 0).any() or (at >= n).any() or not (size > 0).all():
            raise f.fail("asinh: features, centers and sizes do not go together")
        return Asinh(at, center, size, n)

    def of(self, v: F64, position: I64) -> F64:
        size = self.size[position]
        mapped = np.arcsinh((v - self.center[position]) / np.where(size > 0, size, 1))
        return np.where(size > 0, mapped, v)


@dataclass(frozen=True)
class Transform:
    hash: int
    scale: str
    fill: bool  # absent features are shifted too
    index: I64  # the features that shift and factor are for
    shift: F64
    factor: F64
    common: float
    low: float
    high: float
    asinh: Asinh | None = None

    @staticmethod
    def read(f: Fields) -> Transform:
        hash_dim = f.integer("hash_dim", 0, (1 << 31) - 1)
        scale = f.text("scale") or "none"
        if scale not in ("none", "unit", "common", "minmax", "standard", "running"):
            raise f.fail(f"scale: {scale!r} is not known")
        f.flag("auto")
        fill = f.flag("dense")
        index, shift, factor = f.ints("index"), f.floats("shift"), f.floats("factor")
        common = f.number("common")
        if scale == "running":
            f.number("span")
            f.integer("count")
            f.floats("squares")
        low, high = -1e15, 1e15
        if f.next("clip_low"):
            low, high = f.number("clip_low"), f.number("clip_high")
        asinh = Asinh.read(f, len(factor))
        if fill:
            index = np.arange(len(factor))
        else:
            shift = np.zeros(len(factor))
        if not len(index) == len(shift) == len(factor) or (np.diff(index) <= 0).any() or not low < high:
            raise f.fail("index: indices, shifts and factors do not go together")
        return Transform(hash_dim, scale, fill, index, shift, factor, common, low, high, asinh)

    def apply(self, x: Rows) -> Rows:
        if self.hash:
            x = self._hashed(x)
        if self.scale == "none":
            return x
        if self.scale in ("unit", "common"):
            return self._times(x)
        if self.fill:
            return self._shifted(x)
        if isinstance(x, Dense):
            return Dense(self._one(x.x, np.arange(x.dim)))
        return Sparse(x.ptr, x.idx, self._one(x.val, x.idx), x.dim)

    def _hashed(self, x: Rows) -> Rows:
        s = x.sparse()
        h = _draws.xxh64_of_ints(s.idx)
        slot = ((h & np.uint64((1 << 63) - 1)) % np.uint64(self.hash)).astype(np.int64)
        signed = np.where(h >> np.uint64(63), -s.val, s.val).astype(np.float64)
        at, where = np.unique(s.row * self.hash + slot, return_inverse=True)
        sums = np.bincount(where, signed, len(at)).clip(-_FLOAT32, _FLOAT32)
        return Sparse.of(at // self.hash, at % self.hash, sums, len(x), self.hash)

    def _times(self, x: Rows) -> Rows:
        c: float | F64 = self.common
        values = x.x if isinstance(x, Dense) else x.val
        if self.scale == "unit":
            square = values.astype(np.float64) ** 2
            s = square.sum(axis=1) if isinstance(x, Dense) else x.total(square)
            c = 1 / np.sqrt(np.where(s > 0, s, 1))
            c = c[:, None] if isinstance(x, Dense) else c[x.row]
        y = (values * np.float64(c)).clip(self.low, self.high).astype(np.float32)
        return Dense(y) if isinstance(x, Dense) else Sparse(x.ptr, x.idx, y, x.dim)

    def _one(self, v: F32, features: I64) -> F32:
        """The scaled values of features."""
        d, factor = v.astype(np.float64), np.zeros(len(features))
        if len(self.index):
            at = np.minimum(np.searchsorted(self.index, features), len(self.index) - 1)
            known = self.index[at] == features
            factor = np.where(known, self.factor[at], 0)
            if self.asinh:
                d = np.where(known, self.asinh.of(d, at), d)
            d -= np.where(known, self.shift[at], 0)
        with np.errstate(over="ignore"):
            y = np.where(factor == 0, d.clip(-1, 1), (d * factor).clip(self.low, self.high))
        return y.astype(np.float32)

    def _shifted(self, x: Rows) -> Rows:
        n = len(self.factor)
        known = self._one(x.take(np.arange(n)), np.arange(n))
        if x.dim <= n:
            return Dense(known)
        if isinstance(x, Dense) or x.dim <= _DENSE_LIMIT:
            return Dense(np.hstack([known, x.take(np.arange(n, x.dim)).clip(-1, 1)]))
        # Both parts as entries, by row and then by feature.
        beyond = x.idx >= n
        row = np.concatenate([np.repeat(np.arange(len(x)), n), x.row[beyond]])
        col = np.concatenate([np.tile(np.arange(n), len(x)), x.idx[beyond]])
        val = np.concatenate([known.ravel(), x.val[beyond].clip(-1, 1)])
        order = np.argsort(row, kind="stable")
        return Sparse.of(row[order], col[order], val[order], len(x), x.dim)
