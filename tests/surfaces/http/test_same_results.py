"""The same calls give the same results in process, over the owner's socket and over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree
from typing import Any

import msgspec
import pytest
from http_server import YEARLY, HttpServer

from matins import InvalidInput, Matins, MatinsError, parse_trigger
from matins.api.schedules import Api
from matins.api.use_case import USE_CASES, UseCase
from matins.records import record_kinds
from matins.surfaces.transports.in_process import InProcess
from matins.surfaces.transports.socket import OwnerSocket, OwnerSocketServer
from matins.testing import ManualClock

START = datetime(2026, 11, 16, 9, tzinfo=UTC)
TRIGGER = parse_trigger("5m")
ELSEWHERE = {
    "file.plan", "file.apply", "system.backup", "system.doctor", "runs.output",  # results have paths of the machine
    "runs.transcript",
    "system.tools", "destinations.test",  # results differ by machine and by run
    "sessions.create", "sessions.list", "sessions.revoke",  # secrets are random
    "tokens.create", "tokens.list", "tokens.revoke", "webhooks.add",
    "calls.replay", "inbound.test",  # keys are random
    "approvals.approve", "approvals.deny", "approvals.answer", "runs.resolve",  # need an engine
}  # fmt: skip
"""Not here; test_http_use_cases has all."""


Transport = Callable[[Path, str], AbstractContextManager[Api]]
"""Calls of a store in a folder, by its owner, or with a token."""


@contextmanager
def in_process(path: Path, token: str) -> Iterator[Api]:
    with closing(opened(path)) as matins:
        yield matins


@contextmanager
def over_the_socket(path: Path, token: str) -> Iterator[Api]:
    with closing(opened(path)) as matins, closing(OwnerSocketServer(path / "m.sock", matins._service)):
        yield Api(OwnerSocket(path / "m.sock"))


@contextmanager
def over_http(path: Path, token: str) -> Iterator[Api]:
    server = HttpServer(f"sqlite:///{path}/matins.db", clock=ManualClock(START), start=False, token=token)
    with closing(server):
        yield server.client


def opened(path: Path) -> Matins:
    matins = Matins(f"sqlite:///{path}/matins.db", clock=ManualClock(START))
    for name in ("work", "block"):  # those of `HttpServer`
        matins.job(name)(lambda run: None)
    return matins


class Calls:
    """What each call gave, in order: its result, or its error."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.results: list[tuple[str, Any]] = []
        self.done: set[str] = set()

    def __call__(self, name: str, *values: Any, **named: Any) -> Any:
        noun, _, verb = name.partition(".")
        method = getattr(self._api if noun == "schedules" else getattr(self._api, noun), verb)
        try:
            found = method(*values, **named)
        except MatinsError as error:
            fields = [getattr(error, field, None) for field in ("field", "allowed")]
            kind = next(kind for kind in type(error).__mro__ if kind.__module__ == "matins.errors")
            found = (kind, error.message, error.hint, *fields, str(getattr(error, "value", None)))
        self.results.append((name, found))
        self.done.add(name)
        return found


def schedules(call: Calls) -> None:
    call("schedules.add", "morning", when="every weekday at 9am", job="work", timezone="Europe/London")
    call("schedules.add", "trigger", when=TRIGGER, job="work", payload={"x": [1, None]}, labels={"a": "b"})
    call("schedules.add", when="every day at 7am", agent="scout", prompt="Say {{slot}}", target={"kind": "new"})
    call("schedules.add", "asks", when=YEARLY, job="work", approval="owner_approve", approval_jobs=["work"])
    call("schedules.add", "many", when=YEARLY, job="work", max_cost="$2", approvers=["ada", "grace"], jitter=10)
    call("schedules.add_many", [{"name": n, "when": YEARLY, "job": "work"} for n in ("b/runs", "c")])
    call("schedules.edit", "morning", retries=2, retry_delay="1m")
    call("schedules.edit", "morning", retries=None, when="every day at 8am", if_rev=2)
    call("schedules.pause", "trigger", note="holidays", until=START + timedelta(days=1))
    call("schedules.resume", "trigger")
    call("schedules.pause", "trigger", until="2100-01-01T00:00:00Z")
    call("schedules.preview_edit", "morning", when="every day at 10am", count=2)
    call("schedules.preview_new", "new", when="every day at 10am", agent="scout", prompt="Look", count=2)
    call("schedules.preview_new", "morning", when="every day at 10am", job="work")
    call("schedules.preview_new", when="whenever", job="work")
    call("schedules.delete", "c")
    call("schedules.delete", "c")
    for name in ("morning", "trigger", "asks", "many", "b/runs"):
        for verb in ("get", "preview", "preview_catch_up", "usual", "why"):
            call(f"schedules.{verb}", name)
    call("schedules.calendar", "morning", until=START + timedelta(days=9))
    call("schedules.calendar", "morning", since=START, until=START)
    call("schedules.preview_catch_up_all")
    call("schedules.preview_catch_up_all", since=START - timedelta(days=2))
    call("schedules.pauses")
    call("schedules.pause_all", names=["trigger"])
    call("schedules.resume_all", "nothing")
    call("system.spend")
    call("system.absences")
    call("schedules.timeline")
    call("schedules.timeline", start=START, end=START - timedelta(days=1))
    call("schedules.why", "morning", at=START + timedelta(days=1))
    call("schedules.list")
    call("schedules.list", agent="scout", state="active", limit=1)
    call("schedules.list", tab="attention", query="a", sort="next", bars=3)
    call("schedules.list", bars=-1)
    call("schedules.counts", query="a")
    call("schedules.search", "mor")
    call("schedules.search", " ")
    call("schedules.upcoming", limit=3)
    call("schedules.next_times", "every weekday at 9am", timezone="Europe/London", count=3, after=START)


def missions(call: Calls) -> None:
    steps = [{"title": "Build", "job": "work"}, {"title": "Deploy", "job": "work", "after": ["Build"]}]
    call("missions.make", "release", steps=steps)
    call("missions.make", "nightly", when="every day at 2am", steps=steps)
    call("missions.make", "empty")
    call("missions.get", "release")
    call("missions.list", status="draft")
    call("missions.draft", "nightly")
    call("missions.abort", "morning")
    call("missions.abort", "nightly")
    call("missions.delete", "nightly")
    call("missions.delete", "nightly")


def runs(call: Calls) -> None:
    first = call("schedules.run", "morning", key="once")
    call("schedules.run", "morning", key="once")
    call("schedules.run", "many", key="other")
    for verb in ("facts", "get", "snapshot", "checks", "thread"):
        call(f"runs.{verb}", first.id)
    call("runs.live")
    call("runs.get", int(first.id))
    call("runs.cancel", first.id, reason="no longer needed")
    call("runs.list", schedule="morning")
    call("runs.list", state="cancelled", limit=5)
    call("runs.list", reason="no longer needed", since=START, until=START + timedelta(hours=1))
    call("schedules.get", "morning")
    call("approvals.list")
    call("approvals.list", state="approved")
    call("threads.list")
    call("threads.reply", "999", "Go on")
    call("incidents.list")
    call("incidents.get", "999")
    call("incidents.acknowledge", "999")
    call("system.attention")
    call("system.status")
    call("system.context")
    call("runs.report_outcome", "failed", reason="not in a run")


def records(call: Calls) -> None:
    settings: dict[str, tuple[tuple[str, ...], dict[str, Any], dict[str, Any]]] = {
        "agents": (("scout",), {"runner": "demo", "max_cost": "$2", "environment": {"K": "env:K"}}, {"timeout": "2h"}),
        "agent_rules": (("scout",), {"max_schedules": 3}, {"min_interval": "2h"}),
        "budgets": (("day",), {"max_cost": "$5", "period": "day", "scope": "agent"}, {"max_tokens": 1_000}),
        "hooks": (("after:run",), {"command": ["echo", "x"]}, {"timeout": "5s"}),
        "http_server": ((), {"public_url": "https://matins.example.com"}, {"trusted_proxies": ["10.0.0.0/8"]}),
        "inbound": (("prs",), {"kind": "github", "secret": "env:S"}, {"events": ["push"], "max_per_minute": 5}),
        "inbound_listen": ((), {"address": "127.0.0.1:7412"}, {"address": "[::1]:7412"}),
        "limits": (("global",), {"size": 3}, {"size": 4}),
        "chat": (("slack",), {"bot_token": "env:B", "app_token": "env:A"}, {"admin": "C0OPS"}),
        "destinations": (("phone",), {"kind": "ntfy", "to": ["t"], "token": "env:T"}, {"max_per_hour": 5}),
        "notify": ((), {"on": ["failed"]}, {"on": ["held", "recovered"]}),
        "smtp": ((), {"host": "mail.example.com"}, {"port": 465, "tls": "tls"}),
        "people": (("ada",), {"role": "operator", "slack": "U0ADA"}, {"timezone": "Europe/Berlin"}),
        "prices": (("acme/small",), {"input": "$1", "output": "$2"}, {"cached": "$0.5"}),
        "quiet_hours": (("night",), {"windows": ["22:00-07:00", "sat,sun 00:00-24:00"]}, {"mode": "defer"}),
        "rates": (("EUR",), {"usd": 1.1}, {"usd": 2}),
        "throttles": (("acme",), {"resets_at": START + timedelta(hours=1)}, {"reason": "too many requests"}),
        "webhooks": (("ops",), {"url": "https://example.com/x", "secret": "env:S"}, {"types": ["run.failed"]}),
        "work_sources": (("todo",), {"kind": "github", "repo": "a/b", "labels": ["x"]}, {"priorities": ["p1", "p2"]}),
        "allowed_hosts": ((), {"hosts": ["models.lan:8080"]}, {"hosts": ["a.lan"]}),
        "heartbeat": ((), {"url": "https://example.com/ping"}, {"url": "https://example.com/pong"}),
    }
    assert settings.keys() == record_kinds().keys()
    for noun, (key, made, edited) in settings.items():
        call(f"{noun}.set", *key, **made)
        call(f"{noun}.get", *key)
        call(f"{noun}.edit", *key, **edited)
        if key:
            call(f"{noun}.list")
    call("webhooks.pause", "ops", note="maintenance")
    call("subscriptions.redeliver", "ops", call("events.list", limit=1)[0].id)
    call("subscriptions.deliveries", "ops")
    call("webhooks.resume", "ops")
    for noun, (key, _, _) in settings.items():
        call(f"{noun}.delete", *key)
        call(f"{noun}.delete", *key)
        call(f"{noun}.get", *key)


def calls(call: Calls) -> None:
    call("schedules.add", "listening", on={"chat": "C07", "match": "any"}, job="work")
    call("calls.fire", "chat", "C07", "m1", text="hello", body={"a": [1, None]}, sender="ada")
    call("calls.fire", "chat", "C07", "m1")
    call("calls.fire", "webhook", "nothing", "m1")
    call("calls.list", source="chat", limit=5)
    call("calls.get", "1")
    call("calls.get", "7")
    call("schedules.why", "listening")


def whole(call: Calls) -> None:
    call("subscriptions.open", "mine", types=("run.failed",))
    call("subscriptions.delete", "mine")
    call("subscriptions.delete", "mine")
    call("events.list")
    call("events.list", types="schedule.created", after="0", limit=2)
    call("events.list", schedule="morning")
    call("audit.verify")
    call("audit.seal")
    call("system.stats")
    call("system.jobs")
    call("system.whoami")
    call("approvals.get", "7")
    call("threads.messages", "7")


def errors(call: Calls) -> None:
    call("schedules.add", "morning", when=YEARLY, job="work")
    call("schedules.add", "x", when="61 * * * *", job="work")
    call("schedules.add", "x", when=YEARLY, job="work", overlap="sometimes")
    call("schedules.add", "x", when=YEARLY, job="work", overlp="skip")
    call("schedules.add", "x", job="work")
    call("schedules.edit", "morning", if_rev=1, retries=1)
    call("schedules.edit", "mornin", retries=1)
    call("schedules.get", "nothing")
    call("schedules.pause")
    call("schedules.pause", "morning", until="tomorrow")
    call("runs.get", "999")
    call("runs.get", "x")
    call("runs.list", limit=0)
    call("runs.list", state="sleeping")
    call("runs.cancel", "1")
    call("runs.retry", "999")
    call("budgets.set", "day", max_cost="5 apples", period="day")
    call("budgets.edit", "nothing", period="month")
    call("budgets.get", "nothing")
    call("webhooks.set", "ops", url="http://169.254.169.254/x", secret="env:S")
    call("hooks.set", "before:lunch", command="true")
    call("agents.set", "scout", runner="claud")


def all_results(transport: Transport, path: Path, token: str) -> Calls:
    with transport(path, token) as api:
        call = Calls(api)
        for part in (schedules, missions, runs, records, calls, whole, errors):
            part(call)
    return call


@pytest.mark.parametrize("transport", [over_the_socket, over_http])
def test_every_transport_gives_what_the_process_itself_gives(tmp_path: Path, transport: Transport) -> None:
    """C11 B2: `Matins` and `Client` have the same methods, results and errors"""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    with closing(opened(here)) as matins:
        token = matins.tokens.create("owner").token
    copytree(here, there)
    expected, found = all_results(in_process, here, token), all_results(transport, there, token)
    assert expected.done == set(USE_CASES) - ELSEWHERE
    assert [name for name, _ in found.results] == [name for name, _ in expected.results]
    for (name, theirs), (_, ours) in zip(found.results, expected.results, strict=True):
        assert without_who(theirs) == without_who(ours), name


def without_who(result: Any) -> Any:
    """The result as a document, without kind and id of who did it (here the owner, there a token of the owner), the
    digest of a definition that names its author, and the time of the call."""
    if isinstance(result, dict):
        return {name: without_who(value) for name, value in result.items() if name not in ("who", "fingerprint", "now")}
    if isinstance(result, list):
        return [without_who(one) for one in result]
    if isinstance(result, str | int | float | None):
        return result
    return without_who(msgspec.json.decode(msgspec.json.encode(result, enc_hook=str)))


def test_documents_are_the_same_too(server: HttpServer) -> None:
    """The command line may call either: `--json` prints the same"""
    server.client.add("a", when=YEARLY, job="work")
    server.client.budgets.set("day", max_cost="$5", period="day")
    server.client.agents.set("scout", runner="demo")
    own = InProcess(server.matins)
    reads: dict[str, dict[str, Any]] = {
        name: {} for name, use_case in USE_CASES.items() if use_case.method == "GET" and not required(use_case)
    }
    reads |= {"schedules.get": {"name": "a"}, "schedules.why": {"name": "a"}, "budgets.get": {"name": "day"}}
    changes = ("file.plan", "system.doctor", "sessions.list", "tokens.list", "events.list", "schedules.timeline",
               "system.spend", "system.absences")  # fmt: skip
    for changing in changes:
        del reads[changing]
    assert len(reads) > 20
    for name, arguments in reads.items():
        expected = own.document(USE_CASES[name], arguments)
        assert without_who(server.client.document(name, **arguments)) == without_who(expected), name
    assert server.client.document("schedules.delete", name="nothing") is False


def required(use_case: UseCase) -> bool:
    return any(parameter.required for parameter in use_case.parameters.values())


def test_a_use_case_that_does_not_exist(server: HttpServer) -> None:
    with pytest.raises(InvalidInput, match=r'There is no use case "schedules.gets"\.') as caught:
        server.client.document("schedules.gets")
    assert caught.value.hint == 'Did you mean "schedules.get"?'
