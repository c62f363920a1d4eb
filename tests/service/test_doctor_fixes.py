"""Every fix that `doctor` prints can be typed as it is printed: its commands exist, and have real names."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest

from matins.api.results import Finding
from matins.executors import agent_checks, isolation
from matins.executors.isolation import Places
from matins.executors.processes.walls import Probe
from matins.model.run import RunState
from matins.service import doctor
from matins.surfaces.cli.main import cli
from matins.testing import ManualClock, Sandbox

START = "2026-03-27T08:00:00Z"
_COMMAND = re.compile(r"(?:^|: |&& |; |Run |, then )(matins (?:'[^']*'|[^;'#&])+)")
_PLACEHOLDER = re.compile(r"\b(?:NAME|ACCOUNT|OUTCOME|DIR|KIND|EVENT|AGENT|RUN)\b|…")


def commands_in(fix: str) -> list[list[str]]:
    """The commands of Matins in a fix, each as its words. A sentence ends with a full stop, a command does not."""
    return [
        shlex.split(found[1].removesuffix(".")) for found in _COMMAND.finditer(fix.replace(", then matins", "; matins"))
    ]


def check_fix(fix: str) -> None:
    assert not _PLACEHOLDER.search(fix), fix
    assert len(commands_in(fix)) == len(re.findall(r"\bmatins [a-z]", fix)), f"a command is not found in: {fix}"
    for words in commands_in(fix):
        parse(words[1:])


def parse(words: list[str]) -> None:
    """Read the words as the command line does. Nothing is called."""
    command: click.Command = cli
    context = cli.make_context("matins", words)
    while isinstance(command, click.Group) and (rest := [*context._protected_args, *context.args]):
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None, words
        command, context = found, found.make_context(name, rest, parent=context)
    assert not isinstance(command, click.Group) or command.invoke_without_command, words


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Sandbox]:
    tmp_path.chmod(0o700)
    with closing(Sandbox(f"sqlite:///{tmp_path}/matins.db", clock=ManualClock(START))) as made:
        made.job("work")(lambda run: None)
        places = Places(tmp_path / "runs", tmp_path)
        made._service.local.isolation = isolation.Isolation(lambda: places, lambda: Probe(True))
        yield made


def fixes(bench: Sandbox) -> list[str]:
    return [finding.fix for finding in bench.system.doctor() if finding.fix is not None]


AGENTS: dict[str, dict[str, Any]] = {
    "no key": {"runner": "claude"},
    "no permission": {"runner": "codex"},
    "as root": {"runner": "claude", "permission_mode": "bypassPermissions"},
    "no program": {"runner": "shell", "command": ["no-such-tool"]},
    "no secret": {"runner": "demo", "environment": {"K": "env:NOT_SET_HERE"}},
    "no price": {"runner": "codex", "model": "my own 7b", "max_cost": "$2"},
    "no model": {"runner": "goose", "max_cost": "$2"},
    "no account": {"runner": "demo", "user": "no-such-user"},
    "http": {"runner": "http", "url": "https://x.test/wake"},
    "with literals": {"runner": "http", "url": "https://x.test/wake", "environment": {"A": "b"}},
    "with references": {"runner": "http", "url": "https://x.test/wake", "environment": {"A": "env:PATH"}},
    "required": {"runner": "shell", "command": ["true"], "isolation": "required"},
    "off": {"runner": "shell", "command": ["true"], "isolation": "none"},
}


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("problem", [None, "unshare: Operation not permitted"])
def test_fixes_of_agents(bench: Sandbox, monkeypatch: pytest.MonkeyPatch, name: str, problem: str | None) -> None:
    """Also of an agent whose name needs quotes"""
    monkeypatch.setattr(isolation.Isolation, "refusal", lambda self, agent: problem)
    monkeypatch.setattr("matins.service.records.entry_of", lambda user: None)  # an account that is deleted later
    bench.agents.set(f"my {name}", **AGENTS[name])
    found = fixes(bench)
    assert found
    for fix in found:
        check_fix(fix)


def test_an_agent_keeps_its_other_variables(bench: Sandbox) -> None:
    """The fix adds a variable, and shows no value that may be a secret"""
    bench.agents.set("ref", runner="http", url="https://x.test/wake", environment={"A": "env:PATH"})
    bench.agents.set("lit", runner="http", url="https://x.test/wake", environment={"A": "s3cr3t"})
    found = {one.what: str(one.fix) for one in bench.system.doctor() if one.ok is False}
    (words,) = commands_in(found["agent ref"])
    assert words[:4] == ["matins", "agents", "edit", "ref"]
    assert ast.literal_eval(words[5])["A"] == "env:PATH"
    assert "s3cr3t" not in str(found)


def test_fixes_of_schedules(bench: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that changed, jobs that are missing, runs that are held, wakes that cost much"""
    bench.agents.set("ann", runner="claude")
    (tmp_path / "check.sh").write_text("exit 0\n")
    bench.add("a plan", when="every 1 day", agent="ann", prompt="Go.", pre_check=["sh", f"{tmp_path}/check.sh"])
    bench.add("many", when="*/5 * * * * *", agent="ann", prompt="Go.")
    bench.add("memory", when="every 1 day", job="memory-index-regen")
    bench.hooks.set("before:schedule:trigger", command=f"sh {tmp_path}/check.sh")
    monkeypatch.setattr(doctor, "changed_of", lambda commands, known, policies: [f"{tmp_path}/check.sh"])
    with bench.store.transaction(bench.clock.now_ms()) as transaction:
        transaction.delete_policy("agent", "ann")
    gone = fixes(bench)
    bench.agents.set("ann", runner="claude")
    found = [*gone, *fixes(bench)]
    for fix in found:
        check_fix(fix)
    text = "\n".join(found)
    for part in (
        "agents set ann",
        "edit 'ann/a plan' --pre-check",
        "hooks set before",
        "--when '*/5 * * * *'",
        "mkdir",
    ):
        assert part in text, part


def test_fixes_of_the_rest(bench: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store, its disk and permissions, webhooks, the file, and no engine"""
    usage = shutil.disk_usage("/")._replace(free=1)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    tmp_path.chmod(0o755)
    (tmp_path / "matins.db").chmod(0o644)
    bench.webhooks.add("ops desk", "https://example.com/hook")
    with bench.store.transaction(bench.clock.now_ms()) as transaction:
        event = transaction.events_after(0, 1)[0]
        transaction.insert_deliveries("ops desk", [event], bench.clock.now_ms())
        transaction.discard_delivery("ops desk", event, 9, "no answer")
    bench.webhooks.pause("ops desk")
    path = tmp_path / "matins.yaml"
    path.write_text("schedules:\n  s: {when: 1h, job: work}\n")
    bench.watch_file(path)
    bench.engine.close()
    found = fixes(bench)
    for fix in found:
        check_fix(fix)
    text = "\n".join(found)
    for part in (
        "webhooks resume 'ops desk'",
        "webhooks redeliver 'ops desk'",
        "matins up",
        "chmod go=",
        "matins apply",
    ):
        assert part in text, part


def test_fixes_of_runs_that_wait_for_a_person(bench: Sandbox) -> None:
    """A run that is held, and one whose worker is gone"""
    bench.add("a plan", when="every 1h", job="work")
    bench.run("a plan")
    store: Any = bench.store
    found: list[Finding] = []
    for state in (RunState.HELD, RunState.RUNNING):
        store._connection.execute("UPDATE runs SET state = ?, owner = 4711", (int(state),))
        found += [finding for finding in bench.system.doctor() if finding.what == "runs"]
    assert len(found) == 2
    for finding in found:
        check_fix(str(finding.fix))


FILE = """\
agents:
  paid: {runner: claude, isolation: none}
  plain: {runner: shell, command: ["true"]}
schedules:
  many: {when: "*/5 * * * * *", agent: paid, prompt: Go.}
  checked: {when: 1d, agent: paid, prompt: Go., pre_check: sh /check.sh}
hooks:
  "before:schedule:trigger": {command: sh /hook.sh}
"""


def test_the_fix_of_a_record_of_the_file_is_its_line(
    bench: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that edits it is refused. The lines are written as they are printed, and nothing is left to fix."""
    path = tmp_path / "matins.yaml"
    path.write_text(FILE)
    bench.watch_file(path).check()
    monkeypatch.setattr(doctor, "changed_of", lambda commands, known, policies: ["/check.sh"])
    text = "\n".join(fixes(bench))
    assert f"in {path}, line 2, write isolation: auto" in text
    assert f"in {path}, line 5, write when: '*/5 * * * *'" in text
    assert "matins agents edit paid" not in text
    assert "matins edit" not in text
    assert "hooks set" not in text
    lines = FILE.splitlines()
    lines[1] = lines[1].replace("isolation: none", "isolation: auto")
    lines[4] = lines[4].replace('when: "*/5 * * * * *"', "when: '*/5 * * * *'")
    path.write_text("\n".join(lines) + "\n")
    bench.file.apply()
    assert bench.get("many").trigger_text == "every 5 minutes on the clock"
    text = "\n".join(fixes(bench))
    assert "isolation: auto" not in text
    assert "write when" not in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs an account for its agents")
@pytest.mark.usefixtures("accounts_needed")
def test_root_needs_an_account_to_isolate_an_agent_again(bench: Sandbox, tmp_path: Path) -> None:
    """Without one, the edit would be refused; also in the file"""
    bench.agents.set("a b", runner="shell", command=["true"], isolation="none")
    path = tmp_path / "matins.yaml"
    path.write_text(FILE.replace('["true"]', '["true"], isolation: none'))
    bench.watch_file(path).check()
    found = fixes(bench)
    assert "useradd -m robin && matins agents edit 'a b' --user robin --isolation auto" in found
    assert f"useradd -m robin, then in {path}, line 2, write user: robin and write isolation: auto" in found


def test_no_fix_has_a_word_to_replace() -> None:
    """In the text of the modules that write them"""
    for module in (doctor, agent_checks, isolation):
        source = Path(str(module.__file__)).read_text()
        texts = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
        assert [text for text in texts if isinstance(text, str) and re.search(r"matins .*\b[A-Z]{3,}\b", text)] == []
