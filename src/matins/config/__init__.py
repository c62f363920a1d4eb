"""`matins.yaml`: what people write in a file, where it stands there, and what it would change."""

from __future__ import annotations

from typing import Any


def schema() -> dict[str, Any]:
    """The JSON Schema of the file."""
    from matins.config.json_schema import schema as made

    return made()
