"""Answers of runs: who gets them, that they arrive once, and what is told of them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from letterbox import Killed, Letterbox, away, installed, killed, lost
from outbox_recorder import HOUR, deliver, let_pass

import postgres_fixtures
from matins.errors import InvalidInput
from matins.model.words import with_command
from matins.testing import ManualClock, Sandbox, iso

START = "2026-03-27T08:00:00Z"
postgres_server = postgres_fixtures.postgres_server
postgres_url = postgres_fixtures.postgres_url
Open = Callable[[], Sandbox]


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> Letterbox:
    """A channel that cannot tell a repetition."""
    return installed(monkeypatch, keyed=False)


@pytest.fixture
def keyed_box(monkeypatch: pytest.MonkeyPatch) -> Letterbox:
    return installed(monkeypatch, keyed=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/m.db"


@pytest.fixture
def open_store(url: str) -> Iterator[Open]:
    """A bench on the store; the one before is dropped as a crash would drop it."""
    opened: list[Sandbox] = []

    def open_again() -> Sandbox:
        clock = opened[-1].clock if opened else ManualClock(START)
        if opened:
            opened[-1].close()
        made = Sandbox(url, clock=clock)
        made.job("report")(lambda run: "all is well")
        made.job("silent")(lambda run: "  ")
        made.job("long")(lambda run: "one\n---\ntwo\n---\nthree")
        opened.append(made)
        return made

    yield open_again
    opened[-1].close()


def with_schedule(bench: Sandbox, job: str = "report", **settings: object) -> Sandbox:
    bench.destinations.set("post", kind="letterbox", to=["me"])
    bench.add("morning", when="0 9 * * *", job=job, deliver=["post"], **settings)
    return bench


def states(bench: Sandbox) -> list[str]:
    (run,) = bench.runs.list(schedule="morning")
    with bench.store.reading() as transaction:
        return [row.state for row in transaction.answers_of(int(run.id))]


def test_the_answer_arrives_once(open_store: Open, box: Letterbox) -> None:
    """B21: decided with the end of the run, sent by the outbox, on both stores."""
    bench = with_schedule(open_store())
    bench.run_until("2026-03-27T09:00:00Z")
    assert states(bench) == ["queued"]
    ended = next(event for event in bench.events.list() if event.type == "run.succeeded")
    assert ended.data["deliver"] == ["post"]
    let_pass(bench, HOUR)
    assert box.texts == ["✓ morning|all is well"]
    assert states(bench) == ["delivered"]
    assert "answer.delivered" in [event.type for event in bench.events.list()]
    assert bench.audit.verify().problems == []
    bench = open_store()
    let_pass(bench, HOUR)
    assert len(box.letters) == 1


def test_a_run_that_delivers_nowhere_has_no_answer(open_store: Open, box: Letterbox) -> None:
    bench = open_store()
    bench.destinations.set("post", kind="letterbox", to=["me"])
    bench.add("morning", when="0 9 * * *", job="report")
    bench.run_until("2026-03-27T09:00:00Z")
    let_pass(bench, HOUR)
    assert box.letters == []
    assert states(bench) == []


def test_schedule_then_agent_then_file_then_nobody(box: Letterbox) -> None:
    """B21: the nearest setting counts, and `none` silences."""
    bench = Sandbox(clock=ManualClock(START))
    bench.job("report")(lambda run: run.schedule)
    for name in ("of_file", "of_agent", "own"):
        bench.destinations.set(name, kind="letterbox", to=[name])
    bench.deliver.set(to=["of_file"])
    bench.agents.set("scout", runner="demo", deliver=["of_agent"])
    bench.add("a", when="0 9 * * *", job="report", agent="scout", deliver=["own"])
    bench.add("b", when="0 9 * * *", job="report", agent="scout")
    bench.add("c", when="0 9 * * *", job="report")
    bench.add("d", when="0 9 * * *", job="report", deliver=["none"])
    bench.run_until("2026-03-27T09:00:00Z")
    with bench.store.reading() as transaction:
        runs = {run.schedule: transaction.answers_of(int(run.id)) for run in bench.runs.list()}
    found = {name: [row.destination for row in rows] for name, rows in runs.items()}
    assert found == {"a": ["own"], "b": ["of_agent"], "c": ["of_file"], "d": []}
    bench.close()


@pytest.mark.parametrize(
    ("name", "settings"),
    [("phone", "--kind ntfy"), ("mail", "--kind email"), ("Team Slack", "--kind slack"), ("notes", "--kind file")],
)
def test_an_unknown_destination_is_refused(name: str, settings: str) -> None:
    """B21: with a command that makes one of the kind that its name says."""
    bench = Sandbox(clock=ManualClock(START))
    bench.job("report")(lambda run: "x")
    with pytest.raises(InvalidInput, match=f'There is no destination "{name}"') as caught:
        bench.add("a", when="0 9 * * *", job="report", deliver=[name])
    assert (caught.value.hint or "").startswith(f"Create it: matins destinations set {shlex.quote(name)} {settings}")
    bench.close()


def test_a_destination_that_nothing_can_be_sent_to_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """B21: when the schedule is made, and by doctor, until the setting is there."""
    monkeypatch.delenv("PHONE_TOKEN", raising=False)
    bench = Sandbox(clock=ManualClock(START))
    bench.job("report")(lambda run: "x")
    bench.destinations.set("mail", kind="email", to=["ada@example.com"])
    bench.destinations.set("phone", kind="telegram", token="env:PHONE_TOKEN", to=["1"])
    added = bench.add("a", when="0 9 * * *", job="report", deliver=["mail", "phone"])
    no_server = "Nothing can be sent to mail. There is no mail server. matins smtp set --host mail.example.com"
    assert added.notes[0] == no_server
    assert added.notes[1].startswith("Nothing can be sent to phone. ")
    assert "PHONE_TOKEN" in added.notes[1]
    bench.add("b", when="0 9 * * *", job="report")
    assert bench.edit("b", deliver=["mail"]).notes == [no_server]
    found = {one.what: one for one in bench.system.doctor()}
    assert found["destination mail"].fix == "matins smtp set --host mail.example.com"
    assert "PHONE_TOKEN" in found["destination phone"].sentence
    bench.smtp.set(host="127.0.0.1", sender="matins@example.com")
    monkeypatch.setenv("PHONE_TOKEN", "1:x")
    assert not any(one.what.startswith("destination") for one in bench.system.doctor())
    bench.close()


# -- once: the table of cuts


def test_a_kill_between_end_and_sending_sends_it_later(open_store: Open, box: Letterbox) -> None:
    """B21"""
    bench = with_schedule(open_store())
    bench.run_until("2026-03-27T09:00:00Z")
    bench = open_store()
    let_pass(bench, HOUR)
    assert box.texts == ["✓ morning|all is well"]


def test_what_did_not_leave_is_sent_later_and_is_no_copy(open_store: Open, box: Letterbox) -> None:
    """B21: no connection, 429 and 5xx are no sending."""
    bench = with_schedule(open_store())
    box.on_send = lambda attempt: away(attempt) if attempt < 3 else None
    bench.run_until("2026-03-27T09:00:00Z")
    deliver(bench)
    assert states(bench) == ["retrying"]
    let_pass(bench, HOUR)
    assert box.texts == ["✓ morning|all is well"]
    assert states(bench) == ["delivered"]


@pytest.mark.parametrize("cut", [lost, killed])
def test_an_unconfirmed_part_repeats_once_and_says_so(
    open_store: Open, box: Letterbox, cut: Callable[[int], None]
) -> None:
    """B21: a channel that cannot tell a repetition gets a marked one."""
    bench = with_schedule(open_store())
    bench.run_until("2026-03-27T09:00:00Z")
    box.on_arrival = lambda attempt: cut(attempt) if attempt == 1 else None
    bench = sent_or_killed(bench, open_store)
    let_pass(bench, HOUR)
    assert box.texts == ["✓ morning|all is well", "Sent again. ✓ morning|all is well"]
    assert states(bench) == ["delivered"]


@pytest.mark.parametrize("cut", [lost, killed])
def test_a_keyed_part_repeats_under_its_key(open_store: Open, keyed_box: Letterbox, cut: Callable[[int], None]) -> None:
    """B21: the receiver tells the repetition by its key."""
    bench = with_schedule(open_store())
    bench.run_until("2026-03-27T09:00:00Z")
    keyed_box.on_arrival = lambda attempt: cut(attempt) if attempt == 1 else None
    bench = sent_or_killed(bench, open_store)
    let_pass(bench, HOUR)
    assert len(keyed_box.letters) == 2
    assert len(set(keyed_box.letters)) == 1
    assert states(bench) == ["delivered"]


@pytest.mark.parametrize("cut", [lost, killed])
def test_lost_again_is_unconfirmed_and_the_parts_behind_it_are_sent(
    open_store: Open, box: Letterbox, cut: Callable[[int], None]
) -> None:
    """B21: twice at most, then an incident; the later parts are not lost with it."""
    bench = with_schedule(open_store(), job="long")
    bench.run_until("2026-03-27T09:00:00Z")
    box.on_arrival = lambda attempt: cut(attempt) if attempt in (2, 3) else None
    for _ in range(2):
        bench = sent_or_killed(bench, open_store)
        bench.clock.advance(60_000)
    let_pass(bench, HOUR)
    assert [text.rpartition("|")[2] for text in box.texts] == ["one", "two", "two", "three"]
    assert states(bench) == ["unconfirmed"]
    assert [found.kind for found in bench.incidents.list(all=True)] == ["undelivered"]


def test_a_deleted_destination_discards_what_waits(open_store: Open, box: Letterbox) -> None:
    """B21"""
    bench = with_schedule(open_store())
    bench.run_until("2026-03-27T09:00:00Z")
    bench.edit("morning", deliver=None)
    bench.destinations.delete("post")
    let_pass(bench, HOUR)
    assert box.letters == []
    assert states(bench) == ["discarded"]


def test_after_twenty_attempts_it_is_discarded_and_people_hear_of_it(open_store: Open, box: Letterbox) -> None:
    bench = with_schedule(open_store())
    box.on_send = away
    bench.run_until("2026-03-27T09:00:00Z")
    let_pass(bench, 30 * HOUR)
    assert box.attempts == 20
    assert "discarded" in states_of_first(bench)


def states_of_first(bench: Sandbox) -> list[str]:
    run = bench.runs.list(schedule="morning")[-1]
    with bench.store.reading() as transaction:
        return [row.state for row in transaction.answers_of(int(run.id))]


def sent_or_killed(bench: Sandbox, open_store: Open) -> Sandbox:
    """Deliver once; when the process is killed meanwhile, the next one goes on."""
    try:
        deliver(bench)
    except Killed:
        return open_store()
    return bench


# -- what is told of it


def why(bench: Sandbox) -> list[str]:
    found = bench.why("morning").run
    assert found is not None
    told = [with_command(one.sentence, one.quote, one.command) for one in found.run.answers]
    return told or [found.unsent or ""]


def fact(bench: Sandbox) -> bool | None:
    return bench.runs.facts(bench.runs.list(schedule="morning")[0].id).delivered


def test_b4_delivered_is_what_the_destination_confirmed(box: Letterbox, open_store: Open) -> None:
    """B4: executed and succeeded are not enough; it is on its way, given up, and after all delivered."""
    bench = with_schedule(open_store())
    box.on_send = away
    bench.run_until("2026-03-27T09:00:00Z")
    assert fact(bench) is None, "nothing was sent yet"
    assert why(bench) == ["On its way to post."]
    let_pass(bench, 15 * 60_000)
    assert fact(bench) is None, "it is tried again"
    assert why(bench)[0].startswith("Not yet delivered to post; the next attempt:")
    let_pass(bench, 22 * HOUR)
    assert fact(bench) is False
    (run,) = bench.runs.list(schedule="morning")
    again = f"To send it again: matins runs deliver {run.id} --to post"
    assert why(bench) == [f"Not delivered to post: no connection. {again}"]
    facts = bench.runs.facts(run.id)
    assert (facts.executed, facts.succeeded) == (True, True)
    box.on_send = lambda attempt: None
    bench.runs.deliver(run.id)
    let_pass(bench, 1)
    assert fact(bench) is True
    assert why(bench) == [f"Delivered to post at {str(iso(bench.clock.now_ms()))[11:16]}."]


def test_b4_a_run_whose_answer_nobody_gets_says_so(box: Letterbox, open_store: Open) -> None:
    """B4"""
    bench = open_store()
    bench.add("morning", when="0 9 * * *", job="report")
    bench.run_until("2026-03-27T09:00:00Z")
    assert (fact(bench), why(bench)) == (None, ['The answer was not sent: "deliver" is not set.'])
    bench.edit("morning", deliver=["none"])
    bench.run("morning")
    bench.settle()
    assert why(bench) == ['The answer was not sent: "deliver" is none.']


def test_an_old_answer_is_sent_to_whom_a_person_names(box: Letterbox, open_store: Open) -> None:
    """B21: `runs.deliver`, under another key than before."""
    bench = with_schedule(open_store())
    bench.destinations.set("other", kind="letterbox", to=["you"])
    bench.run_until("2026-03-27T09:00:00Z")
    let_pass(bench, HOUR)
    (run,) = bench.runs.list(schedule="morning")
    made = bench.runs.deliver(run.id, to=["post", "other"])
    assert [(one.destination, one.state) for one in made.answers] == [("other", "queued"), ("post", "queued")]
    let_pass(bench, HOUR)
    assert len(box.letters) == 3
    assert len(set(box.keys)) == 2  # the other destination is another receiver
    with pytest.raises(InvalidInput, match='There is no destination "nobody"'):
        bench.runs.deliver(run.id, to=["nobody"])


def test_the_same_answer_is_withheld(box: Letterbox, open_store: Open) -> None:
    """B21: `deliver_if: changed` compares with the last answer that went there."""
    bench = with_schedule(open_store(), deliver_if="changed")
    bench.run_until("2026-03-29T09:00:00Z")
    let_pass(bench, HOUR)
    assert len(box.letters) == 1
    first = bench.runs.list(schedule="morning")[-1].id
    assert why(bench) == [f"Withheld from post: the answer is the same as that of run {first}."]
    assert fact(bench) is None


def test_empty_answers_are_withheld_unless_all_are_wanted(box: Letterbox, open_store: Open) -> None:
    """B21"""
    bench = with_schedule(open_store(), job="silent")
    bench.run_until("2026-03-27T09:00:00Z")
    let_pass(bench, HOUR)
    assert (box.letters, why(bench)) == ([], ["Withheld from post: the answer is empty."])
    bench.edit("morning", deliver_if="always")
    bench.run("morning")
    bench.settle()
    let_pass(bench, HOUR)
    assert box.texts == ["✓ morning|"]


def test_a_failure_goes_to_those_who_do_not_hear_of_the_incident(box: Letterbox, open_store: Open) -> None:
    """B21: one story per trouble."""
    bench = open_store()
    bench.job("breaks")(failing)
    for name in ("told", "other"):
        bench.destinations.set(name, kind="letterbox", to=[name])
    bench.notify.set(to=["told"])
    bench.add("morning", when="0 9 * * *", job="breaks", deliver=["told", "other"], deliver_on=["failed"])
    bench.run_until("2026-03-27T09:00:00Z")
    let_pass(bench, HOUR)
    assert [text.partition("|")[0] for text in box.texts] == ["✗ morning"]
    assert "no disk left" in box.texts[0]
    assert why(bench)[1] == "Withheld from told: it hears of the incident."


def failing(run: object) -> None:
    raise ValueError("no disk left")


def test_in_quiet_hours_it_waits_unless_answers_are_urgent(box: Letterbox, open_store: Open) -> None:
    """B21: of the person whose destination it is."""
    bench = open_store()
    bench.quiet_hours.set("nights", windows="00:00-10:00")
    bench.people.set("ada", role="operator", quiet_hours="nights", timezone="UTC")
    bench.destinations.set("post", kind="letterbox", to=["me"], person="ada")
    bench.destinations.set("pager", kind="letterbox", to=["you"], person="ada", urgent=["answer"])
    bench.add("morning", when="0 9 * * *", job="report", deliver=["post", "pager"])
    bench.run_until("2026-03-27T09:00:00Z")
    deliver(bench)
    assert len(box.letters) == 1
    assert why(bench)[1].startswith("Waiting for the end of quiet hours to be sent to post: 2026-03-27 10:00")
    let_pass(bench, 2 * HOUR)
    assert len(box.letters) == 2


def test_above_the_limit_of_an_hour_a_digest_tells_the_rest(box: Letterbox, open_store: Open) -> None:
    """B21: one message with them all, on the hour."""
    bench = open_store()
    bench.destinations.set("post", kind="letterbox", to=["me"], max_per_hour=2)
    bench.add("often", when="*/5 * * * *", job="report", deliver=["post"])
    for minute in (5, 10, 15, 20, 25):
        bench.run_until(f"2026-03-27T08:{minute:02}:00Z")
        deliver(bench)
    bench.pause("often")
    assert len(box.letters) == 2
    let_pass(bench, HOUR)
    assert box.texts[2].startswith("3 answers|- ✓ often")
    assert len(box.letters) == 3
    assert {run.answers[0].state for run in map(bench.runs.get, [run.id for run in bench.runs.list()])} == {"delivered"}


def test_the_answers_of_the_last_steps_have_titles(box: Letterbox, open_store: Open) -> None:
    """B21: of steps, the answers of those that no other waits for."""
    bench = open_store()
    bench.destinations.set("post", kind="letterbox", to=["me"])
    bench.job("echo")(lambda run: run.payload)
    steps = [
        {"title": "Build", "job": "echo", "payload": "built"},
        {"title": "Test", "job": "echo", "payload": "green", "after": ["Build"]},
        {"title": "Lint", "job": "echo", "payload": "clean", "after": ["Build"]},
    ]
    bench.add("morning", when="0 9 * * *", steps=steps, deliver=["post"])
    bench.run_until("2026-03-27T09:00:00Z")
    let_pass(bench, HOUR)
    assert box.texts == ["✓ morning|## Test\n\ngreen\n\n## Lint\n\nclean"]


def test_a_channel_that_is_named_twice_gets_one_post(box: Letterbox, open_store: Open) -> None:
    """B21"""
    bench = open_store()
    for name in ("post", "same"):
        bench.destinations.set(name, kind="letterbox", to=["me"])
    bench.add("morning", when="0 9 * * *", job="report", deliver=["post", "same"])
    bench.run_until("2026-03-27T09:00:00Z")
    let_pass(bench, HOUR)
    assert len(box.letters) == 1


# -- what it costs


def statements_of_a_run(bench: Sandbox, name: str) -> list[str]:
    """What the engine asks the database for one run, whose settings it knows already."""
    found: list[str] = []

    def note(cursor: object, sql: str, bindings: object) -> bool:
        found.append(sql)
        return True

    bench.run(name)
    bench.settle()
    bench.run(name)
    connection = bench.store._connection  # type: ignore[attr-defined]
    connection.exec_trace = note
    bench.settle()
    connection.exec_trace = None
    return found


@pytest.mark.parametrize("job", ["report", "nothing"])
def test_a_run_that_delivers_nowhere_costs_no_statement_more(tmp_path: Path, box: Letterbox, job: str) -> None:
    """B21: a bit of the compiled schedule; and each destination costs a row in the transaction of the end."""
    bench = Sandbox(f"sqlite:///{tmp_path}/m.db", clock=ManualClock(START))
    bench.job("report")(lambda run: "all is well")
    bench.job("nothing")(lambda run: None)
    bench.add("plain", when="0 9 * * *", job=job)
    before = statements_of_a_run(bench, "plain")
    for name in ("one", "two"):
        bench.destinations.set(name, kind="letterbox", to=[name])
    bench.add("silent", when="0 9 * * *", job=job, deliver=["none"])
    bench.add("told", when="0 9 * * *", job=job, deliver=["one"], deliver_if="always")
    bench.add("both", when="0 9 * * *", job=job, deliver=["one", "two"], deliver_if="always")
    assert any("runs" in statement for statement in before)
    assert statements_of_a_run(bench, "plain") == before
    rows = [
        sum("INTO answers" in one for one in statements_of_a_run(bench, name)) for name in ("silent", "told", "both")
    ]
    assert rows == [0, 1, 2]
    bench.close()
