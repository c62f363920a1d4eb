"""A real client drives every use case over a real server, on both stores."""

from __future__ import annotations

import inspect
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from http_house import YEARLY, House

from matins import MatinsError
from matins.service import RIGHTS
from matins.surfaces.client import Client
from matins.surfaces.door import OwnDoor
from matins.surfaces.routes import NOT_HERE, PAGES, ROUTES


class Recorded(Client):
    """Notes which use cases were answered."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(url, token)
        self.done: set[str] = set()

    def call(self, use_case: str, /, **arguments: Any) -> Any:
        told = super().call(use_case, **arguments)
        self.done.add(use_case)
        return told


def test_every_use_case_has_a_route() -> None:
    """Nothing can be done in one's own process only, but for what needs a process."""
    assert {route.use_case for route in ROUTES} | NOT_HERE == set(RIGHTS)
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)
    assert set(PAGES) <= {route.use_case for route in ROUTES}


def test_a_client_does_everything(each_house: House, tmp_path: Path) -> None:
    """V12 P10 C11 B2 B3: each route is called, and answers what the use case gives."""
    client = Recorded(each_house.url, each_house.token)
    with client:
        schedules(client)
        runs(each_house, client)
        approvals(client)
        agents(client)
        policies(client)
        subscribers(client)
        the_file(each_house, client, tmp_path / "matins.yaml")
        the_whole(each_house, client, tmp_path)
        assert client.done == {route.use_case for route in ROUTES}


def schedules(client: Recorded) -> None:
    added = client.add(name="morning", when="every weekday at 9am", do="work", timezone="Europe/London")
    assert (added["name"], added["state"], added["rev"]) == ("morning", "active", 1)
    first, second = client.add_many(schedules=[{"name": n, "when": YEARLY, "do": "work"} for n in ("a", "b/runs")])
    assert int(first) < int(second)
    assert [item["name"] for item in client.overview()] == ["morning", "a", "b/runs"]
    assert client.look(name="morning")["description"] == "every weekday at 09:00"
    assert client.look(name="b/runs")["id"] == second  # not the runs of b
    assert client.edit(name="morning", retries=2)["rev"] == 2
    assert client.edit(name="morning", retries=None, if_rev=2)["rev"] == 3
    assert client.pause(name="morning", note="holidays", until="2100-01-01T00:00:00Z")["note"] == "holidays"
    assert client.resume(name="morning")["state"] == "active"
    assert len(client.preview(name="morning", count=3)["slots"]) == 3
    change = client.preview_change(name="morning", when="every day at 8am", count=2)
    assert [len(change[part]["slots"]) for part in ("before", "after")] == [2, 2]
    assert client.preview_catch_up(name="morning")["schedule"] == "morning"
    assert client.why(name="morning")["schedule"] == "morning"
    assert client.upcoming(limit=2)[0]["next_run_at"]
    assert client.next_times(text="every 5m", count=2)["kind"] == "interval"
    assert client.remove(name="a") is True
    assert client.remove(name="a") is False


def runs(house: House, client: Recorded) -> None:
    client.add(name="slow", when=YEARLY, do="block")
    run = client.run(name="slow", key="once")
    assert client.run(name="slow", key="once")["id"] == run["id"]
    assert house.begun.wait(90)
    assert client.get_run(run_id=run["id"])["schedule"] == "slow"
    assert client.snapshot(run_id=run["id"])["schedule"] == "slow"
    assert [found["id"] for found in client.runs(name="slow")] == [run["id"]]
    assert run["id"] in [found["id"] for found in client.recent()]
    assert client.checks(run_id=run["id"]) == []
    assert client.landing(run_id=run["id"]) is None
    assert client.resolve_approval(run_id=run["id"], approved=True) is None
    assert client.output(run_id=run["id"])["text"] == ""
    client.cancel(run_id=run["id"])
    held(house, client)


def held(house: House, client: Recorded) -> None:
    """A job past its limit, which nobody can end."""
    before = client.call("events", limit=1)[-1]["id"]
    house.go_on.set()
    wait_for(client, before, "run.cancelled", "run.succeeded")
    house.go_on.clear()
    client.edit(name="slow", timeout="1s")
    run = client.run(name="slow")
    wait_for(client, before, "run.held", run=run)
    assert client.resolve(run_id=run["id"], end="failed")["state"] == "failed"
    house.go_on.set()


def wait_for(client: Client, after: str, *kinds: str, run: dict[str, Any] | None = None) -> dict[str, Any]:
    """The first such event, of any run or of this one."""
    with closing(client.events(after=after, types=list(kinds))) as events:
        return next(event for event in events if run is None or event["run_id"] == run["id"])


def approvals(client: Recorded) -> None:
    for name in ("ask-a", "ask-b"):
        before = client.call("events", limit=1)[-1]["id"]
        client.add(name=name, when=YEARLY, do="work", approval="owner_approve", approval_actions=["work"])
        client.run(name=name)
        wait_for(client, before, "approval.requested")
    asked = {found["schedule"]: found["id"] for found in client.approvals()}
    assert client.get_approval(approval_id=asked["ask-a"])["state"] == "pending"
    assert client.approve(approval_id=asked["ask-a"], note="go on")["state"] == "approved"
    assert client.deny(approval_id=asked["ask-b"])["state"] == "denied"


def agents(client: Recorded) -> None:
    made = client.set_agent(
        name="scout", runner="demo", max_cost="$2", environment={"KEY": "secret", "REF": "env:PATH"}
    )
    assert (made["max_cost"], made["environment"]) == ("$2.00", {"KEY": "…", "REF": "env:PATH"})
    assert client.edit_agent(name="scout", wall="2h", max_cost=None)["max_cost"] is None
    assert client.get_agent(name="scout")["wall_ms"] == 7_200_000
    assert [found["name"] for found in client.agents()] == ["scout"]
    assert client.set_agent_rules(agent="scout", quota=3)["quota"] == 3
    assert client.agent_rules(agent="scout")["quota"] == 3
    before = client.call("events", limit=1)[-1]["id"]
    client.add(name="talk", when=YEARLY, agent="scout", prompt="Good morning")
    run = client.run(name="talk")
    wait_for(client, before, "run.succeeded", run=run)
    (thread,) = client.threads()
    assert client.landing(run_id=run["id"])["thread"]["id"] == thread["id"]
    assert "Good morning" in client.messages(thread_id=thread["id"])[0]["text"]
    assert client.remove(name="talk", agent="scout") is True
    assert client.set_work_source(name="todo", kind="tasks")["kind"] == "tasks"
    assert [found["name"] for found in client.work_sources()] == ["todo"]
    assert client.drop_work_source(name="todo") is True
    assert client.drop_agent(name="scout") is True


def policies(client: Recorded) -> None:
    assert client.set_quiet_hours(name="night", windows=["22:00-07:00"])["mode"] == "skip"
    assert [found["name"] for found in client.quiet_hours()] == ["night"]
    assert client.drop_quiet_hours(name="night") is True
    assert client.set_budget(name="day", money="$5", per="day")["money"] == "$5.00"
    (budget,) = client.budgets()
    assert (budget["name"], [purse["money"] for purse in budget["purses"]]) == ("day", ["$0.00"])
    assert client.drop_budget(name="day") is True
    assert client.set_price(model="house/small", input="$1", output="$2")["input"] == "$1.00"
    assert "house/small" in [found["model"] for found in client.prices()]
    assert client.drop_price(model="house/small") is True
    assert client.set_rate(currency="EUR", usd=1.1) is None
    assert client.rates()[0] == {"currency": "EUR", "usd": 1.1}
    assert client.drop_rate(currency="EUR") is True
    assert client.set_hook(event="after:run", command="true") is None
    assert [found["event"] for found in client.hooks()] == ["after:run"]
    assert client.drop_hook(event="after:run") is True
    assert client.limit(scope="global", size=5) is None
    assert ("global", 5) in [(found["scope"], found["size"]) for found in client.limits()]
    assert client.drop_limit(scope="global") is True
    assert client.throttle(provider="acme", resets_at="2100-01-01T00:00:00Z")["resets_at"] == "2100-01-01T00:00:00Z"
    assert [found["provider"] for found in client.throttles()] == ["acme"]
    assert client.lift_throttle(provider="acme") is True


def subscribers(client: Recorded) -> None:
    assert client.call("events", limit=2)[-1]["id"].isdigit()
    assert client.set_allowed_hosts(hosts=["localhost:9"]) is None
    assert client.allowed_hosts() == ["localhost:9"]
    made = client.add_webhook(name="hook", url="http://localhost:9/x", types=["run.failed"])
    assert made["secret"].startswith("whsec_")
    assert client.pause_webhook(name="hook") is True
    assert client.resume_webhook(name="hook") is True
    assert [(found["name"], "secret" in found) for found in client.webhooks()] == [("hook", False)]
    client.pause_webhook(name="hook")
    assert client.redeliver(name="hook", event_id=client.call("events", limit=1)[0]["id"]) is None
    assert len(client.deliveries(name="hook")) == 1
    assert client.drop_webhook(name="hook") is True
    assert client.forget_subscription(name="hook") is False


def the_file(house: House, client: Recorded, path: Path) -> None:
    path.write_text("schedules:\n  nightly: {when: 0 2 * * *, do: work}\n", encoding="utf-8")
    house.matins.follow_file(path)
    plan = client.plan()
    assert (plan["added"], [entry["name"] for entry in plan["entries"]]) == (1, ["nightly"])
    assert client.apply(digest=plan["digest"])["state"] == "applied"
    assert client.look(name="nightly")["file"]["line"] == 2


def the_whole(house: House, client: Recorded, tmp_path: Path) -> None:
    assert client.audit()["faults"] == []
    assert client.last_seal() is None or ":" in client.last_seal()
    assert client.stats()["running"] is True
    assert "work" in client.known_jobs()["names"]
    assert {found["what"] for found in client.doctor()} >= {"clock", "store"}
    assert client.whoami()["role"] == "owner"
    made = client.create_token(name="robot", role="viewer")
    assert made["id"] in [found["id"] for found in client.tokens()]
    assert client.revoke_token(token_id=made["id"]) is True
    if house.matins.store.kind == "sqlite":
        assert client.backup(path=str(tmp_path / "copy.db"))["bytes"] > 0
    else:
        with pytest.raises(MatinsError, match="its own tools"):
            client.backup(path=str(tmp_path / "copy.db"))
        client.done.add("backup")


def test_own_door_and_client_say_the_same(house: House) -> None:
    """The command line may ask either: `--json` prints the same."""
    house.client.add(name="a", when=YEARLY, do="work")
    house.client.set_budget(name="day", money="$5", per="day")
    house.client.set_agent(name="scout", runner="demo")
    own = OwnDoor(house.matins, "here")
    for use_case, arguments in {
        "overview": {"limit": 5},
        "look": {"name": "a"},
        "budgets": {},
        "prices": {},
        "agents": {},
        "quiet_hours": {},
        "agent_rules": {"agent": "*"},
        "throttles": {},
        "stats": {},
        "remove": {"name": "nothing"},
        "call": {},
    }.items():
        if use_case != "call":
            assert house.client.call(use_case, **arguments) == own.call(use_case, **arguments), use_case


def test_the_client_offers_every_route_by_name(house: House) -> None:
    for route in ROUTES:
        assert callable(getattr(house.client, route.use_case))
    with pytest.raises(AttributeError, match="no attribute 'fly'"):
        house.client.fly()
    assert inspect.isgeneratorfunction(Client.events)
