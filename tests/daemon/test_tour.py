"""The README's tour, word by word: `make up` in one terminal, everything else in another. What it prints is as on the
page, but for times, places and how long things took."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from house import PATIENCE_S, House

DEMO_HOME = ".matins-demo"
ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
_SHELL = re.compile(r"```shell\n(.*?)```", re.DOTALL)
_FIRST = re.compile(r"```sh\n(.*?)```", re.DOTALL)
_END = "-- the end of what it printed --"


def steps(block: re.Pattern[str] = _SHELL) -> list[tuple[str, str]]:
    """Each command of the tour, with what the page says that it prints."""
    blocks = "".join(block.findall(README.read_text(encoding="utf-8")))
    return [(step.partition("\n")[0], step.partition("\n")[2]) for step in re.split(r"^\$ ", blocks, flags=re.M)[1:]]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder like a fresh checkout in which `make` has installed Matins already."""
    (tmp_path / "Makefile").symlink_to(ROOT / "Makefile")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/bin").symlink_to(Path(sys.executable).parent)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / ".venv/run").touch()
    return tmp_path


@pytest.fixture
def first_terminal(machine: Path) -> Iterator[House]:
    (command, printed), *_ = steps()
    assert (command, printed) == ("make up", "")
    house = House(machine / DEMO_HOME, program=tuple(command.split()))
    yield house
    house.kill()


class Terminal:
    """One shell for all commands: what one exports, the next has."""

    def __init__(self, folder: Path) -> None:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("MATINS_", "XDG_", "COLUMNS"))
        }
        self._shell = subprocess.Popen(
            ["bash", "--norc"], cwd=folder, env=kept, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def type(self, command: str) -> str:
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{{ {command}; }} < /dev/null\necho '{_END}'\n")
        self._shell.stdin.flush()
        lines: list[str] = []
        while (line := self._shell.stdout.readline()) not in (f"{_END}\n", ""):
            lines.append(line)
        return "".join(lines)

    def close(self) -> None:
        self._shell.communicate(timeout=PATIENCE_S)


@pytest.fixture
def second_terminal(machine: Path) -> Iterator[Terminal]:
    terminal = Terminal(machine)
    yield terminal
    terminal.close()


def plain(text: str) -> str:
    """Without what differs from one time, machine and moment to the next."""
    text = re.sub(r"/\S*/\.matins-demo", "…/.matins-demo", text)
    text = re.sub(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun|[0-9]+ [A-Z][a-z]{2}) ", "", text)
    text = re.sub(r"\b(UTC|[0-9][0-9:.,-]*)(ms|[smhd]|MB)?\b( [0-9]+[smhd]\b)?", "N", text)
    text = re.sub(r"(in N|now) \(N( N)?\)", "in N", text).replace("N ago", "now")
    text = re.sub(r"^\? check  clock: .*\n +fix: .*$", "✓ ok clock: The clock is synchronized", text, flags=re.M)
    text = re.sub(r"^\? check  isolation: .*\n( +.*\n)* +fix: .*\n?", "", text, flags=re.M)
    text = re.sub(r"zone data \S+ from .*", "zone data", text)
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


def test_the_tour(first_terminal: House, second_terminal: Terminal) -> None:
    """B2, B3, C7, C10, P4: as somebody reads it, with nothing in between."""
    first_terminal.up()
    assert first_terminal.logged("run.succeeded heartbeat")
    assert first_terminal.logged("run.awaiting_approval deploy")
    assert first_terminal.logged("run.skipped night-report")
    assert first_terminal.logged("run.succeeded plan-ahead")
    first = first_terminal.ask("runs.list", schedule="heartbeat")[-1]
    due = datetime.fromisoformat(first["slot"])
    assert due - first_terminal.started_at < timedelta(seconds=10)
    said = steps()[1:]
    assert len(said) >= 10
    for command, printed in said:
        got = second_terminal.type(command)
        if command.startswith("matins list") and "running" in got:
            assert first_terminal.logged("run.succeeded heartbeat", 2)
            got = second_terminal.type(command)
        if command == "matins apply" and "There are no changes." in got:  # the daemon was quicker
            assert first_terminal.logged("hot-reloaded: +0 -0 ~1")
            continue
        assert plain(got) == plain(printed), command
    check_incident(first_terminal)
    check_proposal(first_terminal)
    first_terminal.press_ctrl_c()
    assert first_terminal.ended() in (0, 2, 130, -signal.SIGINT)  # make's own word for it
    assert not any("Traceback" in line or "error" in line for line in first_terminal.log), first_terminal.log


def check_incident(house: House) -> None:
    """B17: the demonstration opens an incident; the next run, a minute later or by hand, ends it."""
    assert house.logged("incident.opened api-smoke")
    house.fire("api-smoke")  # skipped where the schedule's own run is in progress, which ends the incident as well
    assert house.logged("incident.resolved api-smoke")
    found = {one["schedule"]: one for one in house.ask("incidents.list", all=True)}
    assert (found["api-smoke"]["resolution"], found["flaky-tests"]["state"]) == ("recovered", "open")


def check_proposal(house: House) -> None:
    """P4, B7: the run of an agent made the schedule with its own token, and a person let it in."""
    made, (run,) = house.ask("schedules.get", name="morning-news"), house.ask("runs.list", schedule="plan-ahead")
    assert (made["creator_role"], made["created_by"], made["creator_run"]) == ("agent", "planner", run["id"])
    (vote,) = house.ask("approvals.get", approval_id="2")["votes"]
    assert (vote["voter"], made["state"]) == ("owner", "active")


def test_the_first_lines(house: Callable[..., House], tmp_path: Path) -> None:
    """B21: with an agent that needs no login in the place of Claude, and a folder in that of the mail. The answer
    arrives, and quiet hours explain a run that does not happen."""
    (install, nothing), (phone, phone_set), (add, added), (why, reason) = steps(_FIRST)
    # Installed by `make release CHECK=1` and by test_service.py.
    assert (install, nothing) == ("pipx install . && matins service install", "")
    name, here = why.split()[2], house().up()
    here.matins("agents", "set", "claude", "--runner", "demo")
    assert here.matins(*shlex.split(phone)[1:]) == phone_set
    here.matins("destinations", "set", "phone", "--kind", "file", "--to", str(tmp_path / "inbox"))
    assert plain(here.matins(*shlex.split(add)[1:])) == plain(added)
    here.matins("run", name, "--wait")
    with closing(here.client.events.follow(after="0", types=["answer.delivered"])) as events:  # type: ignore[type-var]
        next(events)
    (answer,) = (tmp_path / "inbox").iterdir()
    assert "I was given 8 words" in answer.read_text()
    here.matins("quiet-hours", "set", "holiday", "--windows", "mon-sat 00:00-24:00, sun 00:00-23:59")
    here.matins("edit", name, "--quiet-hours", "holiday", "--when", "every 1 second")
    assert here.logged("run.skipped")
    said = here.matins(*shlex.split(why.partition(" | ")[0])[1:])
    assert plain(said.partition("\n")[0]) == plain(reason)


def test_what_differs_between_machines_is_all_that_is_left_out() -> None:
    """The comparison would see a word, a row or a state that is not on the page."""
    page = "heartbeat  demo  in 6s (09:00:12)  ✓ succeeded 4s ago\n"
    assert plain(page) == plain("heartbeat   demo  in 12s (Mon 23:00:12)  ✓ succeeded 9s ago\n")
    for other in (
        "heartbeat demo in 6s (09:00:12) ✗ failed 4s ago",
        "deploy demo in 6s ✓ succeeded now",
        page + page,
        "",
    ):
        assert plain(page) != plain(other)
