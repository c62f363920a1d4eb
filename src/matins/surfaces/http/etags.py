"""ETags, and the conditions If-Match and If-None-Match."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from matins.surfaces.http.authentication import header
from matins.surfaces.http.problem_json import HttpError

_TAGS = re.compile(r'\s*(W/)?"([\x21\x23-\x7e]*)"\s*(?:,|$)')
_REV = re.compile(r"[0-9]{1,15}")
ANY = "*"


def etag(body: bytes, first: str | None = None) -> str:
    """The tag of a body. `first` is the part that an edit compares, such as a schedule's revision."""
    return f'"{digest(body)}"' if first is None else f'"{first}.{digest(body)}"'


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()


def is_unchanged(scope: Any, tag: str) -> bool:
    """Whether the client already has this version, by If-None-Match."""
    given = header(scope, b"if-none-match")
    return given is not None and (given.strip() == ANY or tag.strip('"') in tags(given, weak=True))


def tags(text: str, *, weak: bool = False) -> list[str]:
    found: list[str] = []
    place = 0
    while place < len(text):
        match = _TAGS.match(text, place)
        if match is None:
            message, hint = "An ETag must be in double quotes.", 'For example: If-Match: "3".'
            raise HttpError(400, "invalid_header", message, value=text, hint=hint)
        place = match.end()
        if weak or not match[1]:
            found.append(match[2])
    return found


def expected_revision(scope: Any, current: Callable[[], int]) -> int | None:
    """The revision that an edit expects; None for any. `current` is called when several are allowed."""
    given = _required(scope)
    if given.strip() == ANY:
        return None
    revisions = [int(first) for first in _first_parts(given) if _REV.fullmatch(first)]
    if len(revisions) == 1:
        return revisions[0]
    now = current() if revisions else 0
    if now in revisions:
        return now
    raise _stale()


def check_edit(scope: Any, current: Callable[[], str | None]) -> None:
    """Check the condition of an edit of a record without revisions. If there is no record, the use case raises."""
    given, tag = _required(scope), current()
    if tag is not None and given.strip() != ANY and _first_part(tag) not in _first_parts(given):
        raise _stale()


def check_replace(scope: Any, current: Callable[[], str | None]) -> None:
    """Check the condition of a replacement or deletion. `current` returns the present tag; None without a record."""
    wanted, unwanted = header(scope, b"if-match"), header(scope, b"if-none-match")
    if wanted is None and unwanted is None:
        return
    tag = current()
    if wanted is not None:
        if tag is None:
            message, hint = "The record does not exist.", "Omit If-Match to create it."
            raise HttpError(412, "stale", message, field="If-Match", hint=hint)
        if wanted.strip() != ANY and _first_part(tag) not in _first_parts(wanted):
            raise _stale()
    if unwanted is not None and tag is not None and is_unchanged(scope, tag):
        message, hint = "The record exists already.", "Omit If-None-Match to replace it."
        raise HttpError(412, "stale", message, field="If-None-Match", hint=hint)


def _first_part(tag: str) -> str:
    """The part of a tag that an edit compares."""
    return tag.strip('"').partition(".")[0]


def _first_parts(text: str) -> list[str]:
    return [_first_part(tag) for tag in tags(text)]


def _required(scope: Any) -> str:
    given = header(scope, b"if-match")
    if given is None:
        message = "An edit must name the revision that it changes."
        hint = "Read the record and send its ETag as If-Match, or send If-Match: * to change any revision."
        raise HttpError(428, "precondition_required", message, field="If-Match", hint=hint)
    return given


def _stale() -> HttpError:
    message, hint = "The record has changed since you read it.", "Read it again and send the new ETag."
    return HttpError(412, "stale", message, field="If-Match", hint=hint)
