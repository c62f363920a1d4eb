"""Agents that are called rather than started: real calls to a real server, and what its answers mean."""

from __future__ import annotations

import os
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import calling
import pytest
from calling import KEY, ask, asked
from office import Office

from matins.engine.when.triggers import to_datetime
from matins.errors import StoreUnavailable
from matins.executors import endpoint_requests
from matins.executors.endpoint_requests import SpendingAllowance
from matins.executors.runners.protocol import RunnerResult
from matins.model.run import Usage
from matins.runtime import run_context
from matins.runtime.spending import SpendingLimit
from matins.testing import ManualClock
from standins.endpoint import Endpoint

endpoint = calling.endpoint
office = calling.office


def test_b4_an_answer_comes_as_from_any_other(office: Office, endpoint: Endpoint) -> None:
    """B4: one vocabulary, and no facts of a process where there is none"""
    office.matins.prices.set("m", input="$1", output="$2", cached="$0.5")
    run = asked(office, endpoint, "Hello")
    assert run.state == "succeeded", run.outcome
    result = run.outcome["result"]
    assert (result["executed"], result["succeeded"]) == (True, True)
    assert result["text"] == "I was asked: [Scheduled Task] Hello 🪴"
    assert result["tokens"] == {"in": 40, "out": 30, "cached": 60}
    assert result["money"] == {"micro_dollars": 130, "estimated": True}
    assert [result[fact] for fact in ("transcript", "exit_code", "ended_by", "truncated", "leftovers")] == [
        None, None, None, False, 0,
    ]  # fmt: skip
    asked_, answered = office.matins.threads.messages(int(result["thread"]))
    assert (asked_.text, answered.text) == ("[Scheduled Task] Hello", result["text"])


def test_b4_what_it_says_is_in_the_logs(office: Office, endpoint: Endpoint) -> None:
    """B4: as of any other run, as text"""
    run = asked(office, endpoint, "Hello")
    output = office.matins.runs.output(run.id)
    assert (output.text, output.over) == ("I was asked: [Scheduled Task] Hello 🪴\n", True)


def test_the_request_is_one_for_chat_completions(office: Office, endpoint: Endpoint, monkeypatch: Any) -> None:
    """B4"""
    monkeypatch.setenv("THE_KEY", KEY)
    options = {"max_tokens": 50, "temperature": 0, "system": "Be brief"}
    asked(office, endpoint, "Hello", environment={"OPENAI_API_KEY": "env:THE_KEY"}, options=options)
    (request,) = endpoint.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "m",
        "max_tokens": 50,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "Be brief"},
            {"role": "user", "content": "[Scheduled Task] Hello"},
        ],
    }


def test_b5_a_store_that_is_away_ends_no_call(
    office: Office, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B5, S7: the limits are read again during the call; when they cannot be, it goes on"""
    limits, reads = run_context.spending_limits, list[int]()

    def read_once(*arguments: Any) -> list[SpendingLimit]:
        reads.append(len(reads))
        if len(reads) > 1:
            raise StoreUnavailable("The server is away.")
        return limits(*arguments)

    monkeypatch.setattr(run_context, "spending_limits", read_once)
    monkeypatch.setattr(endpoint_requests, "_REREAD_MS", 0)
    run = asked(office, endpoint, "Hello", {"max_tokens": 1_000_000})
    assert run.state == "succeeded", run.outcome
    assert len(reads) > 1


def test_b5_limits_that_were_read_last_hold_until_the_store_is_back() -> None:
    """B5, S7: they are asked for again at the next look"""
    clock, allowed = ManualClock(), [[SpendingLimit(None, 100, "allowed")]]

    def bounds() -> list[SpendingLimit]:
        if not allowed:
            raise StoreUnavailable("The server is away.")
        return allowed.pop()

    allowance = SpendingAllowance(clock, bounds, lambda result: Usage(tokens=result.tokens_out))
    few, many = (RunnerResult(True, True, tokens_out=tokens) for tokens in (50, 101))
    clock.advance(1_000)
    assert allowance.exceeded(few) is None
    assert "more than the 100 allowed" in (allowance.exceeded(many) or "")
    allowed.append([SpendingLimit(None, 40, "allowed")])
    assert "more than the 40 allowed" in (allowance.exceeded(few) or "")


def test_c4_a_conversation_goes_on(office: Office, endpoint: Endpoint) -> None:
    """C4: what was said in the thread is sent along, in the right order; a fresh one begins with nothing"""
    m = office.matins
    m.agents.set("ann", runner="openai", model="m", url=endpoint.url)
    m.add("chat", when="every day at 09:00", agent="ann", prompt="Go on", target={"kind": "channel", "channel": "C1"})
    m.add("apart", when="every day at 09:00", agent="ann", prompt="Begin")
    sessions: list[str] = []
    for name in ("chat", "chat", "apart"):
        key = m.run(name).id
        run = office.wait(name, lambda run, key=key: run.id == key and not run.live)
        assert run.state == "succeeded", run.outcome
        sessions.append(run.outcome["result"]["session"])
    first, second, third = ([message["role"] for message in request.body["messages"]] for request in endpoint.requests)
    assert (first, second, third) == (["user"], ["user", "assistant", "user"], ["user"])
    assert endpoint.requests[1].body["messages"][1]["content"].startswith("I was asked: [Scheduled Task] Go on")
    assert sessions[0] == sessions[1] != sessions[2]


def test_c4_a_session_by_its_id_is_the_same_conversation(office: Office, endpoint: Endpoint) -> None:
    """C4"""
    session = asked(office, endpoint, "My name is Ada").outcome["result"]["session"]
    m = office.matins
    m.add(
        "t", when="every day at 09:00", agent="ann", prompt="Who am I?", target={"kind": "session", "session": session}
    )
    m.run("t")
    assert office.wait("t").state == "succeeded"
    assert endpoint.requests[1].body["messages"][0]["content"] == "[Scheduled Task] My name is Ada"


@pytest.mark.parametrize("fault", ["rate_limit", "unavailable"])
@pytest.mark.parametrize("runner", ["openai", "http"])
def test_b6_not_now_is_a_limit_of_the_provider(
    office: Office, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, runner: str, fault: str
) -> None:
    """B6: not a failure; it holds for whoever is at that url"""
    monkeypatch.setenv("SIGNING", "whsec_" + "c2VjcmV0" * 5)
    environment = {"WEBHOOK_SECRET": "env:SIGNING"} if runner == "http" else {}
    before = office.matins.clock.now_ms()
    ask(office, endpoint, f"fault:{fault}", runner=runner, environment=environment)
    run = office.wait("s", lambda run: run.status == "throttled")
    (throttle,) = office.matins.throttles.list()
    assert throttle.provider == f"127.0.0.1:{endpoint.port}"
    assert run.not_before == throttle.resets_at >= to_datetime(before + 3_600_000)
    assert office.matins.get("s").failures == 0


@pytest.mark.parametrize(
    ("fault", "word", "error"),
    [
        ("cut", "failed", "the stream ended early"),
        ("torn", "failed", "the stream ended early: {} cannot be reached: the answer is not valid HTTP."),
        ("garbage", "succeeded", None),
        ("halves", "succeeded", None),
        ("fails", "failed", "the endpoint answered 400: Not now"),
    ],
)
def test_b4_success_needs_the_final_event(
    office: Office, endpoint: Endpoint, fault: str, word: str, error: str | None
) -> None:
    """B4"""
    run = asked(office, endpoint, f"fault:{fault}")
    assert (run.state, run.outcome.get("error")) == (word, error and error.format(endpoint.url))
    if word == "succeeded":
        assert run.outcome["result"]["text"] == f"I was asked: [Scheduled Task] fault:{fault} 🪴"


def test_b9_a_flood_costs_little_memory(office: Office, endpoint: Endpoint) -> None:
    """B9: output is bounded, and a line of 20 MB is no line"""
    tracemalloc.start()
    try:
        run = asked(office, endpoint, "fault:flood")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert run.state == "succeeded", run.outcome
    assert run.outcome["result"]["text"] == "I was asked: [Scheduled Task] fault:flood 🪴"
    assert peak < 20_000_000


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"url": None}, "needs a URL"),
    ({"url": "http://169.254.169.254/latest"}, "a cloud's metadata service"),
    ({"url": "http://2130706433:1/"}, "not a plain IPv4 address"),
    ({"url": "http://0177.0.0.1/"}, "not a plain IPv4 address"),
    ({"url": "http://[::ffff:127.0.0.1]/"}, "leads to"),
    ({"url": "http://localhost/"}, "a loopback address"),
    ({"url": "ftp://example.com/"}, "begins with ftp"),
    ({"model": None}, "needs a model"),
    ({"environment": {"OPENAI_API_KEY": "env:NOT_SET_ANYWHERE"}}, "the environment has no"),
    ({"environment": {"OPENAI_API_KEY": "file:/nowhere/key"}}, "cannot be read"),
    ({"environment": {"OPENAI_API_KEY": "sk-written-out"}}, "must be a reference"),
    ({"max_turns": 3}, "does not support"),
    ({"workdir": "/nowhere/at/all"}, "is not a folder"),
    ({"runner": "http"}, "has no WEBHOOK_SECRET"),
]


def test_what_cannot_be_called_is_found_before_anything_is_spent(office: Office, endpoint: Endpoint) -> None:
    """B4"""
    m = office.matins
    for number, (agent, _) in enumerate(REFUSED):
        m.agents.set(f"a{number}", **{"runner": "openai", "model": "m", "url": endpoint.url, **agent})
        m.add(f"s{number}", when="every day at 09:00", agent=f"a{number}", prompt="Hello")
        m.run(f"s{number}")
    for number, (_, message) in enumerate(REFUSED):
        run = office.wait(f"s{number}")
        assert run.state == "failed"
        assert run.outcome["error"].startswith("the run was not started: ")
        assert message in run.outcome["error"]
        assert "sk-written-out" not in run.outcome["error"]
    assert endpoint.requests == []


@pytest.mark.parametrize(("fault", "word"), [("echo", "succeeded"), ("echo_fails", "failed")])
def test_a_key_that_comes_back_is_kept_nowhere(
    office: Office, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, word: str
) -> None:
    """B9: also when it comes in two pieces"""
    monkeypatch.setenv("THE_KEY", KEY)
    run = asked(office, endpoint, f"fault:{fault}", environment={"OPENAI_API_KEY": "env:THE_KEY"})
    assert run.state == word, run.outcome
    said = run.outcome["result"]["text"] if word == "succeeded" else run.outcome["error"]
    assert "[redact" in said
    office.matins.stop()
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert b"4711" not in path.read_bytes(), path


def test_b9_a_function_runs_in_a_process_tree_of_its_own(office: Office, tmp_path: Path) -> None:
    """B9 B4: supervised like any other tool; what it returns is the answer"""
    (tmp_path / "garden.py").write_text("import os\ndef water(prompt): return f'{os.getpid()} heard {prompt}'\n")
    m = office.matins
    m.agents.set("fn", runner="python", command=["garden:water"], workdir=str(tmp_path))
    m.add("s", when="every day at 09:00", agent="fn", prompt="Hello")
    m.run("s")
    run = office.wait("s")
    assert run.state == "succeeded", run.outcome
    process, _, said = run.outcome["result"]["text"].partition(" heard ")
    assert (int(process) != os.getpid(), said) == (True, "[Scheduled Task] Hello")
    assert Path(run.outcome["result"]["transcript"]).is_file()


def test_b9_a_function_that_is_cancelled_is_ended(office: Office, tmp_path: Path) -> None:
    """B9"""
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    (tmp_path / "slow.py").write_text(
        f"import time\ndef work(prompt):\n    with open({str(fifo)!r}, 'w'):\n        time.sleep(300)\n"
    )
    m = office.matins
    m.agents.set("fn", runner="python", command=["slow:work"], workdir=str(tmp_path))
    m.add("s", when="every day at 09:00", agent="fn", prompt="Hello")
    started = m.run("s")
    with fifo.open("rb") as alive:  # opens when it runs
        m.runs.cancel(started.id)
        assert alive.read() == b""
    assert office.wait("s").state == "cancelled"


@pytest.mark.parametrize("command", [["nowhere.to:be"], ["garden"]])
def test_a_function_that_is_not_there_is_found_before_anything_is_spent(office: Office, command: list[str]) -> None:
    """B4"""
    m = office.matins
    m.agents.set("fn", runner="python", command=command)
    m.add("s", when="every day at 09:00", agent="fn", prompt="Hello")
    m.run("s")
    assert office.wait("s").outcome["error"].startswith("the run was not started: ")


def test_s5_the_engine_in_its_threads_emits_a_message(office: Office) -> None:
    """S5: and whoever subscribes hears it"""
    m = office.matins
    heard: list[dict[str, Any]] = []
    there = threading.Event()

    def hear(event: dict[str, Any]) -> None:
        heard.append(event)
        there.set()

    m.subscribe(hear, types="MessageEvent")
    schedule = m.add("s", when="every day at 09:00", job="message", payload={"text": "Ring"})
    run = m.run("s")
    assert there.wait(90)
    source = {"channel": "scheduler", "connector_id": str(schedule.id)}
    assert [(event["runid"], event["data"]) for event in heard] == [(str(run.id), {"text": "Ring", "source": source})]
    assert office.wait("s").state == "succeeded"
