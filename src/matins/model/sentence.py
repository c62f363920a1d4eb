"""Sentences of Matins, and the words of others that belong to them.

A sentence holds names, times and codes. What a tool, a check or a person wrote is its quote: a surface for people joins
both, and an agent sees the quote only of what is its own."""

from __future__ import annotations

from typing import NamedTuple


class Sentence(NamedTuple):
    text: str
    quote: str | None = None

    @property
    def joined(self) -> str:
        return joined(self.text, self.quote)


def joined(text: str, quote: str | None) -> str:
    """The sentence with its quote at the end."""
    if not quote:
        return text
    return f"{text.removesuffix('.')}: {quote.rstrip('.')}{'.' if text.endswith('.') else ''}"
