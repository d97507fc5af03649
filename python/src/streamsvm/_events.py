"""Events, dicts of named fields, as vectors: what docs/events.md describes.

A schema, part of the model, says what becomes of each field. Fields are encoded a
column at a time: numbers by numpy, where a column holds nothing else.
"""

from __future__ import annotations

import datetime
import functools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from ._fields import FormatError
from ._rows import F64, I64, Dense, Rows, Sparse

Event = Mapping[str, Any]

_HALF = np.float32(math.sqrt(0.5))
_DENSE_LIMIT = 512
_MAX_LIST = 8192
_CACHE = 1 << 16
_TRUTHS = {True: 1.0, False: 0.0, "true": 1.0, "True": 1.0, "TRUE": 1.0, "1": 1.0}
_TRUTHS |= {"false": 0.0, "False": 0.0, "FALSE": 0.0, "0": 0.0}
_DECIMAL = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_CLOCK = (
    r"(?:(?:T|, ?| |_|:)(?P<H>\d{1,2}):(?P<M>\d\d)(?::(?P<S>\d\d)(?:[.,](?P<f>\d{1,9}))?)?(?: ?(?P<half>[AaPp])[Mm])?"
    r"(?: ?(?:Z|(?:UTC|GMT)?(?:(?P<sign>[-+])(?P<zh>\d\d)(?::?(?P<zm>\d\d))?)?)(?: \(.*\))?)?)?"
)
_YEAR_FIRST = re.compile(r"(?P<y>\d{4})(?P<sep>[-/.])(?P<m>\d{1,2})(?P=sep)(?P<d>\d{1,2})" + _CLOCK, re.ASCII)
_MONTH_SPELT = re.compile(
    r"(?:[A-Za-z]{3,9},? )?(?:(?P<d>\d{1,2})[-/ ](?P<m>[A-Za-z]{3,9})[-/ ,] ?|(?P<m2>[A-Za-z]{3,9})\.? (?P<d2>\d{1,2}),? )(?P<y>\d{4})"
    + _CLOCK,
    re.ASCII,
)
_YEAR_LAST = re.compile(r"(?P<d>\d{1,2})(?P<sep>[-/.])(?P<m>\d{1,2})(?P=sep)(?P<y>\d{4}|(?<=/)\d\d)" + _CLOCK, re.ASCII)
_YEAR_AT_END = re.compile(r"[A-Za-z]{3} ([A-Za-z]{3}) {1,2}(\d{1,2}) (\d\d:\d\d:\d\d)(?: (\S{3,5}))? (\d{4})", re.ASCII)
_ALL_DIGITS = re.compile(
    r"(?P<y>(?:19|20)\d\d)(?P<m>\d\d)(?P<d>\d\d)T?(?P<H>\d\d)(?P<M>\d\d)(?P<S>\d\d)(?:[.,](?P<f>\d{1,9}))?Z?", re.ASCII
)
_DURATION = re.compile(r"(\d{1,4}):([0-5]\d)(?::([0-5]\d(?:\.\d*)?))?", re.ASCII)
_MONTHS = "january february march april may june july august september october november december".split()
_UNITS = {"": 1.0, "s": 1000.0, "ms": 1.0, "us": 1e-3, "ns": 1e-6, "d": 86_400_000.0}
_FROM_2000 = 946_684_800_000
_SPACE = r"[%s' \u00a0\u202f]"
_GROUPED = {
    comma: re.compile(rf"(\d*|\d{{1,3}}(?:{space}\d{{2,3}})*{space}\d{{3}})((?:{point}\d*)?)", re.ASCII)
    for comma, space, point in (("thousands", _SPACE % ",", r"\."), ("decimal", _SPACE % ".", ","))
}
_WORD = re.compile(rb"[a-z0-9\x80-\xff]+")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
# What stands for no value in CSV.
_NONE = {"", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"}


class EventError(ValueError):
    """An event that cannot be used: the message names it and the field."""


class _Wrong(Exception):
    def __init__(self, why: str, final: bool = False) -> None:
        super().__init__(why)
        self.final = final  # whatever the schema says of invalid values


def _murmur3(data: bytes) -> int:
    """MurmurHash3_x86_32, seed 0, signed."""
    h, whole = 0, len(data) & ~3
    for i in range(0, len(data), 4):
        k = int.from_bytes(data[i : i + 4], "little") * 0xCC9E2D51 & 0xFFFFFFFF
        h ^= (k << 15 | k >> 17) * 0x1B873593 & 0xFFFFFFFF
        if i < whole:
            h = ((h << 13 | h >> 19) & 0xFFFFFFFF) * 5 + 0xE6546B64 & 0xFFFFFFFF
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    h ^= h >> 16
    return h - (h >> 31 << 32)


def _shortest(v: float) -> str:
    """A number as a category: the fewest digits that give it back, as Go's %g."""
    if v == 0:
        return "-0" if math.copysign(1, v) < 0 else "0"
    sign, digits, exponent = Decimal(repr(v)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    point = len(digits) + int(exponent)
    e = point - 1
    if e < -4 or e >= 6:
        s = text[0] + ("." + text[1:] if len(text) > 1 else "") + f"e{'-' if e < 0 else '+'}{abs(e):02d}"
    elif point <= 0:
        s = "0." + "0" * -point + text
    else:
        s = text.ljust(point, "0")
        s = s[:point] + ("." + s[point:] if len(s) > point else "")
    return "-" * sign + s


def _plain(v: Any) -> Any:
    """A value in Python's own types: numpy's become those."""
    if isinstance(v, np.datetime64):
        return v.astype("datetime64[ms]").item()
    if isinstance(v, np.generic):
        return v.item()
    return v


def _milliseconds(v: datetime.date) -> float:
    if not isinstance(v, datetime.datetime):
        v = datetime.datetime(v.year, v.month, v.day)
    if v.tzinfo is None:  # then it is UTC
        v = v.replace(tzinfo=datetime.timezone.utc)
    return float((v - _EPOCH) // datetime.timedelta(milliseconds=1))


def _decimal(text: str) -> float | None:
    return float(text) if len(text) <= 64 and _DECIMAL.fullmatch(text) else None


def _numbers(text: str, sep: str) -> list[str | None]:
    """The numbers of a list in a text, perhaps with brackets around it."""
    text = text.strip()
    if text.endswith((")", "]", "}")):
        text = re.sub(r"^[^(\[{]*[(\[{]", "", text[:-1])
    items = (item.strip() or None for item in text.split(sep))
    return [item for item in items if item or sep != " "]


def _amount(text: str, unit: str, comma: str) -> float | None:
    """The number in a text, with its unit or none, and separators."""
    if not (unit or comma) or len(text.encode(errors="replace")) > 64:
        return _decimal(text)
    m = re.search("[0-9].*[0-9]|[0-9]", text, re.DOTALL)
    if m is None:
        return None
    first = m.start()
    if text[:first].endswith(".") and not text[: first - 1][-1:].isalpha():
        first -= 1  # $.50, but not Rs.50
    before, digits, after = text[:first], text[first : m.end()], text[m.end() :].strip()
    minus = False
    if "(" in before and ")" in after:  # as accountants write it: (12.50)
        minus, before, after = True, before.replace("(", "", 1), after.replace(")", "", 1).strip()
    elif after.endswith("-"):
        minus, after = True, after[:-1].strip()
    before = before.strip()
    sign = next((s for s in "-\u2212+" if before.startswith(s) or before.endswith(s)), "")
    if sign:
        minus = sign != "+"
    before = (before.removeprefix(sign) if before.startswith(sign) else before.removesuffix(sign)).strip()
    if unit == ":" and not before and not after and (clock := _DURATION.fullmatch(digits)):
        hours = int(clock[1]) + (int(clock[2]) + float(clock[3] or 0) / 60) / 60
        return -hours if minus else hours
    m = _GROUPED[comma or "thousands"].fullmatch(digits)
    if before and after or m is None or (before + after not in ("", unit) and not _same_word(before + after, unit)):
        return None
    number = _decimal(re.sub("[^0-9]", "", m[1]) + m[2].replace(",", "."))
    return -number if number is not None and minus else number


def _same_word(a: str, b: str) -> bool:
    """Whether two units are one word, with an s or without: 1 day, 2 days."""
    a, b = a.removesuffix("s"), b.removesuffix("s")
    return a == b and len(a.encode()) >= 3  # not m and ms


def _number(v: Any, unit: str = "", comma: str = "") -> float:
    v = _plain(v)
    if isinstance(v, str):
        if (number := _amount(v, unit, comma)) is None:
            raise _Wrong("")
        return number
    if isinstance(v, datetime.date):
        return _milliseconds(v)
    if not isinstance(v, (float, int)):
        raise _Wrong("")
    try:
        return float(v)
    except OverflowError:
        return math.inf


def _category(v: Any) -> str:
    v = _plain(v)
    if isinstance(v, str):
        return v
    if isinstance(v, bool):
        return "true" if v else "false"
    number = _number(v)
    if number - number != 0:
        raise _infinite(v)
    return _shortest(number)


def _parse_time(text: str, order: str) -> int | None:
    """Milliseconds since 1970 of a time in a text, in UTC where it has no zone."""
    if not 8 <= len(text.encode(errors="replace")) <= 80:
        return None
    if m := _YEAR_AT_END.fullmatch(text):  # Wed May 06 18:20:24 2026
        return _parse_time(f"{m[1]} {m[2]} {m[5]} {m[3]} {m[4] or ''}", order)
    m = _YEAR_FIRST.fullmatch(text) or _MONTH_SPELT.fullmatch(text) or _ALL_DIGITS.fullmatch(text)
    m = m or (_YEAR_LAST.fullmatch(text) if order else None)
    if m is None:
        return None
    g = m.groupdict()
    day, month = str(g["d"] or g.get("d2")), str(g["m"] or g.get("m2"))
    if m.re is _MONTH_SPELT:
        name = month.lower()
        month = str(next((k for k, full in enumerate(_MONTHS, 1) if full.startswith(name) or name == "sept" and k == 9), 0))
    elif m.re is _YEAR_LAST and order == "mdy":
        day, month = month, day
    year, hour = int(g["y"]), int(g["H"] or 0)
    if len(g["y"]) == 2:  # as in POSIX
        year = 1969 + (year + 31) % 100
    if g.get("half"):
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (g["half"] in "Pp")
    try:
        t = _milliseconds(datetime.datetime(year, int(month), int(day), hour, int(g["M"] or 0), int(g["S"] or 0)))
    except ValueError:
        return None
    hours, minutes = int(g.get("zh") or 0), int(g.get("zm") or 0)
    if hours > 24 or minutes > 59:
        return None
    zone = hours * 60 + minutes
    return int(t) + int((g["f"] or "").ljust(3, "0")[:3]) - (-zone if g.get("sign") == "-" else zone) * 60_000


def _time(v: Any, unit: str, order: str = "") -> int:
    """Milliseconds since 1970, UTC."""
    v = _plain(v)
    if isinstance(v, str) and (t := _parse_time(v, order)) is not None:
        return t
    if isinstance(v, bool):
        raise _Wrong("")
    ms = _number(v)
    if isinstance(v, datetime.date):
        return int(ms)
    if unit == "yyyymmdd":
        try:
            if ms % 1 or not 1e7 <= ms < 1e8:
                raise ValueError
            return int(_milliseconds(datetime.date(int(ms) // 10000, int(ms) // 100 % 100, int(ms) % 100)))
        except ValueError:
            raise _Wrong("") from None
    ms *= _UNITS[unit]
    if not abs(ms) < 1e15:
        raise _Wrong("")
    return int(ms)


def _describe(v: Any) -> str:
    v = _plain(v)
    if v is None:
        return "null"
    if isinstance(v, bool):
        return "a boolean"
    if isinstance(v, (int, float)):
        return f"the number {v!r}"[:60]
    if isinstance(v, str):
        return f"the text {v!r}" if len(v) <= 32 else "a text"
    if isinstance(v, (list, tuple, np.ndarray)):
        return "a list"
    return "an object" if isinstance(v, Mapping) else f"a {type(v).__name__}"


@functools.lru_cache(1024)
def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _inside(v: Any) -> Any:
    """A value, or the object that a text holds in JSON."""
    return _parsed(v) if isinstance(v, str) and v.lstrip(" \t\r\n").startswith("{") else v


def _find(event: Event, path: str) -> Any:
    """The value of a field: its name may be a path of dots, and its keys may have some."""
    if path in event:
        return event[path]
    at = path.find(".", 1)
    while 0 < at < len(path) - 1:
        inner = _inside(event.get(path[:at]))
        if isinstance(inner, Mapping) and (v := _find(inner, path[at + 1 :])) is not None:
            return v
        if isinstance(inner, (list, tuple)):  # the values of a field of the objects in it
            found = [_find(i, path[at + 1 :]) for i in inner if isinstance(i, Mapping)]
            if any(v is not None for v in found):
                return [v for v in found if v is not None]
        at = path.find(".", at + 1)
    return None


def _unlisted(event: Event, known: set[str], prefix: str = "") -> list[str]:
    """Fields that are not known."""
    out: list[str] = []
    for k, v in event.items():
        name = f"{prefix}{k}"
        if any(k.startswith(f"{name}.") for k in known):
            v = _inside(v)
        if isinstance(v, (list, tuple)) and any(k.startswith(f"{name}.") for k in known):
            out += [u for i in v if isinstance(i, Mapping) for u in _unlisted(i, known, f"{name}.")]
        elif name not in known:
            out += _unlisted(v, known, f"{name}.") if isinstance(v, Mapping) else [name]
    return out


class _Output:
    """The matrix that fields write into."""

    def __init__(self, n: int, dim: int) -> None:
        self.n, self.dim = n, dim
        self._dense = np.zeros((n, dim), np.float32) if dim <= _DENSE_LIMIT else None
        self._row: list[I64] = []
        self._col: list[I64] = []
        self._val: list[F64] = []

    def set(self, row: Any, col: Any, val: Any) -> None:
        row, col, val = np.broadcast_arrays(row, col, np.asarray(val, np.float32))
        if self._dense is not None:
            self._dense[row, col] = val
            return
        self._row.append(row.astype(np.int64).ravel())
        self._col.append(col.astype(np.int64).ravel())
        self._val.append(val.ravel())

    def rows(self) -> Rows:
        if self._dense is not None:
            return Dense(self._dense)
        none = np.zeros(0, np.int64)
        row, col = np.concatenate([none, *self._row]), np.concatenate([none, *self._col])
        order = np.lexsort((col, row))
        return Sparse.of(row[order], col[order], np.concatenate([none, *self._val])[order], self.n, self.dim)


class _Field:
    def __init__(self, d: dict[str, Any], schema: dict[str, Any]) -> None:
        def policy(name: str, otherwise: str) -> str:
            return str(d.get(name) or schema.get(name) or otherwise)

        self.name = str(d["name"])
        self.type = str(d["type"])
        self.nulls: list[str] = d.get("nulls", [])
        self._null_numbers = [v for v in map(_decimal, self.nulls) if v is not None]
        self.transform = d.get("transform", "")
        self.clip = [float(v) for v in d["clip"]] if d.get("clip") else None
        self.hash = int(d.get("hash", 0))
        self.unit, self.comma, self.order = (str(d.get(k, "")) for k in ("unit", "comma", "order"))
        self.before, self.after, self.split = (str(d.get(k, "")) for k in ("before", "after", "split"))
        self.parts: list[str] = d.get("parts", [])
        self.until = str(d.get("until", ""))
        self._cycles = [p for p in self.parts if p != "age"]
        self.means = np.array(d.get("means", []), np.float64)
        self.gaps = np.array(d.get("gaps", []), bool)
        self._center = self.means if d.get("centered") else np.zeros(len(self.means))
        self.refuse_missing = policy("missing", "indicator") == "refuse"
        self.refuse_invalid = policy("invalid", "refuse") == "refuse"
        self.unknown = policy("unknown", "other")
        self.categories: dict[str, int] = {c: k for k, c in enumerate(d.get("categories", []))}
        self.at = 0
        self._slots: dict[Any, tuple[int, int]] = {}
        encode: dict[str, Callable[[_Output, I64, list[Any]], I64]] = {
            "ignore": lambda out, rows, cells: rows[:0], "numeric": self._numbers, "boolean": self._each,
            "categorical": self._each, "tags": self._each, "time": self._each, "text": self._each, "array": self._arrays,
            "summary": self._each, "length": self._each,
        }  # fmt: skip
        if self.type not in encode:
            raise ValueError(f"field {self.name!r}: the type {self.type!r} is not known")
        self._encode = encode[self.type]
        aged = int(self.type == "time" and "age" in self.parts)
        means = {"numeric": 1, "boolean": 1, "length": 1, "summary": 4, "time": aged, "array": len(self.gaps)}.get(self.type, 0)
        gaps = {"ignore": 0, "text": 0, "array": means}.get(self.type, 1)
        if len(self.means) != means or len(self.gaps) != gaps or self.type == "text" and self.hash < 1 or len(self.clip or (0, 0)) != 2 \
                or self.comma and self.comma not in _GROUPED or self.type == "time" and self.unit not in (*_UNITS, "yyyymmdd"):
            raise ValueError(f"field {self.name!r}: {len(self.means)} means, {len(self.gaps)} gaps, hash {self.hash}")

    @property
    def width(self) -> int:
        gaps = int(self.gaps.sum())
        return {
            "ignore": 0, "numeric": 1 + gaps, "boolean": 1 + gaps, "length": 1 + gaps,
            "array": len(self.means) + gaps, "summary": len(self.means) + gaps,
            "categorical": (self.hash or len(self.categories) + 1) + gaps, "tags": (self.hash or len(self.categories) + 1) + gaps,
            "time": len(self.means) + 2 * len(self._cycles) + gaps, "text": self.hash,
        }[self.type]  # fmt: skip

    def features(self) -> list[str]:
        """A name for each feature."""
        n, missing = self.name, [f"{self.name} missing"] if self.gaps[:1].any() else []
        if self.type in ("numeric", "boolean"):
            return [n, *missing]
        if self.type == "array":
            items = [f"{n}[{k}]" for k in range(len(self.means))]
            return items + [f"{i} missing" for i, g in zip(items, self.gaps) if g]
        if self.type == "time":
            return [f"{n} age"] * len(self.means) + [f"{n} {p} {f}" for p in self._cycles for f in ("sin", "cos")] + missing
        if self.type in ("summary", "length"):
            return [f"{n} {k}" for k in (("sum", "mean", "min", "max") if self.type == "summary" else ("length",))] + missing
        if self.type in ("categorical", "tags", "text") and self.hash:
            return [f"{n}#{k}" for k in range(self.hash)] + (missing if self.type != "text" else [])
        return [] if self.type == "ignore" else [*(f"{n}={c}" for c in self.categories), f"{n} other", *missing]

    def moment(self, cell: Any) -> int | None:
        """The milliseconds of a time, if there is one."""
        try:
            return None if cell is None or self.nulls and self._null(cell) else _time(cell, self.unit, self.order)
        except _Wrong:
            return None

    def encode(self, out: _Output, cells: list[Any], ends: list[int | None] | None = None) -> None:
        """Encodes the field of each event. Cells are None where there is no value; ends are what ages are measured up to."""
        self._ages(out, cells, ends)
        if self.nulls:
            cells = [None if self._null(c) else c for c in cells]
        rows = np.array([i for i, c in enumerate(cells) if c is not None], np.int64)
        if len(rows) == len(cells):
            missing = self._encode(out, rows, cells)
        else:
            some = self._encode(out, rows, [cells[i] for i in rows])
            absent = np.array([i for i, c in enumerate(cells) if c is None], np.int64)
            missing = np.concatenate([absent, some])
        if not len(missing) or self.type == "ignore":
            return
        if self.refuse_missing:
            raise EventError(f"event {missing.min()}: {self.name}: missing")
        at, gap = self.at, bool(self.gaps[:1].any())
        if self.type in ("numeric", "boolean", "array", "summary", "length"):
            items = len(self.means)
            out.set(missing[:, None], np.arange(at, at + items), self._less(self.means))
            out.set(missing[:, None], np.arange(at + items, at + self.width), _HALF)
        elif self.type in ("categorical", "tags", "time"):
            if gap:
                out.set(missing, at + self.width - 1, _HALF)
            elif self.type == "categorical" and not self.hash:  # none was missing before
                out.set(missing, at + len(self.categories), _HALF)

    def _less(self, v: F64) -> F64:
        """Numbers less their means, if they are centered."""
        return v.astype(np.float32).astype(np.float64) - self._center if self._center.any() else v

    def _ages(self, out: _Output, cells: list[Any], ends: list[int | None] | None) -> None:
        if self.type != "time" or not len(self.means):
            return
        begins = [self.moment(c) for c in cells]
        days = [
            self.means[0] if t is None or end is None else (end - t) / 86_400_000
            for t, end in zip(begins, [_FROM_2000] * len(cells) if ends is None else ends)
        ]
        out.set(np.arange(len(cells)), self.at, self._less(np.array(days)))

    def _null(self, cell: Any) -> bool:
        """Whether a value stands for none."""
        cell = _plain(cell)
        if isinstance(cell, str):
            v = _decimal(cell)
            return cell in self.nulls if v is None else v in self._null_numbers
        return isinstance(cell, (int, float)) and not isinstance(cell, bool) and cell in self._null_numbers

    def _wrong(self, row: int, cell: Any, e: _Wrong) -> bool:
        """Whether an invalid value is taken as missing; otherwise it is an error."""
        if not self.refuse_invalid and not e.final:
            return True
        why = str(e) or f"{_describe(cell)}, where the schema has {self.type}"
        raise EventError(f"event {row}: {self.name}: {why}") from None

    # These return the rows whose values count as missing.

    def _finish(self, v: F64) -> F64:
        """Numbers clipped and transformed; nan or infinite where they do not fit 32 bits."""
        if self.clip is not None:
            v = v.clip(self.clip[0], self.clip[1])
        if self.transform:
            v = np.copysign(np.log1p(np.abs(v)), v)
        with np.errstate(over="ignore"):
            return v.astype(np.float32).astype(np.float64)

    def _numbers(self, out: _Output, rows: I64, cells: list[Any]) -> I64:
        invalid: list[int] = []
        try:
            if not set(map(type, cells)) <= {float, int}:
                raise OverflowError
            v = np.array(cells, np.float64)
        except OverflowError:
            v = np.zeros(len(cells))
            for k, c in enumerate(cells):
                try:
                    v[k] = _number(c, self.unit, self.comma)
                except _Wrong as e:
                    self._wrong(int(rows[k]), c, e)
                    invalid.append(k)
        v = self._finish(v)
        for k in np.nonzero(~np.isfinite(v))[0].tolist():
            self._wrong(int(rows[k]), cells[k], _infinite(cells[k]))
            invalid.append(k)
        good = np.ones(len(cells), bool)
        good[invalid] = False
        out.set(rows[good], self.at, self._less(v[good]))
        return rows[~good]

    def _arrays(self, out: _Output, rows: I64, cells: list[Any]) -> I64:
        items = len(self.means)
        gap = self.at + items + np.cumsum(self.gaps) - 1
        invalid: list[int] = []
        for row, c in zip(rows, cells):
            try:
                if isinstance(c, str) and self.split:
                    c = _numbers(c, self.split)
                if not isinstance(c, (list, tuple, np.ndarray)):
                    raise _Wrong("")
                if len(c) != items:
                    raise _Wrong(f"a list of {len(c)}, where the schema has {items}")
                v, none = self._items(c)
            except _Wrong as e:
                self._wrong(int(row), c, e)
                invalid.append(int(row))
                continue
            out.set(row, np.arange(self.at, self.at + items), self._less(v))
            if none is not None and len(at := gap[none & self.gaps]):
                out.set(row, at, _HALF)
        return np.array(invalid, np.int64)

    def _items(self, c: Any) -> tuple[F64, Any]:
        if isinstance(c, np.ndarray) and c.dtype.kind in "fiu" and c.ndim == 1 or set(map(type, c)) <= {float}:
            v = self._finish(np.asarray(c, np.float64))
            if np.isfinite(v).all():
                return v, None
        none = np.array([i is None for i in c], bool)
        v = np.zeros(len(c))
        for k, item in enumerate(c):
            if not none[k]:
                try:
                    v[k] = _number(item)
                except _Wrong:
                    raise _Wrong(f"item {k} is {_describe(item)}, where the schema has a number") from None
        v = self._finish(v)
        for k in np.nonzero(~np.isfinite(v))[0].tolist():
            raise _Wrong(f"item {k}: {_infinite(c[k])}")
        return np.where(none, self.means, v), none

    def _each(self, out: _Output, rows: I64, cells: list[Any]) -> I64:
        """Fields that are encoded a value at a time, as entries of column and number."""
        one: Callable[[Any], list[tuple[int, Any]] | None] = getattr(self, "_" + self.type)
        row: list[int] = []
        entries: list[tuple[int, Any]] = []
        invalid: list[int] = []
        for r, c in zip(rows.tolist(), cells):
            try:
                got = one(c)
            except _Wrong as e:
                self._wrong(r, c, e)
                got = None
            if got is None:
                invalid.append(r)
                continue
            row += [r] * len(got)
            entries += got
        if entries:
            col, val = zip(*entries)
            out.set(np.array(row, np.int64), self.at + np.array(col, np.int64), np.array(val, np.float32))
        return np.array(invalid, np.int64)

    def _boolean(self, c: Any) -> list[tuple[int, Any]]:
        try:
            return [(0, _TRUTHS[_plain(c)])]
        except (KeyError, TypeError):
            raise _Wrong("") from None

    def _slot(self, text: str | bytes) -> tuple[int, int]:
        """The feature and the sign that a text is hashed to."""
        got = self._slots.get(text)
        if got is None:
            try:
                h = _murmur3(self.name.encode() + b"=" + (text.encode() if isinstance(text, str) else text))
            except UnicodeEncodeError:
                raise _Wrong("a text that is not Unicode") from None
            got = abs(h) % self.hash, -1 if h < 0 else 1
            if len(self._slots) >= _CACHE:
                self._slots = {}
            self._slots[text] = got
        return got

    def _categorical(self, c: Any) -> list[tuple[int, Any]]:
        text = c if type(c) is str else _category(c)
        if self.after:
            text = text.rpartition(self.after)[2]
        if self.before:
            text = text.partition(self.before)[0]
        if self.hash:
            j, sign = self._slot(text)
            return [(j, sign * _HALF)]
        k = self.categories.get(text)
        if k is None:
            if self.unknown == "refuse":
                raise _Wrong(f"{_describe(c)} is not one of its {len(self.categories)} categories", final=True)
            if self.unknown == "zero":
                return []
            k = len(self.categories)
        return [(k, _HALF)]

    def _tags(self, c: Any) -> list[tuple[int, Any]]:
        if isinstance(c, str) and self.split:
            c = [part for part in (p.strip() for p in c.split(self.split)) if part]
        if not isinstance(c, (list, tuple, set, frozenset, np.ndarray)) or len(c) > _MAX_LIST:
            raise _Wrong("")
        sums: dict[int, Any] = {}
        for item in c:
            if isinstance(item, datetime.date):
                raise _Wrong("")
            text = _category(item)
            if self.hash:
                j, sign = self._slot(text)
                sums[j] = sums.get(j, np.float32(0)) + sign * _HALF
                continue
            k = self.categories.get(text)
            if k is not None or self.unknown != "zero":
                sums[len(self.categories) if k is None else k] = _HALF
        return list(sums.items())

    def _time(self, c: Any) -> list[tuple[int, Any]]:
        ms = _time(c, self.unit, self.order)
        out: list[tuple[int, Any]] = []
        for k, p in enumerate(self._cycles):
            turn = (ms // 86_400_000 + 4) % 7 / 7 if p == "weekday" else ms // 60_000 % 1440 / 1440
            at = len(self.means) + 2 * k
            out += [(at, math.sin(2 * math.pi * turn) / 2), (at + 1, math.cos(2 * math.pi * turn) / 2)]
        return out

    def _length(self, c: Any) -> list[tuple[int, Any]]:
        if isinstance(c, (list, tuple, np.ndarray)) and len(c) <= _MAX_LIST:
            return [(0, self._less(np.array([float(len(c))]))[0])]
        c = _plain(c)
        if isinstance(c, bool) or not isinstance(c, (int, float)) or c - c != 0:
            raise _Wrong("")
        return [(0, self._less(np.array([float(c)]))[0])]

    def _summary(self, c: Any) -> list[tuple[int, Any]] | None:
        if not isinstance(c, (list, tuple, np.ndarray)) or len(c) > _MAX_LIST:
            raise _Wrong("")
        items = [i for i in c if i is not None]
        if not items:
            return None
        v = np.zeros(len(items))
        for k, item in enumerate(items):
            try:
                v[k] = _number(item)
            except _Wrong:
                raise _Wrong(f"item {k} is {_describe(item)}, where the schema has a number") from None
        v = self._finish(v)
        total = sum(v.tolist())
        with np.errstate(over="ignore"):
            if not np.isfinite(np.float32(total)):
                raise _infinite(c)
        return list(enumerate(self._less(np.array([total, total / len(v), v.min(), v.max()]))))

    def _text(self, c: Any) -> list[tuple[int, Any]]:
        c = _plain(c)
        if not isinstance(c, str):
            raise _Wrong("")
        try:
            words = _WORD.findall(c.encode().lower())  # of ASCII letters only
        except UnicodeEncodeError:
            raise _Wrong("a text that is not Unicode") from None
        sums: dict[int, int] = {}
        for w, times in Counter(w[:64] for w in words).items():
            j, sign = self._slot(w)
            sums[j] = sums.get(j, 0) + sign * times
        square = sum(v * v for v in sums.values())
        return [(j, v / math.sqrt(square)) for j, v in sums.items() if v]


def _infinite(c: Any) -> _Wrong:
    hint = "; a missing value is None" if isinstance(c, float) and c != c else ""
    return _Wrong(f"{_describe(c)} is not finite as a number of 32 bits{hint}")


class Schema:
    """What becomes of the fields of events."""

    def __init__(self, text: str, csv: bool) -> None:
        try:
            d = json.loads(text)
            self._root = str(d.get("root", ""))
            self._strict = d.get("others") == "refuse"
            self._known = {str(d.get(k, "")) for k in ("label", "id", "weight")} | {str(f["name"]) for f in d["fields"]}
            self._fields = [_Field(f, d) for f in d["fields"]]
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as e:
            raise FormatError(f"schema of events: {e}") from None
        self._csv = csv
        self._by_name = {f.name: f for f in self._fields}
        self.dim = 0
        for f in self._fields:
            f.at = self.dim
            self.dim += f.width

    def features(self) -> list[str]:
        return [name for f in self._fields for name in f.features()]

    def _cells(self, f: _Field, events: Sequence[Event]) -> list[Any]:
        cells = [e.get(f.name) for e in events]
        if "." in f.name:
            cells = [_find(e, f.name) if c is None else c for c, e in zip(cells, events)]
        if any(k.startswith(f"{f.name}.") for k in self._known):  # then an object is that of other fields
            cells = [None if isinstance(_inside(c), Mapping) else c for c in cells]
        if self._csv:
            cells = [None if isinstance(c, str) and c in _NONE else c for c in cells]
        return cells

    def rows(self, events: Sequence[Event]) -> Rows:
        out = _Output(len(events), self.dim)
        for i, e in enumerate(events):
            if not isinstance(e, Mapping):
                raise EventError(f"event {i}: {_describe(e)}, want a dict")
        if self._root:
            inner = [_find(e, self._root) for e in events]
            events = [i if isinstance(i, Mapping) else e for i, e in zip(inner, events)]
        for f in self._fields:
            if f.type != "ignore":
                until = self._by_name.get(f.until)
                f.encode(out, self._cells(f, events), [until.moment(c) for c in self._cells(until, events)] if until else None)
        if self._strict:
            for i, e in enumerate(events):
                if unknown := _unlisted(e, self._known):
                    raise EventError(f"event {i}: the schema does not list {', '.join(unknown[:5])}")
        return out.rows()
