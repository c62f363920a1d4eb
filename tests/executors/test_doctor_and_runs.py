"""What keeps a run from starting, `doctor` says in the same words, before the run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from office import Office

from matins import Matins, Run
from matins.api.results import Finding
from matins.executors import isolation
from matins.executors.processes.walls import Probe
from matins.executors.registry import runners
from standin_path import standin_path

Prepare = Callable[[Matins, Path, pytest.MonkeyPatch], None]
REFUSED = Probe(False, "unshare: Operation not permitted", "unshare")
ROOT = "Matins is root, and the agent has no user: it could change everything here."


class Refusal(NamedTuple):
    prepare: Prepare
    """Makes the schedule "s", whose runs cannot start."""
    sentence: str
    what: str = "agent ann"


def shell(m: Matins, **settings: Any) -> None:
    m.agents.set("ann", **{"runner": "shell", "command": ["true"], **settings})
    m.add("s", when="every 1 day", agent="ann", prompt="Go.")


def no_runner(m: Matins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell(m)
    monkeypatch.delitem(runners(), "shell")


def no_folder(m: Matins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    shell(m, workdir=str(tmp_path / "work"))
    (tmp_path / "work").rmdir()


def no_own_folder(m: Matins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell(m)
    shutil.rmtree(tmp_path / "agents", ignore_errors=True)
    (tmp_path / "agents").write_text("no folder")


def no_secret(m: Matins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell(m, environment={"KEY": "env:NOT_SET_HERE"})


def no_program(m: Matins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell(m, command=["no-such-tool"])


def no_account(m: Matins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:  # it was deleted since then
        before.setattr("matins.service.records.entry_of", lambda user: None)
        shell(m, user="no-such-user")


def is_root(m: Matins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell(m)
    monkeypatch.setattr(isolation, "needs_account", lambda agent: True)


def not_isolated(m: Matins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell(m, isolation="required")
    monkeypatch.setattr(isolation, "is_root", lambda agent: False)


def in_the_home(m: Matins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell(m, workdir=str(tmp_path))


def host_not_allowed(m: Matins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    m.agents.set("ann", runner="openai", model="m", url="http://10.0.0.1/v1", environment={"OPENAI_API_KEY": "env:K"})
    m.add("s", when="every 1 day", agent="ann", prompt="Go.")
    monkeypatch.setenv("K", "secret")


def no_agent(m: Matins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell(m)
    with m.store.transaction(m.clock.now_ms()) as transaction:
        transaction.delete_policy("agent", "ann")


def no_service(m: Matins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    m.agents.set("ann", runner="shell", command=["true"])
    m.add("s", when="every 1 day", agent="ann", job="improvement_loop")
    m.services["improvement_loop"] = None


def no_work_file(m: Matins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "TASKS.yaml").write_text("tasks: 7\n")
    m.work_sources.set("backlog", kind="tasks", path=str(tmp_path / "TASKS.yaml"))
    m.agents.set("ann", runner="shell", command=["true"])
    m.add("s", when="every 1 day", agent="ann", prompt="{{work.title}}", work_source="backlog")


def no_folder_for_the_job(m: Matins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K", "secret")
    settings: dict[str, Any] = {"url": "https://x.test/v1", "environment": {"OPENAI_API_KEY": "env:K"}}
    m.agents.set("ann", runner="openai", model="m", **settings)
    m.add("s", when="every 1 day", agent="ann", job="work_task", payload={"description": "Paint it."})


def no_memory(m: Matins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    m.add("s", when="every 1 day", job="memory-index-regen")


def no_pre_check(m: Matins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path)
    m.agents.set("ann", runner="shell", command=["true"])
    m.add("s", when="every 1 day", agent="ann", prompt="Go.", pre_check=[str(tmp_path / "check")])
    (tmp_path / "check").chmod(0o644)


def no_hook(m: Matins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path)
    shell(m)
    m.hooks.set("before:schedule:trigger", command=f"{tmp_path}/check --now")
    (tmp_path / "check").chmod(0o644)


def script(tmp_path: Path) -> None:
    (tmp_path / "check").write_text("#!/bin/sh\n")
    (tmp_path / "check").chmod(0o755)


REFUSALS = {
    "no runner": Refusal(no_runner, 'There is no runner "shell".'),
    "no folder": Refusal(no_folder, "/work is not a folder."),
    "no own folder": Refusal(no_own_folder, "agents/ann cannot be created: Not a directory."),
    "no secret": Refusal(no_secret, "KEY refers to env:NOT_SET_HERE, but the environment has no NOT_SET_HERE."),
    "no program": Refusal(no_program, '"no-such-tool" is not on PATH.'),
    "no account": Refusal(no_account, 'There is no user "no-such-user" on '),
    "root": Refusal(is_root, ROOT),
    "not isolated": Refusal(not_isolated, "It cannot be isolated: unshare: Operation not permitted."),
    "in the home": Refusal(in_the_home, "the home of Matins."),
    "host not allowed": Refusal(host_not_allowed, "10.0.0.1"),
    "no agent": Refusal(no_agent, 'here is no agent "ann"', "schedule s"),
    "no service": Refusal(no_service, "Improvement loop service not available", "schedule s"),
    "no work": Refusal(no_work_file, "TASKS.yaml", "schedule s"),
    "no folder for the job": Refusal(
        no_folder_for_the_job, "The job needs an agent that works in a folder, and openai does not.", "schedule s"
    ),
    "no memory": Refusal(no_memory, "/memory is not a folder.", "schedule s"),
    "no pre-check": Refusal(no_pre_check, "/check may not be executed.", "schedule s"),
    "no hook": Refusal(no_hook, "/check may not be executed.", "hook before:schedule:trigger"),
}


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    monkeypatch.setenv("PATH", standin_path())
    made = Office(f"sqlite:///{tmp_path}/matins.db", home=tmp_path)
    with made.matins:
        yield made
    made.matins.close()


def said(office: Office, run: Run) -> str:
    """All that the run says about why it did not start."""
    return " ".join([str((run.outcome or {}).get("error")), str(run.reason), str(run), str(office.matins.why("s"))])


@pytest.mark.parametrize("case", REFUSALS)
def test_a_run_and_doctor_say_the_same(
    office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """Whatever keeps a run from starting"""
    refusal = REFUSALS[case]
    if case == "not isolated":
        monkeypatch.setattr(isolation.Isolation, "refusal", lambda self, agent: REFUSED.problem)
    refusal.prepare(office.matins, tmp_path, monkeypatch)
    found: list[Finding] = [
        one for one in office.matins.system.doctor() if one.what == refusal.what and one.ok is False
    ]
    matching = [one for one in found if refusal.sentence in one.sentence]
    assert len(matching) == 1, found
    run = office.fire("s")
    assert run.state in ("failed", "skipped")
    assert matching[0].sentence.strip(".").lower() in said(office, run).lower()
    assert matching[0].fix
