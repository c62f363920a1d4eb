"""Text of others, safe to show: control and invisible characters are written out."""

from __future__ import annotations

import re

from matins.model.hidden_characters import write_out

_ESCAPE_CODE = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]"  # colours and the cursor
    "|\x1b[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?"  # titles, links, the clipboard
    "|\x1b[ -/]*[0-~]?"
    "|\x9b[0-?]*[ -/]*[@-~]"
)
_LINE_END = re.compile("\r\n?")


def one_line(text: object) -> str:
    """The text on one line, with control and invisible characters escaped."""
    return write_out(" ".join(str(text).split()), escaped)


def block(text: str) -> str:
    """The lines, with control characters escaped."""
    lines = _LINE_END.sub("\n", text).split("\n")
    return "\n".join(write_out(line.expandtabs(4), escaped) for line in lines)


def as_data(text: str) -> str:
    """The text as it is, with control and invisible characters escaped, except line ends and tabs."""
    return write_out(text, escaped, keep="\n\t")


def without_codes(text: str) -> str:
    """The output of a program, without colours and cursor movements."""
    return block(_ESCAPE_CODE.sub("", text))


def escaped(character: str) -> str:
    """A character as its number."""
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
