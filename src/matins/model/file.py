"""Records that the file defines."""

from __future__ import annotations

from typing import NamedTuple


class FileEntry(NamedTuple):
    """A record that the file defines: its place in the file, and the digest of the applied definition."""

    kind: str
    name: str
    path: str
    line: int
    digest: str
