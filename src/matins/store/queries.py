"""Named SQL: `.sql` files in which each statement follows a line `-- name: what it does`."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources

_NAMED = re.compile(r"^-- (\w+): .*\n", re.MULTILINE)


@lru_cache(maxsize=8)
def load_queries(package: str) -> dict[str, str]:
    """The statements of a package's `.sql` files, by name."""
    files = sorted((f for f in resources.files(package).iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    text = "\n".join(f.read_text(encoding="utf-8") for f in files)
    pieces = _NAMED.split(text)
    names, bodies = pieces[1::2], pieces[2::2]
    if len(set(names)) != len(names):
        raise ValueError(f"A name occurs twice in {package}/*.sql.")
    return {name: body.strip().rstrip(";") for name, body in zip(names, bodies, strict=True)}
