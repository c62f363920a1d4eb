"""What an agent may have written of a pre-check or a hook runs only as a person has seen it, walls or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from security_cast import Watched, at

from matins.executors.job_context import JobContext
from matins.runtime.checks import Check


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    folder = tmp_path / "scripts"
    folder.mkdir()
    return folder


@pytest.fixture
def bench(tmp_path: Path, scripts: Path) -> Iterator[Watched]:
    (tmp_path / "home").mkdir()
    with closing(Watched(f"sqlite:///{tmp_path}/home/matins.db", home=tmp_path / "home")) as made:
        made.agents.set("scout", runner="demo")
        yield made


@pytest.fixture
def kept_bench(kept_url: str, tmp_path: Path) -> Iterator[Watched]:
    """On both kinds of store."""
    (tmp_path / "home").mkdir()
    with closing(Watched(kept_url, home=tmp_path / "home")) as made:
        made.agents.set("scout", runner="demo")
        yield made


def write(path: Path, mark: Path | None = None) -> Path:
    """A script that succeeds; with `mark`, one that an agent made of it."""
    path.write_text("#!/bin/sh\nexit 0\n" if mark is None else f"#!/bin/sh\ntouch {mark}\n")
    path.chmod(0o755)
    return path


COMMANDS = {
    "program": lambda script: [str(script)],
    "interpreter": lambda script: ["sh", str(script)],
    "shell": lambda script: f"cd / && {script} > /dev/null",
    "dot": lambda script: f"sh -c '. {script}'",
    "second line": lambda script: f"test -d /\nsh {script}",
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("setting", ["pre_check", "before_run"])
def test_a_changed_script_does_not_run_and_the_run_waits(
    bench: Watched, scripts: Path, setting: str, command: str
) -> None:
    script, mark = write(scripts / "check.sh"), scripts.parent / "ran"
    bench.add("s", when="5 * * * *", job="work", **{setting: COMMANDS[command](script)})
    bench.run_until(at("08:06"))
    assert [name for name, _ in bench.ran] == ["s"]  # the control: as it was set, it runs unasked
    write(script, mark)
    bench.run_until(at("09:06"))
    assert (bench.last().status, mark.exists(), len(bench.ran)) == ("awaiting_approval", False, 1)
    assert bench.why("s").quote == "check.sh changed since you set it. Approve it to use it as it is now"
    assert any(one.sentence.startswith("check.sh changed since you set it") for one in bench.system.doctor())
    asked = bench.asked()
    assert (asked.policy, asked.default, asked.request["changed"]) == ("owner_approve", "deny", [str(script)])
    bench.approvals.approve(asked.id)
    bench.run_until(at("09:08"))
    assert (bench.last().state, mark.exists(), len(bench.ran)) == ("succeeded", True, 2)
    bench.run_until(at("11:06"))  # its content is known now
    assert (len(bench.ran), bench.approvals.list()) == (4, [])
    assert bench.audit.verify().problems == []


def test_a_file_that_is_gone_has_changed(bench: Watched, scripts: Path) -> None:
    """What a script makes of a missing file is not what the owner set; approved, it may be missing."""
    script, rules = write(scripts / "check.sh"), scripts / "rules"
    rules.write_text("deny\n")
    bench.add("s", when="5 * * * *", job="work", pre_check=["sh", str(script), f"--rules={rules}", "no-file"])
    bench.run_until(at("08:06"))
    assert [name for name, _ in bench.ran] == ["s"]  # the control: a word that never named a file is none
    rules.unlink()
    bench.run_until(at("09:06"))
    assert (bench.last().status, len(bench.ran)) == ("awaiting_approval", 1)
    asked = bench.asked()
    assert (asked.request["changed"], asked.request["files"][str(rules)]) == (
        [str(rules)],
        "not covered: it is missing",
    )
    assert asked.request["outside"] == [f"the content of {rules}: it is missing"]
    bench.approvals.approve(asked.id)
    bench.run_until(at("11:06"))
    assert (len(bench.ran), bench.approvals.list()) == (4, [])


def test_a_file_of_a_former_command_may_be_gone(bench: Watched, scripts: Path) -> None:
    former, script = write(scripts / "former.sh"), write(scripts / "check.sh")
    bench.add("s", when="5 * * * *", job="work", pre_check=[str(former)], before_run=[str(script)])
    bench.edit("s", pre_check=[str(script)])
    former.unlink()
    bench.run_until(at("08:06"))
    assert [name for name, _ in bench.ran] == ["s"]


def test_denied_the_run_ends_and_the_script_did_not_run(bench: Watched, scripts: Path) -> None:
    script, mark = write(scripts / "check.sh"), scripts.parent / "ran"
    bench.add("s", when="5 * * * *", job="work", pre_check=[str(script)])
    write(script, mark)
    bench.run_until(at("08:06"))
    bench.approvals.deny(bench.asked().id)
    bench.run_until(at("08:08"))
    assert (bench.last().state, mark.exists(), bench.ran) == ("denied", False, [])


def test_another_swap_after_the_approval_is_asked_for_again(bench: Watched, scripts: Path) -> None:
    """An approval takes exactly what was shown."""
    script, mark = write(scripts / "check.sh"), scripts.parent / "ran"
    bench.add("s", when="5 * * * *", job="work", pre_check=[str(script)])
    script.write_text("#!/bin/sh\nexit 0 # seen\n")
    bench.run_until(at("08:06"))
    first = bench.asked()
    write(script, mark)
    bench.approvals.approve(first.id)
    bench.run_until(at("08:08"))
    second = bench.asked()
    assert (second.id != first.id, mark.exists(), bench.ran) == (True, False, [])


def test_a_script_swapped_between_gate_and_start_does_not_run(
    bench: Watched, scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that starts the check looks again; the run goes back to its gates, and waits there."""
    script, mark = write(scripts / "check.sh"), scripts.parent / "ran"
    bench.add("s", when="5 * * * *", job="work", pre_check=[str(script)])
    queued = bench.checking.submit

    def swapping(batch: list[Check]) -> None:
        write(script, mark)
        queued(batch)

    monkeypatch.setattr(bench.checking, "submit", swapping)
    bench.run_until(at("08:06"))
    assert (bench.last().status, mark.exists(), bench.ran) == ("awaiting_approval", False, [])


@pytest.mark.parametrize("where", ["link", "folder", "PATH"])
def test_what_leads_to_another_file_counts_as_changed(
    bench: Watched, scripts: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, other = scripts.parent / "ran", scripts.parent / "other"
    other.mkdir()
    write(other / "check.sh", mark)
    script = write(scripts / "check.sh")
    command = [str(script)]
    if where == "link":
        (scripts / "link").symlink_to(script)
        command = [str(scripts / "link")]
    elif where == "PATH":
        monkeypatch.setenv("PATH", f"{scripts}:/usr/bin:/bin")
        command = ["check.sh"]
    bench.add("s", when="5 * * * *", job="work", pre_check=command)
    bench.run_until(at("08:06"))
    assert len(bench.ran) == 1
    if where == "link":
        (scripts / "link").unlink()
        (scripts / "link").symlink_to(other / "check.sh")
    else:
        scripts.rename(scripts.parent / "former")
        other.rename(scripts)
    bench.run_until(at("09:06"))
    assert (bench.last().status, mark.exists(), len(bench.ran)) == ("awaiting_approval", False, 1)


@pytest.mark.parametrize("command", ["test -s {0}", "grep -q x {0}", "/bin/sh {1} > {0}", "{1} && [ -f {0} ]"])
def test_files_that_a_command_only_reads_or_writes_may_change(bench: Watched, scripts: Path, command: str) -> None:
    """The control: a file of data is no script."""
    script, data = write(scripts / "check.sh"), scripts / "inbox"
    data.write_text("x\n")
    bench.add("s", when="5 * * * *", job="work", pre_check=command.format(data, script))
    for hour in ("08:06", "09:06", "10:06"):
        data.write_text(f"x {hour}\n")
        bench.run_until(at(hour))
    assert (len(bench.ran), bench.approvals.list()) == (3, [])


def test_a_script_that_no_agent_can_write_may_change(bench: Watched, scripts: Path, tmp_path: Path) -> None:
    """The control: in the home, which isolated agents do not see; but not in an agent's folder there."""
    script, other = write(tmp_path / "home" / "check.sh"), tmp_path / "home" / "agents" / "scout" / "check.sh"
    other.parent.mkdir(parents=True)
    write(other)
    bench.add("s", when="5 * * * *", job="work", pre_check=["./check.sh"])
    bench.add("t", when="5 * * * *", job="work", pre_check=["agents/scout/check.sh"])
    for path in (script, other):
        path.write_text("#!/bin/sh\nexit 0 # other\n")
    bench.run_until(at("08:06"))
    assert [name for name, _ in bench.ran] == ["s"]
    assert [approval.schedule for approval in bench.approvals.list()] == ["t"]


def test_without_an_agent_no_approval_is_requested(tmp_path: Path, scripts: Path) -> None:
    with closing(Watched(f"sqlite:///{tmp_path}/matins.db")) as bench:
        script = write(scripts / "check.sh")
        bench.add("s", when="5 * * * *", job="work", pre_check=[str(script)])
        script.write_text("#!/bin/sh\nexit 0 # other\n")
        bench.run_until(at("08:06"))
        assert [name for name, _ in bench.ran] == ["s"]


@pytest.mark.parametrize("again", ["the command", "another setting"])
def test_only_a_command_that_is_set_again_takes_its_file_as_it_is(bench: Watched, scripts: Path, again: str) -> None:
    """An edit of another setting is no word about a script that an agent changed meanwhile."""
    script, mark = write(scripts / "check.sh"), scripts.parent / "ran"
    bench.add("s", when="5 * * * *", job="work", pre_check=[str(script)])
    write(script, mark)
    bench.edit("s", **({"pre_check": [str(script)]} if again == "the command" else {"retries": 2}))
    bench.run_until(at("08:06"))
    assert (len(bench.ran), mark.exists()) == ((1, True) if again == "the command" else (0, False))


def test_the_next_run_is_not_asked_for_when_the_command_is_set_again(bench: Watched, scripts: Path) -> None:
    script = write(scripts / "check.sh")
    bench.add("s", when="5 * * * *", job="work", pre_check=[str(script)])
    script.write_text("#!/bin/sh\nexit 0 # the owner's\n")
    bench.run_until(at("08:06"))
    assert bench.last().status == "awaiting_approval"
    bench.edit("s", pre_check=[str(script)])
    bench.approvals.approve(bench.asked().id)  # V7: the run that waits keeps the settings that it was planned with
    bench.run_until(at("09:06"))
    assert (bench.last().state, len(bench.ran), bench.approvals.list()) == ("succeeded", 2, [])


def test_a_file_that_is_saved_again_takes_no_new_digest(bench: Watched, scripts: Path, tmp_path: Path) -> None:
    """matins.yaml: the digest is taken when a command is written there, not whenever the file is read."""
    script, mark, file = write(scripts / "check.sh"), scripts.parent / "ran", tmp_path / "home" / "matins.yaml"

    def save(more: str) -> None:
        file.write_text(f"schedules:\n  s:\n    when: 5 * * * *\n    job: work\n    pre_check: [{script}]\n{more}")
        bench.file.apply()

    bench.watch_file(file)
    save("")
    bench.run_until(at("08:06"))
    assert len(bench.ran) == 1
    write(script, mark)
    save("    retries: 2\n")
    bench.run_until(at("09:06"))
    assert (bench.last().status, mark.exists(), len(bench.ran)) == ("awaiting_approval", False, 1)


# -- hooks of all schedules, and commands after a run


@pytest.mark.parametrize("event", ["before:schedule:trigger", "after:run"])
def test_a_hook_of_all_schedules_is_asked_for_once(kept_bench: Watched, scripts: Path, event: str) -> None:
    """Approved with one run, it counts for every schedule; their runs go on."""
    script, mark = write(scripts / "hook.sh"), scripts.parent / "ran"
    bench = kept_bench
    bench.hooks.set(event, command=[str(script)])
    for name in ("s", "t"):
        bench.add(name, when="5 * * * *", job="work")
    bench.run_until(at("08:06"))
    assert len(bench.ran) == 2
    write(script, mark)
    bench.run_until(at("09:06"))
    assert (bench.last("s").status, bench.last("t").status, mark.exists()) == (
        "awaiting_approval",
        "awaiting_approval",
        False,
    )
    bench.approvals.approve(bench.asked("s").id)
    bench.run_until(at("09:08"))
    assert (bench.last("s").state, bench.last("t").state, bench.approvals.list()) == ("succeeded", "succeeded", [])
    assert event == "after:run" or mark.exists()
    assert bench.audit.verify().problems == []


def test_a_hook_that_is_set_again_lets_waiting_runs_go_on(bench: Watched, scripts: Path) -> None:
    script, event = write(scripts / "hook.sh"), "before:schedule:trigger"
    bench.hooks.set(event, command=[str(script)])
    bench.add("s", when="5 * * * *", job="work")
    script.write_text("#!/bin/sh\nexit 0 # other\n")
    bench.hooks.edit(event, timeout="20s")  # no word about the script
    bench.run_until(at("08:06"))
    assert bench.last().status == "awaiting_approval"
    bench.hooks.set(event, command=[str(script)])
    bench.run_until(at("08:08"))
    assert (bench.last().state, bench.approvals.list()) == ("succeeded", [])


@pytest.mark.parametrize("by", ["the run", "no process"])
def test_a_run_cannot_change_the_command_after_it(bench: Watched, scripts: Path, by: str) -> None:
    script, mark, ran = scripts / "after.sh", scripts.parent / "mark", scripts.parent / "ran"
    write(script, mark)

    def work(run: JobContext) -> None:
        if by == "the run":
            write(script, ran)

    bench.job("tamper")(work)
    bench.add("s", when="5 * * * *", job="tamper", after_run=[str(script)])
    bench.run_until(at("08:06"))
    while bench.outbox.run_once(bench.clock.now_ms()) == 0:
        pass
    assert (mark.exists(), ran.exists()) == (by == "no process", False)
    if by == "the run":
        (check,) = [one for one in bench.runs.checks(bench.last().id) if one.gate == "after"]
        assert check.reason == "after.sh changed since you set it. It did not run; the next run waits for approval"
        bench.run_until(at("09:06"))
        assert bench.last().status == "awaiting_approval"


def test_an_expired_request_does_not_allow_a_changed_script(bench: Watched, scripts: Path) -> None:
    """Where a request that expires would approve the run, one about a changed script does not."""
    script, mark = write(scripts / "check.sh"), scripts.parent / "ran"
    words = {"approval": "owner_approve", "approval_default": "approve", "approval_timeout": "10m"}
    bench.add("s", when="5 * * * *", job="work", pre_check=[str(script)], **words)
    bench.run_until(at("08:30"))
    assert len(bench.ran) == 1  # the control
    write(script, mark)
    bench.run_until(at("09:30"))
    assert (bench.last().state, mark.exists(), len(bench.ran)) == ("expired", False, 1)
