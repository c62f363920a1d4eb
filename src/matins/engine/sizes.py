"""Sizes of memory and files, such as `512MB` and `4GB`."""

from __future__ import annotations

import re

UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
MIN_SIZE, MAX_SIZE = 1, 10**15
_SIZE = re.compile(r"\s*([0-9]{1,15})\s*([KMGT]?B)\s*", re.IGNORECASE)


def parse_size(text: str) -> int | None:
    """The size in bytes; None if the text is no size from 1 B to 1000 TB."""
    match = _SIZE.fullmatch(text)
    size = int(match[1]) * UNITS[match[2].upper()] if match else 0
    return size if MIN_SIZE <= size <= MAX_SIZE else None


def format_size(size: int) -> str:
    """The text in the largest unit that divides the size."""
    unit = next(unit for unit in reversed(UNITS) if size % UNITS[unit] == 0)
    return f"{size // UNITS[unit]}{unit}"
