"""Every block of code in README.md and docs is run by a test, or has its reason here. A new block fails until then."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from test_examples import PAGES, ROOT

from matins.app import App
from matins.config.interpretation import interpret
from matins.config.reader import read
from matins.records.kind import RecordContext
from matins.surfaces.cli import cli
from matins.testing import Sandbox

_BLOCK = re.compile(r"^ *```(\S*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
EVERYWHERE = {
    ("python", True): "test_examples.py",  # with >>>
    ("console", False): "test_examples.py",
}
"""What one test runs on all pages: by language, and whether it is a session of Python."""
RUN: dict[tuple[str, str], tuple[int, str]] = {
    ("chat.md", "yaml"): (5, "tests/chat/test_slack.py"),
    ("chat.md", "sh"): (1, "tests/daemon/test_telegram_daemon.py"),
    ("README.md", "sh"): (2, "tests/daemon/test_tour.py"),
    ("README.md", "shell"): (9, "tests/daemon/test_tour.py"),
    ("answers.md", "shell"): (1, "tests/docs/test_answers_page.py"),
    ("answers.md", "yaml"): (1, "tests/docs/test_answers_page.py"),
    ("cli.md", "shell-session"): (9, "tests/surfaces/cli/test_cli_page.py"),
    ("embedding.md", "python"): (12, "tests/docs/test_embedding_page.py and tests/web/test_mounted.py"),
    ("every-day.md", "sh"): (10, "tests/surfaces/cli/test_cli_every_day.py"),
    ("every-day.md", "shell"): (1, "tests/daemon/test_moving_page.py"),
    ("file.md", "yaml"): (1, "tests/config/test_schema.py"),
    ("http.md", "http"): (14, "tests/surfaces/http/test_http_docs.py"),
    ("http.md", "python"): (1, "tests/surfaces/http/test_http_docs.py"),
    ("import.md", "crontab"): (1, "tests/docs/test_import_page.py"),
    ("import.md", "sh"): (7, "tests/docs/test_import_page.py"),
    ("inbound.md", "shell"): (1, "tests/daemon/test_inbound_daemon.py"),
    ("jobs.md", "python"): (1, "tests/docs/test_jobs_page.py"),
    ("jobs.md", "toml"): (1, "tests/docs/test_jobs_page.py"),
    ("library.md", "text"): (1, "tests/docs/test_typed_example.py"),
    ("many-machines.md", "sh"): (2, "tests/docs/test_many_machines_page.py"),
    ("many-machines.md", "shell"): (1, "tests/docs/test_many_machines_page.py"),
    ("missions.md", "yaml"): (1, "tests/service/test_missions.py"),
    ("notifications.md", "shell"): (1, "tests/docs/test_notifications_page.py"),
    ("notifications.md", "yaml"): (1, "tests/docs/test_notifications_page.py"),
    ("teams.md", "shell"): (4, "tests/docs/test_teams_page.py"),
    ("teams.md", "yaml"): (1, "tests/docs/test_teams_page.py"),
    ("recipes.md", "yaml"): (5, "tests/daemon/test_start_page.py"),
    ("start.md", "sh"): (6, "tests/daemon/test_start_page.py"),
    ("watching.md", "shell"): (1, "tests/surfaces/http/test_watching.py"),
    ("watching.md", "yaml"): (1, "tests/surfaces/http/test_watching.py"),
    ("running.md", "shell"): (6, "tests/daemon/test_running_page.py"),
}
"""How many blocks of a page a test of its own runs."""
LIBRARY = "tests/docs/test_library_example.py and tests/daemon/test_python_clients.py"
RUN[("library.md", "python")] = (3, LIBRARY)
HERE: dict[tuple[str, str], tuple[int, str]] = {
    ("gates.md", "sh"): (2, "test_the_audit_of_the_page"),
    ("inbound.md", "yaml"): (3, "test_the_files_of_the_inbound_page_are_understood"),
}
FIRST = ("agents.md", "commands.md", "gates.md", "mcp.md", "missions.md", "processes.md", "work.md")
"""Pages that begin with commands, which a test parses; what they do, the tests of each command show."""
HERE |= {(page, "sh"): (1, "test_the_commands_that_pages_begin_with") for page in FIRST if page != "gates.md"}
NOT_RUN: dict[tuple[str, str], tuple[int, str]] = {
    ("running.md", "sh"): (1, "installs Matins; `make release CHECK=1` does it by pip, pipx and uv"),
    ("chat.md", ""): (1, "a conversation in Slack; its lines are those of tests/chat"),
    ("every-day.md", ""): (
        3,
        "a preview, commands and a crontab; tests/runtime/test_backfills.py and tests/surfaces/http/test_inbound.py",
    ),
    ("internals.md", ""): (5, "drawings of walks and flows"),
    ("events.md", "json"): (1, "the shape of one event; ids and times differ"),
    ("jobs.md", "text"): (1, "the same commands with other values run in tests/docs/test_jobs_page.py"),
    ("mcp.md", "json"): (1, "a file of another program; tests/mcp/test_mcp_install.py writes it"),
    ("runners.md", "toml"): (1, "an entry point; tests/executors/runners/test_runner_conformance.py has one"),
    ("watching.md", "sh"): (1, "installs the extra; tests/service/test_traces.py sends the spans"),
    ("watching.md", "text"): (1, "a drawing of the spans that tests/service/test_traces.py reads"),
    ("work.md", "python"): (1, "a skeleton of a class, with … for its bodies"),
}
"""Blocks that no test runs, and why."""


_NAMED_IN = {"cli.md": "cli_page.py", "file.md": "file_settings_page.py"}
"""The module that names the page, where it is not the test."""


def test_no_block_is_passed_over_in_silence() -> None:
    """B10, B19"""
    found: Counter[tuple[str, str]] = Counter()
    for page in PAGES:
        if page.parent == ROOT and page.name != "README.md":
            continue
        for tag, block in _BLOCK.findall(page.read_text(encoding="utf-8")):
            if (tag, ">>>" in block) not in EVERYWHERE:
                found[page.name, tag] += 1
    known = {**RUN, **HERE, **NOT_RUN}
    assert dict(found) == {key: count for key, (count, _where) in known.items()}


def test_the_tests_that_run_blocks_name_their_page() -> None:
    for (page, _tag), (_count, where) in RUN.items():
        for path in re.findall(r"tests/\S+\.py", where):
            names = Path(path).with_name(_NAMED_IN.get(page, Path(path).name))
            assert page in (ROOT / names).read_text(encoding="utf-8"), (page, path)
    assert all(where in globals() for _count, where in HERE.values())


def matins(home: Path, *words: str) -> str:
    answer = CliRunner().invoke(cli, ["--home", str(home), *words], obj=App(), env={"MATINS_STORE": None})
    assert answer.exit_code == 0, (words, answer.output)
    return answer.stdout


def blocks(page: str, tag: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return [block for found, block in _BLOCK.findall(text) if found == tag]


def test_the_audit_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """gates.md: the three commands, with the seal that the second one prints"""
    (_first, block) = blocks("gates.md", "sh")
    sandbox = Sandbox(f"sqlite:///{tmp_path}/matins.db")
    sandbox.limits.set("global", size=4)
    sandbox.settle()
    sandbox.close()
    monkeypatch.chdir(tmp_path)
    seal = ""
    for line in block.splitlines():
        words = shlex.split(line, comments=True)[1:]
        said = matins(tmp_path, *(seal if "…" in word else word for word in words))
        seal = said.split()[0] if words[1] == "seal" else seal
    assert ":" in seal


@pytest.mark.parametrize("page", FIRST)
def test_the_commands_that_pages_begin_with(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a command with these options; it is not carried out."""
    monkeypatch.setattr(click.Command, "invoke", lambda self, context: None)
    block = blocks(page, "sh")[0]
    assert all(line.startswith("matins ") for line in block.splitlines())
    for line in block.splitlines():
        answer = CliRunner().invoke(cli, shlex.split(line, comments=True)[1:], obj=App())
        assert answer.exit_code == 0, (line, answer.output)


def test_the_commands_in_the_table_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """cli.md: what it names beside its examples has these options too. A group without a command prints its help."""
    monkeypatch.setattr(click.Command, "invoke", lambda self, context: None)
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`matins.*?`) \| ", page, re.MULTILINE)
    commands = [command for cell in cells for command in re.findall(r"`(matins [^`]*)`", cell)]
    assert len(commands) > 30
    for command in commands:
        words = shlex.split(command.replace("[", "").replace("]", ""))[1:]
        answer = CliRunner().invoke(cli, words, obj=App())
        assert "Error:" not in answer.output or "Missing argument" in answer.output, (command, answer.output)


def test_the_files_of_the_inbound_page_are_understood() -> None:
    for text in blocks("inbound.md", "yaml"):
        agents = frozenset(["scout"])
        found = interpret(read(text), RecordContext(0, "UTC", {}, known={"agents": agents}))
        assert found.problems == ()
        assert found.entries
