"""Answers that come at the same moment: one of them decides. Rows V6, S2."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from security_cast import ADA, BOB, CYN, SCOUT, Open, Watched

from matins.errors import Conflict, InvalidInput, NotAllowed

ROUNDS = 8
WORDS = {
    "when": "5 0 1 1 *",
    "job": "work",
    "overlap": "allow",
    "approval": "owner_approve",
    "approvers": ["ada", "bob", "cyn"],
}


def at_once(*acts: Callable[[], Any]) -> list[Any]:
    """What each gave, or was refused with."""
    together = threading.Barrier(len(acts))
    given: list[Any] = [None] * len(acts)

    def go(place: int, act: Callable[[], Any]) -> None:
        together.wait()
        try:
            given[place] = act()
        except InvalidInput as error:
            given[place] = error

    threads = [threading.Thread(target=go, args=item) for item in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return given


def refusals(given: list[Any]) -> list[InvalidInput]:
    return [one for one in given if isinstance(one, InvalidInput)]


@pytest.fixture
def two(postgres_url: str, open_bench: Open) -> tuple[Watched, Watched]:
    """Two processes, as far as the database can tell."""
    return open_bench(postgres_url), open_bench(postgres_url)


def ask(bench: Watched, number: int) -> str:
    """A run that waits for leave; its question."""
    run = bench.run("s", key=f"round {number}")
    bench.settle()
    (asked,) = [approval for approval in bench.approvals.list() if approval.run_id == run.id]
    return asked.id


def settle(*benches: Watched) -> int:
    """How many runs started, over all of them."""
    for bench in benches:
        bench.settle()
    return sum(len(bench.ran) for bench in benches)


def test_two_yeses_at_once_in_one_process(bench: Watched) -> None:
    """V6: one decides, the other hears that it is decided; it runs once."""
    bench.add("s", **WORDS)
    for number in range(ROUNDS):
        asked = ask(bench, number)
        given = at_once(*(partial(bench.acting_as(who).approvals.approve, asked) for who in (ADA, BOB, CYN)))
        assert len(refusals(given)) == 2
        assert all(isinstance(error, Conflict) for error in refusals(given))
        assert settle(bench) == number + 1
    assert len(bench.told("approval.approved")) == ROUNDS


def test_two_yeses_at_once_in_two_processes(two: tuple[Watched, Watched]) -> None:
    """V6 S2: and two engines start it once."""
    one, other = two
    one.add("s", **WORDS)
    for number in range(ROUNDS):
        asked = ask(one, number)
        given = at_once(
            partial(one.acting_as(ADA).approvals.approve, asked), partial(other.acting_as(BOB).approvals.approve, asked)
        )
        assert len(refusals(given)) == 1
        at_once(one.settle, other.settle)
        assert settle(one, other) == number + 1
    assert len(one.told("approval.approved")) == ROUNDS
    assert set(one.states()) == {"used"}


def test_yes_and_no_at_once(two: tuple[Watched, Watched]) -> None:
    """V6: whoever was first is right, and the run does what the record says."""
    one, other = two
    one.add("s", **{**WORDS, "approvers": None})
    for number in range(ROUNDS):
        asked = ask(one, number)
        before = settle(one, other)
        given = at_once(partial(one.approvals.approve, asked), partial(other.approvals.deny, asked))
        assert len(refusals(given)) == 1
        started = settle(one, other) - before
        assert one.approval(asked).state == ("used" if started else "denied")


def test_the_last_two_votes_at_once(two: tuple[Watched, Watched]) -> None:
    """V6: two of three, both needed voices at the same moment: neither is lost."""
    one, other = two
    one.add("s", **WORDS, approvals_required=2)
    for number in range(ROUNDS):
        asked = ask(one, number)
        given = at_once(
            partial(one.acting_as(ADA).approvals.approve, asked), partial(other.acting_as(BOB).approvals.approve, asked)
        )
        assert refusals(given) == []
        assert settle(one, other) == number + 1


def test_yes_and_an_edit_at_once(two: tuple[Watched, Watched]) -> None:
    """V6 V7: either way the run that waits is the one that was shown; the watch of the bench sees to it."""
    one, other = two
    one.add("s", **WORDS, payload=-1)
    for number in range(ROUNDS):
        asked = ask(one, number)
        digest = one.approval(asked).digest
        at_once(
            partial(one.acting_as(ADA).approvals.approve, asked, digest=digest),
            partial(other.edit, "s", payload=number),
        )
        settle(one, other)
        assert one.approval(asked).state == "used"
        assert one.approvals.list() == []
    assert sorted(payload for bench in two for _, payload in bench.ran) == list(range(-1, ROUNDS - 1))


def test_yes_and_a_cancel_at_once(two: tuple[Watched, Watched]) -> None:
    """V6: a cancelled run does not start, however near the leave was."""
    one, other = two
    one.add("s", **WORDS)
    for number in range(ROUNDS):
        asked = ask(one, number)
        run_id = one.approval(asked).run_id
        assert run_id is not None
        at_once(partial(one.acting_as(ADA).approvals.approve, asked), partial(other.runs.cancel, run_id))
        settle(one, other)
        assert one.runs.get(run_id).status == "cancelled"
        assert one.approval(asked).state == "void"
    assert settle(one, other) == 0


def test_yes_in_the_moment_in_which_time_is_up(two: tuple[Watched, Watched]) -> None:
    """V6: the question is answered or expired, and the run agrees."""
    one, other = two
    one.add("s", **WORDS, approval_timeout="10m")
    for number in range(ROUNDS):
        asked = ask(one, number)
        before = settle(one, other)
        run_id = one.approval(asked).run_id
        assert run_id is not None
        one.clock.advance(600_000)
        at_once(partial(one.acting_as(ADA).approvals.approve, asked), other.settle)
        assert settle(one, other) == before
        assert one.approval(asked).state == "expired"
        assert one.runs.get(run_id).status == "expired"


def test_two_at_once_do_not_both_find_room_under_the_quota(two: tuple[Watched, Watched]) -> None:
    """B7: the cap holds across processes."""
    one, other = two
    one.agent_rules.set(max_schedules=1)
    for number in range(ROUNDS * 2):
        given = at_once(
            partial(one.acting_as(SCOUT).add, f"a{number}", when="every 1h", job="work"),
            partial(other.acting_as(SCOUT).add, f"b{number}", when="every 1h", job="work"),
        )
        (error,) = refusals(given)
        assert isinstance(error, NotAllowed)
        (made,) = one.list(select="agent=scout")
        one.delete(made.name)
