"""What can be known of the machine: who keeps its clock, and how old its time zone data are."""

from __future__ import annotations

import ctypes
import sys
import zoneinfo
from pathlib import Path
from typing import NamedTuple

import tzdata

_TIMEX_BYTES = 512
_UNSYNCHRONISED = 5  # TIME_ERROR


class ZoneData(NamedTuple):
    version: str
    source: str
    renew: str


def clock_is_synchronized() -> bool | None:
    """Whether the kernel knows of somebody who keeps the clock; None where it does not say."""
    if sys.platform != "linux":
        return None
    call = getattr(ctypes.CDLL(None), "adjtimex", None)
    if call is None:
        return None
    state: int = call(ctypes.create_string_buffer(_TIMEX_BYTES))  # all zeros: it is only looked at
    return None if state < 0 else state != _UNSYNCHRONISED


def zone_data(folders: tuple[str, ...] | None = None) -> ZoneData | None:
    """Of the first folder that has any: it is the one that is read."""
    for folder in map(Path, zoneinfo.TZPATH if folders is None else folders):
        if folder.is_dir():
            version = _version_in(folder)
            renew = "apt-get install --only-upgrade tzdata"
            return None if version is None else ZoneData(version, str(folder), renew)
    return ZoneData(tzdata.IANA_VERSION, "the package tzdata", "pip install --upgrade tzdata")


def _version_in(folder: Path) -> str | None:
    for name in ("tzdata.zi", "+VERSION"):
        if (folder / name).exists():
            first = (folder / name).read_text(encoding="utf-8").partition("\n")[0]
            return first.removeprefix("# version ").strip()
    return None
