"""Kinds of records as nouns: five verbs each, the same for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from matins.api.use_case import Noun, Right, use_case

F = TypeVar("F", bound=Callable[..., Any])


class RecordNoun(Noun):
    """Its subclasses are generated from the kinds of records, with types; see `tools/generate_types.py`."""


def set_record(noun: str, key: str, *, path: bool = False, right: Right = "govern") -> Callable[[F], F]:
    return use_case(right, f"PUT {record_path(noun, key, path=path)}", settings=noun)


def edit_record(noun: str, key: str, *, path: bool = False, right: Right = "govern") -> Callable[[F], F]:
    return use_case(right, f"PATCH {record_path(noun, key, path=path)}", settings=noun)


def get_record(noun: str, key: str, *, path: bool = False) -> Callable[[F], F]:
    return use_case("read", f"GET {record_path(noun, key, path=path)}")


def list_records(noun: str) -> Callable[[F], F]:
    return use_case("read", f"GET {record_path(noun, '')}")


def delete_record(noun: str, key: str, *, path: bool = False, right: Right = "govern") -> Callable[[F], F]:
    return use_case(right, f"DELETE {record_path(noun, key, path=path)}", status=204)


def record_path(noun: str, key: str, *, path: bool = False) -> str:
    """Where records of a kind are: `/v1/quiet-hours/{name}`. `path`: their keys may hold slashes."""
    collection = f"/v1/{noun.replace('_', '-')}"
    return f"{collection}/{{{key}{':path' if path else ''}}}" if key else collection
