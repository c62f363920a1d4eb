"""`matins why`, `next`, `preview`, `events`, `stats`, `doctor`."""

from __future__ import annotations

import json
from textwrap import dedent
from typing import Any

import pytest
from cli_user import User

from matins.surfaces.cli.desk import Desk
from matins.testing import Bench


def test_b2_why_at_80_columns(user: User, bench: Bench) -> None:
    """B2: the record of the last slot, and gate by gate what would happen now"""
    user.types("quiet-hours", "set", "morning", "--windows", "08:40-09:30")
    user.types("add", "every day at 9am", "--do", "work", "-n", "s", "--quiet-hours", "morning")
    bench.run_until("2026-03-27T09:05:00Z")
    assert user.says("why", "s") == dedent("""\
        2026-03-27 09:00: Quiet hours "morning" were on until 09:30; it was skipped.

        run     1
        state   ↷ skipped
        reason  quiet hours

        If it were due now:
        GATE         SAYS
        paused       ✓ passes  It is not paused.
        ended        ✓ passes  It has no end.
        quiet hours  ✗ stops   Quiet hours "morning" are on until 09:30; it would be
                               skipped.
        overlap      ✓ passes  No run of it is under way.
        throttle     ✓ passes  It names no provider whose limits hold for it.
        budget       ✓ passes  No budget holds for it.
        capacity     ✓ passes  There is a place for it.
        guard        ? asks    The engine's guard, where it has one, is asked when a run
                               is about to start.
        pre check    ✓ passes  It has no pre-check.
        hook         ✓ passes  No hook is asked.
        approval     ✓ passes  Nobody is asked.
        """)
    found = user.json("why", "s", "--at", "2026-03-28T09:00:00Z")
    assert (found["found"], found["slot"]["verdict"]) == ("to_come", "skipped")
    assert "will be skipped" in user.says("why", "s", "--at", "2026-03-28T09:00:00Z")
    assert "is not an instant" in user.complains("why", "s", "--at", "yesterday")


def test_b2_why_tells_what_checks_and_people_said(user: User, bench: Bench) -> None:
    """B2"""
    check = "echo nothing new; exit 1"
    user.types("add", "every day at 9am", "--do", "work", "-n", "s", "--pre-check", check)
    bench.run_until("2026-03-27T09:05:00Z")
    lines = user.says("why", "s").splitlines()
    assert any(line.startswith("pre_check  ") and line.endswith("nothing new") for line in lines)
    user.types("edit", "s", "--unset", "pre-check", "--approval", "owner_approve")
    user.types("run", "s")
    bench.settle()
    user.types("approve", "1")
    assert "approvals  1 approved (approve by owner)" in user.says("why", "s")


def test_b3_next_of_all(user: User, bench: Bench) -> None:
    """B3: the soonest first"""
    assert user.says("next") == "Nothing is to come. See what there is: matins list\n"
    user.types("add", "every day at 9am", "--do", "work", "-n", "later")
    user.types("add", "every 5 minutes", "--do", "work", "-n", "soon", "--agent", "x")
    user.types("add", "every 1 minute", "--do", "work", "-n", "never")
    user.types("pause", "never")
    assert user.says("next") == dedent("""\
        NEXT           NAME   AGENT  WHEN
        in 5m (08:05)  soon   x      every 5 minutes
        in 1h (09:00)  later  –      every day at 09:00
        """)
    assert [item["name"] for item in user.json("next", "-n", "1")] == ["soon"]
    assert "--after is for a text" in user.complains("next", "--after", "2026-01-01T00:00:00Z")


def test_b3_next_of_a_text(user: User) -> None:
    """B3: with the fields that stay"""
    answer = user.json("next", "every", "weekday", "at", "9am", "-z", "Europe/London", "--count", "2")
    assert answer["fires"][1] == {
        "local": "2026-03-30T09:00:00+01:00",
        "utc": "2026-03-30T08:00:00Z",
        "in_seconds": 3 * 86_400,
        "dst": None,
    }
    assert "Mon 2026-03-30 09:00 BST  2026-03-30 08:00  3d\n" in user.says("next", "0 9 * * 1-5", "-z", "Europe/London")
    assert "did you mean" in user.complains("next", "every wekday at 9am")


def test_b3_preview(user: User, bench: Bench) -> None:
    """B3: what each slot comes to, what a day costs, an edit, a catch-up"""
    user.types("quiet-hours", "set", "night", "--windows", "22:00-07:00")
    user.types("add", "every 12 hours", "--do", "work", "-n", "s", "--set", "anchor=grid", "--quiet-hours", "night")
    user.types("edit", "s", "--when", "at 11am and 11pm every day")
    assert user.says("preview", "s", "--count", "2") == dedent("""\
        every day at 11:00 and 23:00 (UTC)

        SLOT                  IN   WHAT       WHY
        Fri 2026-03-27 11:00  3h   ✓ runs     It runs.
        Fri 2026-03-27 23:00  15h  ↷ skipped  Quiet hours "night" will be on until
                                              07:00; it will be skipped.

        1 runs a day, cost unknown
        """)
    change = user.json("preview", "s", "--when", "every day at noon")
    assert [word["word"] for word in change["words"]] == ["when"]
    assert user.says("preview", "s", "--when", "every day at noon").count("every day at") == 2
    assert bench.get("s").rev == 2
    caught = user.says("preview", "s", "--catch-up-since", "2026-03-25T00:00:00Z")
    assert "↷ missed" in caught


def test_events(user: User, bench: Bench) -> None:
    """S5: the newest last; of a kind, of a schedule, after one"""
    user.types("add", "every day at 9am", "--do", "work", "-n", "s")
    user.types("pause", "s", "--note", "on \x1b[31mholiday")
    bench.clock.advance(5_000)
    user.types("throttles", "set", "anthropic", "2026-03-27T12:00:00Z")
    assert user.says("events") == dedent("""\
        08:00           schedule.created       s: name=s, by=owner, role=owner
        08:00           schedule.paused        s: by=owner, note=on \\x1b[31mholiday
        08:00:05        throttle.activated     provider=anthropic, resets_at=12:00, rea…
        """)
    first, second, _ = user.json("events")
    assert (first["type"], second["data"]["note"]) == ("schedule.created", "on \x1b[31mholiday")
    assert user.json("events", "--type", "schedule.paused") == [second]
    assert [event["type"] for event in user.json("events", "--after", second["id"])] == ["throttle.activated"]
    assert [event["id"] for event in user.json("events", "--schedule", "s")] == [first["id"], second["id"]]
    assert user.says("events", "--type", "run.failed") == "Nothing has happened yet.\n"


def test_following_events(user: User, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """S5: one document a line; Ctrl-C ends it with 130 and nothing lost"""
    user.types("add", "every day at 9am", "--do", "work", "-n", "s")
    happens: list[Any] = [lambda: bench.pause("s"), lambda: bench.resume("s"), None]

    def wait(desk: Desk, seconds: float) -> None:
        next_one = happens.pop(0)
        if next_one is None:
            raise KeyboardInterrupt
        next_one()

    monkeypatch.setattr(Desk, "wait", wait)
    result = user.types("--json", "events", "-f", code=130)
    told = [json.loads(line)["type"] for line in result.stdout.splitlines()]
    assert told == ["schedule.created", "schedule.paused", "schedule.resumed"]


def test_v2_stats(user: User, bench: Bench) -> None:
    """V2: the six figures among them"""
    user.types("add", "every day at 9am", "--do", "fail", "-n", "s")
    user.types("add", "every day at 9am", "--do", "work", "-n", "asks", "--approval", "owner_approve")
    user.types("throttles", "set", "anthropic", "2026-03-27T12:00:00Z")
    user.types("run", "s")
    user.types("run", "asks")
    bench.settle()
    bench.clock.advance(60_000)
    assert user.says("stats") == dedent("""\
        engine     ✓ running
        schedules  2 active, 0 paused, 0 proposed
        running    0
        waiting    0 ready, 1 parked
        approvals  1, the oldest 1m ago
        failures   1 in the last 24 hours
        late by    0ms
        today      $0.00, 0 tokens
        throttles  anthropic until 12:00 (in 3h)
        """)
    assert user.json("stats")["recent_failures"] == 1


def findings(*oks: bool | None) -> list[dict[str, Any]]:
    return [{"what": "clock", "ok": ok, "sentence": "It\x07 ticks", "mend": "timedatectl"} for ok in oks]


@pytest.mark.parametrize(("oks", "code"), [((True, None), 0), ((True, False), 1)])
def test_doctor(user: User, monkeypatch: pytest.MonkeyPatch, oks: tuple[bool | None, ...], code: int) -> None:
    """Exit code 1 when something is wrong; each finding with what mends it"""

    class Door:
        def call(self, use_case: str, /, **arguments: Any) -> Any:
            return findings(*oks)

    monkeypatch.setattr(user.app, "door", lambda **place: Door())
    lines = user.says("doctor", code=code).splitlines()
    assert lines[0] == "✓ ok    clock: It\\x07 ticks"
    assert lines[2] == "        mend it: timedatectl"
    assert user.json("doctor", code=code) == findings(*oks)


def test_a_real_doctor(user: User) -> None:
    assert {finding["what"] for finding in user.json("doctor", code=None)} >= {"clock", "store", "engine"}  # type: ignore[arg-type]
