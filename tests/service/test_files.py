"""The file applied: what changes, what does not, and what waits for a person. Rows C7 and B3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import every_store
import pytest
from file_steps import FILE, Desk

from matins.api.results import FilePlan
from matins.delivery.webhooks import Webhooks
from matins.errors import Conflict, InvalidFile, InvalidInput, ManagedByFile, NotAllowed, Stale
from matins.model.access import Principal
from matins.net.signing import new_secret, verify
from matins.testing import ManualClock, Sandbox, iso
from matins.texts.atomic_file import other_writers

bench, rows = every_store.bench, every_store.rows
ADA = Principal("operator", "ada")
SCOUT = Principal("agent", "scout")


@pytest.fixture
def url() -> str:
    return "sqlite://"


@pytest.fixture
def desk(bench: Sandbox, tmp_path: Path) -> Iterator[Desk]:
    return Desk(bench, tmp_path / "matins.yaml")


def told(plan: FilePlan) -> list[str]:
    return [f"{entry.change} {entry.kind} {entry.name}" for entry in plan.entries]


def test_c7_what_is_new_is_added_and_told_in_the_seeds_words(desk: Desk) -> None:
    """C7: one admin note in the seed's words"""
    plan = desk.bench.file.plan()
    assert (plan.state, plan.note, plan.added, plan.waits) == ("ready", "+6 -0 ~0", 6, None)
    assert desk.names() == []
    assert desk.look() == "applied"
    assert desk.names() == ["hourly", "late", "morning", "often"]
    assert desk.notes() == ["matins.yaml hot-reloaded: +4 -0 ~0 task(s)"]
    assert [agent.name for agent in desk.bench.agents.list()] == ["scout"]
    assert desk.bench.get("morning").file.line == 5
    again = desk.bench.file.plan()
    assert (again.state, again.note, again.same, again.entries) == ("same", "+0 -0 ~0", 6, [])


def test_b10_settings_of_the_file_without_effect_are_said(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """B10: in the plan and in the log; what the defaults of a file say is no slip of one schedule"""
    desk.write("defaults: {retry_delay: 30s}\nschedules:\n  a: {when: 0 9 * * *, job: work, anchor: start}\n"
               "  b: {when: 5m, job: work, anchor: start}\n")  # fmt: skip
    note = '"anchor" has no effect: it needs an interval, such as every 5 minutes.'
    assert {entry.name: entry.notes for entry in desk.bench.file.plan().entries} == {"a": [note], "b": []}
    assert desk.look() == "applied"
    assert [record.message for record in caplog.records if "no effect" in record.message] == [
        f"matins.yaml:3 a: {note}"
    ]


def test_b10_a_limit_of_the_file_without_its_agent_is_said(desk: Desk) -> None:
    """B10: an agent that the file or the store has is known"""
    desk.bench.agents.set("kept", runner="demo")
    desk.write("agents: {scout: {runner: demo}}\nlimits: {agent:scout: 1, agent:kept: 1, agent:scuot: 1, global: 4}\n")
    found = {entry.name: entry.notes for entry in desk.bench.file.plan().entries if entry.kind == "limit"}
    note = 'The limit has no effect: there is no agent "scuot". Did you mean "scout"?'
    assert found == {"agent:scout": [], "agent:kept": [], "agent:scuot": [note], "global": []}


def test_c7_a_file_that_says_the_same_changes_nothing(desk: Desk, rows: Callable[[], list[Any]]) -> None:
    """C7: by digest of what it says, not of how it is written"""
    desk.look()
    before = [table for table in rows() if table][:4]
    desk.write("# moved\n\n" + FILE.replace('{when: "0 * * * *", job: work', "{job: work, when: 0 * * * *"))
    assert desk.look() == "applied"
    assert [table for table in rows() if table][:4] == before
    assert desk.notes() == ["matins.yaml hot-reloaded: +4 -0 ~0 task(s)"]
    assert desk.bench.get("morning").file.line == 7


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("when: sometimes", "schedules.often.when"),
        ("when: 5m\n    whn: 6m", 'Did you mean "when"?'),
        ("when: 5m\n    when: 6m", "twice"),
        ("when: [", "not YAML"),
    ],
)
def test_c7_an_invalid_file_changes_nothing(
    desk: Desk, rows: Callable[[], list[Any]], caplog: pytest.LogCaptureFixture, bad: str, said: str
) -> None:
    """C7: and says line, column and fix, once for each content"""
    desk.look()
    before = rows()
    desk.change(("when: 5m", bad), ("prompt: Good morning", "prompt: Good day"))
    for _ in range(3):
        assert desk.look() == "invalid"
    assert rows() == before
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1
    assert said in desk.file.state.message
    assert "line 1" in desk.file.state.message
    with pytest.raises(InvalidFile) as refused:
        desk.bench.file.apply()
    assert refused.value.problems
    desk.write(FILE)
    assert desk.look() == "applied"


def test_c7_half_may_go_without_asking(desk: Desk) -> None:
    """C7: more than half waits, half does not"""
    desk.look()
    desk.change(('  hourly: {when: "0 * * * *", job: work, quiet_hours: nights}\n', ""))
    desk.change(('  late: {when: "30 23 * * *", job: work}\n', "  # late is no more\n"))
    assert desk.look() == "applied"
    assert desk.names() == ["morning", "often"]


def test_only_what_was_seen_is_applied(desk: Desk) -> None:
    """B3: a digest binds the plan that a person saw"""
    seen = desk.bench.file.plan().digest
    desk.change(("when: 5m", "when: 6m"))
    with pytest.raises(Stale):
        desk.bench.file.apply(digest=seen)
    assert desk.names() == []


def test_what_is_beside_the_file_is_never_touched(desk: Desk) -> None:
    """C7: and a name that exists already is a conflict that names both"""
    desk.bench.add("mine", when="2h", job="work")
    desk.bench.quiet_hours.set("noon", windows=["12:00-13:00"])
    desk.look()
    assert desk.names() == ["hourly", "late", "mine", "morning", "often"]
    desk.change(('  late: {when: "30 23 * * *", job: work}\n', "  mine: {when: 3h, job: work}\n"))
    with pytest.raises(InvalidFile, match=r'line 14, column 3: .*there is a schedule "mine" already, made by owner\.'):
        desk.bench.file.plan()
    desk.change(("  mine: {when: 3h, job: work}\n", '  yours: {when: "30 23 * * *", job: work, quiet_hours: noon}\n'))
    desk.change(("  nights: {", "  noon: {windows: ['12:00-14:00']}\n  nights: {"))
    with pytest.raises(InvalidFile, match='there is a quiet hours policy "noon" already'):
        desk.bench.file.plan()
    assert desk.bench.get("mine").settings["when"] == "every 2h"


def test_what_others_need_does_not_go_with_the_file(desk: Desk) -> None:
    desk.look()
    desk.bench.add("mine", when="2h", job="work", quiet_hours="nights")
    desk.change((", quiet_hours: nights", ""), ('quiet_hours:\n  nights: {windows: ["22:00-07:00"]}\n', "# none\n"))
    with pytest.raises(Conflict, match=r'drops the quiet hours policy "nights" \(line 16 before\), which mine needs'):
        desk.bench.file.plan()


def test_c7_what_the_file_defines_belongs_to_it(desk: Desk, rows: Callable[[], list[Any]]) -> None:
    """C7: an edit elsewhere is refused with the file's path and line"""
    desk.look()
    before = rows()
    bench = desk.bench
    attempts: list[Callable[[], Any]] = [
        lambda: bench.edit("often", payload=1),
        lambda: bench.delete("often"),
        lambda: bench.acting_as(ADA).edit("often", payload=1),
        lambda: bench.agents.set("scout", runner="shell"),
        lambda: bench.quiet_hours.set("nights", windows=["01:00-02:00"]),
    ]
    for attempt in attempts:
        with pytest.raises(ManagedByFile, match=rf"is managed by {desk.path} \(line \d+\)") as refused:
            attempt()
        assert "write_back" in (refused.value.hint or "")
    with pytest.raises(NotAllowed):
        bench.acting_as(SCOUT).edit("often", payload=1)
    assert rows() == before
    assert bench.delete("nothing") is False


def test_c7_a_pause_by_a_person_outlives_reloads(desk: Desk) -> None:
    """C7, C10: until the file's own setting changes"""
    desk.look()
    desk.bench.pause("often", note="hands off")
    desk.change(("job: work # hard", "job: work\n    payload: 1"))
    desk.look()
    assert (desk.bench.get("often").state, desk.bench.get("often").rev) == ("paused", 2)
    desk.change(("payload: 1", "payload: 1\n    paused: not now"))
    desk.look()
    assert (desk.bench.get("often").state, desk.bench.get("often").rev) == ("paused", 2)
    desk.change(("    paused: not now\n", ""))
    desk.look()
    assert (desk.bench.get("often").state, desk.bench.get("often").rev) == ("active", 2)
    assert iso(desk.bench.get("often").next_run_at) == "2026-03-27T08:05:00Z"


def test_c10_paused_by_the_file_from_the_beginning(desk: Desk) -> None:
    """C10: with its note; a person may let it go on, and no reload pauses it again"""
    desk.change(("job: work # hard", "job: work\n    paused: not yet"))
    desk.look()
    schedule = desk.bench.get("often")
    assert (schedule.state, schedule.note, schedule.paused_by) == ("paused", "not yet", "matins.yaml")
    desk.bench.resume("often")
    desk.change(("paused: not yet", "paused: not yet\n    payload: 2"))
    desk.look()
    assert desk.bench.get("often").state == "active"


def test_runs_in_flight_keep_their_settings(desk: Desk) -> None:
    """V7: and what is due under the old settings is planned under them"""
    desk.look()
    desk.bench.clock.advance_to("2026-03-27T09:30:00Z")
    desk.change(("when: 5m", "when: 1h"))
    desk.look()
    desk.bench.settle()
    assert [run.rev for run in desk.bench.runs.list(schedule="often")] == [1]


def test_a_relative_time_counts_from_when_it_was_said(desk: Desk) -> None:
    """Other settings do not move it; past ones are left out and told."""
    desk.change(("when: 5m", "when: in 2 hours"), ('when: "30 23 * * *"', "when: 2020-01-01T00:00:00Z"))
    assert told(desk.bench.file.plan())[-2:] == ["past schedule late", "added quiet_hours nights"]
    desk.look()
    assert "late" not in desk.names()
    desk.bench.clock.advance(60_000)
    desk.change(("job: work # hard", "job: work\n    payload: 1"))
    desk.look()
    assert desk.cursors()["often"] == (2, "2026-03-27T10:00:00Z")
    desk.bench.run_until("2026-03-27T11:00:00Z")
    assert desk.bench.get("often").state == "completed"
    desk.change(("prompt: Good morning", "prompt: Good day"))
    assert desk.look() == "applied"
    assert desk.bench.get("often").state == "completed"


def test_without_a_file_it_is_said_how_to_name_one(bench: Sandbox, tmp_path: Path) -> None:
    for call in (bench.file.plan, bench.file.apply):
        with pytest.raises(InvalidInput, match="There is no file") as refused:
            call()
        assert "--file" in (refused.value.hint or "")
    bench.watch_file(tmp_path / "nowhere.yaml")
    with pytest.raises(InvalidInput, match="There is no file"):
        bench.file.plan()


def test_stale_edits_are_refused(bench: Sandbox) -> None:
    """`if_rev` says which revision was read."""
    bench.add("s", when="5m", job="work")
    assert bench.edit("s", if_rev=1, payload=1).rev == 2
    with pytest.raises(Stale, match="its revision is 2, not 1"):
        bench.edit("s", if_rev=1, payload=2)
    assert bench.get("s").settings["payload"] == 1


def test_secrets_are_not_in_the_plan(desk: Desk) -> None:
    desk.change(("{runner: demo}", "{runner: demo, environment: {KEY: hunter2, OTHER: env:OTHER}}"))
    assert "hunter2" not in str(desk.bench.file.plan())
    desk.look()
    with desk.bench._store.reading() as transaction:
        assert "hunter2" not in str(transaction.logged(0, 10**9))


@pytest.mark.parametrize("said", ["hunter2", "{KEY=hunter2: x}", "[KEY=hunter2]", "{KEY: [hunter2]}"])
def test_secrets_in_the_wrong_place_are_not_repeated(desk: Desk, said: str) -> None:
    """Whoever may look at the plan sees what is wrong with the file."""
    desk.change(("{runner: demo}", f"{{runner: demo, environment: {said}}}"))
    with pytest.raises(InvalidFile, match="a mapping of names to strings") as refused:
        desk.bench.file.plan()
    assert "hunter2" not in f"{refused.value} {refused.value.value} {refused.value.problems[0].value}"


def test_the_path_of_a_webhook_is_in_the_plan_of_those_who_govern(desk: Desk) -> None:
    """It may hold a key."""
    hook = "webhooks: {chat: {url: https://example.com/PATH, secret: env:HOME}}\nschedules:"
    desk.change(("schedules:", hook))
    assert "https://example.com/PATH" in str(desk.bench.file.plan())
    told = str(desk.bench.acting_as(Principal("viewer", "eve")).file.plan())
    assert ("https://example.com" in told, "PATH" in told) == (True, False)


def test_a_file_that_others_may_write_is_not_used(desk: Desk) -> None:
    """Whoever writes it has commands run."""
    desk.look()
    desk.change(("5m", "6m"))
    desk.path.chmod(0o646)
    assert (desk.look(), "everyone can write to it" in desk.file.state.message) == ("invalid", True)
    with pytest.raises(InvalidInput, match="everyone can write to it"):
        desk.bench.file.apply()
    desk.path.chmod(0o644)
    assert desk.look() == "applied"


@pytest.mark.parametrize(
    ("me", "owner", "mode", "why"),
    [
        (1000, 1000, 0o664, None),
        (1000, 0, 0o644, None),
        (1000, 1000, 0o646, "everyone can write to it"),
        (1000, 1001, 0o644, "it belongs to another user"),
        (0, 1001, 0o644, None),
        (0, 0, 0o1777, "everyone can write to it"),
    ],
)
def test_who_is_a_stranger(me: int, owner: int, mode: int, why: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: me)
    assert other_writers(owner, mode) == why


def test_a_webhooks_secret_is_read_when_something_is_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By reference: where it is not there, the event waits; it is never in the store."""
    secret, sent = new_secret(), []
    hooks = Webhooks(ManualClock())
    door = SimpleNamespace(send=lambda *a, **options: sent.append(options) or SimpleNamespace(status=204))
    monkeypatch.setattr(hooks, "_client_for", lambda lane: door)
    lane: Any = SimpleNamespace(target={"url": "https://example.com", "secret": "env:HOOK_SECRET"})
    letter: Any = SimpleNamespace(cloud_event={"id": "e-1"})
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    missing = hooks(lane, letter)
    assert (missing.verdict, sent) == ("again", [])
    assert "the environment has no HOOK_SECRET" in str(missing.error)
    monkeypatch.setenv("HOOK_SECRET", secret)
    hooks(lane, letter)
    verify(secret, sent[0]["headers"], sent[0]["body"], ManualClock().now_ms() // 1000)
