"""The file edited while schedules fire, and cut off at every byte. Row C7."""

from __future__ import annotations

from pathlib import Path

import every_store
from file_steps import FILE, Desk

from matins.errors import InvalidInput
from matins.testing import Sandbox

in_memory = every_store.in_memory


def test_c7_a_file_cut_off_at_every_byte_changes_nothing(in_memory: Sandbox, tmp_path: Path) -> None:
    """C7: each prefix changes nothing, is refused, or waits, while schedules go on firing"""
    desk = Desk(in_memory, tmp_path / "matins.yaml")
    assert desk.look() == "applied"
    data, states = FILE.encode(), dict.fromkeys(("applied", "invalid", "waits"), 0)
    before = {name: rev for name, (rev, _) in desk.cursors().items()}
    for length in range(len(data)):
        desk.path.write_bytes(data[:length])
        states[desk.look()] += 1
        in_memory.clock.advance(10_000)
        in_memory.settle()
    assert {name: rev for name, (rev, _) in desk.cursors().items()} == before
    assert desk.notes() == ["matins.yaml hot-reloaded: +4 -0 ~0 task(s)"]
    assert states["waits"] > 50
    assert states["invalid"] > 50
    assert states["applied"] >= 1  # without its last line break it says the same
    minutes = len(data) * 10 // 60
    in_memory.assert_ran("often", times=minutes // 5)
    desk.path.write_bytes(data)
    assert desk.look() == "applied"
    assert {name: rev for name, (rev, _) in desk.cursors().items()} == before


def test_c7_a_file_written_piece_by_piece_over_another_is_taken_up_whole(in_memory: Sandbox, tmp_path: Path) -> None:
    """C7: somebody truncates it, and writes other words slowly"""
    desk = Desk(in_memory, tmp_path / "matins.yaml")
    desk.look()
    new = FILE.replace("5m", "10m").replace("Good morning", "Good day").encode()
    applied: list[int] = []
    for length in range(0, len(new) + 1, 7):
        desk.path.write_bytes(new[:length])
        try:
            desk.bench.file.plan()
        except InvalidInput:
            continue
        if desk.bench.file.plan().state == "ready":
            applied.append(length)
    assert all(length > len(new) // 2 for length in applied)  # and the debounce keeps those from being seen
    desk.path.write_bytes(new)
    assert desk.look() == "applied"
    assert desk.notes()[-1] == "matins.yaml hot-reloaded: +0 -0 ~2 task(s)"
