"""A plain command is one line and needs no agent: real processes, as a crontab would start them."""

from __future__ import annotations

import getpass
from pathlib import Path

import office as offices
import pytest
from office import Office

from matins import InvalidInput
from matins.engine.commands import name_of_command
from matins.errors import NotAllowed
from matins.executors.isolation import account_variables
from matins.model.access import Principal
from matins.model.agent import Agent

office = offices.office
WHEN = "every day at 03:00"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "person"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


def text_of(office: Office, name: str) -> str:
    run = office.fire(name)
    assert run.state == "succeeded", run.outcome
    return run.outcome["result"]["text"]


def test_b22_a_command_needs_no_agent(office: Office, home: Path) -> None:
    """B22: one line; the answer is what it writes, and it runs in ~ as the person who added it"""
    m = office.matins
    added = m.add(when=WHEN, command='pwd; cat; printf %s "$MATINS_SCHEDULE" | tr a-z A-Z > out.txt')
    assert (added.name, added.agent) == ("pwd", "shell")
    assert "It runs as you in ~, not isolated." in added.notes
    assert text_of(office, "pwd") == f"{home}\n"
    assert (home / "out.txt").read_text() == "PWD"
    shell = m.agents.get("shell")
    assert (shell.timeout, shell.idle_timeout, shell.memory, shell.file_size) == ("none",) * 4
    assert (shell.mcp, shell.isolation, shell.workdir) == (False, "none", "~")


def test_b22_a_list_is_read_by_no_shell(office: Office, home: Path) -> None:
    script = home / "tell.sh"
    script.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    script.chmod(0o755)
    office.matins.add("told", when=WHEN, command=["./tell.sh", "$HOME", "a b; c"])
    assert text_of(office, "told") == "$HOME|a b; c|\n"


def test_b22_folder_variables_and_stdin_are_those_of_the_schedule(office: Office, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "key").write_text("s3cret\n")
    office.matins.add(
        "told", when=WHEN, command='cat; echo "|$PWD|$A|$(echo $KEY | wc -c)"', stdin="{{schedule}} {{last_outcome}}",
        workdir=str(tmp_path / "there"), environment={"A": "b", "KEY": f"file:{tmp_path}/key"},
    )  # fmt: skip
    assert text_of(office, "told") == f"told none yet|{tmp_path}/there|b|7\n"
    shown = office.matins.get("told").settings["environment"]
    assert shown == {"A": "…", "KEY": f"file:{tmp_path}/key"}  # a value may be a secret


def test_b22_a_failure_is_one_and_says_why(office: Office) -> None:
    office.matins.add("broken", when=WHEN, command="echo so far; echo no such disk >&2; exit 3")
    run = office.fire("broken")
    assert (run.state, run.outcome["result"]["exit_code"]) == ("failed", 3)
    assert "exit code 3: no such disk" in run.outcome["error"]


def test_b22_text_between_commands_is_itself(office: Office) -> None:
    """B22: the fence is for language models"""
    office.matins.add(
        "chain", when=WHEN,
        steps=[{"title": "Build", "command": "printf '[1, 2]'"},
               {"title": "Ship", "command": "cat", "stdin": "{{steps.build.text}}", "after": ["Build"]}],
    )  # fmt: skip
    run = office.matins.runs.get(office.fire("chain").id)
    assert [step.state for step in run.steps] == ["succeeded"] * 2
    assert office.matins.runs.get(run.steps[1].run_id).outcome["result"]["text"] == "[1, 2]\n"
    assert [step["agent"] for step in office.matins.get("chain").settings["steps"]] == ["shell"] * 2


def test_b22_a_command_calls_matins_as_the_owner_and_as_no_agent(office: Office) -> None:
    """It is the owner's own program, as hooks are: no token of a run is in its environment."""
    office.matins.add("told", when=WHEN, command="env | grep -c '^MATINS_\\(TOKEN\\|URL\\|IN_RUN\\)=' || true")
    assert text_of(office, "told") == "0\n"


def test_b22_what_a_placeholder_would_put_into_a_shell_is_refused(office: Office) -> None:
    add = office.matins.add
    for command, hint in (
        ("report {{input.day}}", 'Use "$INPUT_DAY".'),
        (["report", "{{ slot }}"], 'Use "$MATINS_SLOT".'),
        ("report {{call.text}}", 'Put it into "stdin": {{call.text}}.'),
    ):
        with pytest.raises(InvalidInput, match="in a command would be read by the shell") as caught:
            add("r", when=WHEN, command=command)
        assert (caught.value.hint, caught.value.field) == (hint, "command")
    assert add("names", when=WHEN, command="docker ps --format '{{.Names}}'").name == "names"


def test_b22_a_command_stands_alone(office: Office) -> None:
    m = office.matins
    m.agents.set("scout", runner="demo")
    with pytest.raises(InvalidInput, match='"command" needs an agent that runs shell; "scout" runs demo'):
        m.add("s", when=WHEN, command="date", agent="scout")
    for more in ({"prompt": "Hello"}, {"job": "message"}, {"target": {"kind": "channel", "channel": "C1"}}):
        with pytest.raises(InvalidInput, match=f'"{next(iter(more))}" cannot be combined with "command".'):
            m.add("s", when=WHEN, command="date", **more)
    with pytest.raises(InvalidInput, match='"stdin" needs "command"'):
        m.add("s", when=WHEN, agent="scout", prompt="Hello", stdin="x")
    with pytest.raises(InvalidInput, match="the shell cannot read it"):
        m.add("s", when=WHEN, command="echo 'a")


def test_b22_work_can_become_a_command_and_back(office: Office) -> None:
    m = office.matins
    m.agents.set("sh", runner="shell", command=["cat"])
    m.add("s", when=WHEN, agent="sh", prompt="Hello", prompt_prefix=False)
    m.edit("s", command="echo $((6 * 7))")
    assert (m.get("s").prompt, text_of(office, "s")) == (None, "42\n")
    m.edit("s", stdin="x")
    m.edit("s", prompt="Hello again")
    assert ("command" in m.get("s").settings, "stdin" in m.get("s").settings) == (False, False)
    assert text_of(office, "s") == "Hello again\n"


def test_b22_names_come_from_the_program_and_a_pipe_says_whose_code_counts(office: Office) -> None:
    added = office.matins.add(when=WHEN, command="cd /tmp && pg_dump app | gzip > ~/app.gz")
    assert added.name == "pg-dump"
    note = "The exit code is that of gzip. To fail when pg_dump fails: --command \"bash -o pipefail -c '…'\""
    assert note in added.notes
    assert office.matins.add(when=WHEN, command="python3 /opt/sync.py").name == "sync"
    assert office.matins.add(when=WHEN, command="python3 /opt/sync.py").name == "sync-2"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ('"$HOME/my scripts/tidy.sh" --all', "tidy"),
        (["my program", "x"], "my-program"),
        ("bash -c 'pg_dump app | gzip'", "pg-dump"),
        ("env A=b nice -n 5 /opt/run x", "run"),
        ("sh -c \"sh -c 'x y'\"", "x"),
    ],
)
def test_b22_the_program_is_found_behind_what_starts_it(command: str | list[str], name: str) -> None:
    assert name_of_command(command if isinstance(command, str) else tuple(command)) == name


def test_b22_an_account_without_a_login_has_a_shell() -> None:
    """B22: `flock -c`, `find -execdir` and coding tools start $SHELL"""
    assert account_variables(Agent("backup", "shell", user="nobody"))["SHELL"] == "/bin/sh"


def test_b22_only_the_owner_gives_commands(office: Office) -> None:
    """B22: as hooks are: an operator proposes one, folder and variables are the owner's"""
    m = office.matins
    operator = m.acting_as(Principal("operator", "ben"))
    proposed = operator.add("s", when=WHEN, command="id -un")
    assert proposed.state == "pending"
    for more in ({"workdir": "/"}, {"environment": {"A": "b"}}, {"stdin": "x"}):
        with pytest.raises(NotAllowed, match=f'Only the owner can set "{next(iter(more))}"'):
            operator.add("t", when=WHEN, command="id", **more)
    with pytest.raises(NotAllowed, match=r'Only the owner can set "steps\[1\].command"'):
        operator.add("t", when=WHEN, steps=[{"title": "A", "command": "id"}])
    (asked,) = m.approvals.list()
    assert asked.request["command"] == "id -un"
    m.approvals.approve(asked.id)
    assert text_of(office, "s") == f"{getpass.getuser()}\n"
