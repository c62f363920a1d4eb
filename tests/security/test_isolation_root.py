"""Where Matins is root, an agent that starts a program needs an account of its own, or `isolation: none`."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from house import House, Ordinary, environment, read_terminal
from matins import Matins
from matins.daemon import demonstration
from matins.daemon.demonstration import demo_file
from matins.errors import InvalidInput

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has this rule")
ROOT = "Matins is root, and the agent has no user: it could change everything here."
EDIT = "useradd -m robin && matins agents edit old --user robin"
LIVE = f"{EDIT}; or run Matins as an ordinary user; or set isolation: none."


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A daemon of root, whose store has agents from before accounts were required."""
    home = tmp_path_factory.mktemp("root") / "home"
    home.mkdir(mode=0o700)
    with Matins(f"sqlite:///{home}/matins.db", home=home) as matins:
        for name, isolation in (("old", "auto"), ("old-required", "required"), ("old-none", "none")):
            matins.agents.set(name, runner="shell", command=["sh", "-c", "id -u"], isolation=isolation)
            matins.add(name, when="every 1 day", agent=name, prompt="Go.")
    one = House(home).up()
    yield one
    one.kill()


@pytest.mark.parametrize("isolation", ["auto", "required"])
@pytest.mark.parametrize("user", [None, "root"])
def test_b16_as_root_an_agent_without_an_account_is_refused(house: House, isolation: str, user: str | None) -> None:
    """B16: when it is set; root's own account is none"""
    given: dict[str, Any] = {"runner": "shell", "command": ["true"], "isolation": isolation}
    with pytest.raises(InvalidInput) as told:
        house.client.agents.set("new", **given, **({} if user is None else {"user": user}))
    assert (told.value.message, told.value.field) == (ROOT, "user")
    assert told.value.hint == (
        "useradd -m robin, and set user: robin; or set isolation: none; or run Matins as an ordinary user."
    )
    house.client.agents.set("written", **{**given, "isolation": "none"})
    with pytest.raises(InvalidInput, match="Matins is root"):
        house.client.agents.edit("written", isolation=isolation)


@pytest.mark.parametrize(("name", "error"), [("old", ROOT), ("old-required", ROOT), ("old-none", None)])
def test_b16_as_root_a_run_without_an_account_is_refused(house: House, name: str, error: str | None) -> None:
    """B16: when it runs; the owner's word is enough"""
    run, output = house.fire(name)
    if error is None:
        assert (run.state, output, run.outcome["result"]["isolated"]) == ("succeeded", "0\n", False)
        return
    assert (run.state, output) == ("failed", "")
    assert error in run.outcome["error"]
    assert LIVE.replace("old", name) in run.outcome["error"]


def test_b16_doctor_says_which_agents_do_not_run(house: House) -> None:
    """B16"""
    found = {one["sentence"]: one for one in house.ask("system.doctor") if one["what"] in ("isolation", "agent old")}
    assert (found[ROOT]["ok"], found[ROOT]["fix"]) == (False, LIVE)
    assert found["The agent old-none is not isolated: the owner turned it off"]["ok"] is None


@pytest.mark.parametrize(
    "settings",
    [
        {"runner": "http", "url": "http://127.0.0.1:9/"},
        {"runner": "openai", "url": "http://127.0.0.1:9/v1", "model": "m"},
        {"runner": "message"},
        {"runner": "demo"},
    ],
    ids=lambda settings: settings["runner"],
)
def test_b16_what_starts_no_program_needs_no_account(house: House, settings: dict[str, Any]) -> None:
    """B16: and the demo agent, which only reports"""
    house.client.agents.set(f"calls-{settings['runner']}", isolation="auto", **settings)


def test_b16_an_agent_with_an_account_runs_as_root_too(house: House, account: Ordinary) -> None:
    """B16: the control"""
    house.shell("theirs", "id -un", user=account.name)
    run, output = house.fire("theirs")
    assert (run.state, output, run.outcome["result"]["isolated"]) == ("succeeded", f"{account.name}\n", True)


def test_b16_the_file_says_it_for_all_agents(tmp_path: Path, accounts_needed: None) -> None:
    """B16: `defaults` has the account or the isolation; an agent's own setting wins, also when it is empty"""
    agents = "agents:\n  one: {runner: shell, command: ['true']}\n  two: {runner: demo}\n"
    file = tmp_path / "matins.yaml"
    with Matins() as matins:
        matins.watch_file(file)
        file.write_text(agents)
        with pytest.raises(InvalidInput, match="Matins is root") as told:
            matins.file.apply()
        assert "line 2" in told.value.message
        file.write_text(f"defaults: {{isolation: none}}\n{agents}")
        matins.file.apply()
        assert [agent.isolation for agent in matins.agents.list()] == ["none", "none"]
        file.write_text(f"defaults: {{user: nobody, timezone: Europe/Berlin}}\n{agents}")
        matins.file.apply()
        assert [(agent.user, agent.isolation) for agent in matins.agents.list()] == [("nobody", "auto")] * 2
        file.write_text(
            f"defaults: {{isolation: none}}\n{agents}  three: {{runner: shell, command: ['true'], isolation: }}\n"
        )
        with pytest.raises(InvalidInput, match="Matins is root"):
            matins.file.apply()


# -- first steps


def typed(home: Path, *words: str, answer: str | None = None) -> tuple[int, str]:
    """What a command says, in a pipe, or at a terminal at which this is answered."""
    command = [sys.executable, "-P", "-m", "matins", "--home", str(home), *words]
    if answer is None:
        done = subprocess.run(command, capture_output=True, text=True, env=environment(home), cwd=home.parent)
        return done.returncode, done.stdout + done.stderr
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(home), cwd=home.parent
    ) as process:
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        said = read_terminal(ours)
    return process.returncode, said


def test_b16_init_asks_root_once_and_writes_the_answer(tmp_path: Path, account: Ordinary) -> None:
    """B16: at a terminal; in a pipe the error says both ways, and nothing is written"""
    code, said = typed(tmp_path / "a", "init")
    assert code != 0
    assert "matins init --user robin" in said
    assert "matins init --isolation none" in said
    assert not (tmp_path / "a/matins.yaml").exists()
    for number, (words, answer, line) in enumerate(
        (
            (["--user", account.name], None, f'user: "{account.name}"'),
            (["--isolation", "none"], None, 'isolation: "none"'),
            ([], account.name, f'user: "{account.name}"'),
            ([], f"no-such-user\n{account.name}", f'user: "{account.name}"'),
            ([], "none", 'isolation: "none"'),
        )
    ):
        home = tmp_path / str(number)
        code, said = typed(home, "init", *words, answer=answer)
        assert code == 0, said
        assert f"\n  {line} #" in (home / "matins.yaml").read_text()
        assert said.count("Matins is root") == (answer is not None)
        assert typed(home, "plan")[0] == 0


def test_b16_add_asks_root_once_and_writes_the_answer(tmp_path: Path, account: Ordinary) -> None:
    """B16: for an agent that it creates; in a pipe the error says both ways"""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    words = ["add", "every day at 9am", "--agent", "claude", "Go."]
    code, said = typed(home, *words)
    assert code != 0
    assert "useradd -m robin && matins agents set claude --runner claude --user robin" in said
    assert "matins agents set claude --runner claude --isolation none" in said
    code, said = typed(home, *words, "--permission", "plan", answer=account.name)
    assert code == 0, said
    assert said.count("Matins is root") == 1
    assert f'"user": "{account.name}"' in typed(home, "agents", "show", "claude", "--json")[1].replace("\n", "")
    assert typed(home, "add", "every day at 9am", "--agent", "demo", "Go.")[0] == 0


def test_b16_an_import_says_how(tmp_path: Path) -> None:
    """B16"""
    table = tmp_path / "table"
    table.write_text("0 3 * * * claude -p 'Tidy up'\n")
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    assert "stays a command: Matins is root" in typed(home, "import", "crontab", str(table), "--apply")[1]
    code, said = typed(home, "import", "crontab", str(table), "--apply", "--isolation", "none")
    assert (code, "refused" in said, "becomes an agent" in said) == (0, False, True), said


@pytest.mark.parametrize("reached", [True, False])
def test_b16_the_demonstration_of_root_works_at_once(reached: bool) -> None:
    """B16: its agents run as the account nobody, or as root where that account cannot; the greeting says which"""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755 if reached else 0o700)
        program = (sys.executable, "-P", "-m", "matins", "--home", f"{folder}/demo", "demo", "--port", "0")
        one = House(Path(folder, "demo"), program=program)
        try:
            (line,) = [line for line in one.up().said if line.startswith("  agents ")]
            named = "as root, builder, planner, tester could change everything here (isolation: none)."
            assert line == (
                "  agents  run as the account nobody, because Matins is root."
                if reached
                else f"  agents  not isolated: {named}"
            )
            assert one.logged("schedule.created morning-news"), "the agent planner has run"
        finally:
            one.kill()


def test_b16_the_file_of_the_demonstration_is_plain_for_an_ordinary_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B16"""
    assert "\n  user: nobody" in demo_file(tmp_path) or "\n  isolation: none" in demo_file(tmp_path)
    monkeypatch.setattr(demonstration, "nobody_can_run", lambda home: False)
    assert "\n  isolation: none" in demo_file(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "defaults" not in demo_file(tmp_path)
