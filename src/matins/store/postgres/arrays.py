"""Arrays in PostgreSQL's binary form, packed at once. psycopg's own lists cost a call for each element."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import chain, repeat

import psycopg
from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper

_INT8, _INT8_ARRAY = 20, 1016
_TEXT, _TEXT_ARRAY = 25, 1009
_HEAD = struct.Struct(">iiIii")
_ONE = struct.Struct(">iq")
_LENGTH = struct.Struct(">i")
_NULL = b"\xff\xff\xff\xff"


class Integers(bytes):
    """A packed bigint[]."""

    __slots__ = ()


class Texts(bytes):
    """A packed text[]."""

    __slots__ = ()


def integers(values: Iterable[int | None]) -> Integers:
    items = list(values)
    if None in items:
        body = b"".join([_NULL if item is None else _ONE.pack(8, item) for item in items])
    else:
        body = struct.pack(">" + "iq" * len(items), *chain.from_iterable(zip(repeat(8), items, strict=False)))
    return Integers(_head(_INT8, len(items)) + body)


def texts(values: Iterable[str | None]) -> Texts:
    items = [None if value is None else value.encode() for value in values]
    if b"\0" in b"".join(filter(None, items)):
        raise psycopg.DataError("PostgreSQL text cannot contain the character NUL.")
    body = b"".join([_NULL if item is None else _LENGTH.pack(len(item)) + item for item in items])
    return Texts(_head(_TEXT, len(items)) + body)


def _head(element: int, count: int) -> bytes:
    """The header: dimensions, whether NULLs may occur, the type of the elements, the length, and the lower bound."""
    return _HEAD.pack(1, 1, element, count, 1)


class _Packed(Dumper):
    format = Format.BINARY

    def dump(self, obj: bytes) -> bytes:
        return obj


class _IntegersDumper(_Packed):
    oid = _INT8_ARRAY


class _TextsDumper(_Packed):
    oid = _TEXT_ARRAY


def register(to: AdaptContext) -> None:
    """Register packed arrays, and every integer as a bigint, so that a statement is prepared once."""
    to.adapters.register_dumper(Integers, _IntegersDumper)
    to.adapters.register_dumper(Texts, _TextsDumper)
    to.adapters.register_dumper(int, Int8BinaryDumper)
