"""`matins` with its words and its environment, in this process: starting one takes longer than most commands."""

from __future__ import annotations

import atexit
from contextlib import ExitStack

import pytest
from click.testing import CliRunner, Result

from matins.app import App
from matins.surfaces.cli import cli


def matins(*words: str, store: str | None = None) -> Result:
    environment = {"MATINS_STORE": store, "MATINS_HOME": "/nowhere" if store is None else None}
    with ExitStack() as end, pytest.MonkeyPatch.context() as patch:
        patch.setattr(atexit, "register", end.callback)
        result = CliRunner().invoke(cli, words, obj=App(), env=environment)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result
