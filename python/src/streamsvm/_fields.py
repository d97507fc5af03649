"""Field sequences: names and values in turn, in MessagePack (docs/formats/README.md)."""

from __future__ import annotations

from typing import Any, TypeVar

import msgpack
import numpy as np
import numpy.typing as npt

T = TypeVar("T")


class FormatError(ValueError):
    """Bytes that are no model, or none that this version can read."""


class Fields:
    """Reads a field sequence. Every method takes the name that has to come next."""

    def __init__(self, data: bytes, what: str) -> None:
        self._in = msgpack.Unpacker(raw=False, max_buffer_size=max(len(data), 1))
        self._in.feed(data)
        self._size = len(data)
        self._what = what
        self._name: str | None = None  # has been read, and its value has not

    def fail(self, message: str) -> FormatError:
        return FormatError(f"{self._what}: {message}")

    def more(self) -> bool:
        """Whether anything is left."""
        return self._name is not None or self._in.tell() < self._size

    def _unpack(self, name: str) -> Any:
        try:
            return self._in.unpack()
        except msgpack.OutOfData:
            raise self.fail(f"{name}: the data end") from None
        except (ValueError, msgpack.UnpackException, RecursionError, OverflowError) as e:
            raise self.fail(f"{name}: {e or type(e).__name__}") from None

    def next(self, name: str) -> bool:
        """Whether the next field has this name."""
        if self._name is None and self.more():
            got = self._unpack(name)
            if not isinstance(got, str):
                raise self.fail(f"{name}: found {type(got).__name__} in place of its name")
            self._name = got
        return self._name == name

    def group(self, name: str) -> None:
        """Begins a group of fields."""
        if not self.next(name):
            raise self.fail(f"{name}: found {self._name!r} in its place" if self.more() else f"{name}: the data end")
        self._name = None

    def _value(self, name: str, kind: type[T]) -> T:
        self.group(name)
        v = self._unpack(name)
        if not isinstance(v, kind) or isinstance(v, bool) and kind is not bool:
            raise self.fail(f"{name}: {type(v).__name__}, want {kind.__name__}")
        return v

    def integer(self, name: str, low: int = -(1 << 63), high: int = (1 << 64) - 1) -> int:
        v = self._value(name, int)
        if not low <= v <= high:
            raise self.fail(f"{name}: {v} is out of range")
        return v

    def flag(self, name: str) -> bool:
        return self._value(name, bool)

    def text(self, name: str) -> str:
        return self._value(name, str)

    def blob(self, name: str) -> bytes:
        return self._value(name, bytes)

    def number(self, name: str, finite: bool = True) -> float:
        v = self._value(name, float)
        if finite and v - v != 0:
            raise self.fail(f"{name}: {v} is not finite")
        return v

    def _array(self, name: str, kind: str) -> npt.NDArray[Any]:
        data = self.blob(name)
        size = np.dtype(kind).itemsize
        if len(data) % size:
            raise self.fail(f"{name}: {len(data)} bytes do not hold numbers of {size}")
        return np.frombuffer(data, kind)

    def floats(self, name: str, kind: str = "<f8", planes: bool = False) -> npt.NDArray[Any]:
        """Finite numbers of 64 bits, or of 32 with kind <f4. In planes the lowest bytes of all come first."""
        a = self._array(name, kind)
        if planes:
            a = a.view(np.uint8).reshape(a.itemsize, -1).T.copy().view(kind).ravel()
        if not np.isfinite(a).all():
            raise self.fail(f"{name}: a number is not finite")
        return a

    def ints(self, name: str) -> npt.NDArray[np.int64]:
        """Numbers of 32 bits, none negative."""
        a = self._array(name, "<i4").astype(np.int64)
        if (a < 0).any():
            raise self.fail(f"{name}: a number is negative")
        return a

    def signed(self, name: str) -> npt.NDArray[np.int64]:
        """Numbers of 32 bits."""
        return self._array(name, "<i4").astype(np.int64)

    def count(self, name: str) -> int:
        """Begins a list of field sequences and returns how many there are."""
        self.group(name)
        try:
            n = self._in.read_array_header()
        except msgpack.OutOfData:
            raise self.fail(f"{name}: the data end") from None
        except (ValueError, msgpack.UnpackException) as e:
            raise self.fail(f"{name}: {e or 'no list'}") from None
        if n > self._size:
            raise self.fail(f"{name}: {n} elements do not fit the data")
        return int(n)

    def end(self) -> None:
        """Refuses whatever is left."""
        if self.more():
            raise self.fail("there is more after the last field")
