"""ETags, and what If-Match and If-None-Match say of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from matins.surfaces.http.identity import header
from matins.surfaces.http.problems import Refused

_TAGS = re.compile(r'\s*(W/)?"([\x21\x23-\x7e]*)"\s*(?:,|$)')
_REV = re.compile(r"([0-9]{1,15})(?:\.[0-9a-f]+)?")
ANY = "*"


def etag(body: bytes, document: Any, *, by_revision: bool) -> str:
    """Of what a schedule says and of all else that is shown of it; an edit looks at the first part only."""
    digest = blake2b(body, digest_size=8).hexdigest()
    return f'"{document["rev"]}.{digest}"' if by_revision else f'"{digest}"'


def unchanged(scope: Any, tag: str) -> bool:
    """Whether who asks has it already."""
    said = header(scope, b"if-none-match")
    return said is not None and (said.strip() == ANY or tag.strip('"') in tags(said, weak=True))


def tags(said: str, *, weak: bool = False) -> list[str]:
    found: list[str] = []
    place = 0
    while place < len(said):
        match = _TAGS.match(said, place)
        if match is None:
            raise Refused(400, "unreadable_header", "An ETag stands in quotes", value=said, hint='If-Match: "3"')
        place = match.end()
        if weak or not match[1]:
            found.append(match[2])
    return found


def revision(scope: Any, current: Callable[[], int]) -> int | None:
    """The revision that an edit expects; None for any. `current` is asked where several would do."""
    said = _needed(scope)
    if said.strip() == ANY:
        return None
    revisions = [int(match[1]) for tag in tags(said) if (match := _REV.fullmatch(tag))]
    if len(revisions) == 1:
        return revisions[0]
    now = current() if revisions else 0
    if now in revisions:
        return now
    raise stale()


def _needed(scope: Any) -> str:
    said = header(scope, b"if-match")
    if said is None:
        hint = "read it first, and send its ETag as If-Match; or If-Match: * to overwrite whatever is there"
        raise Refused(428, "if_match_needed", "An edit says which revision it is about", field="If-Match", hint=hint)
    return said


def check_edited(scope: Any, current: Callable[[], str | None]) -> None:
    """For an edit of what has no revisions. Where nothing is there, that is for the use case to say."""
    said, tag = _needed(scope), current()
    if tag is not None and said.strip() != ANY and tag.strip('"') not in tags(said):
        raise stale()


def check_current(scope: Any, current: Callable[[], str | None]) -> None:
    """For what is put whole: `current` gives the tag of what is there, None where nothing is."""
    wanted, unwanted = header(scope, b"if-match"), header(scope, b"if-none-match")
    if wanted is None and unwanted is None:
        return
    tag = current()
    there = "" if tag is None else tag.strip('"')
    if wanted is not None and (tag is None or (wanted.strip() != ANY and there not in tags(wanted))):
        raise stale()
    if unwanted is not None and tag is not None and (unwanted.strip() == ANY or there in tags(unwanted, weak=True)):
        raise Refused(412, "stale", "There is one already", field="If-None-Match", hint="leave it out to replace it")


def stale() -> Refused:
    hint = "read it again, and send the ETag of what you read"
    return Refused(412, "stale", "It has changed since you read it", field="If-Match", hint=hint)
