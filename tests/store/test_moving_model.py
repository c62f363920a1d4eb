"""A model of the move: two commands that may be killed anywhere, an engine on each store, and statements of a killed
command that reach the target later. At no moment may both stores fire, and each quiet state can be finished."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import pytest

ENDED, LOCKED, MARKED, COPIED, MOVED, DONE, GIVING_UP, DROPPED = range(8)
FINISHING = ("lock", "mark", "seen", "copy", "copied", "moved", "charge", "done", "end", "abort", "drop", "unmark")


class State(NamedTuple):
    source: tuple[str, int] | None = None
    target: tuple[str, int] = ("empty", 0)
    given_up: frozenset[int] = frozenset()
    """Tokens that the target remembers."""
    commands: tuple[tuple[int, int], ...] = ((ENDED, 0), (ENDED, 0))
    """Where each command is, and the token of its move."""
    lock: str = ""
    engines: tuple[bool, bool] = (False, False)
    starts: int = 0
    token: int = 1
    late: tuple[tuple[str, int], ...] = ()
    """Statements of killed commands that may still reach the target."""

    @property
    def in_charge(self) -> bool:
        return self.target[0] == "live"


def applied(state: State, statement: tuple[str, int], without: str) -> State:
    """The target after one of its transactions, each conditional on what is there."""
    what, token = statement
    remembered = token in state.given_up and without != "remembering"
    if what == "copy" and not state.in_charge and not remembered:
        return state._replace(target=("copy", token))
    if what == "charge" and (state.target == ("copy", token) or without == "a condition"):
        return state._replace(target=("live", token))
    if what == "drop" and state.target != ("live", token):
        empty = ("empty", 0) if state.target == ("copy", token) else state.target
        return state._replace(target=empty, given_up=state.given_up | {token})
    return state


def steps(state: State, without: str) -> Iterator[tuple[str, State]]:  # noqa: C901 - one table
    source, target, _, commands, lock, engines, starts, token, late = state
    if source is None and not lock and not engines[0]:
        yield "engine", state._replace(engines=(True, engines[1]), lock="engine")
    if engines[0]:
        yield "engine ends", state._replace(engines=(False, engines[1]), lock="")
    if state.in_charge and not engines[1]:
        yield "engine there", state._replace(engines=(engines[0], True))
    for statement in late:
        rest = tuple(one for one in late if one != statement)
        yield "late", applied(state, statement, without)._replace(late=rest)
    for number, (at, own) in enumerate(commands):

        def go(to: int, of: int = own, number: int = number, **changes: object) -> State:
            now = tuple((to, of) if n == number else one for n, one in enumerate(commands))
            return state._replace(commands=now, **changes)  # type: ignore[arg-type]

        name = f"{number}"
        if at == ENDED:
            if starts < 4 and not lock:
                yield "lock", go(LOCKED, 0, lock=name, starts=starts + 1)
            continue
        yield "kill", go(ENDED, 0, lock="")
        sent = {MARKED: ("copy", own), MOVED: ("charge", own), GIVING_UP: ("drop", own)}.get(at)
        if sent and sent not in late and len(late) < 2:
            yield "kill, sent", go(ENDED, 0, lock="", late=tuple(sorted((*late, sent))))
        if at == LOCKED and source is None:
            yield "mark", go(MARKED, token, source=("moving", token), token=token + 1)
        elif at == LOCKED and source is not None:
            yield "seen", go(MARKED, source[1])
            yield "abort", go(DROPPED if without == "order" else GIVING_UP, source[1])
        elif at == MARKED and target == ("live", own):
            yield "done", go(DONE)
        elif at == MARKED and target == ("copy", own):
            yield "copied", go(COPIED)
        elif at == MARKED:
            after = applied(state, ("copy", own), without)
            ok = after.target == ("copy", own)
            yield "copy", go(COPIED if ok else ENDED, own if ok else 0, target=after.target, lock=lock if ok else "")
        elif at == COPIED:
            yield "moved", go(MOVED, source=("moved", own))
        elif at == MOVED:
            after = applied(state, ("charge", own), without)
            yield "charge", go(DONE if after.target == ("live", own) else MARKED, target=after.target)
        elif at == GIVING_UP:
            after = applied(state, ("drop", own), without)
            if after.in_charge:
                yield "refused", go(ENDED, 0, lock="")
            else:
                yield "drop", go(DROPPED, target=after.target, given_up=after.given_up)
        elif at == DROPPED and without == "order" and source is not None:
            yield "unmark", go(GIVING_UP, source=None)
        elif at == DROPPED:
            yield "unmark", go(ENDED, 0, source=None, lock="")
        elif at == DONE:
            yield "end", go(ENDED, 0, lock="")


def can_finish(state: State, without: str) -> bool:
    """Whether commands that nobody kills bring the move to its end, if need be after giving it up."""
    seen, queue = {state}, deque([state])
    while queue:
        at = queue.popleft()
        if at.in_charge:
            return True
        for name, after in steps(at, without):
            if name in FINISHING and after not in seen:
                seen.add(after)
                queue.append(after)
    return False


def explored(without: str = "") -> tuple[int, int, list[State]]:
    """The number of states, of those in which both stores may fire, and quiet ones whose move cannot be finished."""
    seen, queue, both = {State()}, deque([State()]), 0
    stuck: list[State] = []
    while queue:
        state = queue.popleft()
        both += (state.source is None and state.in_charge) or all(state.engines)
        for _, after in steps(state, without):
            if after not in seen:
                seen.add(after)
                queue.append(after)
        if not state.lock and not state.late and not state.in_charge and state.commands == ((ENDED, 0), (ENDED, 0)):
            stuck += [] if can_finish(state._replace(starts=0), without) else [state]
    return len(seen), both, stuck


def test_both_stores_never_fire_and_each_move_can_be_finished() -> None:
    """B11: in every order of steps, kills, aborts and late statements"""
    states, both, stuck = explored()
    assert (states > 1_000, both, stuck[:1]) == (True, 0, [])


@pytest.mark.parametrize("without", ["remembering", "a condition", "order"])
def test_each_part_of_the_protocol_is_needed(without: str) -> None:
    """What the target remembers, the condition of taking charge, and that the copy goes before the source is free."""
    assert explored(without)[1] > 0
