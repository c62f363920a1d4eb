"""Any endpoint that speaks OpenAI's chat completions: the body of a request, and its stream of server-sent events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matins.errors import InvalidInput
from matins.executors.runners.base import Call, Told
from matins.executors.runners.checks import check_call, refuse_word
from matins.executors.runners.events import NOTE_ROOM, Event, brief, read_event
from matins.executors.runners.limits import limit_in, retry_after
from matins.executors.runners.outcomes import Noted, Tokens, conclude

_CUT_SHORT = {
    "length": "the answer was cut short: it is as long as the model may write",
    "content_filter": "the answer was cut short by the provider's filter",
    "tool_calls": "the model asked for a tool, and it has none",
    "function_call": "the model asked for a tool, and it has none",
}
_DATA = b"data:"
_DONE = b"[DONE]"
_OK = 200
_TOO_MANY = 429
_BODY_ROOM = 64 * 1024


class OpenAI:
    """Sessions are threads that Matins keeps and sends again."""

    name = "openai"

    def __init__(self, provider: str = "openai") -> None:
        self.provider = provider

    def refuse(self, call: Call) -> None:
        check_call(call)
        if call.model is None:
            message = "An endpoint needs to be told the model"
            raise InvalidInput(message, value=None, field="model", hint='give the agent a model="…"')
        hint = "it only answers: it uses no tools and takes one turn"
        for field in ("permission_mode", "allowed_tools", "max_turns"):
            refuse_word(field, getattr(call, field), "An endpoint", f'has no use for "{field}"', hint)
        refuse_word("extra_args", call.extra_args, "An endpoint", "has no command line", "take them out")

    def request(self, call: Call, messages: Sequence[Mapping[str, str]]) -> dict[str, Any]:
        """The body that sends what was said so far, and the prompt."""
        return {
            "model": call.model,
            "messages": [*(dict(message) for message in messages), {"role": "user", "content": call.prompt}],
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def reader(self, status: int = _OK, headers: Mapping[str, str] | None = None) -> OpenAIReader:
        """Of an answer with this status; names of headers in lower case."""
        return OpenAIReader(self.provider, status, headers or {})


class OpenAIReader:
    """`[DONE]` is the final event. Some servers tell the usage in every chunk: the last one holds."""

    def __init__(self, provider: str, status: int, headers: Mapping[str, str]) -> None:
        self._provider = provider
        self._status = status
        self._retry_after = headers.get("retry-after")
        self._body = b""
        self._noted = Noted(turns=1)

    def feed(self, line: bytes) -> None:
        stripped = line.strip()
        if self._status != _OK:
            self._body = (self._body + stripped)[:_BODY_ROOM]
        elif stripped.startswith(_DATA):
            self._take_data(stripped[len(_DATA) :].strip())

    def close(self, exit_code: int | None) -> Told:
        if self._status != _OK:
            self._refused()
        elif not self._noted.executed and self._noted.error is None:
            self._noted.error = "the stream was cut before its end"
        return conclude(self._noted, "the endpoint", self._provider, exit_code)

    def _take_data(self, data: bytes) -> None:
        if data == _DONE:
            self._noted.executed = True
            return
        chunk = read_event(data)
        if chunk is not None:
            self._take_chunk(chunk)

    def _take_chunk(self, chunk: Event) -> None:
        if chunk.raw.get("error"):
            self._take_error(chunk)
        if chunk.raw.get("usage"):
            self._noted.tokens = _tokens(chunk.inner("usage"))
        for choice in chunk.inners("choices"):
            if choice.whole("index") == 0:
                self._take_choice(choice)

    def _take_choice(self, choice: Event) -> None:
        delta = choice.inner("delta")
        self._noted.text.add(delta.text("content") or "")
        cut = delta.text("refusal") or _CUT_SHORT.get(choice.text("finish_reason") or "")
        if cut is not None:
            self._noted.failed = True
            self._noted.error = brief(self._noted.error or cut)

    def _take_error(self, chunk: Event) -> None:
        error = chunk.inner("error")
        said = error.text("message") or chunk.text("error") or "an error without a message"
        self._noted.failed = True
        self._noted.error = brief(said)
        if error.whole("code") == _TOO_MANY or "rate_limit" in (error.text("type") or ""):
            self._noted.limit = limit_in(self._provider, said) or retry_after(self._provider, None, self._noted.error)

    def _refused(self) -> None:
        body = read_event(self._body)
        said = self._body.decode("utf-8", "replace") if body is None else _message(body)
        error = self._noted.error = brief(f"the endpoint answered {self._status}: {said[:NOTE_ROOM]}".rstrip(": "))
        if self._status == _TOO_MANY or (self._status > 499 and self._retry_after is not None):
            spoken = limit_in(self._provider, said) if self._retry_after is None else None
            self._noted.limit = spoken or retry_after(self._provider, self._retry_after, error)


def _message(body: Event) -> str:
    return body.inner("error").text("message") or body.text("error") or body.text("message") or ""


def _tokens(usage: Event) -> Tokens:
    """What came from the cache is part of the prompt there, and not of the input here."""
    cached = min(usage.inner("prompt_tokens_details").whole("cached_tokens"), usage.whole("prompt_tokens"))
    return usage.whole("prompt_tokens") - cached, usage.whole("completion_tokens"), cached
