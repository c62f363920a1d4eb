"""Runs, approvals, votes, tokens and pruning are bound to the log: what is changed beside it is found."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from security_cast import WAITING, Open, Watched, at

DAY = 86_400_000
FORGED = {
    "a role": ("UPDATE tokens SET role = 'owner'", "Token {} was changed after it was created."),
    "rights": ("UPDATE tokens SET rights = NULL", "Token {} was changed after it was created."),
    "a longer life": ("UPDATE tokens SET expires_at = NULL", "Token {} was changed after it was created."),
    "a revocation": ("UPDATE tokens SET revoked_at = NULL", "Token {} was revoked, and is valid again."),
    "another hash": ("UPDATE tokens SET hash = 'x'", "Token {} was changed after it was created."),
    "a deletion": ("DELETE FROM tokens", "Token {} was deleted."),
}


@pytest.fixture
def bench(tmp_path: Path, open_bench: Open) -> Watched:
    return open_bench(f"sqlite:///{tmp_path}/matins.db", history_days=30)


def forge(bench: Watched, sql: str) -> None:
    connection = apsw.Connection(str(bench.store.path))
    connection.execute(sql)
    connection.close()


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("what", FORGED)
def test_b16_a_token_that_was_changed_in_the_store_is_found(bench: Watched, what: str, pruned: bool) -> None:
    """B16: also when the event of its creation is pruned"""
    made = bench.tokens.create("ci", role="agent", rights=["read"], expires_at=at("09:00"))
    bench.tokens.revoke(made.id)
    if pruned:
        bench.clock.advance(60 * DAY)
        bench.settle()
        bench.add("s", when="5 * * * *", job="work")
        bench.settle()
    assert bench.audit.verify().problems == []
    sql, problem = FORGED[what]
    forge(bench, sql)
    assert bench.audit.verify().problems == [problem.format(made.id)]


def test_b16_a_forged_pruning_is_found(bench: Watched) -> None:
    """B16: whoever deletes the first events, and says that they were pruned"""
    bench.tokens.create("ci")
    bench.add("s", when="5 * * * *", job="work")
    bench.settle()
    assert bench.audit.verify().problems == []
    forge(
        bench,
        "UPDATE writers SET pruned_seq = 1,"
        " pruned_hash = (SELECT hash FROM events WHERE writer = writers.id AND seq = 1);"
        "DELETE FROM events WHERE seq = 1",
    )
    problems = bench.audit.verify().problems
    assert problems
    assert "are gone, and the log does not say so" in problems[0]


# -- approvals and votes

FORGED_APPROVALS = {
    "a request": "UPDATE approvals SET request = '{{}}' WHERE id = {used}",
    "a digest": "UPDATE approvals SET digest = 'x' WHERE id = {used}",
    "approvers": "UPDATE approvals SET approvers = '[\"eve\"]' WHERE id = {used}",
    "the number of votes": "UPDATE approvals SET needed = 0 WHERE id = {used}",
    "a longer life": "UPDATE approvals SET expires_at = expires_at + 1 WHERE id = {used}",
}
FORGED_STATES = {
    "used again": ("UPDATE approvals SET state = 'approved' WHERE id = {used}", "used", "approved"),
    "a denial": ("UPDATE approvals SET state = 'approved' WHERE id = {denied}", "denied", "approved"),
    "a pending one": (
        "UPDATE approvals SET state = 'approved', decided_at = 1 WHERE id = {asked}",
        "asked",
        "approved",
    ),
}
FORGED_VOTES = {
    "a vote": "UPDATE votes SET vote = 'approve' WHERE approval_id = {denied}",
    "a voter's note": "UPDATE votes SET note = 'x' WHERE approval_id = {denied}",
    "what was seen": "UPDATE votes SET digest = 'x' WHERE approval_id = {denied}",
    "no vote": "DELETE FROM votes WHERE approval_id = {denied}",
}


@pytest.fixture
def lived(bench: Watched) -> dict[str, str]:
    """Runs that succeeded and failed, and approvals that were used, denied and asked for."""
    bench.jobs["fails"] = lambda run: 1 / 0
    bench.jobs["tells"] = lambda run: {"told": "all"}
    bench.add("bad", when="5 8 * * *", job="fails", retries=0)
    bench.add("good", when="5 8 * * *", job="tells")
    bench.add("s", **WAITING)
    asked: list[str] = []
    bench.run_until(at("08:06"))
    asked.append(bench.asked().id)
    bench.approvals.approve(asked[-1])
    bench.run_until(at("09:06"))
    asked.append(bench.asked().id)
    bench.approvals.deny(asked[-1], note="no")
    bench.run_until(at("10:06"))
    asked.append(bench.asked().id)
    (failed,) = bench.runs.list(schedule="bad")
    (ran,) = bench.runs.list(schedule="good")
    assert (failed.state, ran.state) == ("failed", "succeeded")
    assert bench.audit.verify().problems == []
    return {"failed": failed.id, "ran": ran.id, "used": asked[0], "denied": asked[1], "asked": asked[2]}


@pytest.mark.parametrize("what", FORGED_APPROVALS)
def test_b16_an_approval_that_was_changed_is_named(bench: Watched, lived: dict[str, str], what: str) -> None:
    """B16 B7"""
    forge(bench, FORGED_APPROVALS[what].format(**lived))
    assert bench.audit.verify().problems == [f"Approval {lived['used']} was changed after it was requested."]


@pytest.mark.parametrize("what", FORGED_STATES)
def test_b16_an_approval_that_nobody_gave_is_named(bench: Watched, lived: dict[str, str], what: str) -> None:
    """B16 B7"""
    sql, whose, state = FORGED_STATES[what]
    forge(bench, sql.format(**lived))
    assert bench.audit.verify().problems == [f"Approval {lived[whose]} is {state}, which the log does not say."]


@pytest.mark.parametrize("what", FORGED_VOTES)
def test_b16_a_vote_that_was_changed_is_named(bench: Watched, lived: dict[str, str], what: str) -> None:
    """B16 B7"""
    forge(bench, FORGED_VOTES[what].format(**lived))
    problem = f"The vote of owner on approval {lived['denied']} was changed or deleted."
    assert bench.audit.verify().problems == [problem]


def test_b16_an_invented_approval_and_vote_are_named(bench: Watched, lived: dict[str, str]) -> None:
    """B16 B7"""
    forge(bench, "INSERT INTO votes SELECT approval_id, 'eve', vote, at, note, digest FROM votes LIMIT 1")
    used = lived["used"]
    assert bench.audit.verify().problems == [f"The vote of eve on approval {used} is not in the log."]
    forge(bench, f"DELETE FROM votes WHERE voter = 'eve'; UPDATE approvals SET id = 999 WHERE id = {lived['asked']}")
    deleted = f"Approval {lived['asked']} was deleted, and the log does not say so."
    assert bench.audit.verify().problems == [deleted, "Approval 999 is not in the log."]


def test_b16_an_invented_token_is_named(bench: Watched) -> None:
    """B16"""
    made = bench.tokens.create("ci", role="agent").id
    forge(bench, "UPDATE tokens SET id = 'abcdefgh'")
    assert bench.audit.verify().problems == [f"Token {made} was deleted.", "Token abcdefgh is not in the log."]


def test_b16_an_old_approval_stays_bound_when_its_event_is_pruned(bench: Watched) -> None:
    """B16: one that waits for longer than history is kept"""
    bench.add("s", **{**WAITING, "when": "5 8 * * *", "approval_timeout": "90d"})
    bench.run_until(at("08:06"))
    asked = bench.asked().id
    bench.clock.advance(60 * DAY)
    bench.settle()
    assert "approval.requested" not in {event.type for event in bench.events.list(limit=1_000)}
    assert bench.audit.verify().problems == []
    forge(bench, f"UPDATE approvals SET needed = 0 WHERE id = {asked}")
    assert bench.audit.verify().problems == [f"Approval {asked} was changed after it was requested."]


def test_b16_seals_are_pruned_with_their_events(bench: Watched) -> None:
    """B16: the rest still holds, and a seal that was noted down long ago is said to be gone"""
    bench.add("s", when="*/5 * * * *", job="work")
    bench.run_until(at("09:00"))
    noted = bench.audit.seal()
    assert noted is not None
    bench.delete("s")
    bench.clock.advance(60 * DAY)
    bench.settle()
    bench.add("t", when="5 * * * *", job="work")
    bench.settle()
    bench.engine.maintenance.seal(bench.clock.now_ms())
    bench.engine.maintenance.prune(bench.clock.now_ms())
    bench.engine.maintenance.seal(bench.clock.now_ms())
    with bench.store.reading() as transaction:
        left = transaction.seals(0, 10**6)
    assert left[0].id > int(noted.partition(":")[0])
    assert bench.audit.verify().problems == []
    number = noted.partition(":")[0]
    gone = f"seal {number}: it was deleted with the old events that it covered; note down a newer one"
    assert bench.audit.verify(seal=noted).problems == [gone]
    forge(bench, f"DELETE FROM seals WHERE id = {left[0].id}")
    assert bench.audit.verify().problems[0].startswith("Seal ")
