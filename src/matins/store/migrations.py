"""Numbered changes of a store's schema. A released migration never changes; a new one follows it."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from importlib import resources
from typing import NamedTuple

from matins.errors import StoreVersionError


class Migration(NamedTuple):
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return sha256(self.sql.encode()).hexdigest()


@lru_cache(maxsize=8)
def load_migrations(package: str) -> list[Migration]:
    """The migrations of a package (`migrations/NNNN_name.sql`), in order and without a gap."""
    folder = resources.files(package).joinpath("migrations")
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    found = [Migration(int(f.name[:4]), f.name[5:-4], f.read_text(encoding="utf-8")) for f in files]
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"The migrations of {package} are not numbered from 1 without a gap.")
    return found


def check_known(where: str, have: int, recorded: dict[int, str], known: list[Migration], instead: str) -> None:
    """Raise StoreVersionError unless all `have` migrations of a store are known, with the recorded checksums.

    `instead` is the first part of the hint: what to use instead of this store.
    """
    for migration in known[:have]:
        if recorded.get(migration.number) != migration.checksum:
            raise StoreVersionError(
                f"{where} was created by an earlier version of Matins that was never released: "
                f"its migration {migration.number} differs from the released one.",
                hint=f"{instead}, or use the version that created this one. Nothing was changed.",
            )
    if have > len(known):
        raise StoreVersionError(
            f"{where} was created by a newer version of Matins (schema {have}; this version supports {len(known)}).",
            hint="Upgrade Matins. Nothing was changed.",
        )
