"""The hashes and random numbers that models refer to instead of storing them.

docs/formats/models.md says which; arithmetic is that of the trainer, in 32 or 64
bits, as frequencies have to be the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from ._rows import F32, F64, I64

U64 = npt.NDArray[np.uint64]
_MASK = (1 << 64) - 1
_WEYL = 0x9E3779B97F4A7C15


def xxh64_of_ints(j: I64) -> U64:
    """xxh64, seed 0, of each number as four bytes, little-endian."""
    h: U64 = np.uint64((0x27D4EB2F165667C5 + 4) & _MASK) ^ (j.astype(np.uint64) * np.uint64(0x9E3779B185EBCA87))
    h = (h << np.uint64(23) | h >> np.uint64(41)) * np.uint64(0xC2B2AE3D27D4EB4F) + np.uint64(0x165667B19E3779F9)
    h = (h ^ h >> np.uint64(33)) * np.uint64(0xC2B2AE3D27D4EB4F)
    h = (h ^ h >> np.uint64(29)) * np.uint64(0x165667B19E3779F9)
    return h ^ h >> np.uint64(32)


def _mix(z: U64) -> U64:
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


def _mix1(z: int) -> int:
    return int(_mix(np.array([z & _MASK], np.uint64))[0])


def key(seed: int, block: int, salt: int) -> int:
    """The key of a block's frequencies or phases."""
    return _mix1(_mix1(seed + _WEYL) + _mix1(block ^ salt))


def phases(seed: int, block: int, n: int) -> F32:
    """Phases of the n features of a block, in turns."""
    i = np.arange(1, n + 1, dtype=np.uint64)
    z: U64 = i * np.uint64(_WEYL) + np.uint64(key(seed, block, 0x7068617365))
    z = _mix(z)
    return (z >> np.uint64(40)).astype(np.float32) / np.float32(1 << 24)


def frequencies(seed: int, block: int, n: int, gamma: float, laplacian: bool, cols: I64) -> F32:
    """Frequencies of the n features of a block at the coordinates cols, in turns:
    an array of len(cols) by n."""
    salt = 0x6361756368797300 if laplacian else 0x6E6F726D616C7300
    start = _mix1(key(seed, block, 0x6672657175656E63) ^ salt)
    groups = (n + 31) // 32  # of 32 numbers, from 16 outputs of splitmix64
    at = (cols[:, None] * groups + np.arange(groups))[:, :, None] * 16 + np.arange(1, 17)
    z: U64 = at.astype(np.uint64) * np.uint64(_WEYL) + np.uint64(start)
    words = _mix(z).astype("<u8").view("<u4")  # the lower half of each first
    if laplacian:
        v, scale = _cauchys(words), gamma / (2 * math.pi)
    else:
        v, scale = _normals(words), math.sqrt(2 * gamma) / (2 * math.pi)
    return np.asarray(v.reshape(len(cols), groups * 32)[:, :n] * np.float32(scale))


def _fma(a: Any, b: Any, c: Any) -> F32:
    """a·b + c, rounded to 32 bits (but for a tie in 2²⁹, once)."""
    return np.asarray(np.multiply(a, b, dtype=np.float64) + np.float64(c), np.float32)


def _polynomial(coefficients: F32, x: F32) -> F32:
    y = np.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        y = _fma(y, x, c)
    return np.asarray(y)


def _float32s(*v: float) -> F32:
    return np.array(v, np.float32)


_LOG2P = _float32s(
    1.4426950994238996184, -0.72134782696004651203, 0.48088158014768977999, -0.36063868965450029958,
    0.28930119663712777767, -0.24156284430261279472, 0.19416798666653256765, -0.16615386017066446911,
    0.23347082320607659423, -0.21985638947832397694,
)  # fmt: skip
_COSINE = _float32s(
    -0.60569986719231838634, -7.070344104724311407, 38.052759524903187582, -59.168735728552078967,
    45.468035677172153441, -21.071105627681628647, 6.5286581628295605739,
)  # fmt: skip
_SIN_PI = _float32s(3.141592640077203, -5.167710076668316, 2.5500773865289372, -0.5982904112836939, 0.07765591227685842)
_COS_PI = _float32s(
    1, -4.934802136928948, 4.058709154763225, -1.335211949391492, 0.23493706859914693, -0.024395932103982776
)


def _radius(w: npt.NDArray[np.uint32]) -> F32:
    u = _fma((w >> 1).astype(np.int32).astype(np.float32), 2.0**-31, 2.0**-32).view(np.int32)
    e = (u - np.float32(math.sqrt(2) / 2).view(np.int32)) >> 23
    f = (u - (e << 23)).view(np.float32) - np.float32(1)
    y = _fma(_polynomial(_LOG2P, f), f, e.astype(np.float32)) * np.float32(-2 * math.log(2))
    return np.asarray(np.sqrt(np.maximum(y, np.float32(0))))


def _cos_turns(t: F32) -> F32:
    r = t - np.rint(t)
    return _polynomial(_COSINE, _fma(r, r, -0.125))


def _normals(words: npt.NDArray[np.uint32]) -> F32:
    r = _radius(words[..., :16])
    t = words[..., 16:].view(np.int32).astype(np.float32) * np.float32(2.0**-32)
    return np.concatenate([r * _cos_turns(t), r * _cos_turns(t - np.float32(0.25))], axis=-1)


def _cauchys(words: npt.NDArray[np.uint32]) -> F32:
    u = _fma(words.view(np.int32).astype(np.float32), 2.0**-32, 2.0**-33)
    q = u * u
    return _polynomial(_COS_PI, q) / (_polynomial(_SIN_PI, q) * u)


def _pcg(seed: int, name: str) -> Iterator[int]:
    """PCG with 128 bits of state and the output function DXSM, as Go has it."""
    state = seed << 64 | xxhash.xxh64_intdigest(name.encode())
    while True:
        state = state * 47026247687942121848144207491837523525 + 117397592171526113268558934119004209487
        state &= (1 << 128) - 1
        hi, lo = state >> 64, state & _MASK
        hi ^= hi >> 32
        hi = hi * 0xDA942042E4DD58B5 & _MASK
        hi ^= hi >> 48
        yield hi * (lo | 1) & _MASK


_RN = 3.442619855899


@lru_cache(1)
def _ziggurat() -> tuple[list[int], list[float], list[np.float32]]:
    """The tables of Marsaglia and Tsang for normal variates, in 128 strips."""
    volume, m = 9.91256303526217e-3, 2.0**31
    d = last = _RN
    q = volume / math.exp(-0.5 * d * d)
    k, w, f = [0] * 128, [0.0] * 128, [0.0] * 128
    k[0], w[0], f[0] = int(d / q * m), q / m, 1.0
    w[127], f[127] = d / m, math.exp(-0.5 * d * d)
    for i in range(126, 0, -1):
        d = math.sqrt(-2 * math.log(volume / d + math.exp(-0.5 * d * d)))
        k[i + 1], last = int(d / last * m), d
        w[i], f[i] = d / m, math.exp(-0.5 * d * d)
    return k, [float(np.float32(v)) for v in w], [np.float32(v) for v in f]


@lru_cache(16)
def waves(dim: int, seed: int) -> tuple[F32, F32]:
    """Frequencies, 256 by dim, and phases of a panel's random features."""
    bits = _pcg(seed, "adaptive/waves")
    k, w, f = _ziggurat()

    def uniform() -> float:
        return (next(bits) & (1 << 53) - 1) / (1 << 53)

    def normal() -> float:
        while True:
            u = next(bits)
            j = (u & 0xFFFFFFFF) - ((u & 0x80000000) << 1)
            i = u >> 32 & 0x7F
            x = j * w[i]
            if abs(j) < k[i]:
                return x
            if i == 0:
                while True:
                    x = -math.log(uniform()) * (1 / _RN)
                    y = -math.log(uniform())
                    if y + y >= x * x:
                        return _RN + x if j > 0 else -_RN - x
            if f[i] + np.float32(uniform()) * (f[i - 1] - f[i]) < np.float32(math.exp(-0.5 * x * x)):
                return x

    scale = math.sqrt(2 * 4 / dim) / (2 * math.pi)
    freq, phase = np.empty((256, dim), np.float32), np.empty(256, np.float32)
    for r in range(256):
        freq[r] = [scale * normal() for _ in range(dim)]
        phase[r] = uniform()
    return freq, phase
