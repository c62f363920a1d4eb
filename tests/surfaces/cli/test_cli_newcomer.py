"""What somebody types who has never seen it: instants as they come, names for numbers, words in the wrong place."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from cli_user import User

from matins.testing import Sandbox


@pytest.fixture
def scheduled(user: User) -> User:
    user.types("add", "every day at 9am", "--job", "work", "-n", "s")
    return user


@pytest.mark.parametrize(
    ("until", "local"),
    [
        ("2h", "12:00 (in 2h)"),
        ("1d12h", "Sat 22:00 (in 36h)"),
        ("90m", "11:30 (in 1h)"),
        ("2026-03-27T18:00", "18:00 (in 8h)"),
        ("2026-03-27 18:00", "18:00 (in 8h)"),
        ("2026-03-27T18:00:00Z", "20:00 (in 10h)"),
    ],
)
def test_c10_until_is_said_as_people_say_it(
    scheduled: User, monkeypatch: pytest.MonkeyPatch, until: str, local: str
) -> None:
    """C10: a length from now, or the reader's own clock"""
    monkeypatch.setenv("TZ", "Africa/Johannesburg")
    time.tzset()
    assert scheduled.says("pause", "s", "--until", until) == f"Paused s until {local}.\n"


@pytest.mark.parametrize(
    ("until", "hint"),
    [("tomorrow", "2h, 2026-12-31T18:00 for your own clock"), ("", "2h, "), ("2026-12-31", "2026-12-31T09:00")],
)
def test_what_is_no_instant_is_told_with_one(scheduled: User, until: str, hint: str) -> None:
    said = scheduled.complains("pause", "s", "--until", until)
    assert f'"{until}" is not an instant' in said
    assert hint in said


def test_an_instant_that_is_past_or_a_length_where_none_fits(scheduled: User) -> None:
    said = scheduled.complains("pause", "s", "--until", "2026-03-01T00:00")
    assert said == 'Error: "until" is in the past.\nHint: Give a time in the future.\n'
    assert '"2h" is not an instant' in scheduled.complains("why", "s", "--at", "2h")


def test_other_places_for_instants(scheduled: User) -> None:
    """The same words everywhere"""
    throttled = scheduled.says("throttles", "set", "anthropic", "--resets-at", "2h")
    assert throttled == "Set the throttle anthropic: resets at 10:00 (in 2h)\n"
    assert scheduled.json("tokens", "create", "ci", "--expires", "30d")["expires_at"] == "2026-04-26T08:00:00Z"
    assert scheduled.json("why", "s", "--at", "2026-03-28T09:00")["status"] == "to_come"
    assert "1 slot since 2026-03-26 08:00" in scheduled.says("preview", "s", "--catch-up-since", "2026-03-26T08:00")


@pytest.mark.parametrize(
    ("words", "says", "hint"),
    [
        (["cancel", "s"], '"s" is not the number of a run', "matins runs"),
        (["runs", "show", "s"], '"s" is not the number of a run', "matins runs"),
        (["approve", "s"], '"s" is not the number of an approval', "matins approvals"),
        (["runs", "show", "77"], "There is no run 77", "List what there is: matins runs\n"),
        (["approve", "77"], "There is no approval 77", "List what there is: matins approvals\n"),
        (
            ["add", "every", "day", "at", "9am"],
            "two arguments, not more: every day at 9am",
            'matins add "every weekday at 9am"',
        ),
        (["add", "5m", "-a", "cluade", "x"], 'There is no agent "cluade"', 'Did you mean "claude"?'),
        (["add", "5m", "-a", "scuot", "x"], 'There is no agent "scuot"', 'Did you mean "scout"?'),
        (["add", "5m", "-a", "xyzzy", "x"], 'There is no agent "xyzzy"', "matins agents set xyzzy --runner claude"),
        (["budgets", "set", "daily", "--max-cost", "$5"], 'A budget needs "period"', "--period day\n"),
        (["agents", "set", "x"], 'An agent needs "runner"', "--runner claude"),
        (["add", "5m", "--job", "work", "--max-cost", "5 EUR"], "EUR", "matins rates set EUR 1.10"),
        (
            ["agents", "set", "x", "--runner", "shell", "--command", "echo 'x"],
            "No closing quotation",
            "Close the quotes.",
        ),
    ],
)
def test_errors_say_what_to_type(scheduled: User, words: list[str], says: str, hint: str) -> None:
    scheduled.types("agents", "set", "scout", "--runner", "demo")
    said = scheduled.complains(*words)
    assert says in said
    assert hint in said.partition("Hint: ")[2]


def test_a_command_as_one_types_it(user: User) -> None:
    """Split as a shell would, or JSON as it is"""
    user.types("agents", "set", "a", "--runner", "shell", "--command", "sh -c 'echo hi'")
    user.types("agents", "set", "b", "--runner", "shell", "--command", '["sh", "-c", "echo hi"]')
    assert user.json("agents", "show", "a")["command"] == ["sh", "-c", "echo hi"]
    assert user.json("agents", "show", "b")["command"] == ["sh", "-c", "echo hi"]


def test_a_token_is_not_revoked_by_its_name(user: User) -> None:
    """And nobody is left to believe that it was"""
    token_id = user.json("tokens", "create", "ci")["id"]
    said = user.complains("tokens", "revoke", "ci")
    assert f"matins tokens revoke {token_id}\n" in said
    assert user.json("tokens")[0]["revoked_at"] is None


def test_logs_of_one_that_never_started(scheduled: User, bench: Sandbox) -> None:
    """Why it did not, where there is something to tell"""
    assert "matins run s\n" in scheduled.complains("logs", "s")
    scheduled.types("edit", "s", "--pre-check", "exit 1")
    bench.run_until("2026-03-27T09:00:00Z")
    assert "matins why s\n" in scheduled.complains("logs", "s")


def test_one_that_does_not_start_says_where_the_reason_is(scheduled: User, bench: Sandbox) -> None:
    """B2: at once, without --wait"""
    scheduled.types("budgets", "set", "tiny", "--max-cost", "$0.10", "--period", "day")
    result = scheduled.types("run", "s", code=6)
    assert result.stdout == "Run 1 of s: ✗ over budget\n"
    assert result.stderr == "To see why: matins why s\n"


def test_names_with_blanks_can_be_pasted(user: User) -> None:
    user.types("add", "every day at 9am", "--job", "work", "-n", "two words")
    assert user.says("pause", "two words") == "Paused two words. To resume: matins resume 'two words'\n"


def test_the_last_run_is_readable_beside_a_long_name(user: User, bench: Sandbox) -> None:
    """P10: at 80 columns, what is least needed gives way"""
    user.types("add", "every day at 9am", "--job", "fail", "-n", "summarise-my-open-pull-requests")
    bench.run_until("2026-03-27T09:00:00Z")
    row = user.says("list").splitlines()[1]
    assert len(row) <= 80
    assert "✗ failed" in row


def test_one_that_is_at_work_is_running(scheduled: User, bench: Sandbox) -> None:
    """P10: in the word that people look for, and while it is being ended"""
    told: list[str] = []

    @bench.job("look")
    def look(run: object) -> None:
        told.append(scheduled.says("runs", "--state", "running"))
        told.append(scheduled.types("cancel", "1").stderr)

    scheduled.types("edit", "s", "--job", "look")
    scheduled.types("run", "s")
    assert scheduled.says("runs", "--state", "running") == "No run matches.\n"
    bench.settle()
    assert "1    s         manual now  ▸ running" in told[0]
    assert told[1] == "The run is being stopped. Show it: matins runs show 1\n"


def test_a_folder_counts_from_where_it_is_typed(user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    monkeypatch.chdir(tmp_path)
    for typed, kept in {"site": f"{tmp_path}/site", ".": str(tmp_path), "~/site": "~/site", "/srv": "/srv"}.items():
        assert user.json("agents", "set", "a", "--runner", "demo", "--workdir", typed)["workdir"] == kept
    remote = user.json("--url", "http://elsewhere", "agents", "set", "a", "--runner", "demo", "--workdir", "site")
    assert remote["workdir"] == "site"


@pytest.mark.parametrize(
    ("when", "told"),
    [
        ("every day at 9am", True),
        ("tomorrow at 9am", True),
        ("in 2 hours", False),
        ("every 5 minutes", False),
        ("2100-01-01T09:00:00+01:00", False),
        ("every day at 9am Europe/London", False),
        ("DTSTART;TZID=Asia/Tokyo:20270101T090000\nRRULE:FREQ=DAILY", False),
    ],
)
def test_s6_times_are_on_the_clock_of_whoever_types(user: User, when: str, told: bool) -> None:
    """S6, B10: the caller's zone, by its name, in the schedule, and said; a text with a zone keeps it"""
    user.app.zone = "Europe/Berlin"
    added = user.types("add", when, "--agent", "demo", "-n", "s", "Say good morning")
    assert ("The times are in Europe/Berlin, your time zone." in added.stderr) is told
    zone = user.json("show", "s")["timezone"]
    assert zone == {"every day at 9am Europe/London": "Europe/London"}.get(when, zone)
    assert (zone == "Europe/Berlin") is (told or when in ("in 2 hours", "every 5 minutes"))


def test_s6_local_is_the_callers_and_not_the_daemons(user: User) -> None:
    """S6: with --url, too; `next` and missions as `add`"""
    user.app.zone = "Asia/Tokyo"
    for words in (["edit", "s", "-z", "local"], ["quiet-hours", "set", "q", "--windows", "22:00-07:00", "-z", "local"]):
        user.types("add", "every day at 9am", "--job", "work", "-n", "s", code=None)
        assert user.types(*words).exit_code == 0
        assert user.app.calls[-1][1]["timezone"] == "Asia/Tokyo"
    assert user.json("next", "every day at 9am")["timezone"] == "Asia/Tokyo"
    assert user.json("next", "every day at 9am UTC")["timezone"] == "UTC"
    user.types("missions", "make", "m", "--when", "0 2 * * *", "--step", "Build @demo: Build")
    assert user.json("show", "m")["timezone"] == "Asia/Tokyo"


def test_s6_an_edit_of_the_time_may_name_another_zone(user: User) -> None:
    """S6: the text wins over the zone that was there; two zones are a contradiction"""
    user.types("add", "every day at 9am", "--job", "work", "-n", "s")
    user.types("edit", "s", "--when", "every day at 8am New York time")
    assert user.json("show", "s")["timezone"] == "America/New_York"
    said = user.complains("edit", "s", "--when", "every day at 8am UTC", "--timezone", "Asia/Tokyo")
    assert said.startswith("Error: The text is in UTC, but the schedule is in Asia/Tokyo.")
