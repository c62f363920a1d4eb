"""A plain command is the owner's own program: what an agent could have written of it runs only as a person has seen it.
What an agent proposes has the rights of that agent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from security_cast import SCOUT, Watched, at

from house import PATIENCE_S, House, Ordinary, ordinary_account
from matins.runtime.command_files import Line


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Watched]:
    (tmp_path / "home").mkdir()
    with closing(Watched(f"sqlite:///{tmp_path}/home/matins.db", home=tmp_path / "home")) as made:
        made.agents.set("scout", runner="demo")
        yield made


def write(path: Path, text: str = "exit 0") -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


FORMS: dict[str, Any] = {
    "program": lambda script: [str(script)],
    "text": lambda script: f"{script} | sort > /dev/null",
    "interpreter": lambda script: f"nice -n 5 sh {script}",
    "moved": lambda script: f"cd {script.parent} && ./{script.name} --all",
    "nested": lambda script: f"bash -c '. {script}; date'",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", [False, True])
def test_a_changed_script_waits_until_it_is_seen(bench: Watched, tmp_path: Path, form: str, step: bool) -> None:
    """B22: with the usual sentence, until the command is set again or the run is approved"""
    script = write(tmp_path / "backup.sh")
    command = FORMS[form](script)
    work: dict[str, Any] = {"steps": [{"title": "One", "command": command}]} if step else {"command": command}
    bench.add("s", when="5 * * * *", **work)
    bench.run_until(at("08:06"))
    assert bench.last().state == "succeeded"  # the control: as it was set, it runs unasked
    write(script, "exit 1")
    bench.run_until(at("09:06"))
    asked = bench.asked()
    assert (asked.default, asked.request["changed"]) == ("deny", [str(script)])
    assert any(one.sentence.startswith("backup.sh changed since you set it") for one in bench.system.doctor())
    bench.approvals.deny(asked.id)
    bench.run_until(at("09:08"))
    bench.edit("s", **work)
    bench.run_until(at("10:06"))
    assert (bench.last().state, bench.approvals.list()) == ("succeeded", [])


SPELLINGS = (
    "$HOME/x.sh", "BIN=$HOME; $BIN/x.sh", "export PATH=$HOME:$PATH; x.sh", "$TOOLS/x.sh", '[ "$(~/x.sh)" = ok ]',
    "echo `./x.sh`", ". ~/plain", "cat plain | sed s/a/b/ | sh -e", "(cd /tmp); ./x.sh", "cd -- ~ || exit; ./x.sh",
    "timeout 60 bash -c './x.sh --all'", "python3 -m tool", "sudo -u ann sh -e plain", "true&&./x.sh>/dev/null",
)  # fmt: skip
"""A script, as crontabs name it. Its folder is where they start."""


def test_scripts_are_found_however_they_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B16: through variables, in the text of another shell, for its output, read by a shell"""
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "x.sh")
    for name in ("plain", "tool.py"):
        (tmp_path / name).write_text("true")
    ours = {str(tmp_path / name) for name in ("x.sh", "plain", "tool.py")}
    for text in SPELLINGS:
        line = Line(text, str(tmp_path), (("TOOLS", str(tmp_path)),))
        assert ours & line.files().keys(), text
    for text in ("cat plain | python3 -m json.tool", "cp plain /tmp", "sort < plain"):
        assert not ours & Line(text, str(tmp_path), ()).files().keys(), text


@pytest.mark.parametrize("agents", [True, False])
def test_data_may_change_and_so_may_scripts_that_no_agent_writes(bench: Watched, tmp_path: Path, agents: bool) -> None:
    """B22: a nightly copy of a file asks nobody, nor does a person who edits a script where no agent is"""
    if not agents:
        bench.agents.delete("scout")
    script, data = write(tmp_path / "backup.sh"), tmp_path / "notes.txt"
    data.write_text("one")
    bench.add(
        "data", when="5 * * * *", command=f"cp {data} {tmp_path}/copy; gzip -kf {data}; python3 -V > {tmp_path}/v"
    )
    bench.add("s", when="6 * * * *", command=[str(script), str(data)])
    data.write_text("two")
    if not agents:
        write(script, "exit 0 # edited")
    bench.run_until(at("08:08"))
    assert [bench.last(name).state for name in ("data", "s")] == ["succeeded"] * 2


def test_another_setting_takes_no_new_digest(bench: Watched, tmp_path: Path) -> None:
    """B22: an agent must not get its script through with an edit of the description"""
    script = write(tmp_path / "backup.sh")
    bench.add("s", when="5 * * * *", command=[str(script)])
    write(script, "exit 1")
    bench.edit("s", description="Nightly")
    bench.run_until(at("08:06"))
    assert bench.asked().request["changed"] == [str(script)]


def test_a_proposed_command_is_shown_whole_with_its_scripts(bench: Watched, tmp_path: Path) -> None:
    """B22: it is the agent's own, whatever its runner, and always needs a person"""
    script = write(tmp_path / "tidy.sh")
    bench.agent_rules.set("scout", auto_approve_one_shots=True)
    scout = bench.acting_as(SCOUT)
    made = scout.add("s", when="in 1 hour", command=f"sh {script} && date", environment={"KEY": "hunter2"})
    assert (made.state, made.agent) == ("pending", "scout")
    asked = bench.asked()
    assert asked.request["command"] == f"sh {script} && date"
    assert asked.request["environment"] == {"KEY": "…"}
    assert str(script) in asked.request["files"]
    assert asked.request["wakes"]["name"] == "scout"
    assert {"command", "environment"} <= set(asked.request["unusual"])
    assert "shell" not in {agent.name for agent in bench.agents.list()}


def test_b16_a_proposed_command_has_the_rights_of_its_agent() -> None:
    """B16 B22: approved, it runs behind the walls of the agent, where the owner's own runs outside"""
    with ordinary_account() as account:
        _check_rights(account)


def _check_rights(account: Ordinary) -> None:
    house = House(account.home / "home", user=account).up()
    try:
        token = (house.home / "token").read_text().strip()
        steal = f"cat {house.home}/token 2>/dev/null || echo nothing"
        house.ask("schedules.add", name="own", when="every 1 day", command=steal)
        _, output = house.fire("own")
        assert output.strip() == token  # the control: it is the owner's own program
        house.ask("agents.set", name="scout", runner="shell", command=["matins", "add", "in 2 hours", "--name",
                  "proposed", "--command", steal], isolation="required")  # fmt: skip
        house.ask("schedules.add", name="wake", when="every 1 day", agent="scout", prompt="Go.")
        run, said = house.fire("wake")
        assert run.state == "succeeded", said
        (asked,) = house.ask("approvals.list")
        assert asked["request"]["command"] == steal
        house.ask("approvals.approve", approval_id=asked["id"])
        run = house.client.runs.wait(house.client.run("proposed").id, timeout=PATIENCE_S)
        assert (run.state, run.outcome["result"]["isolated"]) == ("succeeded", True)
        assert house.client.runs.output(run.id).text.strip() == "nothing"
    finally:
        house.kill()
