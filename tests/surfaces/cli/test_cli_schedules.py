"""`matins add`, `list`, `show`, `edit`, `pause`, `resume`, `rm`."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest
from cli_user import User

from matins.engine.schedules import WORDS
from matins.model.principal import Principal
from matins.surfaces.cli.schedules import derived_name
from matins.surfaces.cli.words import SCHEDULE
from matins.testing import Bench


def made(user: User, *words: str) -> str:
    """A schedule of the job `work`."""
    return user.says("add", "every day at 9am", "--do", "work", *words)


def test_b10_add_in_english(user: User) -> None:
    """B10, H12: a name from the prompt, an agent from the name of its runner; what is not the answer goes to stderr"""
    result = user.types("add", "every weekday at 9am", "--agent", "demo", "Summarise my open PRs")
    assert result.stdout == "Added summarise-my-open-prs: every weekday at 09:00 (UTC), next in 1h (09:00)\n"
    assert result.stderr == (
        'Made the agent "demo" with the runner demo. It works in a folder of its own (agents/demo);\n'
        "  elsewhere: matins agents edit demo --workdir DIR\n"
        "Its times are in UTC. On your own clock: matins edit summarise-my-open-prs --timezone local\n"
    )
    agent = user.json("agents", "show", "demo")
    assert (agent["name"], agent["runner"]) == ("demo", "demo")


def test_a_name_that_is_taken_is_numbered(user: User) -> None:
    for name in ("tidy-up", "tidy-up-2", "tidy-up-3"):
        assert user.json("add", "5m", "--agent", "demo", "Tidy up!")["name"] == name
    assert "There is a schedule" in user.complains("add", "5m", "-n", "tidy-up", "--agent", "demo", "x", code=1)


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        ("Summarise my open PRs", "summarise-my-open-prs"),
        ("Look at the seven newest issues and answer each of them", "look-at-the-seven-newest-issues"),
        ("日本 の 朝", "日本-の-朝"),
        ("…!?", "schedule"),
        ("a" * 90, "a" * 40),
    ],
)
def test_names_from_prompts(prompt: str, name: str) -> None:
    assert derived_name(prompt) == name


def test_an_agent_that_cannot_be_made(user: User, bench: Bench) -> None:
    said = user.complains("add", "5m", "--agent", "scout", "Look around")
    assert 'There is no agent "scout"' in said
    assert "matins agents set scout --runner claude" in said
    assert bench.list() == []


def test_what_fails_leaves_nothing(user: User, bench: Bench) -> None:
    """B10: neither the schedule nor the agent that was made for it"""
    assert "wekday" in user.complains("add", "every wekday at 9am", "--agent", "demo", "Look around")
    assert (bench.agents(), bench.list()) == ([], [])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["5m"], "a prompt, or --do JOB"),
        (["5m", "Look around"], "--agent"),
        (["5m", "--do", "work", "--set", "overlap=sometimes"], '"overlap" must be skip or queue'),
        (["5m", "--do", "work", "--set", "overlp=skip"], 'did you mean "overlap"?'),
        (["5m", "--do", "work", "--set", "overlap"], "--set word=value"),
        (["5m", "--do", "work", "--cap", "many"], '"cap" must be a whole number'),
        (["5m", "--do", "work", "--overlap", "sometimes"], "'sometimes' is not one of"),
        (["5m", "--do", "work", "--qiet-hours", "x"], "--quiet-hours"),
    ],
)
def test_b8_what_cannot_be_used_is_told(user: User, bench: Bench, words: list[str], says: str) -> None:
    """B8"""
    assert says in user.complains("add", *words)
    assert bench.list() == []


def test_every_word_has_an_option() -> None:
    """B8: the service's words, no more and no fewer"""
    assert {word.name for word in SCHEDULE} == set(WORDS) - {"prompt"}


def test_b8_words_by_option_and_by_set(user: User) -> None:
    """B8: with values of their kind"""
    made(
        user, "-n", "s", "--overlap", "queue", "--queue-limit", "5", "--jitter", "2.5", "--approval", "council_approve",
        "--approvers", "ada, grace", "--payload", '{"deep": [1]}', "--grace", "5m", "--strict", "--set", "retries=2",
        "--set", "catch-up=run_once", "-z", "Europe/London", "--max-cost", "$2",
    )  # fmt: skip
    words = user.json("show", "s")["words"]
    assert words == {
        "when": "every day at 09:00",
        "timezone": "Europe/London",
        "do": "work",
        "overlap": "queue",
        "queue_limit": 5,
        "jitter": 2.5,
        "approval": "council_approve",
        "approvers": ["ada", "grace"],
        "payload": {"deep": [1]},
        "grace": "5m",
        "retries": 2,
        "catch_up": "run_once",
        "max_cost": "$2.00",
    }


def test_list_at_80_columns(user: User, bench: Bench) -> None:
    """P10: what there is, when it fires next, how the last run went"""
    user.types("add", "every weekday at 9am", "--agent", "demo", "-n", "morning-brief", "Summarise my open PRs")
    user.types("add", "every 5 minutes", "--do", "work", "-n", "pulse")
    user.types("add", "0 */2 * * *", "--do", "fail", "-n", "flaky", "--agent", "tests")
    user.types("add", "every 3 days", "--do", "work", "-n", "日本の名前", "--approval", "owner_approve")
    user.types("pause", "pulse", "--note", "on holiday")
    user.types("run", "flaky")
    user.types("run", "日本の名前")
    bench.settle()
    bench.clock.advance(120_000)
    assert user.says("list") == dedent("""\
        NAME           AGENT  WHEN                   NEXT               LAST
        morning-brief  demo   every weekday at 09:…  in 58m (09:00)     –
        pulse          –      every 5 minutes        ‖ paused           –
        flaky          tests  every 2 hours on the…  in 1h (10:00)      ✗ failed 2m ago
        日本の名前     –      every 3 days           in 2d (Mon 08:00)  ◆ needs approval
        """)
    assert user.says("ls", "--state", "paused").splitlines()[1].startswith("pulse")
    assert user.says("list", "--agent", "nobody") == "No schedule matches.\n"
    assert [item["name"] for item in user.json("schedules", "list", "-a", "tests")] == ["flaky"]


def test_an_empty_list_says_what_to_do(user: User) -> None:
    assert user.says("list").startswith("No schedules yet. Make one: matins add ")
    assert user.json("list") == []


def test_a_long_list_comes_in_pages(user: User, bench: Bench) -> None:
    """P10: and says that there is more"""
    bench.add_many([{"name": f"s{n}", "when": "1h", "do": "work"} for n in range(7)])
    seen: list[str] = []
    after: list[str] = []
    for more in (True, True, False):
        page = user.types("list", "--limit", "3", *after, "--json")
        items = json.loads(page.stdout)
        seen += [item["name"] for item in items]
        after = ["--after", items[-1]["id"]]
        assert (f"There is more: matins list --after {items[-1]['id']}" in page.stderr) is more
    assert seen == [f"s{n}" for n in range(7)]
    assert "1<=x<=1000" in user.complains("list", "--limit", "0")


def test_the_longest_page_may_be_full(user: User, bench: Bench) -> None:
    """P10: a thousand, and one more"""
    bench.add_many([{"name": f"s{n}", "when": "1h", "do": "work"} for n in range(1001)])
    page = user.types("list", "--limit", "1000")
    assert len(page.stdout.splitlines()) == 1001
    assert "There is more" in page.stderr


def test_show_at_80_columns(user: User) -> None:
    """V12, P10"""
    check = "test -n \"$(gh pr list --json number --jq '.[]')\" && echo there is something to look at"
    user.types(
        "add", "every weekday at 9am", "--agent", "demo", "-n", "brief",
        "Summarise my open PRs.\nBe brief: \x1b[31mred", "-z", "America/New_York", "--max-executions", "20",
        "--pre-check", check,
    )  # fmt: skip
    assert user.says("show", "brief") == dedent("""\
        name            brief
        agent           demo
        state           ✓ active
        when            every weekday at 09:00 (America/New_York)
        next            in 5h, Fri 2026-03-27 13:00 UTC
        last            –
        max executions  20
        pre check       test -n "$(gh pr list --json number --jq '.[]')" && echo there
                        is something to look at
        fired           0 times
        made            now by owner, revision 1

          Summarise my open PRs.
          Be brief: \\x1b[31mred
        """)


def test_show_what_does_not_exist(user: User) -> None:
    made(user, "-n", "morning")
    said = user.complains("show", "mornin")
    assert said == 'Error: There is no schedule "mornin"\nHint: did you mean "morning"?\n'
    made(user, "-n", "morning", "--agent", "a")
    assert "/morning, a/morning" in user.complains("show", "morning", code=1)
    assert user.json("show", "a/morning")["agent"] == "a"
    assert user.json("show", "morning", "--agent", "a")["agent"] == "a"


def test_b3_edit_says_what_changes(user: User, bench: Bench) -> None:
    """B3: and a dry run changes nothing"""
    made(user, "-n", "s")
    dry = user.says("edit", "s", "--when", "every day at 10am", "--overlap", "queue", "--dry-run")
    assert dry == dedent("""\
          when: every day at 09:00 (UTC) → every day at 10:00 (UTC)
          overlap: skip → queue
        Nothing is changed: this was a dry run.
        """)
    assert bench.get("s").rev == 1
    done = user.says("edit", "s", "--when", "every day at 10am", "--set", "overlap=queue")
    assert done.splitlines()[-1] == "Changed s: every day at 10:00 (UTC), next in 2h (10:00)"
    assert user.json("edit", "s", "--unset", "overlap")["words"].get("overlap") is None
    assert "It says that already." in user.says("edit", "s", "--overlap", "skip")
    assert "Nothing is said that should change" in user.complains("edit", "s")


@pytest.mark.parametrize(
    ("when", "words", "kept"),
    [
        ("every weekday at 9am", ["--dst-gap", "shift"], ("shift", "first")),
        ("0 9 * * 1-5", ["--dst-overlap", "both"], ("after", "both")),
        ("every 2 weeks on monday at 9am", [], ("after", "first")),
        ("every 90 minutes", ["--anchor", "grid"], ("after", "first")),
    ],
)
def test_s6_a_zone_can_be_changed_alone(user: User, when: str, words: list[str], kept: tuple[str, str]) -> None:
    """S6: the times stay what they were on the clock, and so does all else that was said of them"""
    user.types("add", when, "--do", "work", "-n", "s", *words)
    before = user.json("show", "s")
    item = user.json("edit", "s", "-z", "Europe/London")
    assert (item["timezone"], item["description"]) == ("Europe/London", before["description"])
    assert user.json("edit", "s", "--when", "every day at 10am")["timezone"] == "Europe/London"
    assert user.json("preview", "s", "--when", "every day at noon")["after"]["timezone"] == "Europe/London"
    item = user.json("show", "s")
    assert (item["trigger"]["dst"]["gap"], item["trigger"]["dst"]["overlap"]) == kept


def test_c10_pause_and_resume(user: User) -> None:
    """C10, B8: with a note, and until an instant"""
    made(user, "-n", "s")
    assert user.says("pause", "s", "-m", "on holiday") == "Paused s. To go on: matins resume s\n"
    shown = user.json("show", "s")
    assert (shown["state"], shown["note"], shown["next_run_at"]) == ("paused", "on holiday", None)
    assert "state  ‖ paused by owner now: on holiday\n" in user.says("show", "s")
    assert user.says("resume", "s") == "s is active, next in 1h (09:00)\n"
    assert user.says("pause", "s", "--until", "2026-03-27T12:00:00Z") == "Paused s until 12:00 (in 4h).\n"


def test_c11_removing_twice_is_no_error(user: User) -> None:
    """C11"""
    made(user, "-n", "s")
    assert user.says("rm", "s") == "Removed the schedule s.\n"
    assert user.says("rm", "s") == "There was no schedule s: nothing done.\n"
    assert user.json("schedules", "rm", "s") == {"removed": False}


def test_nobody_is_told_that_nothing_runs_while_it_does(user: User, bench: Bench) -> None:
    assert "matins up" not in user.types("add", "5m", "--do", "work", "-n", "s").stderr
    assert user.types("why", "s").stderr == ""
    bench.engine.close()
    assert user.types("why", "s").stderr == "Nothing runs yet: start the daemon with matins up\n"
    assert (
        "Nothing runs yet: start the daemon with matins up" in user.types("add", "5m", "--do", "work", "-n", "t").stderr
    )


def test_who_may_not(user: User, bench: Bench) -> None:
    """Exit code 4"""
    made(user, "-n", "s")
    viewer = User(bench, Principal("viewer", "vera"))
    assert "vera (viewer) may not do this" in viewer.complains("pause", "s", code=4)
    assert viewer.json("show", "s")["state"] == "active"


def test_b2_a_job_that_nobody_has_is_told_at_once(user: User, bench: Bench) -> None:
    """B2: when it is added and when it is edited; the schedule is made all the same"""
    told = 'No engine here has the job "backup": its runs fail, unless a program that registers it takes them.\n'
    assert told in user.types("add", "every day at 9am", "--do", "backup", "-n", "s").stderr
    assert user.json("show", "s")["do"] == "backup"
    assert user.types("edit", "s", "--do", "work").stderr == ""
    assert user.types("edit", "s", "--do", "backup").stderr == told
    assert user.types("edit", "s", "--retries", "1").stderr == ""
    assert "✗ bad   job backup: " in user.types("doctor", code=1).stdout
    assert 'job          ✗ stops   The engine here has no job "backup": a run fails at' in user.says("why", "s")
    bench.job("backup")(lambda run: None)
    assert "job" not in user.types("edit", "s", "--do", "backup").stderr


def test_b2_a_job_while_nothing_runs(user: User, bench: Bench) -> None:
    """B2: matins up would not help"""
    bench.engine.close()
    bench._service.own_jobs = None
    said = user.types("add", "every day at 9am", "--do", "backup", "-n", "s").stderr
    assert said.splitlines()[1:] == [
        'Nothing runs yet: start the program of yours that registers the job "backup"; matins up has none.'
    ]
    assert "matins up" in user.types("add", "every day at 9am", "--agent", "demo", "Hello").stderr
