"""The same calls give the same results in process, over the owner's socket and over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree
from typing import Any

import msgspec
import pytest
from http_server import YEARLY, HttpServer
from record_examples import RECORDS

from matins import InvalidInput, Matins, MatinsError, parse_trigger
from matins.api.results import Event, Run
from matins.api.schedules import Api
from matins.api.use_case import USE_CASES, UseCase
from matins.model.access import ChatBot
from matins.records import record_kinds
from matins.surfaces.transports.http_client import Http
from matins.surfaces.transports.in_process import InProcess
from matins.surfaces.transports.socket import OwnerSocket, OwnerSocketServer
from matins.testing import ManualClock

START = datetime(2026, 11, 16, 9, tzinfo=UTC)
TRIGGER = parse_trigger("5m")
ELSEWHERE = {
    "file.plan", "file.apply", "file.place", "system.backup", "system.doctor",  # results have paths of the machine
    "runs.output", "runs.transcript",
    "system.tools", "destinations.test",  # results differ by machine and by run
    "sessions.create", "sessions.list", "sessions.revoke", "people.link",  # secrets are random
    "tokens.create", "tokens.list", "tokens.revoke", "webhooks.add",
    "calls.replay", "inbound.test",  # keys are random
    "approvals.approve", "approvals.deny", "approvals.answer", "runs.resolve",  # need an engine
}  # fmt: skip
"""Not compared; test_what_cannot_be_compared_is_called_over_http has them."""


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
    call("schedules.history", "trigger")
    call("schedules.undo", "trigger")
    call("schedules.rename", "trigger", "trigger-2")
    call("schedules.get", "trigger")
    call("schedules.rename", "trigger-2", "trigger")
    call("agents.set", "robin", runner="demo")
    call("agents.rename", "robin", "wren")
    call("agents.rename", "robin", "wren")
    call("agents.delete", "wren")
    call("schedules.list", deleted=True)
    call("schedules.undelete", "c", new_name="c2")
    call("schedules.delete", "c2")
    call("runs.diff", 1)
    call("bulk.preview", do="pause", select="trigger")
    call("bulk.apply", "resume", "pause=nothing")
    call("runs.preview_bulk", "cancel", select="all")
    call("runs.bulk", "retry", state="failed", expect="0-")
    call("system.spend")
    call("system.absences")
    call("schedules.timeline")
    call("schedules.timeline", start=START, end=START - timedelta(days=1))
    call("schedules.why", "morning", at=START + timedelta(days=1))
    call("schedules.list")
    call("schedules.list", select="agent=scout state=active", limit=1)
    call("schedules.list", tab="attention", select="text=a", sort="next", bars=3)
    call("schedules.list", bars=-1)
    call("schedules.counts", select="text=a")
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
    call("schedules.run", "many", key="given", input={"days": 30, "who": ["ä", None, {"x": 1.5}]})
    for verb in ("facts", "get", "snapshot", "checks", "thread"):
        call(f"runs.{verb}", first.id)
    call("runs.live")
    call("runs.grep", "work")
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
    call("runs.send", "not in a run")


def records(call: Calls) -> None:
    assert RECORDS.keys() == record_kinds().keys()
    for noun, (key, made, edited) in RECORDS.items():
        call(f"{noun}.set", *key, **made)
        call(f"{noun}.get", *key)
        call(f"{noun}.edit", *key, **edited)
        if key:
            call(f"{noun}.list")
    call("webhooks.pause", "ops", note="maintenance")
    call("subscriptions.redeliver", "ops", call("events.list", limit=1)[0].id)
    call("subscriptions.deliveries", "ops")
    call("webhooks.resume", "ops")
    for noun, (key, _, _) in RECORDS.items():
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
    call("runs.deliver", "999", to=["nobody"])
    call("incidents.acknowledge_cause", "failing", "nothing")
    call("incidents.causes")
    call("schedules.lanes")
    call("runs.erase", "999")
    call("budgets.set", "day", max_cost="5 apples", period="day")
    call("budgets.edit", "nothing", period="month")
    call("budgets.get", "nothing")
    call("webhooks.set", "ops", url="http://169.254.169.254/x", secret="env:S")
    call("hooks.set", "before:lunch", command="true")
    call("agents.set", "scout", runner="claud")


def past_slots(call: Calls) -> None:
    call("schedules.add", "past", when="0 9 * * *", job="work", timezone="UTC")
    for verb in ("preview", "create"):
        call(f"backfills.{verb}", "past", start="2026-01-01", end="2026-01-02")
    call("backfills.list")
    for verb in ("get", "pause", "resume", "cancel"):
        call(f"backfills.{verb}", "1")


def machines(call: Calls) -> None:
    call("nodes.list")
    for verb in ("get", "cordon", "drain", "open"):
        call(f"nodes.{verb}", "nowhere")


def refused_people_and_pings(call: Calls) -> None:
    """What is made is random: tests/service/test_signing_in.py and test_pings.py."""
    call("people.invite", "no address")
    call("people.leave", "nobody")
    call("people.edit_me", timezone="UTC")
    call("people.password", "x")
    for verb in ("url", "rotate", "send"):
        call(f"pings.{verb}", "morning")


def all_results(api: Api) -> Calls:
    call = Calls(api)
    for part in (
        schedules,
        missions,
        runs,
        records,
        calls,
        whole,
        past_slots,
        machines,
        refused_people_and_pings,
        errors,
    ):
        part(call)
    return call


def expected_in(folder: Path, token: str) -> Calls:
    with in_process(folder, token) as api:
        return all_results(api)


@pytest.mark.parametrize("transport", [over_the_socket, over_http])
def test_every_transport_gives_what_the_process_itself_gives(tmp_path: Path, transport: Transport) -> None:
    """C11 B2: `Matins` and `Client` have the same methods, results and errors"""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    with closing(opened(here)) as matins:
        token = matins.tokens.create("owner").token
    copytree(here, there)
    with transport(there, token) as api:
        found = all_results(api)
    expected = expected_in(here, token)
    assert expected.done == set(USE_CASES) - ELSEWHERE
    same(found, expected)


BY_CALLER = {"who", "fingerprint", "now"}
"""Kind and id of who did it (here the owner, there a token of the owner), the digest of a definition that names its
author, and the time of the call."""
COUNTED = {
    "events.list": {"id", "event", "token", "digest"},
    "subscriptions.deliveries": {"event"},
    "audit.verify": {"chains"},
}
"""What each store counts in its own way, or draws at random."""


def test_postgresql_gives_what_a_file_gives(tmp_path: Path, postgres_url: str) -> None:
    """C11 B2 B3: also over HTTP, in every use case"""
    with closing(opened(tmp_path)) as matins:
        token = matins.tokens.create("owner").token
    with closing(HttpServer(postgres_url, clock=ManualClock(START), start=False)) as server:
        found = all_results(server.client)
    same(found, expected_in(tmp_path, token), COUNTED)


def same(found: Calls, expected: Calls, aside: Mapping[str, set[str]] | None = None) -> None:
    assert [name for name, _ in found.results] == [name for name, _ in expected.results]
    for (name, theirs), (_, ours) in zip(found.results, expected.results, strict=True):
        left_out = BY_CALLER | (aside or {}).get(name, set())
        assert without(left_out, theirs) == without(left_out, ours), name


def without(names: set[str], result: Any) -> Any:
    """The result as a document, without these fields."""
    if isinstance(result, dict):
        return {name: without(names, value) for name, value in result.items() if name not in names}
    if isinstance(result, list):
        return [without(names, one) for one in result]
    if isinstance(result, str | int | float | None):
        return result
    return without(names, msgspec.json.decode(msgspec.json.encode(result, enc_hook=str)))


def test_documents_are_the_same_too(server: HttpServer) -> None:
    """The command line may call either: `--json` prints the same"""
    server.client.add("a", when=YEARLY, job="work")
    server.client.budgets.set("day", max_cost="$5", period="day")
    server.client.agents.set("scout", runner="demo")
    server.client.sign_in.set(issuer="https://accounts.example.com", client_id="matins")
    own = InProcess(server.matins)
    reads: dict[str, dict[str, Any]] = {
        name: {} for name, use_case in USE_CASES.items() if use_case.method == "GET" and not required(use_case)
    }
    reads |= {"schedules.get": {"name": "a"}, "schedules.why": {"name": "a"}, "budgets.get": {"name": "day"}}
    changes = ("system.doctor", "sessions.list", "tokens.list", "events.list", "schedules.timeline",
               "schedules.lanes", "system.spend", "system.absences")  # fmt: skip
    for changing in changes:
        del reads[changing]
    assert len(reads) > 20
    for name, arguments in reads.items():
        expected, found = own.document(USE_CASES[name], arguments), server.client.document(name, **arguments)
        assert without(BY_CALLER, found) == without(BY_CALLER, expected), name
    assert server.client.document("schedules.delete", name="nothing") is False


def required(use_case: UseCase) -> bool:
    return any(parameter.required for parameter in use_case.parameters.values())


def test_a_use_case_that_does_not_exist(server: HttpServer) -> None:
    with pytest.raises(InvalidInput, match=r'There is no use case "schedules.gets"\.') as caught:
        server.client.document("schedules.gets")
    assert caught.value.hint == 'Did you mean "schedules.get"?'


class Recorded(Http):
    """Notes which use cases were answered."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(url, token)
        self.done: set[str] = set()

    def document(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        found = super().document(use_case, arguments)
        self.done.add(use_case.name)
        return found


def test_what_cannot_be_compared_is_called_over_http(each_server: HttpServer, tmp_path: Path) -> None:
    """V12 P10 C11 B2 B3: with an engine that runs, on both stores"""
    transport = Recorded(each_server.url, each_server.token)
    client = Api(transport)
    with closing(transport):
        a_run(each_server, client)
        held(each_server, client)
        approvals(client)
        a_talk(client)
        secrets(each_server, client)
        the_file(each_server, client, tmp_path / "matins.yaml")
        the_machine(each_server, client, tmp_path / "copy.db")
    assert transport.done >= ELSEWHERE


def a_run(server: HttpServer, client: Api) -> None:
    client.add("slow", when=YEARLY, job="block")
    run = client.run("slow")
    assert server.begun.wait(90)
    assert client.runs.facts(run.id).executed
    assert [live.run.id for live in client.runs.live()] == [run.id]
    assert client.approvals.answer(run.id, approved=True) is None
    assert client.runs.output(run.id).text == ""
    assert client.runs.transcript(run.id).entries == []
    client.runs.cancel(run.id)


def held(server: HttpServer, client: Api) -> None:
    """A job past its timeout, which nobody can end."""
    before = client.events.list(limit=1)[-1].id
    server.go_on.set()
    wait_for(client, before, "run.cancelled", "run.succeeded")
    server.go_on.clear()
    client.edit("slow", timeout="1s")
    run = client.run("slow")
    assert client.runs.wait(run.id, timeout=90).state == "held"
    assert client.runs.resolve(run.id, "failed").state == "failed"
    assert client.runs.retry(run.id).retry_of == run.id
    server.go_on.set()


def wait_for(client: Api, after: str, *types: str, run: Run | None = None) -> Event:
    """The first such event, of any run or of this one."""
    with closing(client.events.follow(after=after, types=types, run_id=run and run.id)) as events:  # type: ignore[type-var]
        return next(events)


def approvals(client: Api) -> None:
    for name in ("ask-a", "ask-b"):
        before = client.events.list(limit=1)[-1].id
        client.add(name, when=YEARLY, job="work", approval="owner_approve", approval_jobs=["work"])
        client.run(name)
        wait_for(client, before, "approval.requested")
    asked = {found.schedule: found.id for found in client.approvals.list()}
    assert client.approvals.get(asked["ask-a"]).state == "pending"
    assert client.approvals.approve(asked["ask-a"], note="go on").state == "approved"
    assert client.approvals.deny(asked["ask-b"]).state == "denied"


def a_talk(client: Api) -> None:
    client.agents.set("scout", runner="demo")
    client.add("talk", when=YEARLY, agent="scout", prompt="Good morning")
    run = client.runs.wait(client.run("talk").id, timeout=90)
    assignment = client.runs.thread(run.id)
    assert assignment is not None
    (thread,) = client.threads.list()
    assert (run.state, assignment.thread.id) == ("succeeded", thread.id)
    assert "Good morning" in client.threads.messages(thread.id)[0].text
    assert client.runs.wait(client.threads.reply(thread.id, "Go on").id, timeout=90).state == "succeeded"


def secrets(server: HttpServer, client: Api) -> None:
    hook = client.webhooks.add("hook", "https://example.com/x", types=["run.failed"])
    assert hook.secret.startswith("whsec_")
    assert hook.secret not in str(client.webhooks.list()) + str(client.webhooks.get("hook"))
    link = client.sessions.create()
    assert [found.id for found in client.sessions.list()] == [link.id]
    assert client.sessions.revoke(link.id) is True
    client.people.set("ada", role="viewer")
    with server.matins.store.transaction(server.matins.clock.now_ms()) as transaction:
        transaction.set_chat_bot(ChatBot("telegram", "@matins_bot", None))
    assert client.people.link("ada", "telegram").bot == "@matins_bot"
    made = client.tokens.create("robot", role="viewer")
    assert made.id in [found.id for found in client.tokens.list()]
    assert client.tokens.revoke(made.id) is True
    client.inbound.set("prs", kind="github", secret="file:/etc/hostname")
    client.add("listening", on={"webhook": "prs"}, job="work")
    call = client.calls.fire("webhook", "prs", "d1", body={"a": 1}, type="push")
    assert client.calls.replay(call.id).key.startswith("replay:")
    tested = client.inbound.test("prs", type="push", body={"a": 2}, dry_run=True)
    assert (tested.verified, tested.outcome) == (True, "dry_run")


def the_file(server: HttpServer, client: Api, path: Path) -> None:
    budget = "budgets:\n  daily: {period: day, max_cost: $5}\n"
    path.write_text(f"schedules:\n  nightly: {{when: 0 2 * * *, job: work}}\n{budget}", encoding="utf-8")
    server.matins.watch_file(path)
    plan = client.file.plan()
    assert (plan.added, {entry.name for entry in plan.entries}) == (2, {"nightly", "daily"})
    assert client.file.apply(digest=plan.digest).state == "applied"
    file = client.get("nightly").file
    assert file is not None
    assert file.line == 2
    place = client.file.place("budgets", "daily")
    assert place is not None
    assert (place.path, place.line) == (file.path, 4)
    assert client.file.place("budgets", "other") is None


def the_machine(server: HttpServer, client: Api, copy: Path) -> None:
    assert {found.what for found in client.system.doctor()} >= {"clock", "store"}
    assert all(found.version is None for found in client.system.tools(versions=False))
    client.destinations.set("ops", kind="webhook", url="http://127.0.0.1:9/x")
    assert client.destinations.test("ops").delivered is False  # nobody listens
    seal = client.audit.seal()
    assert seal is None or ":" in seal
    if server.matins.store.kind == "sqlite":
        assert client.system.backup(str(copy)).bytes > 0
    else:
        with pytest.raises(MatinsError, match="its own tools"):
            client.system.backup(str(copy))
        client._transport.done.add("system.backup")  # type: ignore[attr-defined]
