"""Where runs land, from the words that people write; `current-thread` and its like, from where they are said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from matins.engine.validation import check_name, check_names_known, invalid, preview_of
from matins.errors import InvalidInput
from matins.model.agent import Target
from matins.model.settings import MAX_NAME_LENGTH
from matins.model.thread import Thread

CURRENT = ("current-channel", "current-session", "current-thread")
_NEEDS = {"fresh": (), "channel": ("channel",), "session": ("session", "session_name"), "thread": ("thread",)}
_PLACES = ("channel", "session", "session_name", "thread")
# As Cortex writes them.
_SPELLINGS = {"sessionId": "session", "sessionName": "session_name", "threadId": "thread"}
_ELSEWHERE = "thr_"
_MOST_THREADS = 10**18


def parse_target(value: Any) -> Target:
    """A word (`fresh`), or a mapping with its kind: {"kind": "channel", "channel": "C07"}."""
    if isinstance(value, Target):
        return value
    words = _spelled({"kind": value} if isinstance(value, str) else value, "target")
    kind = words.pop("kind", None)
    if kind in CURRENT:
        raise _nowhere(str(kind))
    unknown = [word for word in words if word not in _PLACES]
    if not isinstance(kind, str) or kind not in _NEEDS or unknown:
        message = f'A target has no "{unknown[0]}".' if unknown else f"{preview_of(kind)} is not a kind of target."
        allowed = ", ".join(_PLACES if unknown else (*_NEEDS, *CURRENT))
        raise InvalidInput(message, value=value, field="target", allowed=allowed, hint=f"Use one of: {allowed}.")
    target = Target(cast("Any", kind), **_places(words))
    needed = _NEEDS[kind]
    if needed and all(getattr(target, word) is None for word in needed):
        hint = f'For example: {{"kind": "{kind}", "{needed[0]}": …}}.'
        raise InvalidInput(f'A target of kind "{kind}" needs "{needed[0]}".', value=value, field="target", hint=hint)
    return target


def parse_context(value: Any) -> Target:
    """Where somebody speaks from: a mapping of a channel, a session and a thread, as far as there are."""
    words = _spelled({} if value is None else value, "context")
    check_names_known("A context", words, _PLACES)
    return Target(**_places(words))


def context_of(thread: Thread) -> Target:
    return Target("fresh", thread.channel, thread.session, thread.session_name, thread.id)


def resolve_current(shorthand: str, here: Target) -> Target:
    """The place that `current-channel`, `current-session` or `current-thread` means here."""
    if shorthand == "current-channel" and here.channel is not None:
        return Target("channel", here.channel)
    if shorthand == "current-session" and (here.session or here.session_name) is not None:
        return Target("session", here.channel, here.session, here.session_name)
    # The session of a conversation that has just begun has no id yet; its thread has, and will hold it.
    if shorthand != "current-channel" and here.thread is not None:
        return Target("thread", here.channel, thread=here.thread)
    raise _nowhere(shorthand)


def _spelled(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise invalid(field, value, "a word or a mapping" if field == "target" else "a mapping")
    return {_SPELLINGS.get(word, word): item for word, item in cast("Mapping[str, Any]", value).items()}


def _places(words: Mapping[str, Any]) -> dict[str, Any]:
    given = {word: value for word, value in words.items() if value is not None}
    return {word: _thread(value) if word == "thread" else check_name(word, value) for word, value in given.items()}


def _thread(value: Any) -> int | str:
    """Ours are numbers; one that Cortex had keeps its name, and is not to be found here."""
    if type(value) is int and 0 < value < _MOST_THREADS:
        return value
    text = value.removeprefix(_ELSEWHERE) if isinstance(value, str) else ""
    if text.isascii() and text.isdecimal() and 0 < int(text[:20]) < _MOST_THREADS:
        return int(text)
    if isinstance(value, str) and value != text and text.isascii() and text.isalnum() and len(text) <= MAX_NAME_LENGTH:
        return value
    raise invalid("thread", value, "the number of a thread")


def _nowhere(shorthand: str) -> InvalidInput:
    what = shorthand.removeprefix("current-")
    return InvalidInput(
        f'"{shorthand}" means the {what} from which it is said, and there is none.',
        value=shorthand,
        field="target",
        hint=f'Call from a run, give context={{"{what}": …}}, or name one: {{"kind": "{what}", "{what}": …}}.',
    )
