"""What a run said, as searches read it: the text of a run, the words of a search, and the lines that it found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from matins.engine.reasons import last_error
from matins.errors import InvalidInput
from matins.model.selector import SearchWords

MAX_TEXT = 32_768
"""Characters of a run that are kept for searches."""
MAX_QUERY = 200
_WORD = re.compile(r"[^\W_]+")
_QUOTED = re.compile(r'"([^"]*)"')
_NOT_WORDS = ("by", "who", "session", "digest", "sha256")
"""Names of values that nobody searches for."""
_BEFORE, _EXCERPT = 60, 160


def run_text(reason: str | None, outcomes: Iterable[Any], evidence: Any, outputs: Iterable[str]) -> str:
    """What searches find of a run: its reason, answer, error and evidence, and the ends of its outputs, once each. Of
    an error the line that says it comes first, since it is what an excerpt should show."""
    parts = [reason.replace("_", " ") if reason else ""]
    for outcome in outcomes:
        parts += [last_error(outcome) or "", *_texts(outcome)]
    parts += [*_texts(evidence), *outputs]
    text = "\n".join(dict.fromkeys(part.strip() for part in parts if part.strip()))[:MAX_TEXT]
    return text.replace("\0", " ").encode(errors="replace").decode()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, item in cast("Mapping[str, Any]", value).items():
            if name not in _NOT_WORDS:
                yield from _texts(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _texts(item)


def parse_search(text: str, field: str = "text") -> SearchWords:
    """The words of a search. What is in quotes is a phrase."""
    if len(text) > MAX_QUERY:
        message = f'"{field}" is longer than {MAX_QUERY} characters.'
        raise InvalidInput(message, value=text[:60], field=field, hint="Give fewer words.")
    words = tuple(dict.fromkeys(_WORD.findall(text.lower())))
    if not words:
        message = f'"{field}" has no word to search for: {text!r}.'
        raise InvalidInput(message, value=text, field=field, hint="Use words of an answer or error: quota exceeded")
    phrases = tuple(phrase for found in _QUOTED.findall(text.lower()) if (phrase := found.strip()))
    return SearchWords(words, phrases)


def excerpt(text: str, search: SearchWords) -> str:
    """The part of the text around the first word that is found, in one line."""
    found = re.search("|".join(rf"\b{re.escape(word)}" for word in search.words), text, re.IGNORECASE)
    start = max(0, found.start() - _BEFORE) if found else 0
    line = " ".join(text[start : start + _EXCERPT].split())
    return f"{'…' if start else ''}{line}{'…' if start + _EXCERPT < len(text) else ''}"
