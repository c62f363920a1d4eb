"""What was done stays written, with who did it; whoever changes the past is found out. Rows B1, B7, S7."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from security_cast import ADA, BOB, CYN, SCOUT, WAITING, Watched, at
from security_rows import everything, sql
from test_rights_matrix import ROLES, Thing, allowed, ask, build

import postgres_fixtures
from matins.api.use_case import USE_CASES
from matins.errors import Conflict, InvalidInput
from matins.model.access import BrowserSession, Token
from matins.model.event import StoredEvent

url = postgres_fixtures.kept_url


def events(bench: Watched) -> list[StoredEvent]:
    with bench._store.reading() as transaction:
        return sorted(transaction.logged(0, 10**9))


def busy(bench: Watched) -> None:
    """A history of several seals."""
    bench.add("s", **WAITING)
    bench.run_until(at("08:06"))
    bench.approvals.approve(bench.asked().id)
    bench.run_until(at("09:06"))
    bench.approvals.deny(bench.asked().id, note="no")
    bench.acting_as(SCOUT).add("t", when="every 1h", job="work")
    bench.run_until(at("09:10"))
    bench.engine.maintenance.seal(bench.clock.now_ms())
    assert len(sql(bench, "SELECT id FROM seals")) >= 3
    assert bench.audit.verify().problems == []


def swap(bench: Watched, column: str, one: Any, other: Any) -> None:
    """Two events change places in a column."""
    for before, after in ((one, -1), (other, one), (-1, other)):
        sql(bench, f"UPDATE events SET {column} = {after} WHERE {column} = {before}")


# -- a changed, removed, reordered or cut event


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("type", "'run.skipped'"),
        ("data", '\'{"by":"somebody else"}\''),
        ("data", "NULL"),
        ("at", "at + 1"),
        ("run_id", "coalesce(run_id, 0) + 1"),
        ("schedule_id", "coalesce(schedule_id, 0) + 1"),
        ("seq", "seq + 100000"),
        ("writer", "writer + 100000"),
    ],
)
def test_a_changed_event_is_named(bench: Watched, column: str, value: str) -> None:
    """S7: any of its columns, any of the events."""
    busy(bench)
    for event in [event for event in events(bench) if event.data][:: max(1, len(events(bench)) // 4)]:
        kept = sql(bench, f"SELECT writer, seq, at, type, schedule_id, run_id, data FROM events WHERE id = {event.id}")[
            0
        ]
        sql(bench, f"UPDATE events SET {column} = {value} WHERE id = {event.id}")
        assert bench.audit.verify().problems != [], f"{column} of event {event.id}"
        _put_back(bench, event.id, kept)
    assert bench.audit.verify().problems == [], "and nothing is wrong when it is put back"


def _put_back(bench: Watched, event_id: int, kept: tuple[Any, ...]) -> None:
    names = ("writer", "seq", "at", "type", "schedule_id", "run_id", "data")
    said = [f"{name} = {_literal(value)}" for name, value in zip(names, kept, strict=True)]
    sql(bench, f"UPDATE events SET {', '.join(said)} WHERE id = {event_id}")


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "NULL" if value is None else str(value)


def test_a_removed_event_is_named(bench: Watched) -> None:
    """S7"""
    busy(bench)
    every = events(bench)
    sql(bench, f"DELETE FROM events WHERE id = {every[len(every) // 2].id}")
    assert any("is missing" in found for found in bench.audit.verify().problems)


def test_an_event_without_words_that_gets_some_is_named(bench: Watched) -> None:
    """S7: also where the words are none."""
    busy(bench)
    (event, *_) = (event for event in events(bench) if event.data is None)
    for words in ("'{}'", "''"):
        sql(bench, f"UPDATE events SET data = {words} WHERE id = {event.id}")
        assert bench.audit.verify().problems != []


@pytest.mark.parametrize("place", [0, -1])
def test_the_ends_of_the_chain_are_guarded_too(bench: Watched, place: int) -> None:
    """S7: the beginning, and the tail, which no later event would miss."""
    busy(bench)
    sql(bench, f"DELETE FROM events WHERE id = {events(bench)[place].id}")
    assert bench.audit.verify().problems != []


@pytest.mark.parametrize("column", ["seq", "id"])
def test_events_that_changed_places_are_named(bench: Watched, column: str) -> None:
    """S7: in the chain, or only in the order in which readers get them."""
    busy(bench)
    mine = [event for event in events(bench) if event.writer == events(bench)[0].writer]
    one, other = (getattr(event, column) for event in mine[1:3])
    swap(bench, column, one, other)
    assert bench.audit.verify().problems != []


def test_a_tail_that_was_cut_with_its_seals(bench: Watched) -> None:
    """S7: what is left looks whole; a seal that was noted down elsewhere tells that there was more."""
    busy(bench)
    noted = bench.audit.seal()
    assert noted is not None
    number = int(noted.split(":")[0])
    _cut_after_seal(bench, number - 1)
    left = bench.audit.verify().problems
    assert not any(found.startswith(("Event", "Seal")) for found in left), "what is left of the log looks whole"
    assert any(found.endswith("the log does not say.") for found in left), "but records that speak of more are found"
    assert bench.audit.verify(seal=noted).problems == [f"seal {number}: it was changed or deleted after it was sealed"]


def _cut_after_seal(bench: Watched, number: int) -> None:
    (heads,) = sql(bench, f"SELECT heads FROM seals WHERE id = {number}")[0]
    sql(bench, f"DELETE FROM seals WHERE id > {number}")
    for writer, seq, *_ in orjson.loads(heads):
        sql(bench, f"DELETE FROM events WHERE writer = {writer} AND seq > {seq}")


def test_a_seal_that_was_noted_down_stays_good(bench: Watched) -> None:
    """S7: however much comes after it."""
    busy(bench)
    noted = bench.audit.seal()
    bench.run_until(at("12:00"))
    assert bench.audit.seal() != noted
    assert bench.audit.verify(seal=noted).problems == []


def test_a_seal_that_never_was(memory: Watched) -> None:
    """S7: told apart from what is no seal at all."""
    busy(memory)
    for noted in ("1:" + "0" * 64, "999:" + "0" * 64):
        assert len(memory.audit.verify(seal=noted).problems) == 1
    for noted in ("", "x", "1:", "1:ab"):
        with pytest.raises(InvalidInput):
            memory.audit.verify(seal=noted)


def test_a_rewritten_history_has_other_seals(bench: Watched) -> None:
    """S7: whoever can compute hashes can write a past that looks whole, but not the seals that were noted down."""
    busy(bench)
    noted = bench.audit.seal()
    sql(bench, "DELETE FROM seals")
    sql(bench, "DELETE FROM events")
    assert all(found.endswith("is not in the log.") for found in bench.audit.verify().problems)
    assert len(bench.audit.verify(seal=noted).problems) == 1


def test_a_changed_seal_is_named(bench: Watched) -> None:
    busy(bench)
    sql(bench, "UPDATE seals SET heads = '[]' WHERE id = (SELECT max(id) FROM seals)")
    assert any(found.startswith("Seal ") for found in bench.audit.verify().problems)


def test_what_goes_on_after_a_cut_shows_it(bench: Watched) -> None:
    """S7: the process that wrote the chain remembers where it stood."""
    busy(bench)
    sql(bench, f"DELETE FROM events WHERE id = {events(bench)[-1].id}")
    bench.pause("s")
    assert any("is missing" in found for found in bench.audit.verify().problems)


# -- who


ELSEWHERE = {"file.apply", "system.backup", "sessions.list", "tokens.list", "destinations.test", "bulk.apply",
             "runs.report_outcome", "runs.send", "incidents.acknowledge", "incidents.acknowledge_cause",
             "people.edit_me", "people.password"}  # fmt: skip
"""They need a file, an incident, a run that speaks, a pause of many or a person who signed in, or are looks for the
owner's eyes: tests/service/test_files.py, test_backup.py, test_tokens.py, test_attention.py, test_messages.py,
test_past_days.py, test_signing_in.py, and tests/delivery/test_incidents.py."""
CHANGES = sorted(name for name, one in USE_CASES.items() if one.right != "read" and name not in ELSEWHERE)
FIRST: dict[str, Callable[[Watched, Thing], Any]] = {
    "backfills.cancel": lambda bench, thing: plant_backfill(bench, thing),
    "backfills.pause": lambda bench, thing: plant_backfill(bench, thing),
    "backfills.resume": lambda bench, thing: bench.backfills.pause(plant_backfill(bench, thing)),
    "calls.replay": lambda bench, thing: bench.calls.fire("chat", "C07", "m1"),
    "missions.abort": lambda bench, thing: bench.edit(f"mission-{thing.name}", when="0 9 * * *"),
    "missions.draft": lambda bench, thing: bench.edit(f"mission-{thing.name}", when="0 9 * * *"),
    "nodes.open": lambda bench, thing: bench.nodes.cordon(bench.node.name),
    "people.link": lambda bench, thing: sql(bench, "INSERT INTO chat_bots (service, name) VALUES ('telegram', 'bot')"),
    **dict.fromkeys(
        ("pings.rotate", "pings.send", "pings.url"), lambda bench, thing: bench.edit(thing.name, job="expect_ping")
    ),
    "runs.deliver": lambda bench, thing: plant_answer(bench, thing),
    "runs.retry": lambda bench, thing: sql(bench, f"UPDATE runs SET state = 11 WHERE id = {thing.run_id}"),
    "runs.erase": lambda bench, thing: sql(bench, f"UPDATE runs SET state = 11 WHERE id = {thing.run_id}"),
    "runs.resolve": lambda bench, thing: sql(bench, f"UPDATE runs SET state = 5 WHERE id = {thing.run_id}"),
    "subscriptions.delete": lambda bench, thing: bench.subscriptions.open("feed"),
    "schedules.undelete": lambda bench, thing: bench.delete(thing.name),
    "schedules.undo": lambda bench, thing: bench.edit(thing.name, payload="edited"),
    "sessions.revoke": lambda bench, thing: plant_session(bench, "abcdefgh"),
    "threads.reply": lambda bench, thing: plant_thread(bench, thing),
    "tokens.revoke": lambda bench, thing: plant_token(bench, "abcdefgh"),
    "webhooks.set": lambda bench, thing: bench.webhooks.delete("hook"),
    "webhooks.resume": lambda bench, thing: bench.webhooks.pause("hook"),
}
"""What must be there for a use case to have something to change."""


def plant_answer(bench: Watched, thing: Thing) -> None:
    bench.destinations.set("ops", kind="webhook", url="https://ops.example.com")
    sql(bench, f'UPDATE runs SET state = 10, outcome = \'{{"result": "done"}}\' WHERE id = {thing.run_id}')


def plant_backfill(bench: Watched, thing: Thing) -> str:
    return bench.backfills.create(thing.name, start="2026-03-26", end="2026-03-26").id


def plant_thread(bench: Watched, thing: Thing) -> None:
    """Thread 1, in which the run happens."""
    with bench._store.transaction(bench.clock.now_ms()) as transaction:
        made = transaction.insert_thread(bench.get(thing.name).agent, None, None, None, None, bench.clock.now_ms())
        transaction.assign_thread(int(thing.run_id), made, "fresh")


def plant_token(bench: Watched, token_id: str) -> None:
    now = bench.clock.now_ms()
    with bench._store.transaction(now) as transaction:
        transaction.insert_token(Token(token_id, "0" * 64, "laptop", "viewer", None, now, "owner", None))


def plant_session(bench: Watched, session_id: str) -> None:
    now = bench.clock.now_ms()
    with bench._store.transaction(now) as transaction:
        transaction.insert_session(
            BrowserSession(session_id, "0" * 64, "viewer", "ada", None, None, None, now, now + 60_000)
        )


def told_by(bench: Watched, name: str, since: int) -> list[str]:
    """The new events that say that somebody did it."""
    found: list[str] = []
    for event in events(bench):
        data = orjson.loads(event.data or "{}")
        if event.id > since and (
            name in (data.get("by"), data.get("voter")) or data.get("reason") == f"resolved_by_{name}"
        ):
            found.append(event.type)
    return found


@pytest.mark.parametrize("role", ["owner", "operator", "agent"])
@pytest.mark.parametrize("use_case", CHANGES)
def test_every_change_says_who(memory: Watched, use_case: str, role: str) -> None:
    """B7: whatever a principal changes leaves an event with the name."""
    if not allowed(use_case, role, True):
        return
    world, who = build(memory), ROLES[role]
    if use_case == "schedules.resume":
        memory.acting_as(who).pause(world.own[role].name)
    FIRST.get(use_case, lambda bench, thing: None)(memory, world.own[role])
    before, since = everything(memory), events(memory)[-1].id
    error = ask(world, who, use_case, role, True)
    assert error is None
    assert everything(memory) != before, "it has changed something"
    assert told_by(memory, who.name, since), f"{use_case} by {role}: {events(memory)[-1]}"


def test_other_types_for_a_named_function_say_who(memory: Watched) -> None:
    """B7: it is there already, and only what it hears changes; the same types again are no change."""
    memory.subscriptions.open("feed")
    since = events(memory)[-1].id
    for _ in range(2):
        memory.subscriptions.open("feed", types=["run.failed"])
        assert told_by(memory, "owner", since) == ["subscription.updated"]


def test_a_webhook_does_not_take_the_place_of_a_function(memory: Watched) -> None:
    """B7: its position in the stream would be lost, and nobody told."""
    memory.subscriptions.open("feed")
    before = everything(memory)
    with pytest.raises(Conflict, match='There is a subscription "feed" already'):
        memory.webhooks.set("feed", url="https://example.com/hook", secret="env:SECRET")
    assert everything(memory) == before


def test_what_the_engine_does_names_nobody(memory: Watched) -> None:
    """B1: runs that come due leave events of their own; no person is blamed for them."""
    memory.add("s", when="*/5 * * * *", job="work")
    since = events(memory)[-1].id
    memory.run_until(at("09:00"))
    assert len(events(memory)) > since
    assert told_by(memory, "owner", since) == []


def test_who_started_who_cancelled_and_who_denied(bench: Watched) -> None:
    """B7: three people and one run after another."""
    bench.add("s", **WAITING, approvers=["bob"], overlap="allow")
    run = bench.acting_as(ADA).run("s")
    bench.settle()
    assert bench.runs.get(run.id).evidence == {"by": {"name": "ada", "role": "operator", "who": "person:ada"}}
    bench.acting_as(BOB).approvals.deny(bench.asked().id, note="why now?")
    other = bench.acting_as(ADA).run("s")
    bench.settle()
    bench.acting_as(CYN).runs.cancel(other.id)
    assert [told["by"] for told in bench.told("approval.denied")] == [["bob"]]
    assert [(told["by"], told["note"]) for told in bench.told("approval.voted")] == [("bob", "why now?")]
    assert [told["by"] for told in bench.told("run.cancelled")] == ["cyn"]
