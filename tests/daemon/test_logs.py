"""What the daemon tells on stderr moves no cursor, whoever made up the words."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from matins.daemon.log_format import Documents, Lines

HOSTILE = "note\x1b]0;title\x07\x9b2J\u202egpj\r\nforged line"


def record() -> logging.LogRecord:
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        return logging.LogRecord("matins", logging.ERROR, "", 0, "%s", (HOSTILE,), sys.exc_info())


@pytest.mark.parametrize("style", [Lines(), Documents()], ids=["plain", "json"])
def test_nothing_that_a_terminal_obeys(style: logging.Formatter) -> None:
    """Neither in the message nor in a trace."""
    lines = style.format(record()).split("\n")
    assert [line for line in lines if not line.isprintable()] == []
    assert "forged line" in lines[0]


def test_documents_say_it_all() -> None:
    told = json.loads(Documents().format(record()))
    assert (told["message"], HOSTILE in told["trace"]) == (HOSTILE, True)
