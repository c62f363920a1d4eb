"""Chat completions, against a server that stands in for an endpoint."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from driving import PATIENCE, read

from matins.executors.runners.openai import OpenAI
from matins.executors.runners.protocol import Limit, RunnerRequest, RunnerResult
from standin_path import STANDINS

ENDPOINT = OpenAI("local")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with subprocess.Popen([sys.executable, str(STANDINS / "openai")], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.terminate()


def ask(port: int, prompt: str, *, thread: tuple[dict[str, str], ...] = (), model: str | None = "m") -> RunnerResult:
    body = ENDPOINT.request(RunnerRequest(prompt=prompt, workdir="/", model=model), thread)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body).encode())
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return read(ENDPOINT.reader(answer.status, headers), list(answer), None)
    finally:
        connection.close()


def test_b4_an_answer_is_told_like_any_other(port: int) -> None:
    result = ask(port, 'Water the "plants"\n-now 🪴')
    assert (result.executed, result.succeeded, result.error) == (True, True, None)
    assert result.text == 'I was asked: Water the "plants"\n-now 🪴\nBefore that: nothing'
    assert (result.tokens_in, result.tokens_out, result.tokens_cached) == (40, 30, 60)
    assert (result.turns, result.session, result.cost_usd, result.cost_reported) == (1, None, None, False)


def test_a_thread_is_sent_again(port: int) -> None:
    thread = ({"role": "user", "content": "My name is Ada"}, {"role": "assistant", "content": "Hello"})
    assert ask(port, "What is my name?", thread=thread).text.endswith("Before that: My name is Ada")


def test_b6_too_many_requests_is_a_limit(port: int) -> None:
    result = ask(port, "fault:rate_limit")
    assert (result.executed, result.succeeded) == (False, False)
    assert result.error == "the endpoint answered 429: Rate limit reached for requests"
    assert result.limit == Limit("local", None, result.error, 30_000)


def test_b6_unavailable_until_a_date_is_a_limit(port: int) -> None:
    result = ask(port, "fault:unavailable")
    assert result.limit is not None
    assert result.limit.resets_at == 1_794_733_200_000


def test_b6_a_failure_of_the_server_is_an_outage(port: int) -> None:
    """B6: not the agent's failure at first"""
    result = ask(port, "fault:fails")
    reason = "the endpoint answered 500: The server had an error"
    assert (result.succeeded, result.error) == (False, reason)
    assert result.limit is not None
    assert (result.limit.outage, result.limit.reason) == (True, reason)


def test_a_stream_that_is_cut_is_no_success(port: int) -> None:
    result = ask(port, "fault:cut")
    assert (result.executed, result.succeeded, result.error) == (False, False, "the stream ended early")
    assert result.text.startswith("I was asked")


def test_chunks_that_are_none_are_passed_over(port: int) -> None:
    result = ask(port, "fault:garbage")
    assert result.succeeded
    assert result.text == "I was asked: fault:garbage\nBefore that: nothing"


def test_b6_a_limit_in_the_middle_of_a_stream(port: int) -> None:
    result = ask(port, "fault:in_stream_error")
    assert (result.executed, result.succeeded) == (False, False)
    assert result.limit == Limit("local", None, "Rate limit reached, try again in 20s", 20_000)


def test_an_answer_that_was_cut_short_is_no_success(port: int) -> None:
    result = ask(port, "fault:length")
    assert (result.executed, result.succeeded) == (True, False)
    assert "truncated" in (result.error or "")


def test_a_request_that_the_server_refuses_says_so(port: int) -> None:
    assert ask(port, "x", model=None).error == "the endpoint answered 400: The request is not one for chat completions"


# -- forms that other servers use


def lines(*chunks: object) -> list[bytes]:
    return [b"data: " + (chunk if isinstance(chunk, bytes) else json.dumps(chunk).encode()) for chunk in chunks]


def test_usage_in_every_chunk_counts_once() -> None:
    """B4"""
    usage = [{"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": count}} for count in (1, 2, 3)]
    result = read(ENDPOINT.reader(), lines(*usage, b"[DONE]"), None)
    assert (result.tokens_in, result.tokens_out) == (5, 3)


def test_a_refusal_is_no_success() -> None:
    result = read(
        ENDPOINT.reader(), lines({"choices": [{"index": 0, "delta": {"refusal": "I cannot"}}]}, b"[DONE]"), None
    )
    assert (result.succeeded, result.error) == (False, "I cannot")


def test_only_the_first_choice_is_read_and_a_space_after_data_is_free() -> None:
    choices = [{"index": index, "delta": {"content": str(index)}} for index in (0, 1)]
    result = read(ENDPOINT.reader(), [b"data:" + json.dumps({"choices": choices}).encode(), b"data:[DONE]\r\n"], None)
    assert (result.succeeded, result.text) == (True, "0")


@pytest.mark.parametrize(("status", "outage"), [(429, False), (503, True), (500, True), (401, None)])
def test_b6_without_the_header_429_is_a_limit_and_5xx_an_outage(status: int, outage: bool | None) -> None:
    result = read(ENDPOINT.reader(status), [b"no JSON"], None)
    assert result.error == f"the endpoint answered {status}: no JSON"
    assert (result.limit.outage if result.limit else None) == outage


def test_b6_a_429_may_say_in_words_how_long() -> None:
    body = [b'{"error":\n', b'{"message": "Rate limit reached. Please try again in 1m30s."}}']
    result = read(ENDPOINT.reader(429), body, None)
    assert result.limit is not None
    assert result.limit.wait_ms == 90_000
