"""`worktree: per_run`: real git, real processes; a run works in a worktree of its agent's checkout. Row B22."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from jobs import job_bench
from matins import Matins, Run

m = job_bench.m


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def garden(tmp_path: Path) -> Path:
    folder = tmp_path / "garden"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs/gate.md").write_text("open\n")
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "A garden")
    return folder


def fire(m: Matins, folder: Path, script: str, **settings: Any) -> Run:
    m.agents.set(
        "magpie",
        runner="shell",
        command=["sh", "-c", script],
        workdir=str(folder),
        worktree="per_run",
        isolation="none",
    )
    m.add("s", when="0 0 1 1 *", agent="magpie", prompt="Go on", **settings)
    return m.runs.wait(m.run("s").id, timeout=90)


def is_clean(folder: Path) -> bool:
    return (git(folder, "status", "--porcelain"), git(folder, "branch", "--show-current")) == ("", "main")


def test_b22_what_a_run_changed_is_kept_in_its_worktree(m: Matins, garden: Path) -> None:
    """B22: the checkout itself stays as it is, and the result names branch and folder"""
    run = fire(m, garden, "cat >/dev/null; pwd; echo shut > docs/gate.md")
    assert run.state == "succeeded", run.outcome
    result = (run.outcome or {})["result"]
    kept = Path(result["job"]["worktree"])
    assert result["text"].strip() == str(kept)
    assert (kept / "docs/gate.md").read_text() == "shut\n"
    assert git(kept, "branch", "--show-current") == result["job"]["branch"]
    assert is_clean(garden)
    assert "is kept" in m.runs.output(run.id, stream="stderr").text


def test_b22_a_commit_is_a_change(m: Matins, garden: Path) -> None:
    run = fire(m, garden, "cat >/dev/null; echo shut > docs/gate.md; git commit --quiet --all --message Shut")
    branch = (run.outcome or {})["result"]["job"]["branch"]
    assert git(garden, "log", "--format=%s", f"main..{branch}") == "Shut"


def test_b22_a_worktree_without_changes_is_removed(m: Matins, garden: Path, tmp_path: Path) -> None:
    """From a folder below the checkout, the run works in the same one below its worktree."""
    run = fire(m, garden / "docs", "cat >/dev/null; pwd; cat gate.md")
    text = (run.outcome or {})["result"]["text"]
    assert Path(text.splitlines()[0]).match("*/agents/magpie/worktrees/*/docs")
    assert text.splitlines()[1] == "open"
    assert list((tmp_path / "agents/magpie/worktrees").iterdir()) == []
    assert git(garden, "branch", "--format=%(refname:short)") == "main"
    assert is_clean(garden)


def test_b21_a_report_that_git_ignores_goes_with_the_answer(m: Matins, garden: Path) -> None:
    """B21: its worktree stays, since its files are the result"""
    script = "cat >/dev/null; echo out > .git/info/exclude; mkdir out; echo 7 > out/report.csv"
    script = script.replace(".git/info", "$(git rev-parse --git-common-dir)/info")
    run = fire(m, garden, script, attach=["out/*.csv"])
    result = (run.outcome or {})["result"]
    assert ([file["name"] for file in result["files"]], result["left_out"]) == (["report.csv"], [])


def test_b22_the_changes_of_a_run_that_failed_are_kept(m: Matins, garden: Path, tmp_path: Path) -> None:
    run = fire(m, garden, "cat >/dev/null; echo shut > docs/gate.md; exit 3")
    assert run.state == "failed"
    (kept,) = (one for one in (tmp_path / "agents/magpie/worktrees").iterdir() if one.is_dir())
    assert (kept / "docs/gate.md").read_text() == "shut\n"


def test_b22_a_retry_goes_on_in_the_worktree_of_its_run(m: Matins, garden: Path) -> None:
    script = "cat >/dev/null; [ -e seen ] || { touch seen; exit 1; }; echo again"
    run = fire(m, garden, script, retries=1, retry_delay="1s")
    assert (run.state, run.attempt) == ("succeeded", 2), run.outcome


def test_b22_runs_work_in_their_worktrees_at_once(m: Matins, garden: Path, tmp_path: Path) -> None:
    """Each waits until the other has begun."""
    script = (
        f"cat >/dev/null; touch {tmp_path}/begun-$MATINS_RUN_ID; "
        f"while [ $(ls {tmp_path} | grep -c begun-) != 2 ]; do sleep 0.05; done; pwd"
    )
    m.agents.set(
        "magpie",
        runner="shell",
        command=["sh", "-c", script],
        workdir=str(garden),
        worktree="per_run",
        isolation="none",
    )
    m.add("s", when="0 0 1 1 *", agent="magpie", prompt="Go on", overlap="allow")
    started = [m.run("s").id for _ in range(2)]
    runs = [m.runs.wait(run, timeout=90) for run in started]
    assert [run.state for run in runs] == ["succeeded", "succeeded"]
    assert len({(run.outcome or {})["result"]["text"] for run in runs}) == 2


def test_b22_a_folder_that_is_no_checkout_is_refused(m: Matins, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    run = fire(m, folder, "true")
    assert run.state == "failed"
    error = (run.outcome or {})["error"]
    assert f'"worktree: per_run" needs a git checkout, and {folder} is none.' in error
    assert "matins agents edit magpie --worktree shared" in error
