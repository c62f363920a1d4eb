"""Targets: parsed from settings, and resolved to a thread when a run starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, cast

from matins.engine.validation import check_name, check_names_known, invalid, preview_of
from matins.errors import InvalidInput
from matins.model.agent import Fallback, Target
from matins.model.run import Thread
from matins.model.schedule import ScheduleDefinition
from matins.model.settings import MAX_NAME_LENGTH
from matins.model.words import counted

CURRENT = ("current-channel", "current-session", "current-thread")
_NEEDS = {"fresh": (), "channel": ("channel",), "session": ("session", "session_name"), "thread": ("thread",)}
_PLACES = ("channel", "session", "session_name", "thread")
# The spellings of Cortex.
_SPELLINGS = {"sessionId": "session", "sessionName": "session_name", "threadId": "thread"}
_CORTEX_PREFIX = "thr_"
_MAX_THREAD_ID = 10**18


def parse_target(value: Any) -> Target:
    """A kind (`fresh`), or a mapping with its kind: {"kind": "channel", "channel": "C07"}."""
    if isinstance(value, Target):
        return value
    settings = _normalized({"kind": value} if isinstance(value, str) else value, "target")
    kind = settings.pop("kind", None)
    if kind in CURRENT:
        raise _no_current(str(kind))
    unknown = [name for name in settings if name not in _PLACES]
    if not isinstance(kind, str) or kind not in _NEEDS or unknown:
        message = f'A target has no "{unknown[0]}".' if unknown else f"{preview_of(kind)} is not a kind of target."
        allowed = ", ".join(_PLACES if unknown else (*_NEEDS, *CURRENT))
        raise InvalidInput(message, value=value, field="target", allowed=allowed, hint=f"Use one of: {allowed}.")
    target = Target(cast("Any", kind), **_places(settings))
    needed = _NEEDS[kind]
    if needed and all(getattr(target, name) is None for name in needed):
        hint = f'For example: {{"kind": "{kind}", "{needed[0]}": …}}.'
        raise InvalidInput(f'A target of kind "{kind}" needs "{needed[0]}".', value=value, field="target", hint=hint)
    return target


def parse_context(value: Any) -> Target:
    """The caller's place: a mapping with any of channel, session and thread."""
    settings = _normalized({} if value is None else value, "context")
    check_names_known("A context", settings, _PLACES)
    return Target(**_places(settings))


def context_of(thread: Thread) -> Target:
    return Target("fresh", thread.channel, thread.session, thread.session_name, thread.id)


def resolve_current(shorthand: str, here: Target) -> Target:
    """The target that `current-channel`, `current-session` or `current-thread` means here."""
    if shorthand == "current-channel" and here.channel is not None:
        return Target("channel", here.channel)
    if shorthand == "current-session" and (here.session or here.session_name) is not None:
        return Target("session", here.channel, here.session, here.session_name)
    # A new conversation's session has no id yet. Its thread has one, and will hold the session.
    if shorthand != "current-channel" and here.thread is not None:
        return Target("thread", here.channel, thread=here.thread)
    raise _no_current(shorthand)


def _normalized(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise invalid(field, value, "a word or a mapping" if field == "target" else "a mapping")
    return {_SPELLINGS.get(name, name): item for name, item in cast("Mapping[str, Any]", value).items()}


def _places(settings: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in settings.items() if value is not None}
    return {name: _thread(value) if name == "thread" else check_name(name, value) for name, value in given.items()}


def _thread(value: Any) -> int | str:
    """The id of a thread. A Cortex thread keeps its name, and does not exist here."""
    if type(value) is int and 0 < value < _MAX_THREAD_ID:
        return value
    text = value.removeprefix(_CORTEX_PREFIX) if isinstance(value, str) else ""
    if text.isascii() and text.isdecimal() and 0 < int(text[:20]) < _MAX_THREAD_ID:
        return int(text)
    if isinstance(value, str) and value != text and text.isascii() and text.isalnum() and len(text) <= MAX_NAME_LENGTH:
        return value
    raise invalid("thread", value, "the number of a thread")


def _no_current(shorthand: str) -> InvalidInput:
    what = shorthand.removeprefix("current-")
    return InvalidInput(
        f'"{shorthand}" means the {what} of the caller, and there is none.',
        value=shorthand,
        field="target",
        hint=f'Call from a run, give context={{"{what}": …}}, or name one: {{"kind": "{what}", "{what}": …}}.',
    )


BY_SESSION_ID = "session: requested by its id"
"""How a run is assigned to an unknown session. Only the tool knows whether the session exists."""
SESSION_GONE = "gone"
"""How a run was assigned, if its tool does not know the session to continue."""


class TargetState(NamedTuple):
    thread: Thread | None
    """The thread of the target, if it exists."""
    busy_with: int | None = None
    """The run that is active in the thread."""
    session_gone: bool = False
    """Whether the tool has reported that it does not know the session."""


class Resolved(NamedTuple):
    """Assign the run to this thread, or to a new one."""

    thread: Thread | None
    how: str


class Wait(NamedTuple):
    reason: Literal["target_busy", "waiting_for_target"]
    run: int | None


class Skip(NamedTuple):
    reason: str = "target_gone"


def resolve_target(
    target: Target, found: TargetState, fallback: Fallback, final: Fallback, waited_ms: int, deadline_ms: int
) -> Resolved | Wait | Skip:
    """The thread of a run. A channel always exists. For a missing session or thread, the fallback decides. In a busy
    thread, the run waits."""
    thread = found.thread
    if thread is not None and thread.state != "closed":
        return Wait("target_busy", found.busy_with) if found.busy_with is not None else Resolved(thread, target.kind)
    if target.kind in ("fresh", "channel"):
        return Resolved(None, target.kind)
    if thread is None and target.session is not None and not found.session_gone:
        return Resolved(None, BY_SESSION_ID)
    chosen = fallback
    if fallback == "wait":
        if waited_ms < deadline_ms:
            return Wait("waiting_for_target", None)
        chosen = final
    return Skip() if chosen == "skip" else Resolved(None, f"{target.kind}: gone, fallback fresh")


KEEP = "KEEP:"
_MAX_KEPT = 20_000


def ends_conversations(definition: ScheduleDefinition) -> bool:
    """Whether conversations of the schedule's target end after some runs or tokens."""
    return definition.fresh_after is not None or definition.fresh_after_tokens is not None


def used_up(definition: ScheduleDefinition, runs: int, tokens: int) -> str | None:
    """`fresh after 20 runs`, if a conversation of so many runs and tokens has ended; None if it continues."""
    if definition.fresh_after is not None and runs >= definition.fresh_after:
        return f"fresh after {counted(runs, 'run')}"
    if definition.fresh_after_tokens is not None and tokens >= definition.fresh_after_tokens:
        return f"fresh after {tokens:,} tokens"
    return None


def closing_text(keep: str) -> str:
    """What the last run of a conversation gets besides its prompt."""
    return (
        "This conversation ends with this run; the next run starts without its memory. End your answer with a line "
        f'"{KEEP}" and, below it, what the next conversation must know: {keep}'
    )


def kept_in(answer: str) -> str | None:
    """What an answer has below its last line KEEP:"""
    lines = answer.splitlines()
    marks = [number for number, line in enumerate(lines) if line.strip(" *#`") == KEEP]
    kept = "\n".join(lines[marks[-1] + 1 :]).strip() if marks else ""
    return kept[:_MAX_KEPT] or None
