"""Importers: one file for each system. Each reads its files and yields entries of the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from matins.importers import cortex, corvid, crontab, herdctl, polpo, syris
from matins.importers.entries import Imported, labelled

Read = Callable[[str, str], Imported]
"""From a path, and the time zone of the machine."""
IMPORTERS: Mapping[str, Read] = {module.SOURCE: module.read for module in (polpo, cortex, herdctl, corvid, syris)}


def read_import(source: str, path: str | None, zone: str) -> Imported:
    """The entries of a system's file, each with the labels by which a second import finds it."""
    found = crontab.read(path, zone) if source == crontab.SOURCE else IMPORTERS[source](path or "", zone)
    return found._replace(entries=tuple(labelled(source, entry) for entry in found.entries))
