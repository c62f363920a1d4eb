"""Any program that takes a signed POST: what it answers is what came of the run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from matins.executors.runners.base import Call, Declared, Line, Told
from matins.executors.runners.checks import check_call, refuse_word
from matins.executors.runners.endpoints import BODY_ROOM, check_endpoint, check_options, check_secret, note_refusal
from matins.executors.runners.events import TEXT_ROOM, Event, brief, clean, read_event, storable
from matins.executors.runners.outcomes import Noted, Tokens, conclude
from matins.net.client import Reply
from matins.net.signing import sign

SECRET = "WEBHOOK_SECRET"
_MAKE_ONE = 'echo "whsec_$(openssl rand -base64 32)" makes one'
_WORDS = ("text", "succeeded", "error", "declared", "structured", "tokens", "cost_usd", "session")


class Http:
    """Every answer from 200 to 299 is a success, unless it says otherwise; an empty one too."""

    name = "http"
    provider = ""
    chooses_session = False

    def refuse(self, call: Call) -> None:
        check_call(call)
        check_endpoint(call, "https://example.com/wake")
        hint = "tell it in the prompt, or in the url"
        for field in ("permission_mode", "allowed_tools", "max_turns", "extra_args"):
            refuse_word(field, getattr(call, field), "An http agent", f'has no use for "{field}"', hint)
        check_options(call, {})
        secret = check_secret(call, SECRET, needed=_MAKE_ONE)
        sign(secret or "", "id", 0, b"")  # finds one that cannot sign

    def speak(self, call: Call, line: Line) -> Told:
        body = orjson.dumps(_asked(call))
        signed = sign(call.environment[SECRET], call.occasion.key, line.now_s(), body)
        headers = {**signed, "content-type": "application/json", "idempotency-key": call.occasion.key}
        with line.post(call.url or "", body, headers) as reply:
            return _told(reply)


def _asked(call: Call) -> dict[str, Any]:
    run_id, schedule_id, schedule, slot, attempt, key = call.occasion
    return {
        "run_id": str(run_id),
        "schedule_id": str(schedule_id),
        "schedule": schedule,
        "slot": slot,
        "attempt": attempt,
        "idempotency_key": key,
        "prompt": call.prompt,
        "model": call.model,
        "session": call.session,
        "earlier": [{"role": role, "text": text} for role, text in call.earlier],
    }


def _told(reply: Reply) -> Told:
    noted = Noted(metered=False)
    if not 200 <= reply.status < 300:
        note_refusal(noted, "", reply.status, reply.headers.get("retry-after"), reply.read(BODY_ROOM))
        return conclude(noted, "the endpoint", "", None)
    noted.executed = True
    body = reply.read(TEXT_ROOM)
    answer = read_event(body)
    if answer is None or not any(word in answer.raw for word in _WORDS):
        noted.text.add(clean(body.decode("utf-8", "replace")))
        return conclude(noted, "the endpoint", "", None)
    _note(noted, answer)
    return _declared(conclude(noted, "the endpoint", "", None), answer)


def _note(noted: Noted, answer: Event) -> None:
    noted.text.add(answer.text("text") or "")
    noted.failed = answer.raw.get("succeeded") is False
    if noted.failed:
        noted.error = brief(answer.text("error") or "the endpoint says that it failed")
    noted.session = answer.word("session")
    noted.tokens = _tokens(answer)
    noted.cost_usd = answer.number("cost_usd")
    noted.structured = storable(answer.raw.get("structured"))


def _tokens(answer: Event) -> Tokens:
    """A mapping, or all of them in one number."""
    tokens = answer.inner("tokens")
    return (tokens.whole("in") or answer.whole("tokens"), tokens.whole("out"), tokens.whole("cached"))


def _declared(told: Told, answer: Event) -> Told:
    """In a word, or with a reason: {"outcome": "failed", "reason": "…"}."""
    inner = answer.inner("declared")
    outcome = _outcome(answer.text("declared") or inner.text("outcome"))
    if outcome is None:
        return told
    reason = inner.text("reason")
    told = replace(told, declared=outcome, reason=None if reason is None else brief(reason))
    if outcome == "failed" and told.succeeded:
        told = replace(told, succeeded=False, error=told.reason or "the agent says that it failed")
    return told


def _outcome(word: str | None) -> Declared | None:
    match word:
        case "failed" | "nothing":
            return word
        case _:
            return None
