"""Prints the description of the API: `python -m matins.surfaces.http.description > docs/openapi.json`."""

from __future__ import annotations

import sys
from typing import Any, cast

import orjson

from matins.surfaces.http.app import build_app


def description() -> bytes:
    """It depends on nothing that a server has."""
    nobody = cast("Any", None)
    app = build_app(nobody, nobody, nobody, hosts=[], origins=[], health=nobody, logins=nobody)
    return orjson.dumps(app.openapi(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


if __name__ == "__main__":
    sys.stdout.buffer.write(description())
