"""Reads take turns, and a long one does not stop the others."""

from __future__ import annotations

import threading

from matins.surfaces.http.connections import Turns


def test_one_at_a_time() -> None:
    turns = Turns(needed=True, patience_s=60)
    order: list[str] = []

    def second() -> None:
        with turns.turn():
            order.append("second")

    with turns.turn():
        other = threading.Thread(target=second)
        other.start()
        order.append("first")
    other.join(60)
    assert order == ["first", "second"]


def test_a_long_read_does_not_stop_the_others() -> None:
    turns = Turns(needed=True, patience_s=0.001)
    with turns.turn():
        with turns.turn():
            pass
        assert turns._lock.locked(), "only the one that took it gives it back"
    assert not turns._lock.locked()


def test_reads_that_wait_for_another_machine_go_on_together() -> None:
    turns = Turns(needed=False, patience_s=60)
    with turns.turn(), turns.turn():
        assert not turns._lock.locked()
