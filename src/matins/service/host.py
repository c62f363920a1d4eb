"""Facts about the machine: whether its clock is synchronized, and the version of its time zone data."""

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
    """Whether the kernel considers the clock synchronized; None if it does not tell."""
    if sys.platform != "linux":
        return None
    call = getattr(ctypes.CDLL(None), "adjtimex", None)
    if call is None:
        return None
    state: int = call(ctypes.create_string_buffer(_TIMEX_BYTES))  # all zeros: read only
    return None if state < 0 else state != _UNSYNCHRONISED


def zone_data(folders: tuple[str, ...] | None = None) -> ZoneData | None:
    """The time zone data of the first folder that has any, which is the one in use; None if its version is unknown."""
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
