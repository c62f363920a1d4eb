"""New time zone data: an engine that starts with them moves the next slots of the zones that changed.

Each engine is a process of its own with a folder of real zone files, in which one zone is what another one is.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from zone_program import Program, data_folder

import postgres_fixtures

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
url = postgres_fixtures.kept_url
CAIRO, NAIROBI = "Africa/Cairo", "Africa/Nairobi"
FRIDAY, SATURDAY = "2026-03-27", "2026-03-28"
NIGHT, NEXT_NIGHT = f"{FRIDAY}T20:00:00Z", f"{SATURDAY}T20:00:00Z"


@pytest.fixture
def plus_2(tmp_path: Path) -> Path:
    return data_folder(tmp_path / "plus2", Africa__Cairo="Etc/GMT-2", Africa__Nairobi="Etc/GMT-3")


@pytest.fixture
def plus_3(tmp_path: Path) -> Path:
    """Cairo is an hour ahead of what it was; Nairobi is as before."""
    return data_folder(tmp_path / "plus3", Africa__Cairo="Etc/GMT-3", Africa__Nairobi="Etc/GMT-3")


def test_h2_new_data_move_the_next_slot_and_say_so(url: str, plus_2: Path, plus_3: Path) -> None:
    """H2 B2: only the zone that changed; nothing is lost or runs twice; event, log, `why` and doctor tell it"""
    with Program(url, f"{FRIDAY}T00:00:00Z", plus_2) as old:
        old.add(name="cairo", when="0 9 * * *", timezone=CAIRO)
        old.add(name="hours", when="*/30 * * * *", timezone=CAIRO)
        old.add(name="nairobi", when="0 9 * * *", timezone=NAIROBI)
        old.add(name="once", when="2026-03-28 09:00", timezone=CAIRO)
        old.add(name="paused", when="0 9 * * *", timezone=CAIRO)
        old.run_until(at=NIGHT)
        assert old.runs(name="cairo") == [f"{FRIDAY}T07:00:00Z succeeded"]
    with Program(url, NIGHT, plus_3) as new:
        new.run_until(at=NIGHT)
        assert new.next(name="cairo") == f"{SATURDAY}T06:00:00Z"
        assert new.next(name="nairobi") == f"{SATURDAY}T06:00:00Z"
        assert new.next(name="once") == f"{SATURDAY}T07:00:00Z", "an instant is an instant"
        assert new.log() == ["The data of time zone Africa/Cairo changed: 2 schedules moved."]
        (told,) = new.events(type="zone.changed")
        assert (told["zone"], told["schedules"]) == (CAIRO, 2)
        assert len(new.events(type="schedule.replanned")) == 2
        moved = (
            "The data of time zone Africa/Cairo changed on 2026-03-27 23:00 +03: the slot was 2026-03-28 10:00 +03, "
            "it is 2026-03-28 09:00 +03 now."
        )
        assert moved in new.why(name="cairo")
        assert moved in new.why(name="cairo", at=f"{SATURDAY}T07:00:00Z")
        assert moved not in new.why(name="cairo", at=f"{FRIDAY}T07:00:00Z")
        assert [line for line in new.doctor() if "changed: 2 schedules moved" in line]
        new.run_until(at=NEXT_NIGHT)
        assert new.runs(name="cairo") == [f"{FRIDAY}T07:00:00Z succeeded", f"{SATURDAY}T06:00:00Z succeeded"]
        slots = [line.split()[0] for line in new.runs(name="hours")]
        assert len(slots) == len(set(slots)) == 88, "every half hour, through the change"
        assert new.problems() == []
    with Program(url, NEXT_NIGHT, plus_3) as again:
        again.run_until(at=NEXT_NIGHT)
        assert again.log() == []
        assert len(again.events(type="zone.changed")) == 1
        assert again.versions() == 2, "one for each zone"


def test_h2_a_slot_that_ran_does_not_run_again_at_its_later_instant(url: str, plus_2: Path, plus_3: Path) -> None:
    """H2 B1: by the new data, the time that ran is still to come"""
    with Program(url, f"{FRIDAY}T00:00:00Z", plus_3) as old:
        old.add(name="cairo", when="0 9 * * *", timezone=CAIRO)
        old.run_until(at=f"{FRIDAY}T06:30:00Z")
        assert old.runs(name="cairo") == [f"{FRIDAY}T06:00:00Z succeeded"]
    with Program(url, f"{FRIDAY}T06:30:00Z", plus_2) as new:
        new.run_until(at=NEXT_NIGHT)
        assert new.runs(name="cairo") == [f"{FRIDAY}T06:00:00Z succeeded", f"{SATURDAY}T07:00:00Z succeeded"]


@pytest.mark.parametrize(("grace", "state"), [("2h", "succeeded"), ("10m", "missed")])
def test_h2_a_slot_whose_new_instant_has_passed_is_late(
    url: str, plus_2: Path, plus_3: Path, grace: str, state: str
) -> None:
    """H2 B1: its grace decides, as for any slot that no engine was there for"""
    with Program(url, f"{FRIDAY}T08:00:00Z", plus_2) as old:
        old.add(name="cairo", when="0 9 * * *", timezone=CAIRO, grace=grace)
        old.run_until(at=NIGHT)
    with Program(url, f"{SATURDAY}T06:30:00Z", plus_3) as new:
        new.run_until(at=NEXT_NIGHT)
        assert new.runs(name="cairo") == [f"{SATURDAY}T06:00:00Z {state}"]


def test_h2_a_schedule_that_is_edited_into_a_zone_moves_too(url: str, plus_2: Path, plus_3: Path) -> None:
    """H2"""
    with Program(url, f"{FRIDAY}T08:00:00Z", plus_2) as old:
        old.add(name="s", when="0 9 * * *")
        old.edit(name="s", timezone=CAIRO)
    with Program(url, NIGHT, plus_3) as new:
        new.run_until(at=NIGHT)
        assert new.next(name="s") == f"{SATURDAY}T06:00:00Z"


def test_h2_engines_with_different_data_do_not_undo_each_other(postgres_url: str, plus_2: Path, plus_3: Path) -> None:
    """H2 S7: one is renewed while the other goes on. What the other plans meanwhile moves when it is renewed, too"""
    with Program(postgres_url, f"{FRIDAY}T00:00:00Z", plus_2) as old:
        old.add(name="a", when="0 9 * * *", timezone=CAIRO)
        old.add(name="b", when="0 12 * * *", timezone=CAIRO)
        old.run_until(at=f"{FRIDAY}T08:00:00Z")
        with Program(postgres_url, f"{FRIDAY}T08:00:00Z", plus_3) as new:
            new.run_until(at=f"{FRIDAY}T08:00:00Z")
            assert new.next(name="a") == f"{SATURDAY}T06:00:00Z"
            assert new.next(name="b") == f"{FRIDAY}T09:00:00Z"
            old.run_until(at=f"{FRIDAY}T09:30:00Z")
            assert new.runs(name="b") == [f"{FRIDAY}T09:00:00Z succeeded"]
            assert new.next(name="a") == f"{SATURDAY}T06:00:00Z", "the old one does not move it back"
            assert new.next(name="b") == f"{FRIDAY}T10:00:00Z", "the old one planned it by its own data"
            assert [line for line in new.doctor() if line == "Engines may have different data of Africa/Cairo"]
            old.kill()
            with Program(postgres_url, f"{FRIDAY}T09:40:00Z", plus_3) as renewed:
                renewed.run_until(at=f"{FRIDAY}T09:40:00Z")
                assert renewed.next(name="a") == f"{SATURDAY}T06:00:00Z"
                assert renewed.next(name="b") == f"{SATURDAY}T09:00:00Z"
                assert [told["schedules"] for told in renewed.events(type="zone.changed")] == [2, 1]


def test_h2_two_engines_that_start_together_move_each_schedule_once(
    postgres_url: str, plus_2: Path, plus_3: Path
) -> None:
    """H2 S7"""
    names = [f"s{nth}" for nth in range(20)]
    with Program(postgres_url, f"{FRIDAY}T08:00:00Z", plus_2) as old:
        for name in names:
            old.add(name=name, when="0 8,9,10 * * *", timezone=CAIRO)
    with Program(postgres_url, NIGHT, plus_3) as one, Program(postgres_url, NIGHT, plus_3) as two:
        one.begin("run_until", at=NIGHT)
        two.begin("run_until", at=NIGHT)
        one.answer()
        two.answer()
        assert len(one.events(type="schedule.replanned")) == len(names)
        assert len(one.events(type="zone.changed")) == 1
        assert {one.next(name=name) for name in names} == {f"{SATURDAY}T05:00:00Z"}
