"""`H` in a cron field: a value that follows from the name of the schedule, so that not all start at once."""

from __future__ import annotations

import re
from hashlib import sha256

from matins.engine.when.cron import DAY_OF_MONTH, DAY_OF_WEEK, FIELDS, Kind
from matins.errors import CronParseError

_HASHED = re.compile(r"(?:^|[\s,])H(?=[\s,/(]|$)")
_ITEM = re.compile(r"H(?:\(([0-9]{1,2})-([0-9]{1,2})\))?(?:/([0-9]{1,4}))?")
_LAST_DAY_OF_EVERY_MONTH = 28


def is_hashed(text: str) -> bool:
    return _HASHED.search(text) is not None


def freeze(text: str, name: str | None) -> str:
    """The expression with numbers instead of `H`, `H/15`, `H(0-29)` and `H(0-29)/10`."""
    if not name:
        hint = "Give the schedule a name: --name NAME"
        raise CronParseError("H follows from the name of the schedule, and there is none.", value=text, hint=hint)
    fields = text.split()
    kinds = FIELDS.get(len(fields))
    if kinds is None:
        return text  # the parser tells how many there must be
    return " ".join(
        ",".join(_frozen(kind, item, text, name) for item in field.split(","))
        for kind, field in zip(kinds, fields, strict=True)
    )


def _frozen(kind: Kind, item: str, text: str, name: str) -> str:
    if not item.startswith("H"):
        return item
    found = _ITEM.fullmatch(item)
    low, high = _bounds(kind, found) if found else (0, -1)
    step = int(found[3] or 0) if found else 0
    if found is None or not kind.low <= low <= high <= kind.high or (found[3] and not 1 <= step <= high - low + 1):
        raise _not_hashed(kind, item, text)
    seed = int.from_bytes(sha256(f"{kind.name}\n{name}".encode()).digest()[:8], "big")
    if step:
        return f"{low + seed % step}-{high}/{step}"
    return str(low + seed % (high - low + 1))


def _bounds(kind: Kind, found: re.Match[str]) -> tuple[int, int]:
    if found[1]:
        return int(found[1]), int(found[2])
    highest = {DAY_OF_MONTH: _LAST_DAY_OF_EVERY_MONTH, DAY_OF_WEEK: 6}
    return kind.low, highest.get(kind, kind.high)


def _not_hashed(kind: Kind, item: str, text: str) -> CronParseError:
    message = f'Invalid cron expression "{text}" - {kind.name} "{item}" is not H, H/n, H(a-b) or H(a-b)/n'
    hint = "For example: H/15 or H(0-29)."
    return CronParseError(message, value=item, field=kind.name, allowed=kind.allowed, hint=hint)
