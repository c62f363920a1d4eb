"""A pre-check or a hook runs behind the walls of the agent. What an agent makes of its script, or of what that starts,
then has the rights of the agent. Each attack is first shown to succeed without walls."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from house import PATIENCE_S, House, Ordinary, ordinary_account

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of another account")
COUNT = count()
SETTINGS = ("pre_check", "before_run", "after_run", "before:schedule:trigger", "after:run")


TELL = 'echo "$MATINS_SCHEDULE $(cat {}/token 2>/dev/null) $(id -u)" >{}'


class Told:
    """A pipe that commands write lines to, each with the name of its schedule."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        path.chmod(0o666)
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._lines: list[str] = []

    def line(self, schedule: str) -> str:
        """The next line of this schedule. A hook runs after earlier runs, too, if they have just ended."""
        while True:
            while self._lines:
                name, _, line = self._lines.pop(0).partition(" ")
                if name == schedule:
                    return line.strip()
            assert select.select([self._file], [], [], PATIENCE_S)[0], "the command did not run"
            self._lines = os.read(self._file, 10_000).decode().splitlines()

    def is_empty(self) -> bool:
        return not select.select([self._file], [], [], 0)[0]

    def close(self) -> None:
        os.close(self._file)


class Attacked:
    """A daemon, the account that its isolated agents have, and a folder that this account may write."""

    def __init__(self, house: House, account: Ordinary, folder: Path, told: Told, walled: dict[str, Any]) -> None:
        self.house = house
        self.account = account
        self.folder = folder
        self.told = told
        self.walled = walled
        self.token = (house.home / "token").read_text().strip()

    def script(self, path: Path, text: str, owner: int | None = None) -> Path:
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        os.chown(path, self.account.uid if owner is None else owner, -1)
        return path

    def thief(self, path: Path) -> Path:
        """It tells what it reads of the owner's token, and as whom."""
        return self.script(path, TELL.format(self.house.home, self.told.path))

    def fire(self, setting: str, command: str | list[str], *, wait: bool = True, **agent: Any) -> Any:
        """A run of an agent with these settings, with the command before or after it."""
        name, hook = f"s{next(COUNT)}", setting if ":" in setting else None
        self.house.ask("agents.set", name=name, runner="shell", command=["true"], **agent)
        given = {} if hook else {setting: command}
        self.house.ask("schedules.add", name=name, when="every 1 day", agent=name, prompt="Go.", **given)
        if hook:
            self.house.ask("hooks.set", event=hook, command=command)
        run = self.house.client.runs.wait(self.house.client.run(name).id, timeout=PATIENCE_S)
        self.line = self.told.line(name) if wait else ""
        if hook:
            self.house.ask("hooks.delete", event=hook)
        return run

    def reason(self, run: Any) -> str:
        (check,) = self.house.client.runs.checks(run.id)
        return check.reason


@pytest.fixture(scope="module")
def account() -> Iterator[Ordinary]:
    with ordinary_account() as made:
        yield made


@pytest.fixture(scope="module", params=["ordinary", pytest.param("root", marks=as_root)])
def house(request: pytest.FixtureRequest, account: Ordinary) -> Iterator[House]:
    with tempfile.TemporaryDirectory(prefix="matins-root-") as folder:
        Path(folder).chmod(0o755)  # accounts reach their folders in the home
        if request.param == "ordinary":
            one = House(account.home / "home", user=account).up()
        else:
            one = House(Path(folder, "home")).up()
        yield one
        one.kill()


@pytest.fixture
def attacked(house: House, account: Ordinary) -> Iterator[Attacked]:
    """By an agent of the same user, and by one with an account where the daemon is root."""
    folder = account.home / f"folder{next(COUNT)}"
    folder.mkdir()
    os.chown(folder, account.uid, account.gid)
    told = Told(folder / "told")
    yield Attacked(house, account, folder, told, {} if house.user is not None else {"user": account.name})
    told.close()


@pytest.mark.parametrize("setting", SETTINGS)
def test_b16_an_exchanged_script_does_not_read_the_owner_s_token(attacked: Attacked, setting: str) -> None:
    """B16: the script stands for the one that an agent puts in its place after the last look at it"""
    script = attacked.thief(attacked.folder / "check.sh")
    owner = attacked.house.home.stat().st_uid
    attacked.fire(setting, [str(script)], isolation="none")
    assert attacked.line == f"{attacked.token} {owner}"
    attacked.fire(setting, [str(script)], isolation="required", **attacked.walled)
    assert attacked.line == str(attacked.account.uid)


@pytest.mark.parametrize("setting", ["pre_check", "after_run"])
@pytest.mark.parametrize("what", ["git", "make", "sourced"])
def test_b16_what_a_command_starts_from_a_repository_does_not_read_the_owner_s_token(
    attacked: Attacked, setting: str, what: str
) -> None:
    """B16: no digest covers it"""
    if what == "make" and shutil.which("make") is None:
        pytest.skip("no make here")
    for isolation, uid in (("none", attacked.house.home.stat().st_uid), ("required", attacked.account.uid)):
        repository = attacked.folder / isolation
        repository.mkdir()
        os.chown(repository, uid, -1)
        thief = attacked.thief(repository / "thief.sh")
        command = f"cd {repository} && sh ./check.sh"
        if what == "git":
            user = {"user": uid} if os.geteuid() == 0 else {}
            environment = {"HOME": str(repository), "PATH": os.environ["PATH"]}
            for words in (["init", "-q"], ["config", "core.fsmonitor", str(thief)]):
                subprocess.run(["git", *words], cwd=repository, env=environment, check=True, **user)
            command = f"git -C {repository} status --porcelain"
        elif what == "make":
            (repository / "Makefile").write_text(f"all:\n\t@{thief}\n")
            command = f"make -s -C {repository}"
        else:
            attacked.script(repository / "check.sh", ". ./settings")
            (repository / "settings").write_text(f"{thief}\n")
        walled = attacked.walled if isolation == "required" else {}
        attacked.fire(setting, command, isolation=isolation, **walled)
        seen = attacked.token if isolation == "none" else ""
        assert attacked.line == f"{seen} {uid}".strip()


@pytest.mark.parametrize("way", ["program", "text", "relative"])
@pytest.mark.parametrize("setting", ["pre_check", "after:run"])
def test_b16_a_script_in_the_home_runs_outside(attacked: Attacked, setting: str, way: str) -> None:
    """B16: no agent can change it, so it is the owner's: with the owner's rights, and the home in view"""
    home = attacked.house.home
    script = attacked.thief(home / f"{attacked.folder.name}.sh")
    os.chown(script, home.stat().st_uid, -1)
    command = {
        "program": [str(script), "x"],
        "text": f"{script} x $HOME",
        "relative": f"./{script.name}",
    }
    attacked.fire(setting, command[way], isolation="required", **attacked.walled)
    assert attacked.line == f"{attacked.token} {home.stat().st_uid}"
    script.unlink()


def test_b16_python_outside_runs_no_file_of_the_user_s(attacked: Attacked) -> None:
    """B16: an agent of the same user can write what Python runs first, which would read the owner's token"""
    home, python = attacked.house.home, "/usr/bin/python3"
    if not Path(python).exists():
        pytest.skip("no Python of the system here")
    where = "import site; print(site.getusersitepackages())"
    environment = {"HOME": attacked.house.environment["HOME"]}
    site = Path(subprocess.check_output([python, "-c", where], env=environment, text=True).strip())
    if not site.is_relative_to(attacked.account.home):
        pytest.skip("the folder of the user that the tests run as, which they leave alone")
    site.mkdir(parents=True, exist_ok=True)
    steal = f"import os; os.environ['STOLEN'] = open('{home}/token').read().strip()"
    (site / "thief.pth").write_text(steal + "\n")
    script = home / f"{attacked.folder.name}.py"
    tell = "os.environ['MATINS_SCHEDULE'], os.environ.get('STOLEN', 'nothing')"
    script.write_text(f"#!{python}\nimport os\nprint({tell}, file=open('{attacked.told.path}', 'w'))\n")
    script.chmod(0o755)
    os.chown(script, home.stat().st_uid, -1)
    for agent in attacked.house.ask("agents.list"):
        attacked.house.ask("agents.edit", name=agent["name"], isolation="none")
    attacked.fire("pre_check", [str(script)], isolation="none")
    assert attacked.line == attacked.token
    attacked.fire("pre_check", [str(script)], isolation="required", **attacked.walled)
    assert attacked.line == "nothing"
    (site / "thief.pth").unlink()
    script.unlink()


def test_b16_a_script_in_the_folder_of_an_agent_is_not_the_owner_s(attacked: Attacked) -> None:
    """B16: though the folder is in the home"""
    run = attacked.fire("pre_check", "true", wait=False, isolation="required", **attacked.walled)
    script = attacked.thief(attacked.house.home / f"agents/{run.schedule}/check.sh")
    attacked.house.ask("schedules.edit", name=run.schedule, pre_check=[str(script)])
    attacked.house.client.run(run.schedule)
    assert attacked.told.line(run.schedule) == str(attacked.account.uid)


@pytest.mark.parametrize("where", ["in the home", "to the home"])
def test_b16_a_link_is_no_script_in_the_home(attacked: Attacked, where: str) -> None:
    """B16: agents may write where it leads, or put another in its place"""
    home, folder = attacked.house.home, attacked.folder
    if where == "in the home":
        script = home / f"{folder.name}.sh"
        script.symlink_to(attacked.thief(folder / "check.sh"))
    else:
        (folder / "link").symlink_to(home)
        script = folder / "link" / attacked.thief(home / f"{folder.name}.sh").name
    run = attacked.fire("pre_check", [str(script)], isolation="required", wait=False, **attacked.walled)
    assert (run.state, attacked.told.is_empty()) == ("skipped", True)


@pytest.mark.parametrize(
    "command", ["test ! -f {}", "test -f {} && git --version", ["git", "hash-object", "{}"], "cat <{}"]
)
def test_b16_a_command_that_would_not_see_a_file_says_so(attacked: Attacked, command: str | list[str]) -> None:
    """B16: it would take it for missing, and let a run start that the owner holds"""
    hold = attacked.house.home / "hold"
    hold.touch()
    words = command.format("hold") if isinstance(command, str) else [word.format("hold") for word in command]
    run = attacked.fire("pre_check", words, wait=False, isolation="required", **attacked.walled)
    assert run.state == "skipped"
    assert attacked.reason(run) == (
        "the command could not be started: it names hold, which is out of sight behind the walls of the agent. "
        "Only a script in the home of Matins, with plain arguments, runs outside"
    )
    hold.unlink()


def test_b16_notifications_and_git_work_behind_the_walls(attacked: Attacked) -> None:
    """B16: the network, the input and the variables are as before, and no token is among them"""
    folder, told = attacked.folder, attacked.told
    request = f"import urllib.request; print(urllib.request.urlopen('{attacked.house.url}/livez').status)"
    script = attacked.script(
        folder / "hook.sh",
        f"""set -e
        git init -q {folder}/repository
        git -C {folder}/repository status --porcelain
        status=$({sys.executable} -I -c "{request}")
        event=$({sys.executable} -I -c 'import json, sys; print(json.load(sys.stdin)["event"])')
        tokens=$(env | grep -ci token) || true
        echo "$MATINS_SCHEDULE $status $event $MATINS_EVENT $MATINS_STATE $HOME $USER $tokens $PWD" >{told.path}""",
    )
    attacked.fire("after_run", [str(script)], isolation="required", **attacked.walled)
    home = attacked.account.home if not attacked.walled else Path(f"~{attacked.account.name}").expanduser()
    name = attacked.account.name
    assert attacked.line == f"200 after:run after:run succeeded {home} {name} 0 {attacked.house.home}"


def test_b16_a_schedule_without_an_agent_has_walls_where_agents_have(attacked: Attacked) -> None:
    """B16: an agent may exchange its script as well. Where Matins is root there is no account for it: it runs outside,
    as it does where the owner turned isolation off for all agents"""
    ask, owner = attacked.house.ask, attacked.house.home.stat().st_uid
    script, name = attacked.thief(attacked.folder / "check.sh"), attacked.folder.name
    ask("schedules.add", name=name, when="every 1 day", job="memory-index-regen", pre_check=[str(script)])
    for isolation in ("required", "none"):
        for agent in ask("agents.list"):
            ask("agents.edit", name=agent["name"], isolation="none")
        ask("agents.set", name="beside", runner="shell", command=["true"], isolation=isolation, **attacked.walled)
        attacked.house.client.run(name)
        walled = isolation == "required" and owner != 0
        assert attacked.told.line(name) == ("" if walled else f"{attacked.token} ") + str(owner)


@pytest.fixture(scope="module")
def refusing(account: Ordinary) -> Iterator[House]:
    """A daemon whose kernel makes no user namespaces."""
    launcher = (
        "import os, sys; from matins.executors.processes import walls as n; uid, gid = os.getuid(), os.getgid();"
        "n.unshare(n.NEW_USER); n.map_to_self(uid, gid); open('/proc/sys/user/max_user_namespaces', 'w').write('0');"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    up = (sys.executable, "-c", launcher, sys.executable, "-m", "matins", "up", "--port", "0")
    one = House(account.home / "refused", program=up, user=account).up()
    yield one
    one.kill()


def test_b16_an_agent_that_cannot_be_isolated_has_no_commands_either(account: Ordinary, refusing: House) -> None:
    """B16: with `required`, its command is not started; with `auto`, it runs as the agent does"""
    told = Told(account.home / "refused-told")
    one = Attacked(refusing, account, account.home, told, {})
    script = one.thief(account.home / "check-refused.sh")
    one.fire("pre_check", [str(script)])
    assert one.line == f"{one.token} {account.uid}"
    run = one.fire("pre_check", [str(script)], wait=False, isolation="required")
    assert (run.state, told.is_empty()) == ("skipped", True)
    assert one.reason(run).startswith("the command could not be started: It cannot be isolated: unshare: ")
    told.close()
