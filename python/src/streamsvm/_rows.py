"""Batches of vectors, dense or sparse, of 32-bit numbers as the wire has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Dense:
    x: F32  # a row for each vector

    def __len__(self) -> int:
        return len(self.x)

    @property
    def dim(self) -> int:
        return int(self.x.shape[1])

    def part(self, start: int, end: int) -> Dense:
        return Dense(self.x[start:end])

    def take(self, cols: I64) -> F32:
        """The features cols, which increase; 0 where a vector has none."""
        n = int(np.searchsorted(cols, self.dim))
        if n == len(cols) == self.dim:
            return self.x
        out = np.zeros((len(self), len(cols)), np.float32)
        out[:, :n] = self.x[:, cols[:n]]
        return out

    def sparse(self) -> Sparse:
        row, col = np.nonzero(self.x)
        return Sparse.of(row, col, self.x[row, col], len(self), self.dim)


@dataclass(frozen=True)
class Sparse:
    ptr: I64  # vector i is idx, val [ptr[i]:ptr[i+1]]
    idx: I64  # increases within a vector
    val: F32
    dim: int

    @staticmethod
    def of(row: I64, col: I64, val: npt.NDArray[Any], n: int, dim: int) -> Sparse:
        """Of entries whose rows do not decrease, and whose columns increase within one."""
        return Sparse(np.searchsorted(row, np.arange(n + 1)), col, val.astype(np.float32), dim)

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @property
    def row(self) -> I64:
        return np.repeat(np.arange(len(self)), np.diff(self.ptr))

    def part(self, start: int, end: int) -> Sparse:
        a, b = self.ptr[start], self.ptr[end]
        return Sparse(self.ptr[start : end + 1] - a, self.idx[a:b], self.val[a:b], self.dim)

    def take(self, cols: I64) -> F32:
        out = np.zeros((len(self), len(cols)), np.float32)
        if len(cols):
            at = np.minimum(np.searchsorted(cols, self.idx), len(cols) - 1)
            known = cols[at] == self.idx
            out[self.row[known], at[known]] = self.val[known]
        return out

    def sparse(self) -> Sparse:
        return self

    def total(self, values: F64) -> F64:
        """The sum of values, one for each entry, over each vector."""
        return np.bincount(self.row, values, len(self)).astype(np.float64)


Rows = Dense | Sparse


def matrix(x: Any) -> Rows:
    """The vectors of a matrix: whatever numpy makes one of, or scipy's sparse ones."""
    if hasattr(x, "tocsr"):
        m = x.tocsr().copy()
        m.sum_duplicates()
        m.sort_indices()
        values = m.data.astype(np.float32)
        rows: Rows = Sparse(m.indptr.astype(np.int64), m.indices.astype(np.int64), values, m.shape[1])
    else:
        try:
            values = np.asarray(x, np.float32)
        except (TypeError, ValueError) as e:
            raise ValueError(f"neither a matrix of numbers nor a list of events (dicts): {e}") from None
        if values.ndim != 2:
            raise ValueError(f"an array of {values.ndim} dimensions, want 2: a row for each vector; of one vector x that is [x]")
        rows = Dense(values)
    if not np.isfinite(values).all():
        if isinstance(rows, Sparse):
            k = int(np.nonzero(~np.isfinite(values))[0][0])
            i, j = int(rows.row[k]), int(rows.idx[k])
        else:
            i, j = (int(k[0]) for k in np.nonzero(~np.isfinite(values)))
        raise ValueError(f"row {i}: feature {j} is not finite as a number of 32 bits")
    return rows
