"""Any endpoint with OpenAI's chat completions: a request, and a stream of server-sent events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import orjson

from matins.errors import Example, InvalidInput
from matins.executors.runners.endpoints import (
    MAX_BODY_BYTES,
    Kinds,
    check_endpoint,
    check_options,
    check_secret,
    record_refusal,
)
from matins.executors.runners.outcomes import StreamNotes, Tokens, conclude, find_limit, limit_of_status, retry_after
from matins.executors.runners.protocol import EndpointConnection, RunnerRequest, RunnerResult
from matins.executors.runners.request_checks import check_call, check_unused
from matins.executors.runners.tool_events import MAX_TEXT_LENGTH, Event, read_event, shorten
from matins.net.outbound import Unreachable

KEY = "OPENAI_API_KEY"
OPTIONS: Kinds = {
    "system": (str,),
    "max_tokens": (int,),
    "max_completion_tokens": (int,),
    "temperature": (int, float),
    "top_p": (int, float),
    "seed": (int,),
    "stop": (str, list),
    "reasoning_effort": (str,),
    "response_format": (dict,),
}
_PATH = "/chat/completions"
_CUT_SHORT = {
    "length": "the answer was truncated at the model's length limit",
    "content_filter": "the answer was truncated by the provider's filter",
    "tool_calls": "the model requested a tool, and there is none",
    "function_call": "the model requested a tool, and there is none",
}
_DATA = b"data:"
_DONE = b"[DONE]"
_OK = 200


class OpenAI:
    """Sessions are threads that Matins stores and sends with each request."""

    name = "openai"
    efforts = ("none", "minimal", "low", "medium", "high", "xhigh")
    options = OPTIONS
    chooses_session = True
    reports = ("tokens",)

    def __init__(self, provider: str = "") -> None:
        self.provider = provider

    def check(self, call: RunnerRequest) -> None:
        check_call(call)
        check_endpoint(call, "https://api.openai.com")
        if call.model is None:
            message = "An endpoint needs a model."
            raise InvalidInput(message, value=None, field="model", hint=Example({"model": "gpt-5"}))
        hint = "Omit it: an endpoint has no tools and takes one turn."
        for field in ("permission_mode", "allowed_tools", "max_turns"):
            check_unused(field, getattr(call, field), "An endpoint", f'does not support "{field}"', hint)
        check_unused("extra_args", call.extra_args, "An endpoint", "has no command line", "Omit them.")
        check_options(call, OPTIONS)
        check_secret(call, KEY)

    def call(self, call: RunnerRequest, connection: EndpointConnection) -> RunnerResult:
        messages = [{"role": role, "content": text} for role, text in call.earlier]
        body = orjson.dumps(self.request(call, messages))
        with connection.post(endpoint_of(call.url or ""), body, _headers(call)) as reply:
            reader = self.reader(reply.status, reply.headers)
            reader.set_prompt_length(sum(len(text) for _, text in call.earlier) + len(call.prompt))
            try:
                for text in reply.lines(MAX_TEXT_LENGTH):
                    reader.feed(text)
                    connection.log(reader.take_piece())
                    if reader.complete or connection.over_budget(reader.so_far()):
                        break
            except Unreachable as error:
                reader.interrupt(error)
            connection.log("\n")
            return reader.close(None)

    def request(self, call: RunnerRequest, messages: Sequence[Mapping[str, str]]) -> dict[str, Any]:
        """The request body: the earlier messages and the prompt."""
        options = dict(call.options) | ({} if call.effort is None else {"reasoning_effort": call.effort})
        system = options.pop("system", None)
        first = [] if system is None else [{"role": "system", "content": system}]
        merged = _alternating([*messages, {"role": "user", "content": call.prompt}])
        return {
            **options,
            "model": call.model,
            "messages": [*first, *merged],
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def reader(self, status: int = _OK, headers: Mapping[str, str] | None = None) -> OpenAIReader:
        """A reader for a response with this status. Header names are in lower case."""
        return OpenAIReader(self.provider, status, headers or {})


class OpenAIReader:
    """`[DONE]` is the final event. Some servers report the usage in every chunk: the last one counts."""

    def __init__(self, provider: str, status: int, headers: Mapping[str, str]) -> None:
        self._provider = provider
        self._status = status
        self._retry_after = headers.get("retry-after")
        self._body = b""
        self._piece = ""
        self._notes = StreamNotes(turns=1)

    @property
    def complete(self) -> bool:
        """Whether further lines cannot change the result."""
        return self._notes.executed or len(self._body) >= MAX_BODY_BYTES

    def set_prompt_length(self, characters: int) -> None:
        """Estimate the input tokens from the prompt, until the server reports them."""
        if self._status == _OK:
            self._notes.read_length = characters

    def interrupt(self, error: Unreachable) -> None:
        """End the stream early."""
        if not self._notes.executed and self._notes.error is None:
            self._notes.error = shorten(f"the stream ended early: {error.message}")

    def feed(self, line: bytes) -> None:
        stripped = line.strip()
        if self._status != _OK:
            self._body = (self._body + stripped)[:MAX_BODY_BYTES]
        elif stripped.startswith(_DATA):
            data = stripped[len(_DATA) :].strip()
            if data == _DONE:
                self._notes.executed = True
            elif (chunk := read_event(data)) is not None:
                self._handle_chunk(chunk)

    def take_piece(self) -> str:
        """The text since the last call."""
        piece, self._piece = self._piece, ""
        return piece

    def so_far(self) -> RunnerResult:
        return self._notes.so_far()

    def close(self, exit_code: int | None) -> RunnerResult:
        if self._status != _OK:
            record_refusal(self._notes, self._provider, self._status, self._retry_after, self._body)
            limit = limit_of_status(self._provider, self._status, self._notes.error or "")
            self._notes.limit = self._notes.limit or limit
        elif not self._notes.executed and self._notes.error is None:
            self._notes.error = "the stream ended early"
        return conclude(self._notes, "the endpoint", self._provider, exit_code)

    def _handle_chunk(self, chunk: Event) -> None:
        if chunk.raw.get("error"):
            self._handle_error(chunk)
        if chunk.raw.get("usage"):
            self._notes.tokens = _tokens(chunk.inner("usage"))
        for choice in chunk.inners("choices"):
            if choice.count("index") == 0:
                self._handle_choice(choice)

    def _handle_choice(self, choice: Event) -> None:
        delta = choice.inner("delta")
        self._piece += delta.text("content") or ""
        self._notes.text.add(delta.text("content") or "")
        cut = delta.text("refusal") or _CUT_SHORT.get(choice.text("finish_reason") or "")
        if cut is not None:
            self._notes.failed = True
            self._notes.error = shorten(self._notes.error or cut)

    def _handle_error(self, chunk: Event) -> None:
        error = chunk.inner("error")
        message = error.text("message") or chunk.text("error") or "an error without a message"
        self._notes.failed = True
        self._notes.error = shorten(message)
        if error.count("code") == HTTPStatus.TOO_MANY_REQUESTS or "rate_limit" in (error.text("type") or ""):
            self._notes.limit = find_limit(self._provider, message) or retry_after(
                self._provider, None, self._notes.error
            )


def endpoint_of(url: str) -> str:
    """The URL of chat completions: users give a server, its API, or the full URL."""
    path = urlsplit(url).path.rstrip("/")
    if path.endswith(_PATH):
        return url
    return url.rstrip("/") + (_PATH if path else f"/v1{_PATH}")


def _headers(call: RunnerRequest) -> dict[str, str]:
    headers = {"content-type": "application/json", "accept": "text/event-stream"}
    if call.run_info.trace is not None:
        headers["traceparent"] = call.run_info.trace
    key = call.environment.get(KEY)
    return {**headers, "authorization": f"Bearer {key}"} if key else headers


def _alternating(messages: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Merge neighbouring messages of one role: some models refuse them, and failed runs leave them."""
    merged: list[dict[str, str]] = []
    for message in messages:
        if merged and merged[-1]["role"] == message["role"]:
            merged[-1]["content"] += "\n\n" + message["content"]
        else:
            merged.append(dict(message))
    return merged


def _tokens(usage: Event) -> Tokens:
    """OpenAI counts cached tokens as part of the prompt; Matins does not count them as input."""
    cached = min(usage.inner("prompt_tokens_details").count("cached_tokens"), usage.count("prompt_tokens"))
    return usage.count("prompt_tokens") - cached, usage.count("completion_tokens"), cached
