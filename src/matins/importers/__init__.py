"""Importers: one file for each system. Each reads its files and yields entries of the file."""

from __future__ import annotations

from collections.abc import Mapping

from matins.importers.entries import Imported, Importer, ImportPlace, adapted, labelled
from matins.plugins import installed

IMPORTERS = "matins.importers"


def importers() -> Mapping[str, Importer]:
    """Importers by the name of their system."""
    return installed(IMPORTERS)


def read_import(source: str, path: str | None, zone: str, place: ImportPlace) -> Imported:
    """The entries of a system's file as they can run there, each with the labels by which a second import finds it."""
    found = adapted(importers()[source].read(path or "", zone), place)
    return found._replace(entries=tuple(labelled(source, entry) for entry in found.entries))
