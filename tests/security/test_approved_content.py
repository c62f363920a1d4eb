"""What was approved is what runs: the card shows every setting, and the digest covers the scripts in commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from security_cast import SCOUT, Watched, at

ALL = {
    "retries": 3, "retry_delay": "1m", "overlap": "queue", "queue_limit": 5, "catch_up": "run_once",
    "max_cost": "$1.50",
    "timezone": "Europe/Berlin", "grace": "2h", "timeout": "10m", "jitter": 5.0, "on_unknown": "hold",
}  # fmt: skip


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Watched]:
    with closing(Watched(f"sqlite:///{tmp_path}/matins.db")) as made:
        yield made


def ask_with_script(bench: Watched, folder: Path) -> Path:
    """A run that waits for approval, and the script that follows it."""
    script = folder / "check.sh"
    script.write_text("exit 0\n")
    bench.add("s", when="5 * * * *", job="work", approval="owner_approve", after_run=["sh", script.name])
    bench.run("s")
    bench.settle()
    return script


def test_b7_the_card_shows_every_setting_as_people_write_it(bench: Watched) -> None:
    """B7: retries, overlap, catch-up, limits and zone; amounts as money; what is unusual"""
    bench.add("s", when="5 * * * *", job="work", approval="owner_approve", **ALL)
    bench.run("s")
    bench.settle()
    request = bench.asked().request
    shown = {name: request[name] for name in ALL}
    assert shown == ALL
    assert {"max_cost", "approval"} <= set(request["unusual"])


def test_b7_the_card_says_what_the_digest_does_not_cover(bench: Watched, tmp_path: Path) -> None:
    """B7"""
    (tmp_path / "large").write_bytes(bytes(1_000_001))
    bench.agents.set("a", runner="shell", command=["cat", "large"], environment={"K": "env:KEY"}, workdir=str(tmp_path))
    bench.work_sources.set("todo", kind="tasks")
    bench.add("s", when="5 * * * *", agent="a", work_source="todo", prompt="{{work.title}}", approval="owner_approve")
    bench.run("s")
    bench.settle()
    request = bench.asked().request
    assert request["files"] == {str(tmp_path / "large"): "not covered: it is larger than 1 MB"}
    said = "; ".join(request["outside"])
    for part in ('the item of "todo"', "the value of env:KEY", "larger than 1 MB", "tools read"):
        assert part in said


def test_b7_a_link_through_proc_needs_another_approval_and_is_named_on_the_card(bench: Watched, tmp_path: Path) -> None:
    """B7: the run would see another file behind it than the engine, so no digest covers it"""
    script = ask_with_script(bench, tmp_path)
    first = bench.asked()
    assert "outside" not in first.request  # control: an ordinary script is covered
    script.unlink()
    script.symlink_to("/proc/self/cwd/x.sh")
    bench.approvals.approve(first.id)
    bench.settle()
    second = bench.asked()
    assert (second.id != first.id, bench.ran) == (True, [])
    assert second.request["outside"] == [f"the content of {script}: it leads through /proc"]


@pytest.mark.parametrize("place", ["pre_check", "shell text", "option"])
def test_b7_a_script_that_changes_after_the_approval_needs_another(bench: Watched, tmp_path: Path, place: str) -> None:
    """B7: its content is in the digest, at the request and at the start"""
    script = tmp_path / "check.sh"
    script.write_text("exit 0\n")
    command = {"pre_check": ["sh", "check.sh"], "shell text": "sh ./check.sh", "option": ["sh", f"--rcfile={script}"]}
    bench.add("s", when="5 * * * *", job="work", approval="owner_approve", after_run=command[place])
    bench.run("s")
    bench.settle()
    first = bench.asked()
    assert [Path(path).name for path in first.request["files"]] == ["check.sh"]
    script.write_text("rm -rf /\n")
    bench.approvals.approve(first.id)
    bench.settle()
    second = bench.asked()
    assert (second.id != first.id, second.digest != first.digest, bench.ran) == (True, True, [])
    bench.approvals.approve(second.id)
    bench.run_until(at("08:02"))
    assert [name for name, _ in bench.ran] == ["s"]


def test_b7_a_proposal_covers_the_scripts_that_it_names(bench: Watched, tmp_path: Path) -> None:
    """B7: a yes to a script that has changed since is no yes; the card is shown again"""
    script = tmp_path / "check.sh"
    script.write_text("exit 0\n")
    bench.acting_as(SCOUT).add("t", when="every 1h", job="work", pre_check=["sh", "check.sh"])
    first = bench.asked("t")
    assert list(first.request["files"]) == [str(script)]
    assert "outside" not in first.request
    script.write_text("rm -rf /\n")
    second = bench.approvals.approve(first.id)
    assert (second.state, second.id != first.id, second.digest != first.digest) == ("pending", True, True)
    assert second.request["files"] != first.request["files"]
    assert (bench.approvals.get(first.id).state, bench.get("t").state) == ("void", "pending")
    assert bench.approvals.approve(second.id).state == "used"
    assert bench.get("t").state == "active"
    assert bench.audit.verify().problems == []


def test_b7_a_proposal_covers_the_agent_that_it_wakes(bench: Watched) -> None:
    """B7: an agent that was changed since is shown again"""
    bench.agents.set("scout", runner="demo")
    bench.acting_as(SCOUT).add("t", when="every 1h", prompt="Go.", agent="scout")
    first = bench.asked("t")
    bench.agents.edit("scout", model="other")
    second = bench.approvals.approve(first.id)
    assert (second.state, second.id != first.id) == ("pending", True)
    assert bench.approvals.deny(second.id).state == "denied"


@pytest.fixture
def proposed(bench: Watched, tmp_path: Path) -> Path:
    """The script of an agent's schedule, which a person has approved and which has run."""
    script = tmp_path / "check.sh"
    script.write_text("exit 0\n")
    bench.acting_as(SCOUT).add("t", when="5 * * * *", job="work", pre_check=["sh", "check.sh"])
    bench.approvals.approve(bench.asked("t").id)
    bench.run_until(at("09:06"))
    assert [name for name, _ in bench.ran] == ["t", "t"]
    return script


def test_b7_a_script_that_changes_after_a_proposal_was_approved_needs_another(
    bench: Watched, proposed: Path, tmp_path: Path
) -> None:
    """B7: later runs wait and say why; the check does not run the new script before; one approval is enough"""
    proposed.write_text(f"touch {tmp_path}/ran\n")
    bench.run_until(at("10:06"))
    (waits, *_) = bench.runs.list(schedule="t")
    assert (waits.state, waits.status, len(bench.ran)) == ("waiting", "awaiting_approval", 2)
    assert f"{proposed.name} changed since you set it" in (bench.why("t", agent="scout").quote or "")
    assert not (tmp_path / "ran").exists()
    asked = bench.asked("t")
    assert (asked.kind, asked.policy, asked.request["changed"]) == ("run", "owner_approve", [str(proposed)])
    bench.approvals.approve(asked.id)
    bench.run_until(at("10:08"))
    assert (bench.last("t").state, (tmp_path / "ran").exists(), len(bench.ran)) == ("succeeded", True, 3)
    assert bench.approvals.get(asked.id).state == "used"
    bench.run_until(at("12:06"))
    assert (len(bench.ran), [one for one in bench.approvals.list() if one.schedule == "t"]) == (5, [])
    assert bench.audit.verify().problems == []


def test_b7_a_script_that_is_gone_after_a_proposal_was_approved_needs_another(bench: Watched, proposed: Path) -> None:
    """B7: also where the command does without it"""
    proposed.unlink()
    bench.run_until(at("10:06"))
    assert (bench.last("t").status, len(bench.ran)) == ("awaiting_approval", 2)
    asked = bench.asked("t")
    assert asked.request["changed"] == [str(proposed)]
    bench.approvals.approve(asked.id)
    bench.run_until(at("10:08"))
    assert bench.last("t").state == "skipped"  # its check fails: there is no script


def test_b7_a_script_that_changes_between_the_approval_and_the_start_is_asked_for_again(
    bench: Watched, proposed: Path
) -> None:
    """B7: an approval is for the content that was shown; a denial ends the run"""
    proposed.write_text("exit 0 # other\n")
    bench.run_until(at("10:06"))
    first = bench.asked("t")
    proposed.write_text("exit 0 # third\n")
    bench.approvals.approve(first.id)
    bench.run_until(at("10:08"))
    second = bench.asked("t")
    assert (second.id != first.id, bench.approvals.get(first.id).state, len(bench.ran)) == (True, "void", 2)
    bench.approvals.deny(second.id)
    bench.run_until(at("10:09"))
    assert (bench.last("t").state, len(bench.ran)) == ("denied", 2)


def test_b7_a_script_that_is_as_it_was_again_needs_no_other(bench: Watched, proposed: Path) -> None:
    """B7: also when history was pruned; another script that the owner names is the owner's word"""
    bench.clock.advance(200 * 86_400_000)
    bench.settle()
    bench.engine.maintenance.prune(bench.clock.now_ms())
    ran = len(bench.ran)
    bench.run("t")
    bench.run_until(bench.clock.now_ms() + 600_000)
    assert len(bench.ran) > ran
    proposed.write_text("exit 0 # other\n")
    bench.run("t")
    bench.run_until(bench.clock.now_ms() + 600_000)
    assert bench.asked("t").request["changed"] == [str(proposed)]
    bench.approvals.deny(bench.asked("t").id)
    (proposed.parent / "own.sh").write_text("exit 0\n")
    bench.edit("t", pre_check=["sh", "own.sh"])
    ran = len(bench.ran)
    bench.run("t")
    bench.run_until(bench.clock.now_ms() + 600_000)
    assert len(bench.ran) > ran
    assert [one for one in bench.approvals.list() if one.schedule == "t"] == []


def test_b7_a_script_that_changes_all_the_time_does_not_stop_the_engine(bench: Watched, tmp_path: Path) -> None:
    """B7: it is read once for a decision; a run that was not approved as it is then waits"""
    script = ask_with_script(bench, tmp_path)
    bench.approvals.approve(bench.asked().id)
    consume = bench.engine.clearance.consume_approval

    def late(*arguments: Any) -> None:
        script.write_text("exit 1\n")
        consume(*arguments)

    bench.engine.clearance.consume_approval = late  # type: ignore[method-assign]
    bench.executor.before = lambda attempt: None  # it compares with the file as it is then
    bench.settle()
    assert [name for name, _ in bench.ran] == ["s"]
