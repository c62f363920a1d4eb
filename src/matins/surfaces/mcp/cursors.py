"""Cursors of tools that list: opaque to the model."""

from __future__ import annotations

import base64

from matins.errors import InvalidInput
from matins.surfaces.mcp.principal_calls import Document


def cursor_of(given: Document) -> str | None:
    """The id that the cursor stands for."""
    if "cursor" not in given:
        return None
    try:
        return base64.urlsafe_b64decode(given["cursor"].encode()).decode("ascii")
    except ValueError:
        hint = "Give next_cursor of the last answer, unchanged."
        raise InvalidInput('"cursor" cannot be read.', field="cursor", hint=hint) from None


def as_cursor(number: str | None) -> str:
    return base64.urlsafe_b64encode(str(number or 0).encode()).decode("ascii")
