"""The forms that models have (docs/formats/models.md), read and asked for scores."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from . import _draws
from ._fields import Fields, FormatError
from ._rows import F32, F64, I64, Dense, Rows, Sparse
from ._transform import Asinh, Transform

_ROOM = 1 << 22  # numbers of a temporary array
_REST = b"streamsvm-rest-1\n"


class Form(ABC):
    @abstractmethod
    def scores(self, x: Rows) -> F64:
        """f(x) for each vector; a column for each class where there are more than two."""


def sigmoid(z: F64) -> F64:
    e = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0, 1, e) / (1 + e))


def parts(x: Rows, width: int) -> Iterator[tuple[int, int, Rows]]:
    """Cuts a batch so that an array of so many columns stays in a cache."""
    step = max(1, (_ROOM >> 4) // max(width, 1))
    for start in range(0, len(x), step):
        end = min(start + step, len(x))
        yield start, end, x.part(start, end)


@dataclass(frozen=True)
class Linear(Form):
    bias: float
    weights: F64

    @staticmethod
    def read(data: bytes) -> Linear:
        def fail(why: str) -> FormatError:
            return FormatError(f"linear model: {why}")

        if len(data) < 24 or data[:4] != b"lin1":
            raise fail("it does not begin with lin1")
        form = int.from_bytes(data[4:8], "little")
        n = int.from_bytes(data[8:16], "little")
        bias = float(np.frombuffer(data, "<f8", 1, 16)[0])
        body = data[24:]
        if form == 0 and len(body) == 8 * n:
            w = np.frombuffer(body, "<f8")
        elif form == 1 and n < 1 << 31 and len(body) >= (n + 63) // 64 * 8 and len(body) % 8 == 0:
            bits = (n + 63) // 64 * 8
            at = np.nonzero(np.unpackbits(np.frombuffer(body, np.uint8, bits), bitorder="little"))[0]
            if len(body) - bits != 8 * len(at) or len(at) and at[-1] >= n:
                raise fail(f"{len(at)} weights in {len(body) - bits} bytes")
            w = np.zeros(n)
            w[at] = np.frombuffer(body, "<f8", offset=bits)
        else:
            raise fail(f"{n} weights of form {form} in {len(body)} bytes")
        if not (np.isfinite(w).all() and math.isfinite(bias)):
            raise fail("a number is not finite")
        return Linear(bias, w)

    def scores(self, x: Rows) -> F64:
        n = min(len(self.weights), x.dim)
        if isinstance(x, Dense):
            return self.bias + x.x[:, :n].astype(np.float64) @ self.weights[:n]
        known = x.idx < n
        return self.bias + x.total(np.where(known, x.val * self.weights[np.where(known, x.idx, 0)] if n else 0.0, 0.0))


def _kernel(f: Fields) -> tuple[int, float, float, int, float]:
    """Kind, gamma, coef0, degree and bias of a kernel."""
    f.group("kernel")
    kind = f.integer("kind", 0, 3)
    return kind, f.number("gamma"), f.number("coef0"), f.integer("degree", 0, 64), f.number("bias")


def _listed(f: Fields, dim: int, n: int) -> tuple[I64, Sparse]:
    """The features that points have, and the points as vectors of these."""
    f.flag("sparse")
    if f.flag("full"):
        planes = f.next("planes")
        val = f.floats("planes" if planes else "val", "<f4", planes)
        if dim < 1 or len(val) != n * dim:
            raise f.fail(f"val: {len(val)} numbers do not make {n} points of {dim} features")
        cols, points = np.arange(dim), Dense(val.reshape(dim, n).T if planes else val.reshape(n, dim)).sparse()
    else:
        ends, idx, val = f.ints("ends"), f.ints("idx"), f.floats("val", "<f4")
        ptr = np.concatenate([np.zeros(1, np.int64), ends])
        if len(ends) != n or len(idx) != len(val) or ptr[-1] != len(idx) or (np.diff(ptr) < 0).any():
            raise f.fail("ends: they do not cut idx and val into points")
        rows = np.repeat(np.arange(n), np.diff(ptr))
        if (idx >= dim).any() or ((np.diff(idx) <= 0) & (np.diff(rows) == 0)).any():
            raise f.fail("idx: features are out of order")
        cols, at = np.unique(idx, return_inverse=True)
        points = Sparse(ptr, at.astype(np.int64), val, len(cols))
    return cols, points


def _unpacked(f: Fields, dim: int, n: int) -> tuple[I64, Sparse]:
    """What _listed returns, of points whose values are codes of a few bits."""
    f.flag("sparse")
    gaps, count = f.integer("gaps", -1, 16), f.integer("count", 0, 31)
    widths = np.frombuffer(f.blob("widths"), np.uint8).astype(np.int64)
    exps = np.frombuffer(_even(f.blob("exponents")), "<i2").astype(np.int64)
    bases, values = f.signed("bases"), f.floats("values", "<f4")
    data = f.blob("bits")
    fail = f.fail("bits: the points cannot be read")
    if not 0 < dim <= 1 << 16 or not len(widths) == len(exps) == len(bases) == dim or (widths > 32).any() or len(data) < n:
        raise fail
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    if gaps < 0:
        total = (int(widths.sum()) + 7) // 8 * 8
        if len(bits) != n * total:
            raise fail
        idx = np.tile(np.arange(dim), n)
        at = (np.arange(n)[:, None] * total + (np.cumsum(widths) - widths)[None, :]).ravel()
        ptr = np.arange(n + 1) * dim
    else:
        # A point is read after the other, since where a feature is says how long it is.
        text, found, starts, ends, place = bits.tobytes(), [], [], [0], 0
        size = widths.tolist()

        def number(width: int) -> int:
            nonlocal place
            v = sum(b << k for k, b in enumerate(text[place : place + width]))
            place += width
            return v

        for _ in range(n):
            last = -1
            for _ in range(number(count)):
                stop = text.find(0, place)
                last += 1 + ((stop - place) << gaps)
                place = stop + 1
                last += number(gaps)
                if stop < 0 or last >= dim:
                    raise fail
                found.append(last)
                starts.append(place)
                place += size[last]
            ends.append(len(found))
            place = (place + 7) // 8 * 8
        if place != len(text):
            raise fail
        idx, at, ptr = np.array(found, np.int64), np.array(starts, np.int64), np.array(ends, np.int64)
    codes = np.zeros(len(idx), np.int64)
    for k in range(int(widths.max())):
        here = widths[idx] > k
        codes[here] |= bits[at[here] + k].astype(np.int64) << k
    exp, base = exps[idx], bases[idx] + codes
    val = np.zeros(len(idx), np.float32)
    plain, listed = exp == 0x7FFE, exp == 0x7FFF
    grid = ~(plain | listed)
    if (base[listed] < 0).any() or (base[listed] >= len(values)).any() or (exp[grid] < -149).any() or (exp[grid] > 127).any():
        raise fail
    val[plain] = codes[plain].astype(np.uint32).view(np.float32)
    val[listed] = values[base[listed]]
    with np.errstate(over="ignore"):
        val[grid] = np.ldexp(base[grid].astype(np.float64), exp[grid])
    if not np.isfinite(val).all():
        raise fail
    kept = val != 0
    ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])[ptr]
    idx, val = idx[kept], val[kept]
    cols, where = np.unique(idx, return_inverse=True)
    return cols, Sparse(ptr, where.astype(np.int64), val, len(cols))


def _even(data: bytes) -> bytes:
    return data[: len(data) // 2 * 2]


@dataclass(frozen=True)
class Kernel(Form):
    """f(x) = offset + Σ coef_j · (K(p_j, x) + bias)"""

    kind: int  # 0 rbf, 1 linear, 2 polynomial, 3 laplacian
    gamma: float
    coef0: float
    degree: int
    bias: float
    cols: I64  # the features that a point has; points are vectors of these
    points: Rows
    coef: F64
    offset: float
    _dense: F64 | None = field(repr=False)  # points, where they are dense enough

    @staticmethod
    def read(data: bytes) -> Kernel:
        f = Fields(data, "kernel model")
        packed = f.next("coef32")
        coef = f.floats("coef32", "<f4").astype(np.float64) if packed else np.zeros(0)
        f.group("points")
        kind, gamma, coef0, degree, bias = _kernel(f)
        dim = f.integer("dim", 0, 1 << 31)
        if packed:
            n = len(coef)
            cols, points = _unpacked(f, dim, n)
        else:
            n = f.integer("points", 0, 1 << 31)
            cols, points = _listed(f, dim, n)
            coef = f.floats("coef")
        offset = f.number("offset") if f.more() else 0.0
        f.end()
        if len(coef) != n:
            raise f.fail(f"coef: {len(coef)} coefficients for {n} points")
        return Kernel.of(kind, gamma, coef0, degree, bias, cols, points, coef, offset)

    @staticmethod
    def of(kind: int, gamma: float, coef0: float, degree: int, bias: float, cols: I64, points: Sparse, coef: F64, offset: float) -> Kernel:
        dense = None
        if len(coef) * len(cols) <= max(2 * _ROOM, 4 * len(points.val)):
            dense = points.take(np.arange(len(cols))).astype(np.float64)
        return Kernel(kind, gamma, coef0, degree, bias, cols, points, coef, offset, dense)

    def scores(self, x: Rows) -> F64:
        out = np.full(len(x), self.offset + self.bias * float(self.coef.sum()))
        width = max(len(self.coef), len(self.cols)) if self._dense is not None else len(self.points.sparse().val)
        for start, end, part in parts(x, width):
            out[start:end] += self.values(part) @ self.coef
        return out

    def values(self, x: Rows) -> F64:
        """K of each vector and each point."""
        z = x.take(self.cols).astype(np.float64)
        if self.kind == 3:
            d = self._distances(z)
            d += self._beyond(x, np.abs)[:, None]
            return np.exp(-self.gamma * d)
        dots = self._sums(z, lambda a, b: a * b) if self._dense is None else z @ self._dense.T
        if self.kind == 1:
            return dots
        if self.kind == 2:
            return np.asarray((self.gamma * dots + self.coef0) ** self.degree)
        dots *= -2
        dots += self.norms
        dots += (np.einsum("ij,ij->i", z, z) + self._beyond(x, np.square))[:, None]
        np.maximum(dots, 0, out=dots)
        dots *= -self.gamma
        return np.exp(dots, out=dots)

    @cached_property
    def norms(self) -> F64:
        p = self.points.sparse()
        return p.total(p.val.astype(np.float64) ** 2)

    def _beyond(self, x: Rows, of: Callable[[F64], F64]) -> F64:
        """The sum of a function of those features that no point has."""
        if isinstance(x, Dense) and x.dim <= len(self.cols) == self.cols.max(initial=-1) + 1:
            return np.zeros(len(x))
        s = x.sparse()
        return s.total(np.where(np.isin(s.idx, self.cols), 0, of(s.val.astype(np.float64))))

    def _distances(self, z: F64) -> F64:
        """Sums of absolute differences."""
        if self._dense is None:
            p = self.points.sparse()
            d = self._sums(z, lambda a, b: np.abs(a - b) - np.abs(a) - np.abs(b))
            d += p.total(np.abs(p.val.astype(np.float64)))
            return np.asarray(d + np.abs(z).sum(axis=1)[:, None])
        d = np.zeros((len(z), len(self.coef)))
        for j in range(len(self.cols)):
            d += np.abs(z[:, j, None] - self._dense[:, j])
        return d

    def _sums(self, z: F64, of: Callable[[F64, F64], F64]) -> F64:
        """For each vector and point the sum of a function over the point's features."""
        p = self.points.sparse()
        out = np.zeros((len(z), len(p)))
        there = np.nonzero(np.diff(p.ptr))[0]
        if len(there):
            out[:, there] = np.add.reduceat(of(z[:, p.idx], p.val.astype(np.float64)), p.ptr[there], axis=1)
        return out


class Features(Form):
    """f(x) = offset + scale · Σ coef_j cos(2π(⟨ω_j, x⟩ + b_j))

    Frequencies are drawn for the features that come, and kept.
    """

    def __init__(self, data: bytes) -> None:
        f = Fields(data, "model of random features")
        if f.integer("generator") != 1:
            raise f.fail("generator: it draws other numbers than 1, which is known here")
        self.coef = np.zeros(0)
        if f.flag("empty"):
            f.end()
            return
        self._seed = f.integer("seed", 0)
        self._laplacian = f.flag("laplacian")
        self._gamma = f.number("gamma")
        self._block = f.integer("block", 1, 1 << 20)
        f.integer("dim")
        fresh, ahead = f.flag("fresh"), f.integer("next", 0)
        self._scale, self._offset = f.number("scale"), f.number("offset")
        f.number("rho")
        f.number("cluster")
        f.integer("choice")
        packed = f.next("coef32")
        self.coef = f.floats("coef32", "<f4").astype(np.float64) if packed else f.floats("coef")
        f.end()
        slots = len(self.coef) // self._block
        if not slots or len(self.coef) % self._block or fresh and ahead < slots or not 0 < self._gamma < 1e15:
            raise f.fail(f"coef: {len(self.coef)} coefficients in blocks of {self._block}, gamma {self._gamma}")
        last = ahead - 1
        self._blocks = [last - (last % slots + slots - s) % slots if fresh else s for s in range(slots)]
        self._phases = np.concatenate([_draws.phases(self._seed, k, self._block) for k in self._blocks])
        self._kept: dict[int, F32] = {}  # frequencies by feature

    def _frequencies(self, cols: I64) -> F32:
        kept = self._kept
        new = np.array([j for j in cols.tolist() if j not in kept], np.int64)
        if kept and (len(kept) + len(new)) * len(self.coef) > 16 * _ROOM:
            self._kept = kept = {}  # other threads keep the one that they have
            new = cols
        step = max(1, _ROOM // (4 * len(self.coef)))
        for start in range(0, len(new), step):
            some = new[start : start + step]
            draws = [
                _draws.frequencies(self._seed, k, self._block, self._gamma, self._laplacian, some) for k in self._blocks
            ]
            kept.update(zip(some.tolist(), np.hstack(draws)))
        return np.array([kept[j] for j in cols.tolist()], np.float32).reshape(len(cols), len(self.coef))

    def scores(self, x: Rows) -> F64:
        if not len(self.coef):
            return np.zeros(len(x))
        out = np.empty(len(x))
        for start, end, part in parts(x, len(self.coef)):
            if isinstance(part, Sparse) and len(part.idx):
                cols = np.unique(part.idx[part.val != 0])
            else:
                cols = np.arange(part.dim)
            out[start:end] = self._scale * self._cosines(part.take(cols), cols) + self._offset
        return out

    def _cosines(self, z: F32, cols: I64) -> F64:
        total = np.tile(self._phases.astype(np.float64), (len(z), 1))
        # Wide vectors go some features at a time, so that frequencies stay few.
        step = max(1, 4 * _ROOM // len(self.coef))
        for start in range(0, len(cols), step):
            total += z[:, start : start + step].astype(np.float64) @ self._frequencies(cols[start : start + step])
        total -= np.rint(total)
        return np.asarray(np.cos(2 * np.pi * total) @ self.coef)


@dataclass(frozen=True)
class Classes(Form):
    """A score for each class, of a part of its own."""

    heads: list[Form]

    def scores(self, x: Rows) -> F64:
        return np.stack([h.scores(x) for h in self.heads], axis=1)


# The experts of a panel, in their order.
_MACHINES, _LINEAR, _IN_FEATURES = 5, 4, 2
_EXPERTS = _MACHINES + _LINEAR + _IN_FEATURES


class Panel(Form):
    """Experts and their weights: of a classifier f(x) = log(p/(1−p)) with
    p = Σ w_e p_e(x), of a regression f(x) = Σ w_e f_e(x)."""

    def __init__(self, data: bytes) -> None:
        f = Fields(data, "panel")
        self._mixture = not f.next("average")
        self._weights = f.floats("weights" if self._mixture else "average")
        n = len(self._weights)
        if n not in ((1, _EXPERTS) if self._mixture else (_EXPERTS + 2,)):
            raise f.fail(f"weights: there are {n}")
        if (self._weights < 0).any() or abs(self._weights.sum() - 1) > 1e-6:
            raise f.fail("weights: their sum is not 1")
        if self._mixture:
            self._units = [(f.number("square"), f.number("slope")) for _ in range(n)]
            if min(s for s, _ in self._units) < 0:
                raise f.fail("square: it is negative")
        self._unknown = self._last = 0.0
        if not self._mixture:
            f.group("labels")
            f.number("count")
            self._last, self._unknown = f.number("last"), f.number("mean")
            f.number("m2")
        self._machines: list[tuple[Transform, Form] | None] = []
        for _ in range(min(n, _MACHINES)):
            f.group("machine")
            there = f.flag("there")
            if there:
                f.group("transform")
                t = Transform.read(f)
                self._machines.append((t, Kernel.read(f.blob("model"))))
            else:
                self._machines.append(None)
        if n == 1 and self._machines[0] is None or any(self._machines) and not self._machines[0]:
            raise f.fail("machine: the growing one is missing")
        if n > 1:
            self._read_linear(f)
        f.end()

    def _read_linear(self, f: Fields) -> None:
        self._inputs = _Inputs(f)
        self._linear = [(f.floats("w"), f.number("b")) for _ in range(_LINEAR + _IN_FEATURES)]
        self._inputs.read_waves(f)

    def scores(self, x: Rows) -> F64:
        said = np.full((len(x), _EXPERTS), self._unknown)
        for e, m in enumerate(self._machines):
            if m:
                said[:, e] = m[1].scores(m[0].apply(x))
            elif e and self._machines[0]:
                said[:, e] = said[:, 0]
        if len(self._weights) == 1:
            square, slope = self._units[0]
            return np.asarray(slope * (said[:, 0] / (math.sqrt(square) if square > 0 else 1.0)))
        self._say_linear(x, said)
        if not self._mixture:
            ends = np.tile([self._last, self._unknown], (len(x), 1))
            return np.asarray(np.hstack([said, ends]) @ self._weights)
        q = np.zeros(len(x))
        for w, (square, slope), s in zip(self._weights, self._units, said.T):
            u = (s / math.sqrt(square)).clip(-3, 3) if square else np.sign(s)
            q += w * (sigmoid(slope * u).clip(0.02, 0.98) - 0.5)
        return np.asarray(np.log((1 + 2 * q) / (1 - 2 * q)))

    def _say_linear(self, x: Rows, said: F64) -> None:
        z = self._inputs.apply(x)
        for k, (w, b) in enumerate(self._linear[:_LINEAR]):
            said[:, _MACHINES + k] = Linear(b, w).scores(z)
        if self._inputs.waves is not None:
            phi = self._inputs.random_features(z)
            for k, (w, b) in enumerate(self._linear[_LINEAR:]):
                said[:, _MACHINES + _LINEAR + k] = Linear(b, w).scores(phi)


class _Inputs:
    """The features as most experts take them: standardised, or divided by their largest size."""

    waves: tuple[F32, F32] | None = None
    splines: _Splines | None = None

    def __init__(self, f: Fields) -> None:
        f.group("inputs")
        self.wide, count = f.flag("wide"), f.number("count")
        mean, m2, most = f.floats("mean"), f.floats("m2"), f.floats("most")
        if len(mean) != len(m2) or (m2 < 0).any() or (most < 0).any() or len(mean if self.wide else most):
            raise f.fail("mean: means, sums and sizes do not go together")
        size = most if self.wide else np.sqrt(m2 / max(count, 1))
        with np.errstate(divide="ignore"):
            # As good as 0, which would mean something else.
            factor = np.where(size > 0, 1 / size, 1e-300)
        shift = np.zeros(len(most)) if self.wide else mean
        self.features = len(factor)
        self.asinh = Asinh.read(f, len(factor))
        index = np.arange(len(factor))
        self._scale = Transform(0, "standard", not self.wide, index, shift, factor, 0.0, -5.0, 5.0, self.asinh)

    def read_waves(self, f: Fields) -> None:
        self._dim = f.integer("random_features", 0, 0 if self.wide else self.features)
        seed = f.integer("seed", 0)
        if self._dim:
            self.waves = _draws.waves(self._dim, seed)

    def apply(self, x: Rows) -> Rows:
        if not self.wide:
            x = Dense(x.take(np.arange(self.features)))
        z = self._scale.apply(x)
        if isinstance(z, Dense):
            return Dense(z.x[:, : self.features])
        return Sparse(z.ptr, z.idx, np.where(z.idx < self.features, z.val, np.float32(0)), z.dim)

    def random_features(self, z: Rows) -> Rows:
        """256 random Fourier features and then the inputs."""
        assert self.waves is not None
        freq, phase = self.waves
        part = z.take(np.arange(self._dim)).astype(np.float64)
        turns = part @ freq.T + phase
        turns -= np.rint(turns)
        phi = np.hstack([np.cos(2 * np.pi * turns) * math.sqrt(2 / 256), part / math.sqrt(self._dim)])
        return Dense(phi.astype(np.float32))


_FINE, _COARSE, _PAIRED = 17, 5, 16
_NO_KNOT = np.finfo(np.float32).max


class _Splines:
    """Hat functions of numbers and products of two numbers' coarser ones, of which a
    generalized additive model with pairwise interactions is a linear function."""

    def __init__(self, f: Fields, inputs: _Inputs) -> None:
        fine, coarse, columns = f.floats("knots", "<f4"), f.floats("coarse", "<f4"), f.ints("columns")
        self._columns = columns if inputs.wide else np.arange(len(fine) // _FINE)
        self._raw, self._asinh = inputs.wide, inputs.asinh
        n = len(self._columns)
        if not n or len(fine) != _FINE * n or len(coarse) != _COARSE * n:
            raise f.fail(f"knots: {len(fine)} and {len(coarse)} of {n} features")
        if (np.diff(self._columns) <= 0).any() or self._columns[0] < 0 or self._columns[-1] >= inputs.features:
            raise f.fail(f"columns: of {inputs.features} features")
        self._fine = fine.reshape(n, _FINE).astype(np.float64)
        self._coarse = coarse.reshape(n, _COARSE).astype(np.float64)
        for k in (self._fine, self._coarse):
            if not (np.abs(k) <= _NO_KNOT).all() or ((np.diff(k) <= 0) & (k[:, 1:] < _NO_KNOT)).any():
                raise f.fail("knots: they are not in order")
        many = self._fine[:, 2] < _NO_KNOT
        order = np.concatenate([np.nonzero(many)[0], np.nonzero(~many)[0]])
        self._paired = np.sort(order[:_PAIRED])

    def numbers(self, x: Rows, z: Rows) -> Rows:
        """The numbers of x, which is z as standardised."""
        if not self._raw:
            return Dense(z.take(self._columns))
        v = x.take(self._columns).astype(np.float64)
        return Dense((self._asinh.of(v, self._columns) if self._asinh else v).astype(np.float32))

    def scores(self, v: Rows, bias: float, w: F64) -> F64:
        """A linear function of the splines of numbers v."""
        d, p = len(self._fine), len(self._paired)
        w = np.concatenate([w, np.zeros(max(0, d * _FINE + p * (p - 1) // 2 * _COARSE**2 - len(w)))])
        matrix, start = np.zeros((p, _COARSE, p, _COARSE)), d * _FINE
        for j in range(p):
            for k in range(j):
                matrix[j, :, k, :] = w[start : start + _COARSE**2].reshape(_COARSE, _COARSE)
                start += _COARSE**2
        out = np.full(len(v), bias)
        for start, end, part in parts(v, 2 * d * _FINE):
            x = part.take(np.arange(d)).astype(np.float64)
            out[start:end] += _hats(x, self._fine) @ w[: d * _FINE]
            h = _hats(x[:, self._paired], self._coarse[self._paired])
            out[start:end] += np.einsum("ij,ij->i", h @ matrix.reshape(p * _COARSE, -1), h)
        return out


def _hats(x: F64, knots: F64) -> F64:
    """The hat functions of each number, in columns side by side."""
    there = knots[:, 1:] < _NO_KNOT
    gap = np.where(there, np.diff(knots), 1)
    place = (((x[:, :, None] - knots[:, :-1]) / gap).clip(0, 1) * there).sum(axis=2)
    away = np.abs(place[:, :, None] - np.arange(knots.shape[1]))
    return np.asarray((1 - away).clip(0, None).reshape(len(x), -1))


_NEAREST, _NEAR_LEAST, _NEAR_FEW, _NEAR_MANY, _NEAR_DIM = 5, 8, 512, 2048, 64


class _Neighbours:
    """The newest points, of which the nearest vote: those of all, or of the newest 512. The
    vote on numbers is their mean."""

    _labels = np.zeros(0)
    missing = False

    def __init__(self, f: Fields, numbers: bool) -> None:
        self._combine = _mean if numbers else _vote
        f.group("points")
        if not f.flag("there"):
            return
        f.group("points")
        _kernel(f)
        dim, held = f.integer("dim", 0, 1 << 31), f.integer("points", 0, _NEAR_MANY)
        cols, points = _listed(f, dim, held)
        self._labels, n = f.floats("y"), held
        self.missing = held == 0  # another class of the same model has them
        if self.missing:
            n = len(self._labels)
        ahead = f.integer("next", 0, n - 1)
        if len(self._labels) != n or n > _NEAR_MANY or ahead and n < _NEAR_MANY or held and not dim or not numbers and (abs(self._labels) != 1).any():
            raise f.fail("points: lengths do not go together")
        if n < _NEAR_MANY:
            self._few = np.arange(max(0, n - _NEAR_FEW), n)
        else:
            self._few = np.sort((ahead + n - _NEAR_FEW + np.arange(_NEAR_FEW)) % n)
        if self.missing:
            return
        # The first number of a point is half the square of its length, and no feature.
        first = int((cols[:1] == 0).sum())
        kept = points.idx >= first
        ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])[points.ptr]
        points = Sparse(ptr, points.idx[kept] - first, points.val[kept], len(cols) - first)
        self._points = Kernel.of(1, 0.0, 0.0, 0, 0.0, cols[first:] - 1, points, self._labels, 0.0)
        self._long = dim <= _NEAR_DIM + 1

    def borrow(self, first: _Neighbours) -> None:
        """Takes the points of another class, which are the same."""
        if first.missing or len(first._labels) != len(self._labels):
            raise FormatError("ensemble: points: they are missing")
        self._points, self._long, self.missing = first._points, first._long, False

    def scores(self, z: Rows, long: bool) -> F64:
        out = np.zeros(len(z))
        if len(self._labels) < _NEAR_LEAST or long and not self._long:
            return out
        at = np.arange(len(self._labels)) if long else self._few
        for start, end, part in parts(z, len(self._labels)):
            s = part.sparse()
            square = s.total(s.val.astype(np.float64) ** 2)[:, None]
            d = np.maximum(square + self._points.norms[at] - 2 * self._points.values(part)[:, at], 0)
            out[start:end] = self._combine(np.where(d < 1e-10 * square, 0, d), self._labels[at])
        return out


def _nearest(d: F64) -> tuple[I64, F64]:
    """The nearest points and the weights of their votes, given squared distances."""
    rows, left = np.arange(len(d)), d.astype(np.float32)  # rounded, equal points are at the same distance
    near = np.empty((len(d), _NEAREST), np.int64)
    for k in range(_NEAREST):
        near[:, k] = left.argmin(axis=1)  # the first of several
        left[rows, near[:, k]] = np.inf
    distance = np.sqrt(d[rows[:, None], near])
    return near, 1 / (distance + distance[:, _NEAREST // 2, None] / 10 + 1e-9)


def _mean(d: F64, labels: F64) -> F64:
    near, w = _nearest(d)
    return np.asarray((w * labels[near]).sum(axis=1) / w.sum(axis=1))


def _vote(d: F64, labels: F64) -> F64:
    """The log odds."""
    near, w = _nearest(d)
    q = np.where(labels[near] > 0, w, 0).sum(axis=1) / w.sum(axis=1)
    return np.asarray(np.log((_NEAREST * q + 0.5) / (_NEAREST * (1 - q) + 0.5)))


# How much of an ensemble's log odds counts: all of it, or c tanh(f/c).
_CAPS = (0, 4, 3, 2, 1.5, 1, 0.5)


class Ensemble(Form):
    """f(x) = bias + Σ w L + v logit(Σ q σ(L)/Σ q), at most ±8, over terms of experts, whose
    log odds L are a function of the score with two slopes. Of a regression f(x) = Σ w s, and
    f and the scores s are limited to a range."""

    def __init__(self, data: bytes) -> None:
        f = Fields(data, "ensemble")
        self._limits = (f.number("low"), f.number("high")) if f.next("low") else None
        n = f.integer("experts", 0, 64)
        self._inputs: _Inputs | None = None
        self.near: _Neighbours | None = None
        if f.flag("inputs"):
            self._inputs = _Inputs(f)
            self._inputs.read_waves(f)
            if f.flag("neighbours"):
                self.near = _Neighbours(f, self._limits is not None)
            if f.next("knots"):
                self._inputs.splines = _Splines(f, self._inputs)
        self._experts = [self._expert(f) for _ in range(n)]
        self._terms = []
        for _ in range(f.count("terms")):
            e = f.integer("expert", 0, n - 1)
            names = ("square", "slope", "outer", "offset", "weight", "share")
            square, slope, outer, offset, weight, share = (f.number(name) for name in names)
            if min(square, slope, outer, share) < 0:
                raise f.fail("terms: a number is negative")
            self._terms.append((e, square, slope, outer, offset, weight, share))
        self._bias, self._mixed, self._caps = f.number("bias"), f.number("mixed"), f.floats("caps")
        if len(self._caps) not in (0, len(_CAPS)):
            raise f.fail(f"caps: there are {len(self._caps)}")
        self._center = f.number("center") if f.more() else 0.0
        f.end()

    def _expert(self, f: Fields) -> tuple[Transform | int, Form]:
        """What it takes, a scaling of its own or one of the inputs, and what it computes."""
        f.group("expert")
        f.text("name")
        kind = f.text("kind")
        if kind in ("expansion", "features"):
            f.group("transform")
            t = Transform.read(f)
            data = f.blob("model")
            return t, Kernel.read(data) if kind == "expansion" else Features(data)
        if kind == "constant":
            return _AS_IT_IS, Linear(f.number("value"), np.zeros(0))
        if kind == "neighbours":
            long = f.integer("window") == 1
            if self.near is None:
                raise f.fail("kind: the points are missing")
            return _ON_Z, _Vote(self.near, long)
        if kind != "linear":
            raise f.fail(f"kind: {kind!r} is not known")
        form, w, b = f.integer("form", _ON_Z, _ON_NUMBERS), f.floats("w"), f.number("b")
        if self._inputs is None or form == _ON_PHI and self._inputs.waves is None:
            raise f.fail("form: the inputs are missing")
        if form == _ON_NUMBERS:
            if self._inputs.splines is None:
                raise f.fail("form: the knots are missing")
            return _ON_NUMBERS, _Additive(self._inputs.splines, b, w)
        return form, Linear(b, w)

    def scores(self, x: Rows) -> F64:
        views = {_AS_IT_IS: x}
        if self._inputs:
            z = self._inputs.apply(x)
            views |= {_ON_Z: z, _ON_ROW: _UNIT.apply(z) if self._inputs.wide else z}
            if self._inputs.waves is not None:
                views[_ON_PHI] = self._inputs.random_features(z)
            if self._inputs.splines is not None:
                views[_ON_NUMBERS] = self._inputs.splines.numbers(x, z)
        s = [m.scores(views[t] if isinstance(t, int) else t.apply(x)) for t, m in self._experts]
        if self._limits is not None:
            total = sum((t[5] * s[t[0]].clip(*self._limits) for t in self._terms), np.full(len(x), self._bias))
            return np.asarray(total.clip(*self._limits))
        f, p, shares = np.full(len(x), self._bias), np.zeros(len(x)), 0.0
        for e, square, slope, outer, offset, weight, share in self._terms:
            u = (s[e] / math.sqrt(square)).clip(-4, 4) if square else np.sign(s[e])
            inner = u.clip(-0.3, 0.3)
            odds = (slope * inner + outer * (u - inner) + offset).clip(-6, 6)
            f += weight * odds
            p += share * sigmoid(odds)
            shares += share
        if self._mixed > 0 and shares > 0:
            p /= shares
            f += self._mixed * np.log(p / (1 - p))
        f = f.clip(-8, 8)
        if not len(self._caps):
            return f
        f -= self._center
        return sum((w * (c * np.tanh(f / c) if c else f) for c, w in zip(_CAPS, self._caps)), np.full(len(x), self._center))


@dataclass(frozen=True)
class _Vote(Form):
    near: _Neighbours
    long: bool

    def scores(self, x: Rows) -> F64:
        return self.near.scores(x, self.long)


@dataclass(frozen=True)
class _Additive(Form):
    splines: _Splines
    bias: float
    weights: F64

    def scores(self, x: Rows) -> F64:
        return self.splines.scores(x, self.bias, self.weights)


_ON_Z, _ON_ROW, _ON_PHI, _ON_NUMBERS, _AS_IT_IS = range(5)
_UNIT = Transform(0, "unit", False, np.arange(0), np.zeros(0), np.zeros(0), 0.0, -1e15, 1e15)


_KERNELS = {"scs", "sbp"}
_FEATURES = {"tsgs3vm", "dsg", "frs3vm", "lssvm"}


def read(learner: str, data: bytes) -> Form:
    """Reads a model as the learner writes it."""
    form = _read(learner, data)
    near = [h.near for h in (form.heads if isinstance(form, Classes) else [form]) if isinstance(h, Ensemble) and h.near]
    for n in near:
        if n.missing:
            n.borrow(near[0])
    return form


def _read(learner: str, data: bytes) -> Form:
    if data.startswith(_REST):
        f = Fields(data[len(_REST) :], "model of several classes")
        heads: list[Form] = []
        for _ in range(f.count("heads")):
            blank, part = f.flag("blank"), f.blob("model")
            if part.startswith(_REST):
                raise f.fail("heads: one has several classes itself")
            heads.append(Linear(-1.0, np.zeros(0)) if blank else _read(learner, part))
        f.end()
        if len(heads) < 3:
            raise f.fail(f"heads: there are {len(heads)}")
        return Classes(heads)
    if data[:4] == b"lin1":
        return Linear.read(data)
    if learner in _KERNELS:
        return Kernel.read(data)
    if learner in _FEATURES:
        return Features(data)
    if learner == "adaptive":
        f = Fields(data, "model")
        return Panel(data) if f.next("weights") or f.next("average") else Ensemble(data)
    raise FormatError(f"models of the learner {learner!r} are not known to this version of the package")
