"""Definitions are bound to the log: a prompt, a rule or a command that is changed in the store is found. Row B16."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from security_cast import ADA, SCOUT, WAITING, Open, Watched, at, propose

DAY = 86_400_000


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/matins.db"


@pytest.fixture
def bench(url: str, open_bench: Open) -> Watched:
    return open_bench(url, history_days=30)


def forge(bench: Watched, url: str, sql: str) -> None:
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(sql.encode())
    else:
        connection = apsw.Connection(str(bench.store.path))
        connection.execute(sql)
        connection.close()


def events_of(bench: Watched, *types: str) -> list[int]:
    with bench.store.reading() as transaction:
        return [event.id for event in sorted(transaction.logged(0, 10**9)) if event.type in types]


def live(bench: Watched) -> None:
    """Schedules and records of every storage, also changed and deleted ones."""
    bench.agents.set("scout", runner="demo")
    bench.add("nightly", when="0 3 * * *", agent="scout", prompt="Look around.", pre_check="true")
    bench.add("other", when="5 * * * *", job="work")
    bench.edit("nightly", agent="scout", prompt="Look around again.")
    bench.add("gone", when="5 * * * *", job="work")
    bench.delete("gone")
    bench.agent_rules.set("scout", max_schedules=3)
    bench.agent_rules.set("scout", max_schedules=4)
    bench.budgets.set("all", max_cost="5 USD", period="day")
    bench.hooks.set("before:schedule:trigger", command="true")
    bench.hooks.set("after:run", command="true")
    bench.hooks.delete("after:run")
    bench.quiet_hours.set("nights", windows=["22:00-06:00"])
    bench.quiet_hours.delete("nights")
    bench.limits.set("agent:scout", size=2)
    bench.limits.set("agent:rover", size=2)
    bench.limits.delete("agent:rover")
    bench.webhooks.add("tell", "https://example.com/hook")
    bench.webhooks.edit("tell", types=["run.failed"])
    bench.webhooks.add("told", "https://example.com/told")
    bench.webhooks.delete("told")
    bench.acting_as(SCOUT).add("proposed", when="0 4 * * *", job="work")
    assert bench.audit.verify().problems == []


LAST = "its definition is not the one of event {}."
FORGED: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "a prompt": (
        "UPDATE revisions SET definition = replace(definition, 'again', 'for keys') WHERE rev = 2",
        "schedule scout/nightly: " + LAST,
        ("schedule.updated",),
    ),
    "a pre-check": (
        "UPDATE revisions SET definition = replace(definition, 'true', 'false') WHERE rev = 2",
        "schedule scout/nightly: " + LAST,
        ("schedule.updated",),
    ),
    "an older revision": (
        "UPDATE schedules SET rev = 1 WHERE name = 'nightly'; UPDATE due SET rev = 1 WHERE rev = 2",
        "schedule 1: " + LAST,
        ("schedule.updated",),
    ),
    "an older revision of the cursor": (
        "UPDATE due SET rev = 1 WHERE rev = 2",
        "schedule scout/nightly: " + LAST,
        ("schedule.updated",),
    ),
    "an author": (
        "UPDATE revisions SET author = 'eve' WHERE rev = 2",
        "schedule scout/nightly: " + LAST,
        ("schedule.updated",),
    ),
    "a rule": (
        "UPDATE policies SET definition = replace(definition, '4', '9') WHERE kind = 'agent_rules'",
        "agent rules scout: " + LAST,
        ("policy.set",),
    ),
    "a size": (
        "INSERT INTO permits (scope, n) VALUES ('agent:scout', 3)",
        "limit agent:scout: " + LAST,
        ("limit.set",),
    ),
    "an address": (
        "UPDATE subscriptions SET target = replace(target, 'example.com', 'example.org') WHERE name = 'tell'",
        "subscription tell: " + LAST,
        ("subscription.updated",),
    ),
}
GONE = {
    "an agent": (
        "DELETE FROM policies WHERE kind = 'agent'",
        "agent scout was deleted, and the log does not say so.",
    ),
    "a hook": (
        "UPDATE policies SET kind = 'hook', name = 'after:run' WHERE kind = 'budget'",
        "budget all was deleted, and the log does not say so.",
    ),
    "a webhook": ("DELETE FROM subscriptions WHERE name = 'tell'",
                  "subscription tell was deleted, and the log does not say so."),
    "a deleted rule": (
        "INSERT INTO policies SELECT 'quiet_hours', 'nights', definition, 1, 'x' FROM policies WHERE kind = 'agent'",
        "quiet hours nights is not in the log.",
    ),
    "a revision": (
        "INSERT INTO revisions SELECT schedule_id, 7, definition, author, author_role, at FROM revisions WHERE rev = 2",
        "schedule scout/nightly: its revision 7 is not in the log.",
    ),
}  # fmt: skip


def pruned(bench: Watched) -> None:
    """The events of all definitions are gone, and so are those that carried them first."""
    for _ in range(2):
        bench.clock.advance(40 * DAY)
        bench.engine.maintenance.prune(bench.clock.now_ms())
        bench.limits.set("agent:other", size=1)
        bench.engine.maintenance.prune(bench.clock.now_ms())
    assert not events_of(bench, "schedule.created", "schedule.updated")
    assert bench.audit.verify().problems == []


@pytest.mark.parametrize("old", [False, True], ids=["", "pruned"])
@pytest.mark.parametrize("what", FORGED)
def test_b16_a_definition_that_was_changed_is_named_with_its_event(
    bench: Watched, url: str, what: str, old: bool
) -> None:
    """B16: also when the event is pruned"""
    live(bench)
    sql, problem, types = FORGED[what]
    event = {"limit.set": lambda ids: ids[0], "policy.set": lambda ids: ids[2]}.get(types[0], lambda ids: ids[-1])(
        events_of(bench, *types)
    )
    if old:
        pruned(bench)
    forge(bench, url, sql)
    assert bench.audit.verify().problems == [problem.format(event)]


@pytest.mark.parametrize("old", [False, True], ids=["", "pruned"])
@pytest.mark.parametrize("what", GONE)
def test_b16_a_deleted_and_an_invented_definition_are_named(bench: Watched, url: str, what: str, old: bool) -> None:
    """B16"""
    live(bench)
    if old:
        pruned(bench)
    sql, problem = GONE[what]
    forge(bench, url, sql)
    assert problem in bench.audit.verify().problems


def test_b16_the_same_on_postgresql(postgres_url: str, open_bench: Open) -> None:
    """B16: before and after the events are pruned"""
    bench = open_bench(postgres_url, history_days=30)
    live(bench)
    revised, ruled = events_of(bench, "schedule.updated")[0], events_of(bench, "policy.set")[2]
    pruned(bench)
    for name in ("a prompt", "a rule"):
        forge(bench, postgres_url, FORGED[name][0])
    forge(bench, postgres_url, GONE["a revision"][0])
    assert bench.audit.verify().problems == [
        f"schedule scout/nightly: {LAST.format(revised)}",
        f"agent rules scout: {LAST.format(ruled)}",
        "schedule scout/nightly: its revision 7 is not in the log.",
    ]


def test_b16_every_column_of_a_schedule_is_bound(bench: Watched, url: str) -> None:
    """B16: who made it decides how often it may run, and who may approve it"""
    propose(bench)
    (event,) = events_of(bench, "schedule.created")
    changed = ["creator_role = 'owner'", "created_by = 'rover'", "depth = 0", "agent = 'rover'", "name = 'x'",
               "parent = 1", "creator_run = 7"]  # fmt: skip
    for change in changed:
        column = change.partition(" ")[0]
        with bench.store.reading() as transaction:
            row = transaction.bound_revisions([1])[0]._asdict()
        forge(bench, url, f"UPDATE schedules SET {change}")
        (problem,) = bench.audit.verify().problems
        assert problem.endswith(f"its definition is not the one of event {event}."), change
        value = row[column]
        before = "NULL" if value is None else repr(value)
        forge(bench, url, f"UPDATE schedules SET {column} = {before}")
        assert bench.audit.verify().problems == []


def test_b16_settings_of_one_run_are_bound(bench: Watched, url: str) -> None:
    """B16: those that an approver edited, and those that a run was started with"""
    bench.add("s", **{**WAITING, "approvers": ["ada", "bob"], "payload": "one"})
    bench.run_until(at("08:06"))
    bench.acting_as(ADA).approvals.approve(bench.asked().id, edits={"payload": "two"})
    (event,) = events_of(bench, "approval.edited")
    assert bench.audit.verify().problems == []
    forge(bench, url, "UPDATE revisions SET definition = replace(definition, 'two', 'three')")
    assert bench.audit.verify().problems == [f"schedule s: its definition is not the one of event {event}."]


def test_b16_settings_that_a_run_was_started_with_are_bound(bench: Watched, url: str) -> None:
    """B16: a reply in a thread is a run with settings of its own; the schedule keeps its own"""
    bench.agents.set("scout", runner="demo")
    bench.add("s", when="0 3 * * *", agent="scout", job="work", payload="one")
    run = int(bench.run("s").id)
    bench.settle()
    with bench.store.transaction(bench.clock.now_ms()) as transaction:
        thread = transaction.insert_thread("scout", "home", "x", "x", None, bench.clock.now_ms())
        transaction.assign_thread(run, thread, "fresh")
    bench.threads.reply(str(thread), "Say it again.")
    (event,) = events_of(bench, "run.varied")
    assert bench.get("s").rev == 1
    assert bench.audit.verify().problems == []
    forge(bench, url, "UPDATE revisions SET definition = replace(definition, 'again', 'to eve') WHERE rev = 2")
    assert bench.audit.verify().problems == [f"schedule scout/s: its definition is not the one of event {event}."]
    forge(bench, url, "UPDATE revisions SET definition = replace(definition, 'to eve', 'again') WHERE rev = 2")
    forge(bench, url, "UPDATE schedules SET rev = 2; UPDATE due SET rev = 2")
    assert bench.audit.verify().problems == ["schedule scout/s: it has revision 2, which the log does not say."]


@pytest.mark.parametrize("old", [False, True], ids=["", "pruned"])
@pytest.mark.parametrize("how", ["pending", "rejected", "paused", "edited"])
def test_b16_a_schedule_that_was_let_run_in_the_store_is_named(bench: Watched, url: str, how: str, old: bool) -> None:
    """B16: without an approval or a resume in the log"""
    bench.agent_rules.set("scout", approval_timeout="364d")
    bench.acting_as(SCOUT).add("s", when="0 3 1 1 *", job="work")
    kind = "approval.requested"
    if how == "rejected":
        bench.approvals.deny(bench.asked().id)
    elif how != "pending":
        bench.approvals.approve(bench.asked().id)
        bench.pause("s")
        kind = "schedule.paused"
    if how == "edited":
        bench.resume("s")
        bench.acting_as(SCOUT).edit("s", when="0 4 1 1 *")
        kind = "approval.requested"
    event = events_of(bench, kind)[-1]
    if old:
        for _ in range(2):
            bench.clock.advance(40 * DAY)
            bench.engine.maintenance.prune(bench.clock.now_ms())
            bench.limits.set("agent:other", size=1)
            bench.engine.maintenance.prune(bench.clock.now_ms())
        assert event not in events_of(bench, kind)
    assert bench.audit.verify().problems == []
    forge(bench, url, "UPDATE schedules SET state = 'active'")
    assert bench.audit.verify().problems == [f"schedule scout/s: its state is not the one of event {event}."]


def test_b16_a_schedule_that_people_let_run_is_not_named(bench: Watched) -> None:
    """B16: the control: approved, resumed, expired and revived, broken and deleted"""
    propose(bench)
    bench.pause("s")
    bench.resume("s")
    bench.pause("s", until=at("09:00"))
    bench.run_until(at("09:10"))
    assert bench.get("s").state == "active"
    bench.add("ends", when="5 * * * *", job="work", ends_at=at("10:00"))
    bench.pause("ends")
    bench.resume("ends")
    bench.run_until(at("11:00"))
    bench.edit("ends", ends_at=at("23:00"))
    assert bench.get("ends").state == "active"
    bench.add("gone", when="5 * * * *", job="work")
    bench.pause("gone")
    bench.delete("gone")
    assert bench.audit.verify().problems == []


def test_b16_many_schedules_at_once_and_a_backup(bench: Watched, url: str, tmp_path: Path, open_bench: Open) -> None:
    """B16: the copy says the same"""
    words: list[dict[str, Any]] = [{"name": f"s{n}", "when": "0 3 * * *", "job": "work"} for n in range(50)]
    bench.add_many(words)
    assert bench.audit.verify().problems == []
    copy, copied = bench, url
    if not url.startswith("postgresql"):
        bench.system.backup(str(tmp_path / "copy.db"))
        copied = f"sqlite:///{tmp_path}/copy.db"
        copy = open_bench(copied)
        assert copy.audit.verify().problems == []
    forge(copy, copied, "UPDATE revisions SET definition = replace(definition, 'work', 'deploy') WHERE schedule_id = 7")
    event = events_of(bench, "schedule.created")[6]
    assert copy.audit.verify().problems == [f"schedule s6: its definition is not the one of event {event}."]
