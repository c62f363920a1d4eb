"""`matins why`, `next`, `preview`, `events`, `stats`, `doctor`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from textwrap import dedent
from typing import Any

import pytest
from cli_user import User

from matins.api.use_case import UseCase
from matins.surfaces.cli.context import CliContext
from matins.testing import Sandbox


def test_b2_why_at_80_columns(user: User, bench: Sandbox) -> None:
    """B2: the record of the last slot, and gate by gate what would happen now"""
    user.types("quiet-hours", "set", "morning", "--windows", "08:40-09:30")
    user.types("add", "every day at 9am", "--job", "work", "-n", "s", "--quiet-hours", "morning")
    bench.run_until("2026-03-27T09:05:00Z")
    said = user.says("why", "s")
    assert said.startswith(
        dedent("""\
        2026-03-27 09:00 UTC: Skipped: quiet hours "morning" were active until 09:30
        UTC.

        run     1
        state   ↷ skipped
        reason  quiet hours

        If it were due now:
        """)
    )
    assert 'quiet hours  ✗ stops   Would be skipped: quiet hours "morning" are active until\n' in said
    assert f"\n{' ' * 23}09:30 UTC.\n" in said
    found = user.json("why", "s", "--at", "2026-03-28T09:00:00Z")
    assert (found["status"], found["slot"]["verdict"]) == ("to_come", "skipped")
    assert "Will be skipped" in user.says("why", "s", "--at", "2026-03-28T09:00:00Z")
    assert "is not an instant" in user.complains("why", "s", "--at", "yesterday")


def test_b2_why_tells_what_checks_and_people_said(user: User, bench: Sandbox) -> None:
    """B2"""
    check = "echo nothing new; exit 1"
    user.types("add", "every day at 9am", "--job", "work", "-n", "s", "--pre-check", check)
    bench.run_until("2026-03-27T09:05:00Z")
    lines = user.says("why", "s").splitlines()
    assert any(line.startswith("pre_check  ") and line.endswith("nothing new") for line in lines)
    user.types("edit", "s", "--unset", "pre-check", "--approval", "owner_approve")
    user.types("run", "s")
    bench.settle()
    user.types("approve", "1")
    assert "approvals  1 approved (approve by owner)" in user.says("why", "s")


def test_b3_next_of_all(user: User, bench: Sandbox) -> None:
    """B3: the soonest first"""
    assert user.says("next") == "No runs are scheduled. List all schedules: matins list\n"
    user.types("add", "every day at 9am", "--job", "work", "-n", "later")
    user.types("add", "every 5 minutes", "--job", "work", "-n", "soon", "--agent", "x")
    user.types("add", "every 1 minute", "--job", "work", "-n", "never")
    user.types("pause", "never")
    assert user.says("next") == dedent("""\
        NEXT RUN       NAME   AGENT  WHEN
        in 5m (08:05)  soon   x      every 5 minutes
        in 1h (09:00)  later  –      every day at 09:00
        """)
    assert [item["name"] for item in user.json("next", "-n", "1")] == ["soon"]
    assert "--after needs a WHEN." in user.complains("next", "--after", "2026-01-01T00:00:00Z")


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
    assert 'id you mean "every weekday at 9am"?' in user.complains("next", "every wekday at 9am")


def test_b3_preview(user: User, bench: Sandbox) -> None:
    """B3: what each slot comes to, what a day costs, an edit, a catch-up"""
    user.types("quiet-hours", "set", "night", "--windows", "22:00-07:00")
    user.types("add", "every 12 hours", "--job", "work", "-n", "s", "--set", "anchor=grid", "--quiet-hours", "night")
    user.types("edit", "s", "--when", "at 11am and 11pm every day")
    assert user.says("preview", "s", "--count", "2") == dedent("""\
        every day at 11:00 and 23:00 (UTC)

        SLOT                      IN   VERDICT    REASON
        Fri 2026-03-27 11:00 UTC  3h   ✓ runs     Runs.
        Fri 2026-03-27 23:00 UTC  15h  ↷ skipped  Will be skipped: quiet hours "night"
                                                  will be active until 07:00 UTC.

        1 run a day, cost unknown
        """)
    change = user.json("preview", "s", "--when", "every day at noon")
    assert [one["setting"] for one in change["settings"]] == ["when"]
    assert user.says("preview", "s", "--when", "every day at noon").count("every day at") == 2
    assert bench.get("s").rev == 2
    caught = user.says("preview", "s", "--catch-up-since", "2026-03-25T00:00:00Z")
    assert "↷ missed" in caught


def test_events(user: User, bench: Sandbox) -> None:
    """S5: the newest last; of a kind, of a schedule, after one"""
    user.types("add", "every day at 9am", "--job", "work", "-n", "s")
    user.types("pause", "s", "--note", "on \x1b[31mholiday")
    bench.clock.advance(5_000)
    user.types("throttles", "set", "anthropic", "--resets-at", "2026-03-27T12:00:00Z")
    assert user.says("events") == dedent("""\
        08:00           schedule.created       s: name=s, by=owner, role=owner
        08:00           schedule.paused        s: by=owner, note=on \\x1b[31mholiday
        08:00:05        throttle.set           provider=anthropic, resets_at=12:00, rea…
        """)
    first, second, _ = user.json("events")
    assert (first["type"], second["data"]["note"]) == ("schedule.created", "on \x1b[31mholiday")
    assert user.json("events", "--type", "schedule.paused") == [second]
    assert [event["type"] for event in user.json("events", "--after", second["id"])] == ["throttle.set"]
    assert [event["id"] for event in user.json("events", "--schedule", "s")] == [first["id"], second["id"]]
    assert user.says("events", "--type", "run.failed") == "No events.\n"


def test_following_events(user: User, bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """S5: one document a line; Ctrl-C ends it with 130 and nothing lost"""
    user.types("add", "every day at 9am", "--job", "work", "-n", "s")
    happens: list[Any] = [lambda: bench.pause("s"), lambda: bench.resume("s"), None]

    def wait(context: CliContext, seconds: float) -> None:
        next_one = happens.pop(0)
        if next_one is None:
            raise KeyboardInterrupt
        next_one()

    monkeypatch.setattr(CliContext, "wait", wait)
    result = user.types("--json", "events", "-f", code=130)
    told = [json.loads(line)["type"] for line in result.stdout.splitlines()]
    assert told == ["schedule.created", "schedule.paused", "schedule.resumed"]


def findings(*oks: bool | None) -> list[dict[str, Any]]:
    return [{"what": "clock", "ok": ok, "sentence": "It\x07 ticks", "fix": "timedatectl"} for ok in oks]


@pytest.mark.parametrize(("oks", "code"), [((True, None), 0), ((True, False), 1)])
def test_doctor(user: User, monkeypatch: pytest.MonkeyPatch, oks: tuple[bool | None, ...], code: int) -> None:
    """Exit code 1 when something is wrong; each finding with its fix"""

    class Findings:
        def document(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
            return findings(*oks)

    monkeypatch.setattr(user.app, "transport", lambda **location: Findings())
    lines = user.says("doctor", code=code).splitlines()
    assert lines[0] == "✓ ok     clock: It\\x07 ticks"
    assert lines[2] == "         fix: timedatectl"
    assert user.json("doctor", code=code) == findings(*oks)


def test_a_real_doctor(user: User) -> None:
    assert {finding["what"] for finding in user.json("doctor", code=None)} >= {"clock", "store", "engine"}  # type: ignore[arg-type]
