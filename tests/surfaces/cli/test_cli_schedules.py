"""`matins add`, `list`, `show`, `edit`, `pause`, `resume`, `rm`."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest
from cli_user import User

from matins.engine.schedules import SETTINGS
from matins.model.access import Principal
from matins.service.drafts import name_from_text
from matins.surfaces.cli.schedule_settings import add, edit
from matins.testing import Sandbox


def made(user: User, *words: str) -> str:
    """A schedule of the job `work`."""
    return user.says("add", "every day at 9am", "--job", "work", *words)


def test_b10_add_in_english(user: User) -> None:
    """B10, H12: a name from the prompt, an agent from the name of its runner; what is not the answer goes to stderr"""
    result = user.types("add", "every weekday at 9am", "--agent", "demo", "Summarise my open PRs")
    assert result.stdout == "Added summarise-my-open-prs: every weekday at 09:00 (UTC), next in 1h (09:00)\n"
    assert result.stderr == (
        'Created the agent "demo" with the runner demo.\n'
        "It works in its own directory (agents/demo). To change that: matins agents edit demo --workdir DIR\n"
        "No destination gets its answers. To send them: matins destinations set notes --kind file --to ~/reports"
        " && matins deliver set --to notes\n"
        "The times are in UTC, your time zone. For another: --timezone ZONE\n"
    )
    agent = user.json("agents", "show", "demo")
    assert (agent["name"], agent["runner"]) == ("demo", "demo")


@pytest.mark.parametrize("prompt", ["", " "])
def test_b10_an_empty_prompt_is_refused(user: User, prompt: str) -> None:
    """B10: with a sentence, whether the agent is there or would be made; nothing is made"""
    for _ in range(2):
        said = user.complains("add", "30m", "--agent", "demo", prompt)
        assert said.startswith(f'Error: "prompt" must be text that is not blank, not {prompt!r}.')
        assert user.json("list") == []
        user.says("agents", "set", "demo", "--runner", "demo")


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
    assert name_from_text(prompt) == name


def test_an_agent_that_cannot_be_made(user: User, bench: Sandbox) -> None:
    said = user.complains("add", "5m", "--agent", "scout", "Look around")
    assert 'There is no agent "scout"' in said
    assert "matins agents set scout --runner claude" in said
    assert bench.list() == []


def test_what_fails_leaves_nothing(user: User, bench: Sandbox) -> None:
    """B10: neither the schedule nor the agent that was made for it"""
    assert "wekday" in user.complains("add", "every wekday at 9am", "--agent", "demo", "Look around")
    assert (bench.agents.list(), bench.list()) == ([], [])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["5m"], "Give a PROMPT, --command TEXT, or --job NAME."),
        (["5m", "Look around"], "--agent"),
        (
            ["5m", "--job", "work", "--set", "overlap=sometimes"],
            '"overlap" must be skip, queue, cancel_other or allow, not',
        ),
        (["5m", "--job", "work", "--set", "overlp=skip"], 'Did you mean "overlap"?'),
        (["5m", "--job", "work", "--set", "overlap"], "--set retries=2"),
        (["5m", "--job", "work", "--catch-up-limit", "many"], '"catch_up_limit" must be an integer'),
        (["5m", "--job", "work", "--overlap", "sometimes"], "'sometimes' is not one of"),
        (["5m", "--job", "work", "--qiet-hours", "x"], "--quiet-hours"),
        (["5m", "--job", "work", "--set", "colour=red"], 'A schedule has no setting "colour".'),
        (["5m", "--job", "work", "--set", "name=other"], 'A schedule has no setting "name".'),
    ],
)
def test_b8_what_cannot_be_used_is_told(user: User, bench: Sandbox, words: list[str], says: str) -> None:
    """B8"""
    assert says in user.complains("add", *words)
    assert bench.list() == []


def test_every_setting_has_an_option() -> None:
    """B8: those of a schedule, no more and no fewer. The option --workdir of add may be that of a new agent"""
    for command, missing in ((add, {"prompt", "workdir"}), (edit, set[str]())):
        options = {option.name for option in command.params if str(option.name).startswith("setting_")}
        assert {name.removeprefix("setting_") for name in map(str, options)} - {"when"} == set(SETTINGS) - missing


def test_b8_settings_by_option_and_by_set(user: User) -> None:
    """B8: with values of their kind"""
    made(
        user, "-n", "s", "--overlap", "queue", "--queue-limit", "5", "--jitter", "2.5", "--approval", "council_approve",
        "--approvers", "ada, grace", "--payload", '{"deep": [1]}', "--grace", "5m", "--strict", "--set", "retries=2",
        "--set", "catch-up=run_once", "-z", "Europe/London", "--max-cost", "$2",
    )  # fmt: skip
    settings = user.json("show", "s")["settings"]
    assert settings == {
        "when": "every day at 09:00",
        "timezone": "Europe/London",
        "job": "work",
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


def test_list_at_80_columns(user: User, bench: Sandbox) -> None:
    """P10: what there is, when it fires next, how the last run went"""
    user.types("add", "every weekday at 9am", "--agent", "demo", "-n", "morning-brief", "Summarise my open PRs")
    user.types("add", "every 5 minutes", "--job", "work", "-n", "pulse")
    user.types("add", "0 */2 * * *", "--job", "fail", "-n", "flaky", "--agent", "tests")
    user.types("add", "every 3 days", "--job", "work", "-n", "日本の名前", "--approval", "owner_approve")
    user.types("pause", "pulse", "--note", "on holiday")
    user.types("run", "flaky")
    user.types("run", "日本の名前")
    bench.settle()
    bench.clock.advance(120_000)
    assert user.says("list") == dedent("""\
        NAME           AGENT  WHEN                   NEXT RUN           LAST RUN
        morning-brief  demo   every weekday at       in 58m (09:00)     –
                              09:00
        pulse          –      every 5 minutes        ‖ paused           –
        flaky          tests  every 2 hours on the   in 1h (10:00)      ✗ failed 2m ago
                              hour
        日本の名前     –      every 3 days           in 2d (Mon 08:00)  ◆ needs approval
        """)
    assert user.says("ls", "--state", "paused").splitlines()[1].startswith("pulse")
    assert user.says("list", "--agent", "nobody") == "No schedule matches: agent=nobody.\n"
    assert [item["name"] for item in user.json("schedules", "list", "-a", "tests")] == ["flaky"]


def test_an_empty_list_says_what_to_do(user: User) -> None:
    assert user.says("list").startswith("No schedules (looked in this store). Add one: matins add ")
    assert user.json("list") == []


def test_a_long_list_comes_in_pages(user: User, bench: Sandbox) -> None:
    """P10: and says that there is more"""
    bench.add_many([{"name": f"s{n}", "when": "1h", "job": "work"} for n in range(7)])
    seen: list[str] = []
    after: list[str] = []
    for more in (True, True, False):
        page = user.types("list", "--limit", "3", *after, "--json")
        items = json.loads(page.stdout)
        seen += [item["name"] for item in items]
        after = ["--after", items[-1]["id"]]
        assert (f"There are more: matins list --after {items[-1]['id']}" in page.stderr) is more
    assert seen == [f"s{n}" for n in range(7)]
    assert "1<=x<=1000" in user.complains("list", "--limit", "0")


def test_the_longest_page_may_be_full(user: User, bench: Sandbox) -> None:
    """P10: a thousand, and one more"""
    bench.add_many([{"name": f"s{n}", "when": "1h", "job": "work"} for n in range(1001)])
    page = user.types("list", "--limit", "1000")
    assert len(page.stdout.splitlines()) == 1001
    assert "There are more" in page.stderr


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
        next run        in 5h, Fri 2026-03-27 13:00 UTC
        last run        –
        max executions  20
        pre check       test -n "$(gh pr list --json number --jq '.[]')" && echo there
                        is something to look at
        runs            0
        created         now by owner, revision 1

          Summarise my open PRs.
          Be brief: \\x1b[31mred
        """)


def test_show_what_does_not_exist(user: User) -> None:
    made(user, "-n", "morning")
    said = user.complains("show", "mornin")
    assert said == 'Error: There is no schedule "mornin".\nHint: Did you mean "morning"?\n'
    made(user, "-n", "morning", "--agent", "a")
    assert "/morning, a/morning" in user.complains("show", "morning", code=1)
    assert user.json("show", "a/morning")["agent"] == "a"
    assert user.json("show", "morning", "--agent", "a")["agent"] == "a"


def test_b3_edit_says_what_changes(user: User, bench: Sandbox) -> None:
    """B3: and a dry run changes nothing"""
    made(user, "-n", "s")
    dry = user.says("edit", "s", "--when", "every day at 10am", "--overlap", "queue", "--dry-run")
    assert dry == dedent("""\
          when: every day at 09:00 (UTC) → every day at 10:00 (UTC)
          overlap: skip → queue
        Dry run: nothing was changed.
        """)
    assert bench.get("s").rev == 1
    done = user.says("edit", "s", "--when", "every day at 10am", "--set", "overlap=queue")
    assert done.splitlines()[-1] == "Changed s: every day at 10:00 (UTC), next in 2h (10:00)"
    assert user.json("edit", "s", "--unset", "overlap")["settings"].get("overlap") is None
    same = user.says("edit", "s", "--overlap", "skip")
    assert same == "Unchanged s: every day at 10:00 (UTC), next in 2h (10:00)\n"
    assert user.says("edit", "s", "--overlap", "skip", "--dry-run").startswith("  No setting changes.\n")
    assert "There is nothing to change." in user.complains("edit", "s")


def test_b3_edit_has_every_setting(user: User, bench: Sandbox) -> None:
    """B3: the prompt by a short option too, *when* also with --set; what names the schedule is no setting"""
    user.types("add", "every day at 9am", "--agent", "demo", "-n", "s", "Hello")
    made(user, "-n", "t")
    assert user.says("edit", "s", "-p", "Good morning", "--set", "when=every day at 10am") == dedent("""\
          when: every day at 09:00 (UTC) → every day at 10:00 (UTC)
          prompt: Hello → Good morning
        Changed s: every day at 10:00 (UTC), next in 2h (10:00)
        """)
    assert 'A schedule has no setting "name".' in user.complains("edit", "s", "--set", "name=t", "--retries", "1")
    assert bench.get("t").rev == 1


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
    user.types("add", when, "--job", "work", "-n", "s", *words)
    before = user.json("show", "s")
    item = user.json("edit", "s", "-z", "Europe/London")
    assert (item["timezone"], item["trigger_text"]) == ("Europe/London", before["trigger_text"])
    assert user.json("edit", "s", "--when", "every day at 10am")["timezone"] == "Europe/London"
    assert user.json("preview", "s", "--when", "every day at noon")["after"]["timezone"] == "Europe/London"
    item = user.json("show", "s")
    assert (item["trigger"]["dst"]["gap"], item["trigger"]["dst"]["overlap"]) == kept


def test_c10_pause_and_resume(user: User) -> None:
    """C10, B8: with a note, and until an instant"""
    made(user, "-n", "s")
    assert user.says("pause", "s", "-m", "on holiday") == "Paused s. To resume: matins resume s\n"
    shown = user.json("show", "s")
    assert (shown["state"], shown["note"], shown["next_run_at"]) == ("paused", "on holiday", None)
    assert "state     ‖ paused by owner now: on holiday\n" in user.says("show", "s")
    assert user.says("resume", "s") == "Resumed s: every day at 09:00 (UTC), next in 1h (09:00)\n"
    assert user.says("pause", "s", "--until", "2026-03-27T12:00:00Z") == "Paused s until 12:00 (in 4h).\n"


def test_c11_deleting_twice_is_no_error(user: User) -> None:
    """C11"""
    made(user, "-n", "s")
    assert user.says("rm", "s") == "Deleted the schedule s.\n"
    assert user.says("rm", "s") == 'There is no schedule "s": nothing to delete.\n'
    assert user.json("schedules", "rm", "s") == {"deleted": False}


def test_nobody_is_told_that_nothing_runs_while_it_does(user: User, bench: Sandbox) -> None:
    assert "matins up" not in user.types("add", "5m", "--job", "work", "-n", "s").stderr
    assert user.types("why", "s").stderr == ""
    bench.engine.close()
    assert user.types("why", "s").stderr == "No engine is running. Start the daemon: matins up\n"
    assert (
        "No engine is running. Start the daemon: matins up"
        in user.types("add", "5m", "--job", "work", "-n", "t").stderr
    )


def test_who_may_not(user: User, bench: Sandbox) -> None:
    """Exit code 4"""
    made(user, "-n", "s")
    viewer = User(bench, Principal("viewer", "vera"))
    said = viewer.complains("pause", "s", code=4)
    assert said.startswith('Error: The role "viewer" cannot ')
    assert 'Hint: This needs the "change" right (owner, operator' in said
    assert viewer.json("show", "s")["state"] == "active"


def test_b2_a_job_that_nobody_has_is_refused(user: User, bench: Sandbox) -> None:
    """B2, C15: when it is added and when it is edited; one whose program stopped is told"""
    said = user.complains("add", "every day at 9am", "--job", "backup", "-n", "s", code=2)
    assert said.startswith('Error: There is no job "backup".')
    bench.job("backup")(lambda run: None)
    bench.settle()
    assert "job" not in user.types("add", "every day at 9am", "--job", "backup", "-n", "s").stderr
    del bench.jobs._own["backup"]
    bench.jobs._counted = False
    bench.settle()
    assert 'There is no job "backup"' in user.complains("edit", "s", "--job", "backup", code=2)
    assert "✗ bad    job backup: " in user.types("doctor", code=1).stdout
    explained = " ".join(user.says("why", "s").split())
    assert 'engine ✗ stops No node can run it now: it needs the job "backup".' in explained


def test_b2_a_job_while_nothing_runs(user: User, bench: Sandbox) -> None:
    """B2: matins up would not help with a job of another program"""
    bench.job("backup")(lambda run: None)
    bench.settle()
    del bench.jobs._own["backup"]
    bench.engine.close()
    said = user.types("add", "every day at 9am", "--job", "backup", "-n", "s").stderr
    assert said.splitlines()[1:] == ['No running engine has the job "backup". Start the program that registers it.']
    assert "matins up" in user.types("add", "every day at 9am", "--agent", "demo", "Hello").stderr
