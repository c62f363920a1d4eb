"""A real client calls every use case over a real server, on both stores."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from http_server import YEARLY, HttpServer

from matins import MatinsError
from matins.api.results import Event, Run
from matins.api.schedules import Api
from matins.api.use_case import USE_CASES, UseCase
from matins.surfaces.transports.http_client import Http


class Recorded(Http):
    """Notes which use cases were answered."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(url, token)
        self.done: set[str] = set()

    def document(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        found = super().document(use_case, arguments)
        self.done.add(use_case.name)
        return found


def test_a_client_does_everything(each_server: HttpServer, tmp_path: Path) -> None:
    """V12 P10 C11 B2 B3: each use case is called over HTTP, and gives its typed result."""
    transport = Recorded(each_server.url, each_server.token)
    client = Api(transport)
    with closing(transport):
        schedules(client)
        missions(client)
        runs(each_server, client)
        approvals(client)
        agents(client)
        policies(client)
        subscribers(client)
        calls(client)
        the_file(each_server, client, tmp_path / "matins.yaml")
        the_whole(each_server, client, tmp_path)
    assert transport.done == set(USE_CASES)


def schedules(client: Api) -> None:
    added = client.add("morning", when="every weekday at 9am", job="work", timezone="Europe/London")
    assert (added.name, added.state, added.rev) == ("morning", "active", 1)
    first, second = client.add_many([{"name": n, "when": YEARLY, "job": "work"} for n in ("a", "b/runs")])
    assert int(first) < int(second)
    assert [item.name for item in client.list()] == ["morning", "a", "b/runs"]
    assert client.get("morning").trigger_text == "every weekday at 09:00"
    assert client.get("b/runs").id == second
    assert client.edit("morning", retries=2).rev == 2
    assert client.edit("morning", retries=None, if_rev=2).rev == 3
    assert client.pause("morning", note="holidays", until="2100-01-01T00:00:00Z").note == "holidays"
    assert client.resume("morning").state == "active"
    assert len(client.preview("morning", count=3).slots) == 3
    change = client.preview_edit("morning", when="every day at 8am", count=2)
    assert [len(change.before.slots), len(change.after.slots)] == [2, 2]
    assert client.preview_catch_up("morning").schedule == "morning"
    assert client.why("morning").schedule == "morning"
    assert isinstance(client.upcoming(limit=2)[0].next_run_at, datetime)
    assert [lane.agent for lane in client.timeline().lanes] == [""]
    assert client.calendar("morning", until="2100-01-01T00:00:00Z", since="2099-12-01T00:00:00Z").days[0].planned == 1
    assert client.preview_catch_up_all().runs == 0
    paused = client.pause_all(names=["morning"], note="a holiday")
    assert [pause.id for pause in client.pauses()] == [paused.id]
    assert client.resume_all(paused.id).schedules == ["morning"]
    assert len(client.system.spend().days) == 30
    assert isinstance(client.system.absences(), list)
    assert client.counts(query="MORN").all == 1
    assert [found.title for found in client.search("morn")] == ["morning"]
    assert client.usual("morning").duration_ms.p50 is None
    assert client.next_times("every 5m", count=2).kind == "interval"
    assert client.delete("a") is True
    assert client.delete("a") is False


def missions(client: Api) -> None:
    made = client.missions.make("release", steps=[{"title": "Build", "job": "work"}])
    assert (made.status, made.when, made.steps) == ("draft", None, [{"title": "Build", "job": "work"}])
    client.edit("release", when="0 2 * * *")
    assert client.missions.get("release").status == "recurring"
    assert client.missions.draft("release").status == "draft"
    assert [mission.name for mission in client.missions.list(status="draft")] == ["release"]
    assert client.missions.abort("release").status == "draft"
    assert client.missions.delete("release") is True


def runs(server: HttpServer, client: Api) -> None:
    client.add("slow", when=YEARLY, job="block")
    run = client.run("slow", key="once")
    assert client.run("slow", key="once").id == run.id
    assert server.begun.wait(90)
    assert client.runs.get(run.id).schedule == "slow"
    assert client.runs.facts(run.id).executed
    assert [live.run.id for live in client.runs.live()] == [run.id]
    assert client.runs.snapshot(run.id).schedule == "slow"
    assert [found.id for found in client.runs.list(schedule="slow")] == [run.id]
    assert run.id in [found.id for found in client.runs.list()]
    assert client.runs.checks(run.id) == []
    assert client.runs.thread(run.id) is None
    assert client.approvals.answer(run.id, approved=True) is None
    assert client.runs.output(run.id).text == ""
    assert client.runs.transcript(run.id).entries == []
    client.runs.cancel(run.id)
    held(server, client)


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


def agents(client: Api) -> None:
    made = client.agents.set("scout", runner="demo", max_cost="$2", environment={"KEY": "secret", "REF": "env:PATH"})
    assert (made.max_cost, made.environment) == ("$2.00", {"KEY": "…", "REF": "env:PATH"})
    assert client.agents.edit("scout", timeout="2h", max_cost=None).max_cost is None
    assert client.agents.get("scout").timeout == "2h"
    assert [found.name for found in client.agents.list()] == ["scout"]
    assert client.agent_rules.set("scout", max_schedules=3).max_schedules == 3
    assert client.agent_rules.edit("scout", max_depth=2).max_schedules == 3
    assert client.agent_rules.get("scout").max_depth == 2
    assert client.agent_rules.get().agent == "*"
    assert "scout" in [found.agent for found in client.agent_rules.list()]
    assert client.agent_rules.delete("scout") is True
    client.add("talk", when=YEARLY, agent="scout", prompt="Good morning")
    run = client.run("talk")
    assert client.runs.wait(run.id, timeout=90).state == "succeeded"
    (thread,) = client.threads.list()
    assignment = client.runs.thread(run.id)
    assert assignment is not None
    assert assignment.thread.id == thread.id
    assert "Good morning" in client.threads.messages(thread.id)[0].text
    assert client.runs.wait(client.threads.reply(thread.id, "Go on").id, timeout=90).state == "succeeded"
    assert client.delete("talk", agent="scout") is True
    assert client.work_sources.set("todo", kind="tasks").kind == "tasks"
    assert client.work_sources.edit("todo", path="B.yaml").path == "B.yaml"
    assert client.work_sources.get("todo").path == "B.yaml"
    assert [found.name for found in client.work_sources.list()] == ["todo"]
    assert client.work_sources.delete("todo") is True
    assert client.agents.delete("scout") is True


def policies(client: Api) -> None:
    assert client.quiet_hours.set("night", windows=["22:00-07:00"]).mode == "skip"
    assert client.quiet_hours.edit("night", mode="defer") == client.quiet_hours.get("night")
    assert [found.name for found in client.quiet_hours.list()] == ["night"]
    assert client.quiet_hours.delete("night") is True
    assert client.budgets.set("day", max_cost="$5", period="day").max_cost == "$5.00"
    assert client.budgets.edit("day", max_tokens=1_000).max_cost == "$5.00"
    (budget,) = client.budgets.list()
    assert (budget, [usage.money for usage in budget.usage]) == (client.budgets.get("day"), ["$0.00"])
    assert client.budgets.delete("day") is True
    assert client.prices.set("acme/small", input="$1", output="$2").input == "$1.00"
    assert client.prices.edit("acme/small", input="$3") == client.prices.get("acme/small")
    assert "acme/small" in [found.model for found in client.prices.list()]
    assert client.prices.delete("acme/small") is True
    assert client.rates.set("EUR", usd=1.1).usd == 1.1
    assert client.rates.edit("EUR", usd=1.2) == client.rates.get("EUR")
    assert [found.currency for found in client.rates.list()] == ["EUR", "USD"]
    assert client.rates.delete("EUR") is True
    assert client.hooks.set("after:run", command="true").command == "true"
    assert client.hooks.edit("after:run", timeout="5s") == client.hooks.get("after:run")
    assert [found.event for found in client.hooks.list()] == ["after:run"]
    assert client.hooks.delete("after:run") is True
    assert client.limits.set("global", size=5).size == 5
    assert client.limits.edit("global", size=6) == client.limits.get("global")
    assert ("global", 6) in [(found.scope, found.size) for found in client.limits.list()]
    assert client.limits.delete("global") is True
    throttle = client.throttles.set("acme", resets_at="2100-01-01T00:00:00Z")
    assert throttle.resets_at.isoformat() == "2100-01-01T00:00:00+00:00"
    assert client.throttles.edit("acme", reason="too many requests").reason == "too many requests"
    assert [found.provider for found in client.throttles.list()] == [client.throttles.get("acme").provider]
    assert client.throttles.delete("acme") is True
    assert client.heartbeat.set(url="https://example.com/ping") == client.heartbeat.get()
    assert client.heartbeat.edit(url="https://example.com/pong").url == "https://example.com/pong"
    assert client.heartbeat.delete() is True


def subscribers(client: Api) -> None:
    assert client.events.list(limit=2)[-1].id.isdigit()
    assert client.allowed_hosts.set(hosts=["localhost:9"]).hosts == ["localhost:9"]
    assert client.allowed_hosts.get().hosts == ["localhost:9"]
    assert client.allowed_hosts.edit(hosts=["localhost:9", "models.lan"]).hosts == ["localhost:9", "models.lan"]
    made = client.webhooks.add("hook", "http://localhost:9/x", types=["run.failed"])
    assert made.secret.startswith("whsec_")
    assert client.webhooks.pause("hook").state == "paused"
    assert client.webhooks.resume("hook").state == "active"
    assert client.webhooks.edit("hook", types=["run.failed", "run.held"]).types == ["run.failed", "run.held"]
    assert made.secret not in str(client.webhooks.list()) + str(client.webhooks.get("hook"))
    client.webhooks.pause("hook")
    client.subscriptions.redeliver("hook", client.events.list(limit=1)[0].id)
    assert len(client.subscriptions.deliveries("hook")) == 1
    assert client.webhooks.delete("hook") is True
    assert client.webhooks.set("other", url="http://localhost:9/y", secret="env:S").state == "active"
    assert client.webhooks.delete("other") is True
    client.subscriptions.open("mine", types=["run.failed"])
    assert client.subscriptions.delete("mine") is True
    assert client.subscriptions.delete("mine") is False
    assert client.allowed_hosts.delete() is True


def calls(client: Api) -> None:
    assert client.inbound.set("prs", kind="github", secret="file:/etc/hostname").path == "/in/prs"
    assert client.inbound.edit("prs", max_per_minute=5) == client.inbound.get("prs")
    client.add("listening", on={"webhook": "prs"}, job="work")
    call = client.calls.fire("webhook", "prs", "d1", body={"a": 1}, type="push")
    assert (call.outcome, len(call.runs)) == ("accepted", 1)
    assert client.calls.fire("webhook", "prs", "d1").duplicate
    assert client.calls.get(call.id).body == {"a": 1}
    assert [found.id for found in client.calls.list(name="prs")] == [call.id]
    assert client.calls.replay(call.id).key.startswith("replay:")
    tested = client.inbound.test("prs", type="push", body={"a": 2}, dry_run=True)
    assert (tested.verified, tested.outcome) == (True, "dry_run")
    assert client.delete("listening") is True
    assert client.inbound.delete("prs") is True
    assert client.inbound.list() == []
    assert client.inbound_listen.set(address="127.0.0.1:7412") == client.inbound_listen.get()
    assert client.inbound_listen.edit(address="127.0.0.1:7413").address == "127.0.0.1:7413"
    assert client.inbound_listen.delete() is True
    assert client.people.set("ada", role="operator") == client.people.get("ada")
    assert client.people.edit("ada", email="ada@example.com").email == "ada@example.com"
    assert [found.name for found in client.people.list()] == ["ada"]
    assert client.people.delete("ada") is True
    assert client.chat.set("slack", bot_token="env:B", app_token="env:A") == client.chat.get("slack")
    assert client.chat.edit("slack", admin="C0OPS").admin == "C0OPS"
    assert [found.service for found in client.chat.list()] == ["slack"]
    assert client.chat.delete("slack") is True
    destination = client.destinations.set("ops", kind="webhook", url="http://127.0.0.1:9/x")
    assert destination == client.destinations.get("ops")
    assert client.destinations.edit("ops", max_per_hour=5).max_per_hour == 5
    assert [found.name for found in client.destinations.list()] == ["ops"]
    assert client.destinations.test("ops").delivered is False  # nobody listens
    assert client.notify.set(on=["failed"]) == client.notify.get()
    assert client.notify.edit(on=["held"]).on == ["held"]
    assert client.notify.delete() is True
    assert client.smtp.set(host="mail.example.com") == client.smtp.get()
    assert client.smtp.edit(port=465, tls="tls").port == 465
    assert client.smtp.delete() is True
    assert client.destinations.delete("ops") is True
    assert client.http_server.set(max_connections=100) == client.http_server.get()
    assert client.http_server.edit(trusted_proxies=["10.0.0.2"]).trusted_proxies == ["10.0.0.2"]
    assert client.http_server.delete() is True


def the_file(server: HttpServer, client: Api, path: Path) -> None:
    path.write_text("schedules:\n  nightly: {when: 0 2 * * *, job: work}\n", encoding="utf-8")
    server.matins.watch_file(path)
    plan = client.file.plan()
    assert (plan.added, [entry.name for entry in plan.entries]) == (1, ["nightly"])
    assert client.file.apply(digest=plan.digest).state == "applied"
    file = client.get("nightly").file
    assert file is not None
    assert file.line == 2


def the_whole(server: HttpServer, client: Api, tmp_path: Path) -> None:
    assert client.audit.verify().problems == []
    seal = client.audit.seal()
    assert seal is None or ":" in seal
    assert client.system.stats().running is True
    assert "work" in [found.name for found in client.system.jobs()]
    assert {found.what for found in client.system.doctor()} >= {"clock", "store"}
    assert client.system.whoami().role == "owner"
    assert client.system.status().healthy is True
    assert client.system.attention() == client.system.status().attention
    assert client.system.context().run_id is None
    assert client.preview_new("new", when="every 1h", job="work", count=2).forecast.state == "active"
    with pytest.raises(MatinsError, match="in a run"):
        client.runs.report_outcome("done")
    assert isinstance(client.incidents.list(), list)
    for verb in (client.incidents.get, client.incidents.acknowledge):
        with pytest.raises(MatinsError, match="no incident 999"):
            verb("999")
    refused = {"runs.report_outcome", "incidents.get", "incidents.acknowledge"}
    client._transport.done |= refused  # type: ignore[attr-defined]
    assert all(found.version is None for found in client.system.tools(versions=False))
    link = client.sessions.create()
    assert [found.id for found in client.sessions.list()] == [link.id]
    assert client.sessions.revoke(link.id) is True
    made = client.tokens.create("robot", role="viewer")
    assert made.id in [found.id for found in client.tokens.list()]
    assert client.tokens.revoke(made.id) is True
    if server.matins.store.kind == "sqlite":
        assert client.system.backup(str(tmp_path / "copy.db")).bytes > 0
    else:
        with pytest.raises(MatinsError, match="its own tools"):
            client.system.backup(str(tmp_path / "copy.db"))
        client._transport.done.add("system.backup")  # type: ignore[attr-defined]


def test_the_client_has_every_use_case_as_a_method(server: HttpServer) -> None:
    for use_case in USE_CASES.values():
        noun = server.client if use_case.noun == "schedules" else getattr(server.client, use_case.noun)
        assert callable(getattr(noun, use_case.verb))
    with pytest.raises(AttributeError, match="no attribute 'fly'"):
        server.client.fly()  # type: ignore[attr-defined]
