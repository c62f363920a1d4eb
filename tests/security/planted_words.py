"""Words of tools, checks and people, planted where others can write: one that reaches an agent is found."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args
from urllib.parse import unquote_plus

import orjson
from security_cast import ROVER, Watched, at
from surface_walk import tool_arguments

from matins import Matins
from matins.api import codec
from matins.api.arguments import setting_names
from matins.api.use_case import USE_CASES, UseCase
from matins.errors import MatinsError, RateLimited
from matins.executors.job_context import JobContext
from matins.mcp.principal_calls import PrincipalCalls
from matins.mcp.tool import Tool
from matins.mcp.tools import TOOLS
from matins.model.access import Principal
from matins.model.overview import ScheduleSort, ScheduleTab
from matins.seeds.cortex.tools import CORTEX
from matins.seeds.polpo import POLPO

MARK = "qqcanary"
WORDS = tuple(
    f"{MARK}{name}"
    for name in (
        "prompt", "description", "payload", "label", "answer", "error", "retried", "pausenote", "manynote", "denied",
        "approved", "proposal", "check", "checkoutput", "hook", "command", "step", "steppayload", "steperror",
        "message",
        "channel", "session", "cancelled", "key", "limit", "throttle", "called", "body", "callkey", "sender", "hookset",
        "environment", "argument", "webhooknote", "workdir", "email", "broken", "edited", "input", "declared", "choice",
        "inputhelp", "plaincommand", "stdin", "attach", "keep", "filename", "leftout", "undelivered",
    )
)  # fmt: skip
"""What is planted. Each must be seen by the owner."""


def word(name: str) -> str:
    found = f"{MARK}{name}"
    assert found in WORDS, name
    return found


def plant(bench: Watched) -> None:
    """Make schedules, runs, approvals, incidents and records of the agent rover and of people."""
    bench.agents.set(
        "rover", runner="shell", command=["true", word("argument")], environment={"X": f"env:{word('environment')}"},
        workdir=f"/tmp/{word('workdir')}",
    )  # fmt: skip
    bench.people.set("ada", role="operator", email=f"{word('email')}@example.com")
    _jobs(bench)
    _schedules(bench)
    bench.run_until(at("08:06"))
    _decisions(bench)
    _calls(bench)
    _conversation(bench)
    _answers(bench)
    bench.run_until(at("08:20"))
    bench.pause("paused", note=word("pausenote"))
    bench.bulk.apply("pause", "quiet", note=word("manynote"))
    bench.webhooks.add("out", "https://example.com/x")
    bench.webhooks.pause("out", note=word("webhooknote"))
    bench.hooks.set("after:run", command=f"true {word('hookset')}")
    bench.throttles.set("acme", resets_at=at("23:00"), reason=word("throttle"))
    _break(bench)
    bench.settle()
    assert bench.audit.verify().problems == []


def _jobs(bench: Watched) -> None:
    @bench.job("answers")
    def answers(run: JobContext) -> Any:
        return {"text": word("answer")}

    @bench.job("fails")
    def fails(run: JobContext) -> None:
        raise ValueError(word("error"))

    @bench.job("limited")
    def limited(run: JobContext) -> None:
        raise RateLimited("acme", reason=word("limit"))

    @bench.job("retries")
    def retries(run: JobContext) -> None:
        raise ValueError(word("retried"))

    @bench.job("step fails")
    def step_fails(run: JobContext) -> None:
        raise ValueError(word("steperror"))


def _schedules(bench: Watched) -> None:
    slot: dict[str, Any] = {"when": "5 * * * *", "agent": "rover"}
    bench.add("private", **slot, job="answers", payload=word("payload"), description=word("description"),
              labels={"a": word("label")})  # fmt: skip
    bench.add("failing", **slot, job="fails", provider="acme")
    bench.add("limited", **slot, job="limited", provider="acme")
    bench.add("waiting", when="12 * * * *", agent="rover", job="work", provider="acme")
    bench.add("retrying", **slot, job="retries", retries=5, retry_delay="3h", max_retry_delay="5h")
    bench.add("checked", **slot, job="work", pre_check=f"echo {word('checkoutput')}; echo {word('check')} >&2; exit 1")
    bench.add("hooked", **slot, job="work", before_run=f"""echo '{{"cancel": true, "reason": "{word("hook")}"}}'""")
    bench.add("commanded", when="50 23 * * *", agent="rover", job="work", pre_check=f"true {word('command')}")
    bench.add("asked", **slot, job="work", approval="owner_approve")
    bench.add("allowed", **slot, job="work", approval="owner_approve")
    bench.add("paused", **slot, job="work")
    bench.add("quiet", **slot, job="work")
    bench.add("kept", when="55 23 * * *", agent="rover", job="work", approval="owner_approve")
    bench.add("speaking", when="56 23 * * *", agent="rover", prompt=word("prompt"))
    steps = [
        {"title": word("step"), "job": "step fails", "payload": word("steppayload")},
        {"title": "Then", "job": "work", "after": [word("step")]},
    ]
    bench.missions.make("private-mission", when="5 * * * *", agent="rover", steps=steps)
    bench.acting_as(ROVER).add("proposed", when="5 * * * *", job="work", payload=word("proposal"))


def _decisions(bench: Watched) -> None:
    asked = {approval.schedule: approval for approval in bench.approvals.list() if approval.kind == "run"}
    bench.approvals.deny(asked["asked"].id, note=word("denied"))
    bench.approvals.approve(asked["allowed"].id, note=word("approved"))
    held = bench.run("kept", key=word("key"))
    bench.settle()
    bench.runs.cancel(held.id, reason=word("cancelled"))


def _calls(bench: Watched) -> None:
    bench.inbound.set("prs", kind="bearer", secret="env:PRS")
    bench.add("listening", on={"webhook": "prs"}, agent="rover", job="work")
    bench.calls.fire("webhook", "prs", word("callkey"), body={"title": word("body")}, text=word("called"),
                     sender=word("sender"))  # fmt: skip


def _conversation(bench: Watched) -> None:
    now, run = bench.clock.now_ms(), int(bench.last("private").id)
    with bench.store.transaction(now) as transaction:
        thread = transaction.insert_thread("rover", word("channel"), word("session"), word("session"), None, now)
        transaction.assign_thread(run, thread, "fresh")
        transaction.insert_message(thread, run, "agent", word("message"), now)


def _answers(bench: Watched) -> None:
    """What runs are given, and what they tell: commands, inputs, files, messages, and why one did not arrive."""
    inputs = {
        "text": {"type": "text", "default": word("declared"), "description": word("inputhelp")},
        "choice": {"type": "choice", "values": ["a", word("choice")], "default": "a"},
    }
    bench.add("given", when="52 23 * * *", agent="rover", job="work", inputs=inputs)
    bench.run("given", input={"text": word("input")})
    bench.add("plain", when="53 23 * * *", agent="rover", command=f"true {word('plaincommand')}", stdin=word("stdin"),
              attach=[f"{word('attach')}/*"])  # fmt: skip
    target = {"kind": "channel", "channel": "C1"}
    bench.add("keeping", when="54 23 * * *", agent="rover", prompt="x", target=target, fresh_after=3, keep=word("keep"))

    @bench.job("attaches")
    def attaches(run: JobContext) -> Any:
        file = {"name": word("filename"), "path": "/nowhere", "size": 1, "digest": "0", "media_type": "text/plain"}
        return {"text": "x", "files": [file], "left_out": [word("leftout")]}

    bench.destinations.set("nowhere", kind="file", to=["/proc/nowhere"])
    bench.add("telling", when="51 23 * * *", agent="rover", job="attaches", deliver=["nowhere"])
    run, now = int(bench.run("telling").id), bench.clock.now_ms()
    bench.settle()
    with bench.store.transaction(now) as transaction:
        (row,) = transaction.answers_of(run)
        transaction.set_answer(row._replace(state="unconfirmed", error=word("undelivered"), next_at=None))


def _break(bench: Watched) -> None:
    """A schedule whose stored settings cannot be read."""
    made = bench.add("broken", when="5 * * * *", agent="rover", job="work", description=word("edited"))
    now = bench.clock.now_ms()
    with bench.store.transaction(now) as transaction:
        transaction.set_schedule_state(int(made.id), "broken", now, word("broken"), None)


# -- who reads them


def plausible(bench: Watched, use_case: UseCase) -> Iterator[dict[str, Any]]:
    """Arguments for a use case: about everything that there is, with every choice of its other arguments."""
    known = known_values(bench)
    taken = {*use_case.parameters, *setting_names(use_case)}
    keys = [name for name, parameter in use_case.parameters.items() if parameter.required and name in known]
    for values in itertools.product(*(known[name] for name in keys)):
        given = dict(zip(keys, values, strict=True))
        yield given
        for name, options in OPTIONS.items():
            if name in taken and name not in given:
                for option in options:
                    yield {**given, name: option}


def known_values(bench: Matins) -> dict[str, list[Any]]:
    """What there is, by the names of arguments."""
    schedules = [f"{one.agent}/{one.name}" for one in bench.list(limit=1_000)]
    runs = [one.id for one in bench.runs.list(limit=1_000)]
    steps = [f"{run}/{step.number}" for run in runs for step in bench.runs.get(run).steps]
    approvals = [
        one.id for state in ("pending", "approved", "used", "denied", "expired", "void")
        for one in bench.approvals.list(state=state)
    ]  # fmt: skip
    records = (bench.agents, bench.inbound, bench.webhooks, bench.people, bench.work_sources, bench.destinations)
    return {
        "name": [*schedules, *(one.name for kind in records for one in kind.list()), "after:run", "acme"],
        "schedule": schedules,
        "agent": ["rover"],
        "run_id": [*runs, *steps],
        "approval_id": approvals,
        "thread_id": [one.id for one in bench.threads.list()],
        "incident_id": [one.id for one in bench.incidents.list(all=True)],
        "call_id": [one.id for one in bench.calls.list()],
        "event": ["after:run"],
        "provider": ["acme"],
        "text": ["rover", "private", "every day at 9am"],
        "outcome": ["failed"],
        "scope": ["rover"],
        "model": ["x"],
        "currency": ["EUR"],
    }


OPTIONS: Mapping[str, tuple[Any, ...]] = {
    "state": ("pending", "approved", "denied", "used", "failed", "skipped", "waiting", "paused", "broken", "discarded"),
    "tab": get_args(ScheduleTab),
    "sort": get_args(ScheduleSort),
    "bars": (5,),
    "all": (True,),
    "at": (at("08:05"), at("08:00"), at("23:05")),
    "since": (at("07:00"),),
    "schedule": ("rover/private", "rover/failing", "rover/private-mission"),
    "prompt": ("x",),
    "payload": ("x",),
    "job": ("fails",),
    "newest": (True,),
}


def answers(bench: Watched, principal: Principal, use_case: UseCase) -> Iterator[tuple[dict[str, Any], str]]:
    """What a principal reads, by the arguments that it gives; an error with its hint too."""
    for given in plausible(bench, use_case):
        yield given, answer(bench, principal, use_case, given)


def answer(bench: Watched, principal: Principal, use_case: UseCase, given: dict[str, Any]) -> str:
    try:
        found = codec.to_document(bench.invoke(principal, use_case, given))
    except MatinsError as error:
        found = [error.message, error.hint, vars(error)]
    return orjson.dumps(found, default=str).decode()


def readable_by_agents() -> list[UseCase]:
    return [one for one in USE_CASES.values() if one.right in ("read", "run", "change")]


def tool_answers(bench: Watched, principal: Principal) -> Iterator[tuple[str, str]]:
    """What every tool of every toolset answers, about everything that there is."""
    calls = PrincipalCalls(bench, principal, "http://page.test")
    values = {**known_values(bench), "?at": [at("08:05")]}
    for toolset in (TOOLS, CORTEX, POLPO):
        for tool in toolset.values():
            for given in tool_arguments(tool, values):
                yield tool.name, tool_answer(calls, tool, given)


def tool_answer(calls: PrincipalCalls, tool: Tool, given: dict[str, Any]) -> str:
    from matins.mcp.tool import error_text, plain_answer

    try:
        return orjson.dumps(plain_answer(tool.call(calls, given))).decode()
    except MatinsError as error:
        return error_text(error)


def found_in(texts: Iterator[tuple[Any, str]], words: Sequence[str] = WORDS) -> dict[str, Any]:
    """The planted words that occur, each with what gave it away."""
    found: dict[str, Any] = {}
    for what, text in texts:
        if MARK in text.lower():
            for planted in words:
                if planted in text.lower() and planted not in unquote_plus(str(what)).lower():  # what was asked for
                    found.setdefault(planted, what)
    return found
