"""Any program that accepts a signed POST. The response is the outcome of the run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from matins.executors.runners.endpoints import (
    MAX_BODY_BYTES,
    check_endpoint,
    check_options,
    check_secret,
    record_refusal,
)
from matins.executors.runners.outcomes import StreamNotes, Tokens, conclude
from matins.executors.runners.protocol import Declared, EndpointConnection, RunnerRequest, RunnerResult
from matins.executors.runners.request_checks import check_call, check_unused
from matins.executors.runners.tool_events import MAX_TEXT_LENGTH, Event, read_event, shorten, storable, storable_text
from matins.net.outbound import StreamedResponse
from matins.net.signing import sign

SECRET = "WEBHOOK_SECRET"
_MAKE_ONE = 'Create one: echo "whsec_$(openssl rand -base64 32)".'
_FIELDS = ("text", "succeeded", "error", "declared", "structured", "tokens", "cost_usd", "session")


class Http:
    """A status from 200 to 299 is a success, even with an empty body, unless the body declares otherwise."""

    name = "http"
    provider = ""
    chooses_session = False
    efforts = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

    def check(self, call: RunnerRequest) -> None:
        check_call(call)
        check_endpoint(call, "https://example.com/wake")
        hint = "Put it into the prompt or the URL."
        for field in ("permission_mode", "allowed_tools", "max_turns", "extra_args"):
            check_unused(field, getattr(call, field), "An http agent", f'does not support "{field}"', hint)
        check_options(call, {})
        secret = check_secret(call, SECRET, needed=_MAKE_ONE)
        sign(secret or "", "id", 0, b"")  # raises for a secret that cannot sign

    def call(self, call: RunnerRequest, connection: EndpointConnection) -> RunnerResult:
        body = orjson.dumps(_request(call))
        signed = sign(call.environment[SECRET], call.run_info.key, connection.now_s(), body)
        headers = {**signed, "content-type": "application/json", "idempotency-key": call.run_info.key}
        if (trace := call.run_info.trace) is not None:
            headers["traceparent"] = trace
        with connection.post(call.url or "", body, headers) as reply:
            return _result(reply)


def _request(call: RunnerRequest) -> dict[str, Any]:
    run_id, schedule_id, schedule, slot, attempt, key, given, _ = call.run_info
    return {
        "run_id": str(run_id),
        "schedule_id": str(schedule_id),
        "schedule": schedule,
        "slot": slot,
        "attempt": attempt,
        "idempotency_key": key,
        "prompt": call.prompt,
        "input": given,
        "model": call.model,
        "effort": call.effort,
        "session": call.session,
        "earlier": [{"role": role, "text": text} for role, text in call.earlier],
    }


def _result(reply: StreamedResponse) -> RunnerResult:
    notes = StreamNotes(metered=False)
    if not 200 <= reply.status < 300:
        record_refusal(notes, "", reply.status, reply.headers.get("retry-after"), reply.read(MAX_BODY_BYTES))
        return conclude(notes, "the endpoint", "", None)
    notes.executed = True
    body = reply.read(MAX_TEXT_LENGTH)
    answer = read_event(body)
    if answer is None or not any(field in answer.raw for field in _FIELDS):
        notes.text.add(storable_text(body.decode("utf-8", "replace")))
        return conclude(notes, "the endpoint", "", None)
    _note(notes, answer)
    return _declared(conclude(notes, "the endpoint", "", None), answer)


def _note(notes: StreamNotes, answer: Event) -> None:
    notes.text.add(answer.text("text") or "")
    notes.failed = answer.raw.get("succeeded") is False
    if notes.failed:
        notes.error = shorten(answer.text("error") or "the endpoint reported a failure")
    notes.session = answer.name("session")
    notes.tokens = _tokens(answer)
    notes.report_cost(answer, "cost_usd")
    notes.structured = storable(answer.raw.get("structured"))


def _tokens(answer: Event) -> Tokens:
    """Tokens from a mapping, or from one total."""
    tokens = answer.inner("tokens")
    return (tokens.count("in") or answer.count("tokens"), tokens.count("out"), tokens.count("cached"))


def _declared(result: RunnerResult, answer: Event) -> RunnerResult:
    """A declared outcome as a string, or with a reason: {"outcome": "failed", "reason": "…"}."""
    inner = answer.inner("declared")
    outcome = _outcome(answer.text("declared") or inner.text("outcome"))
    if outcome is None:
        return result
    reason = inner.text("reason")
    result = replace(result, declared=outcome, reason=None if reason is None else shorten(reason))
    if outcome == "failed" and result.succeeded:
        result = replace(result, succeeded=False, error=result.reason or "the agent reported a failure")
    return result


def _outcome(field: str | None) -> Declared | None:
    match field:
        case "failed" | "nothing":
            return field
        case _:
            return None
