"""What an agent schedules is a proposal: nothing of it happens until a person has looked at it. Row B7."""

from __future__ import annotations

from typing import Any

import pytest
from security_cast import ADA, ROVER, SCOUT, Watched, at, propose
from security_rows import everything

from matins.errors import Conflict, NotAllowed, NotFound
from matins.model.access import Principal

PLAIN = {"when": "5 * * * *", "job": "work"}


# -- pending


def test_nothing_fires_while_it_is_pending(bench: Watched) -> None:
    """B7: planted at eight, and at ten still nothing has run, nor been recorded as missed."""
    made = bench.acting_as(SCOUT).add("s", **PLAIN, payload="planted")
    assert (made.state, made.due_at) == ("pending", None)
    bench.run_until(at("10:00"))
    assert (bench.ran, bench.runs.list(schedule="s")) == ([], [])
    bench.approvals.approve(bench.asked().id)
    bench.run_until(at("10:06"))
    assert bench.ran == [("s", "planted")]


@pytest.mark.parametrize("who", [SCOUT, ADA, Principal("owner", "owner")], ids=str)
def test_nobody_starts_it_by_hand_while_it_is_pending(bench: Watched, who: Principal) -> None:
    """B7: approve it first, the owner too."""
    bench.acting_as(SCOUT).add("s", **PLAIN)
    before = everything(bench)
    with pytest.raises(Conflict, match="pending"):
        bench.acting_as(who).run("s")
    with pytest.raises(Conflict, match="pending"):
        bench.acting_as(who).resume("s")
    assert everything(bench) == before


def test_a_pause_is_no_way_out_of_pending(bench: Watched) -> None:
    """B7: paused and resumed it would be active."""
    agent = bench.acting_as(SCOUT)
    agent.add("s", **PLAIN)
    for act in (agent.pause, agent.resume, bench.pause, bench.resume):
        with pytest.raises(Conflict, match="pending"):
            act("s")
    assert bench.get("s").state == "pending"


def test_an_agent_does_not_approve_its_own(bench: Watched) -> None:
    """B7: nor another's, nor through the operator that does not govern."""
    bench.acting_as(SCOUT).add("s", **PLAIN)
    for principal in (SCOUT, ROVER, ADA):
        with pytest.raises(NotAllowed):
            bench.acting_as(principal).approvals.approve(bench.asked().id)
    bench.run_until(at("09:00"))
    assert bench.ran == []


def test_no(bench: Watched) -> None:
    """B7: rejected stays rejected, by hand too; its maker may ask again with other words, or take it away."""
    agent = bench.acting_as(SCOUT)
    agent.add("s", **PLAIN, payload="evil")
    bench.approvals.deny(bench.asked().id)
    assert bench.get("s").state == "rejected"
    for act in (agent.run, agent.resume, bench.run, bench.resume):
        with pytest.raises(Conflict, match="rejected"):
            act("s")
    agent.edit("s", payload="good")
    assert bench.get("s").state == "pending"
    assert bench.asked().request["payload"] == "good"
    bench.approvals.approve(bench.asked().id)
    bench.run_until(at("08:06"))
    assert bench.ran == [("s", "good")]
    assert agent.delete("s")


def test_nobody_looks_at_it(bench: Watched) -> None:
    """B7: a proposal expires into a rejection; a late yes is refused."""
    agent = bench.acting_as(SCOUT)
    agent.add("s", **PLAIN)
    number = bench.asked().id
    bench.run_until("2026-04-03T08:00:00Z")
    assert (bench.get("s").state, bench.get("s").note) == ("rejected", "the request expired without an answer")
    with pytest.raises(Conflict, match="expired"):
        bench.approvals.approve(number)
    bench.run_until("2026-04-04T00:00:00Z")
    assert bench.ran == []
    agent.edit("s", payload="again")
    bench.approvals.approve(bench.asked().id)
    bench.run_until("2026-04-04T00:06:00Z")
    assert bench.ran == [("s", "again")]


def test_how_long_a_proposal_waits_is_the_owners_rule(bench: Watched) -> None:
    bench.agent_rules.set(approval_timeout="1h")
    bench.acting_as(SCOUT).add("s", **PLAIN, approval_timeout="30d")
    bench.run_until(at("08:59:59"))
    assert bench.get("s").state == "pending"
    bench.run_until(at("09:00"))
    assert bench.get("s").state == "rejected"


def test_a_one_shot_that_was_approved_late_runs_late(bench: Watched) -> None:
    """B7: within its grace; and the owner's edit does not make it forget its time."""
    for name in ("a", "b"):
        bench.acting_as(SCOUT).add(name, when="in 10m", job="work")
    bench.run_until(at("08:30"))
    bench.edit("b", payload="edited")
    for name in ("a", "b"):
        bench.approvals.approve(bench.asked(name).id)
    bench.settle()
    assert bench.ran == [("a", None), ("b", "edited")]


# -- an edit


def test_the_owner_edits_a_proposal(bench: Watched) -> None:
    """B7: another digest; the old question is void, and the answer to it too."""
    bench.acting_as(SCOUT).add("s", **PLAIN, payload="evil")
    old = bench.asked()
    bench.edit("s", payload="good")
    new = bench.asked()
    assert (new.digest != old.digest, new.rev, new.request["payload"]) == (True, 2, "good")
    with pytest.raises(Conflict, match="void"):
        bench.approvals.approve(old.id)
    assert bench.get("s").state == "pending"
    bench.approvals.approve(new.id)
    bench.run_until(at("08:06"))
    assert bench.ran == [("s", "good")]


def test_bait_and_switch_while_it_is_looked_at(bench: Watched) -> None:
    """B7: the agent edits between the owner's look and the owner's yes."""
    agent = bench.acting_as(SCOUT)
    agent.add("s", **PLAIN, payload="good")
    seen = bench.asked()
    agent.edit("s", payload="evil")
    with pytest.raises(Conflict, match="void"):
        bench.approvals.approve(seen.id)
    with pytest.raises(Conflict, match="has changed since"):
        bench.approvals.approve(bench.asked().id, digest=seen.digest)
    bench.run_until(at("09:00"))
    assert (bench.ran, bench.get("s").state) == ([], "pending")


@pytest.mark.parametrize(
    "change", [{"payload": "evil"}, {"when": "*/10 * * * *"}, {"job": "deploy"}, {"retries": 3}], ids=str
)
def test_what_was_approved_and_is_edited_is_pending_again(bench: Watched, change: dict[str, Any]) -> None:
    """B7: nothing fires until somebody has looked at the new words, not even the old ones."""
    agent = propose(bench, payload="good")
    agent.edit("s", **change)
    assert bench.get("s").state == "pending"
    bench.run_until(at("09:30"))
    assert bench.ran == []
    bench.approvals.approve(bench.asked().id)
    bench.run_until(at("10:06"))
    assert bench.ran[0] == ("s", change.get("payload", "good"))


def about_run(bench: Watched) -> Any:
    (found,) = [asked for asked in bench.approvals.list() if asked.kind == "run"]
    return found


def about_schedule(bench: Watched) -> Any:
    (found,) = [asked for asked in bench.approvals.list() if asked.kind == "schedule"]
    return found


@pytest.mark.parametrize("change", [{"approval": "auto"}, {"job": "send_message"}], ids=str)
def test_a_run_that_waits_does_not_slip_through_an_edit(bench: Watched, change: dict[str, Any]) -> None:
    """B7 V7: the run waits for leave; its maker edits the need for leave away. The schedule is pending; the run keeps
    its words and its question."""
    agent = propose(bench, approval="owner_approve", payload="good")
    bench.run_until(at("08:06"))
    assert bench.last().status == "awaiting_approval"
    agent.edit("s", **change, payload="evil")
    bench.run_until(at("08:30"))
    assert bench.ran == []
    bench.approvals.approve(about_schedule(bench).id)
    bench.settle()
    assert bench.ran == [], "the yes was to the schedule"
    asked = about_run(bench)
    assert (asked.request["payload"], "edited" in asked.request) == ("good", True)
    bench.approvals.approve(asked.id)
    bench.settle()
    assert bench.ran == [("s", "good")]


def test_no_run_keeps_words_that_nobody_approved(bench: Watched) -> None:
    """B7 V7: evil words over the run that waits, innocent ones over them for the owner to approve."""
    agent = propose(bench, approval="owner_approve", payload="good")
    bench.run_until(at("08:06"))
    agent.edit("s", approval="auto", payload="evil")
    agent.edit("s", approval="owner_approve", payload="innocent")
    assert about_schedule(bench).request["payload"] == "innocent"
    bench.approvals.approve(about_schedule(bench).id)
    bench.settle()
    assert (bench.ran, about_run(bench).request["payload"]) == ([], "good")
    bench.approvals.approve(about_run(bench).id)
    bench.settle()
    assert bench.ran == [("s", "good")]
    bench.run_until(at("09:06"))
    assert about_run(bench).request["payload"] == "innocent"


def test_leave_for_a_run_counts_only_once_its_schedule_has_leave(bench: Watched) -> None:
    """B7 V7: yes to the run while its schedule is a proposal again starts nothing yet."""
    agent = propose(bench, approval="owner_approve", payload="good")
    bench.run_until(at("08:06"))
    agent.edit("s", payload="evil")
    bench.approvals.approve(about_run(bench).id)
    bench.run_until(at("08:20"))
    assert bench.ran == []
    bench.approvals.approve(about_schedule(bench).id)
    bench.settle()
    assert bench.ran == [("s", "good")]


def test_a_run_that_is_put_off_does_not_start_while_pending(bench: Watched) -> None:
    """B7: it waited for quiet hours to end; by then its schedule is a proposal again."""
    bench.quiet_hours.set("early", windows=["08:00-09:00"], mode="defer")
    agent = propose(bench, quiet_hours="early")
    bench.run_until(at("08:10"))
    assert bench.last().status == "quiet_hours"
    agent.edit("s", payload="evil")
    bench.run_until(at("09:04"))
    assert (bench.ran, bench.last().status) == ([], "paused")


@pytest.mark.parametrize("how", ["denied", "expired"])
def test_no_calls_off_what_waits(bench: Watched, how: str) -> None:
    """B1 B7: a run from when it was approved ends with the rejection, in a record, and does not wait for ever."""
    bench.agent_rules.set(approval_timeout="30m")
    bench.quiet_hours.set("early", windows=["08:00-09:00"], mode="defer")
    agent = propose(bench, quiet_hours="early")
    bench.run_until(at("08:10"))
    agent.edit("s", payload="evil")
    if how == "denied":
        bench.approvals.deny(bench.asked().id)
    bench.run_until(at("10:00"))
    assert (bench.ran, bench.get("s").state) == ([], "rejected")
    assert [(run.status, run.reason) for run in bench.runs.list(schedule="s")] == [("cancelled", "schedule_rejected")]


def test_a_check_under_way_does_not_start_it_while_pending(bench: Watched) -> None:
    """B7: it is edited between the command's yes and the start."""
    agent = propose(bench, pre_check="true", payload="good")
    bench.clock.advance_to(at("08:05"))
    bench.engine.turn()
    assert bench.last().status == "checking"
    agent.edit("s", payload="evil")
    bench.run_until(at("08:30"))
    assert (bench.ran, bench.last().status) == ([], "paused")


# -- only its own


def test_an_agent_schedules_only_itself(bench: Watched) -> None:
    """B7: an injected prompt does not wake somebody else."""
    before = everything(bench)
    with pytest.raises(NotAllowed, match="rover"):
        bench.acting_as(SCOUT).add("s", **PLAIN, agent="rover")
    with pytest.raises(NotAllowed):
        bench.acting_as(SCOUT).add_many([{"name": "mine", **PLAIN}, {"name": "theirs", **PLAIN, "agent": "rover"}])
    assert everything(bench) == before
    assert bench.acting_as(SCOUT).add("s", **PLAIN, agent="scout").agent == "scout"
    assert bench.acting_as(SCOUT).add("t", **PLAIN).agent == "scout"


@pytest.mark.parametrize("maker", ["owner", "operator", "rover"])
def test_an_agent_has_no_hand_in_what_others_made(bench: Watched, maker: str) -> None:
    """B7: even where the schedule wakes that very agent."""
    if maker == "rover":
        propose(bench, agent=ROVER, approval="owner_approve")
    else:
        bench.acting_as(ADA if maker == "operator" else Principal("owner", "owner")).add("s", **PLAIN, agent="scout")
        bench.edit("s", approval="owner_approve")
    bench.run_until(at("08:06"))
    agent, run = bench.acting_as(SCOUT), bench.last()
    before = everything(bench)
    for act in (agent.edit, agent.pause, agent.resume, agent.delete, agent.run):
        with pytest.raises(NotAllowed, match="not made by scout"):
            act("s")
    with pytest.raises(NotAllowed, match="not made by scout"):
        agent.runs.cancel(run.id)
    assert everything(bench) == before


def test_an_agent_cannot_take_a_name_that_is_somebody_elses(bench: Watched) -> None:
    """B7: names are per agent; a shadow does not replace what people made, nor answer to its name."""
    bench.add("s", **PLAIN, agent="scout", payload="theirs")
    with pytest.raises(Conflict, match="already"):
        bench.acting_as(SCOUT).add("s", **PLAIN)
    assert bench.get("s").settings["payload"] == "theirs"


def test_what_is_gone_is_gone(bench: Watched) -> None:
    """B7: its maker removes a proposal: the question goes with it."""
    agent = bench.acting_as(SCOUT)
    agent.add("s", **PLAIN)
    number = bench.asked().id
    assert agent.delete("s")
    with pytest.raises(Conflict, match="void"):
        bench.approvals.approve(number)
    with pytest.raises(NotFound):
        agent.run("s")
    bench.run_until(at("09:00"))
    assert bench.ran == []


# -- what stopped it


@pytest.mark.parametrize("by", ["owner", "operator", "failures", "budget"])
def test_an_agent_does_not_start_again_what_others_stopped(bench: Watched, by: str) -> None:
    """B7 C10: not by resuming it, nor by pausing it over theirs, by an edit, or by hand."""
    bench.job("fails")(lambda run: 1 / 0)
    bench.job("spends")(lambda run: run.spend("$3"))
    words: dict[str, Any] = {
        "failures": {"job": "fails", "pause_after_failures": 1},
        "budget": {"job": "spends", "max_cost": "$1"},
    }.get(by, {})
    agent = propose(bench, **words)
    if words:
        bench.run_until(at("08:06"))
    else:
        bench.acting_as(ADA if by == "operator" else Principal("owner", "owner")).pause("s", note="stop")
    assert bench.get("s").state == "paused"
    before = everything(bench)
    for act in (agent.resume, agent.pause, agent.edit, agent.run):
        with pytest.raises(NotAllowed, match="was paused by") as caught:
            act("s")
        assert caught.value.hint == "Ask the owner."
    assert everything(bench) == before
    assert agent.delete("s"), "it may always take its own away"


def test_an_agent_resumes_what_it_paused_itself(bench: Watched) -> None:
    agent = propose(bench)
    agent.pause("s")
    assert agent.resume("s").state == "active"
    agent.pause("s")
    bench.pause("s", note="and I mean it")
    with pytest.raises(NotAllowed):
        agent.resume("s")
