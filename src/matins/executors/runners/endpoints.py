"""Shared parts of runners that call an endpoint: its URL, its secret, and its error responses."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import urlsplit

from matins.errors import Example, InvalidInput
from matins.executors.runners.outcomes import StreamNotes, find_limit, retry_after
from matins.executors.runners.protocol import RunnerRequest
from matins.executors.runners.tool_events import MAX_NOTE_LENGTH, Event, read_event, shorten
from matins.net.outbound import check_url

MAX_BODY_BYTES = 64 * 1024
_KIND_NAMES = {str: "a string", int: "an integer", float: "a number", list: "a list", dict: "a mapping"}
Kinds = Mapping[str, tuple[type, ...]]


def check_endpoint(call: RunnerRequest, example: str) -> None:
    if call.url is None:
        raise InvalidInput("The agent needs a URL to call.", field="url", hint=Example({"url": example}))
    check_url(call.url, call.allowed_hosts)


def check_options(call: RunnerRequest, kinds: Kinds) -> None:
    """Raise InvalidInput for unknown options and for values of the wrong type."""
    for name, value in call.options.items():
        if name not in kinds:
            known = ", ".join(kinds) or "none"
            message = f'The runner has no option "{name}".'
            raise InvalidInput(message, value=name, field="options", allowed=known, hint=f"Known: {known}.")
        if isinstance(value, bool) or not isinstance(value, kinds[name]):
            allowed = " or ".join(_KIND_NAMES[kind] for kind in kinds[name])
            message = f'The option "{name}" must be {allowed}, not {reprlib.repr(value)}.'
            raise InvalidInput(message, value=value, field="options", allowed=allowed, hint=f'Check "{name}".')


def check_secret(call: RunnerRequest, name: str, *, needed: str | None = None) -> str | None:
    """The agent's secret of this name. Only references are accepted: the store must not hold secrets."""
    secret = call.environment.get(name)
    if not secret:
        if needed is None:
            return None
        message = f"The agent's environment has no {name}. {needed}"
        raise InvalidInput(message, field="environment", hint=Example({"environment": {name: f"env:{name}"}}))
    if secret not in call.secrets:
        hint = Example({"environment": {name: f"env:{name}"}})
        raise InvalidInput(f"{name} must be a reference to a secret, not the secret.", field="environment", hint=hint)
    if not (secret.isascii() and secret.isprintable()):
        message = f"{name} cannot be sent: it is not one line of ASCII."
        raise InvalidInput(message, field="environment", hint="Check the variable or file that has it.")
    return secret


def endpoint_host(url: str | None) -> str:
    """Host and port of the URL: the provider whose limits apply."""
    try:
        return urlsplit(url or "").netloc.rpartition("@")[2].lower()
    except ValueError:
        return ""


def record_refusal(notes: StreamNotes, provider: str, status: int, retry: str | None, body: bytes) -> None:
    """Record an error response. 429 is a provider limit, and so is a 5xx with a retry time."""
    body_event = read_event(body)
    message = body.decode("utf-8", "replace") if body_event is None else _message(body_event)
    notes.failed = True
    error = notes.error = shorten(f"the endpoint answered {status}: {message[:MAX_NOTE_LENGTH]}".rstrip(": "))
    if status == HTTPStatus.TOO_MANY_REQUESTS or (status > 499 and retry is not None):
        limit = find_limit(provider, message) if retry is None else None
        notes.limit = limit or retry_after(provider, retry, error)


def _message(body: Event) -> str:
    return body.inner("error").text("message") or body.text("error") or body.text("message") or ""
