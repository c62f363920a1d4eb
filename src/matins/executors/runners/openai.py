"""Any endpoint that speaks OpenAI's chat completions: a request, and its stream of server-sent events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import orjson

from matins.errors import InvalidInput
from matins.executors.runners.base import Call, Line, Told
from matins.executors.runners.checks import check_call, refuse_word
from matins.executors.runners.endpoints import BODY_ROOM, check_endpoint, check_options, check_secret, note_refusal
from matins.executors.runners.events import TEXT_ROOM, Event, brief, read_event
from matins.executors.runners.limits import limit_in, retry_after
from matins.executors.runners.outcomes import Noted, Tokens, conclude
from matins.net.client import Unreachable

KEY = "OPENAI_API_KEY"
_OPTIONS = {
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
    "length": "the answer was cut short: it is as long as the model may write",
    "content_filter": "the answer was cut short by the provider's filter",
    "tool_calls": "the model asked for a tool, and it has none",
    "function_call": "the model asked for a tool, and it has none",
}
_DATA = b"data:"
_DONE = b"[DONE]"
_OK = 200


class OpenAI:
    """Sessions are threads that Matins keeps and sends again."""

    name = "openai"
    chooses_session = True
    tells = ("tokens",)

    def __init__(self, provider: str = "") -> None:
        self.provider = provider

    def refuse(self, call: Call) -> None:
        check_call(call)
        check_endpoint(call, "https://api.openai.com")
        if call.model is None:
            message = "An endpoint needs to be told the model"
            raise InvalidInput(message, value=None, field="model", hint='give the agent a model="…"')
        hint = "it only answers: it uses no tools and takes one turn"
        for field in ("permission_mode", "allowed_tools", "max_turns"):
            refuse_word(field, getattr(call, field), "An endpoint", f'has no use for "{field}"', hint)
        refuse_word("extra_args", call.extra_args, "An endpoint", "has no command line", "take them out")
        check_options(call, _OPTIONS)
        check_secret(call, KEY)

    def speak(self, call: Call, line: Line) -> Told:
        messages = [{"role": role, "content": text} for role, text in call.earlier]
        body = orjson.dumps(self.request(call, messages))
        with line.post(endpoint_of(call.url or ""), body, _headers(call)) as reply:
            reader = self.reader(reply.status, reply.headers)
            reader.asked(sum(len(text) for _, text in call.earlier) + len(call.prompt))
            try:
                for text in reply.lines(TEXT_ROOM):
                    reader.feed(text)
                    if reader.over or line.spent_up(reader.so_far()):
                        break
            except Unreachable as error:
                reader.break_off(error)
            return reader.close(None)

    def request(self, call: Call, messages: Sequence[Mapping[str, str]]) -> dict[str, Any]:
        """The body that sends what was said so far, and the prompt."""
        options = dict(call.options)
        system = options.pop("system", None)
        first = [] if system is None else [{"role": "system", "content": system}]
        said = _alternating([*messages, {"role": "user", "content": call.prompt}])
        return {
            **options,
            "model": call.model,
            "messages": [*first, *said],
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

    @property
    def over(self) -> bool:
        """Whether nothing that matters can come any more."""
        return self._noted.executed or len(self._body) >= BODY_ROOM

    def asked(self, characters: int) -> None:
        """How much was put in, for as long as nobody tells the tokens."""
        if self._status == _OK:
            self._noted.shown = characters

    def break_off(self, error: Unreachable) -> None:
        """No more lines come."""
        if not self._noted.executed and self._noted.error is None:
            self._noted.error = brief(f"the stream was cut before its end: {error.message}")

    def feed(self, line: bytes) -> None:
        stripped = line.strip()
        if self._status != _OK:
            self._body = (self._body + stripped)[:BODY_ROOM]
        elif stripped.startswith(_DATA):
            self._take_data(stripped[len(_DATA) :].strip())

    def so_far(self) -> Told:
        return self._noted.so_far()

    def close(self, exit_code: int | None) -> Told:
        if self._status != _OK:
            note_refusal(self._noted, self._provider, self._status, self._retry_after, self._body)
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
        if error.whole("code") == HTTPStatus.TOO_MANY_REQUESTS or "rate_limit" in (error.text("type") or ""):
            self._noted.limit = limit_in(self._provider, said) or retry_after(self._provider, None, self._noted.error)


def endpoint_of(url: str) -> str:
    """Where chat completions are: people give a server, its API, or the whole address."""
    path = urlsplit(url).path.rstrip("/")
    if path.endswith(_PATH):
        return url
    return url.rstrip("/") + (_PATH if path else f"/v1{_PATH}")


def _headers(call: Call) -> dict[str, str]:
    headers = {"content-type": "application/json", "accept": "text/event-stream"}
    key = call.environment.get(KEY)
    return {**headers, "authorization": f"Bearer {key}"} if key else headers


def _alternating(messages: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Some models take no two messages of the same side in a row: a run that failed leaves a question unanswered."""
    said: list[dict[str, str]] = []
    for message in messages:
        if said and said[-1]["role"] == message["role"]:
            said[-1]["content"] += "\n\n" + message["content"]
        else:
            said.append(dict(message))
    return said


def _tokens(usage: Event) -> Tokens:
    """What came from the cache is part of the prompt there, and not of the input here."""
    cached = min(usage.inner("prompt_tokens_details").whole("cached_tokens"), usage.whole("prompt_tokens"))
    return usage.whole("prompt_tokens") - cached, usage.whole("completion_tokens"), cached
