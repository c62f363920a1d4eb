"""Jobs that change repositories: real git, a bare remote, a process as the agent, a GitHub on this machine. Row V10."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from forge import Forge, git

from jobs import job_bench
from jobs.job_bench import agent, fire
from matins import Matins, SchedulerShutdownError
from matins.seeds.corvid import BUILT_IN, SchedulerService

m = job_bench.m


@pytest.fixture
def garden(forge: Forge, tmp_path: Path) -> Path:
    """The folder of the agent: a clone of a hosted repository."""
    bare, folder = forge.host("octo-org/garden", tmp_path), tmp_path / "garden"
    git(tmp_path, "clone", "--quiet", str(bare), str(folder))
    return folder


PAINT = 'cat > prompt.txt; mv prompt.txt "$TOLD"; echo "shut = True" > gate.py; pwd'


def test_v10_work_task_is_a_branch_an_agent_and_a_pull_request(
    m: Matins, forge: Forge, garden: Path, tmp_path: Path
) -> None:
    """V10 V12: "Create a work task (branch + implement + PR)"; the agent's own folder stays as it is"""
    agent(m, garden, PAINT.replace("$TOLD", str(tmp_path / "told")))
    run = fire(m, "work_task", {"description": "Shut the gate\nBy night.", "base_url": forge.url})
    assert run.state == "succeeded", run.outcome
    result = (run.outcome or {})["result"]
    job = result["job"]
    (pull,) = forge.pulls
    assert job["pull_request"] == pull["html_url"]
    assert (pull["title"], pull["base"], pull["head"]["ref"]) == ("Shut the gate", "main", job["branch"])
    worktree = result["text"].strip()
    assert pull["body"] == worktree
    assert Path(worktree).parent == tmp_path / "agents/magpie/worktrees"
    assert not Path(worktree).exists()
    bare = tmp_path / "hosted/octo-org/garden.git"
    assert git(bare, "show", f"{job['branch']}:gate.py") == "shut = True"
    assert git(bare, "log", "--format=%s %an", f"main..{job['branch']}").startswith("Shut the gate ")
    assert git(bare, "show", "main:gate.py") == "shut = False"
    assert (git(garden, "status", "--porcelain"), git(garden, "branch", "--show-current")) == ("", "main")
    assert "Shut the gate\nBy night." in (tmp_path / "told").read_text()
    execution = SchedulerService(m, BUILT_IN).get_execution(run.id)
    assert execution is not None
    assert execution.work_task_id == job["work_task_id"]


def test_v10_a_work_task_without_a_change_opens_nothing(m: Matins, forge: Forge, garden: Path) -> None:
    agent(m, garden, "cat >/dev/null; echo there is nothing to do")
    run = fire(m, "work_task", {"description": "Look", "base_url": forge.url})
    assert (run.state, forge.pulls) == ("succeeded", [])
    assert (run.outcome or {})["result"]["job"]["pull_request"] is None
    assert git(garden, "branch", "--list", "matins/*") == ""


def test_v10_what_a_failed_work_task_did_is_kept_on_its_branch(m: Matins, forge: Forge, garden: Path) -> None:
    """Nothing is pushed; a retry continues there"""
    agent(m, garden, "cat >/dev/null; if [ -e half ]; then echo whole; else touch half; exit 3; fi")
    run = fire(m, "work_task", {"description": "Try", "base_url": forge.url}, retries=1, retry_delay="1s")
    assert run.state == "succeeded", run.outcome
    branch = (run.outcome or {})["result"]["job"]["branch"]
    subjects = git(garden, "log", "--format=%s", f"main..{branch}").splitlines()
    assert subjects == ["Unfinished: Try"]
    assert len(forge.pulls) == 1


def test_v10_a_pull_request_is_not_opened_twice(m: Matins, forge: Forge, garden: Path) -> None:
    """A run that is repeated after its end was lost finds it by its branch"""
    agent(m, garden, "cat >/dev/null; date +%N > new")
    run = fire(m, "work_task", {"description": "Paint", "base_url": forge.url})
    from matins.github.jobs import WorkTask, WorkTaskErrand
    from matins.model.job import ErrandPlace

    key = (run.outcome or {})["result"]["job"]["work_task_id"]
    own = str(garden.parent / "agents/magpie")
    again = WorkTaskErrand(
        WorkTask(description="Paint", base_url=forge.url), ErrandPlace(key, "magpie", str(garden), own, 0)
    )
    assert again.finish("")["pull_request"] == forge.pulls[0]["html_url"]
    assert len(forge.pulls) == 1


def test_b9_a_work_task_whose_engine_is_gone_becomes_a_pull_request(
    m: Matins, forge: Forge, garden: Path, tmp_path: Path
) -> None:
    """B9 V10: the process goes on, and the engine that follows it opens what the first would have opened"""
    go = tmp_path / "go"
    os.mkfifo(go)
    agent(m, garden, f"cat >/dev/null; cat {go} > new")
    m.add(
        "s", when="0 0 1 1 *", agent="magpie", job="work_task", payload={"description": "Paint", "base_url": forge.url}
    )
    started = m.run("s")
    with go.open("wb", buffering=0) as gate:  # opens when the agent runs
        with pytest.raises(SchedulerShutdownError):
            m.stop(timeout=0.05, leave=True)
        assert forge.pulls == []
        m.start()
        gate.write(b"on")
    run = m.runs.wait(started.id, timeout=90)
    assert run.state == "succeeded", run.outcome
    (pull,) = forge.pulls
    assert git(tmp_path / "hosted/octo-org/garden.git", "show", f"{pull['head']['ref']}:new") == "on"


def test_v11_a_folder_without_a_repository(m: Matins, forge: Forge, tmp_path: Path) -> None:
    """V11: "Execution fails with "Work task service not available"" """
    (tmp_path / "empty").mkdir()
    agent(m, tmp_path / "empty", "cat")
    run = fire(m, "work_task", {"description": "Paint", "base_url": forge.url})
    assert run.state == "failed"
    assert (run.outcome or {})["error"].startswith("Work task service not available: ")


def test_an_agent_without_a_folder_cannot_do_a_work_task(m: Matins, forge: Forge, garden: Path) -> None:
    """Said before anything is spent"""
    m.agents.set("magpie", runner="openai", model="m", url="https://api.example.com", workdir=str(garden))
    run = fire(m, "work_task", {"description": "Paint", "base_url": forge.url})
    assert run.state == "failed"
    assert "needs an agent that works in a folder" in (run.outcome or {})["error"]


def test_a_push_that_is_refused_fails_the_run(m: Matins, forge: Forge, garden: Path, tmp_path: Path) -> None:
    hook = tmp_path / "hosted/octo-org/garden.git/hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho locked >&2\nexit 1\n")
    hook.chmod(0o755)
    agent(m, garden, "cat >/dev/null; touch new")
    run = fire(m, "work_task", {"description": "Paint", "base_url": forge.url})
    assert (run.state, forge.pulls) == ("failed", [])


def test_git_runs_as_the_agent_and_never_in_the_engine(m: Matins, forge: Forge, garden: Path, tmp_path: Path) -> None:
    """A hook of the repository sees the run's variables, and no token of Matins"""
    hook = garden / ".git/hooks/post-checkout"
    hook.write_text(f'#!/bin/sh\necho "$MATINS_RUN_ID [$GITHUB_TOKEN]" >> {tmp_path}/hooked\n')
    hook.chmod(0o755)
    agent(m, garden, "cat >/dev/null")
    run = fire(m, "work_task", {"description": "Look", "base_url": forge.url})
    assert run.state == "succeeded", run.outcome
    assert (tmp_path / "hooked").read_text() == f"{run.id} []\n"


def test_v10_github_suggest(m: Matins, forge: Forge, tmp_path: Path) -> None:
    """V10: "Analyze repos and suggest improvements": in clones, with their open issues; nothing is changed"""
    for repo in ("octo-org/garden", "octo-org/shed"):
        forge.host(repo, tmp_path)
    forge.add(7, "bug")
    agent(m, tmp_path, "cat; cat octo-org/garden/gate.py; touch octo-org/shed/new")
    run = fire(m, "github_suggest", {"repos": ["octo-org/garden", "octo-org/shed"], "base_url": forge.url})
    assert run.state == "succeeded", run.outcome
    result = (run.outcome or {})["result"]
    assert "#7 Issue 7" in result["text"]
    assert result["text"].strip().endswith("shut = False")
    assert (result["job"], forge.pulls) == ({"pull_requests": []}, [])
    assert not any((tmp_path / "agents/magpie/worktrees").glob("*/"))


def test_v10_github_suggest_with_pull_requests(m: Matins, forge: Forge, tmp_path: Path) -> None:
    """V10: "autoCreatePr": one for each repository that was changed"""
    for repo in ("octo-org/garden", "octo-org/shed"):
        forge.host(repo, tmp_path)
    agent(m, tmp_path, "cat >/dev/null; touch octo-org/shed/new; echo A new one")
    payload = {"repos": ["octo-org/garden", "octo-org/shed"], "autoCreatePr": True, "base_url": forge.url}
    run = fire(m, "github_suggest", payload)
    assert run.state == "succeeded", run.outcome
    (pull,) = forge.pulls
    assert (pull["repo"], pull["body"]) == ("octo-org/shed", "A new one")
    assert (run.outcome or {})["result"]["job"]["pull_requests"] == [pull["html_url"]]
    assert git(tmp_path / "hosted/octo-org/shed.git", "show", f"{pull['head']['ref']}:new") == ""


SHA = "a1" * 20
REVIEW = f"""cat > told
printf 'Well.\\n\\n## octo-org/garden#3@{SHA}\\nLine 1 is wrong.\\n\\n## octo-org/secret#1@{SHA}\\nHa.\\n'"""


def test_v10_review_prs(m: Matins, forge: Forge, tmp_path: Path) -> None:
    """V10: "Review open PRs and post comments": each commit once; drafts and other repositories never"""
    forge.pull("octo-org/garden", 3, SHA)
    forge.pull("octo-org/garden", 4, "b2" * 20, draft=True)
    agent(m, tmp_path, REVIEW)
    run = fire(m, "review_prs", {"repos": ["octo-org/garden"], "base_url": forge.url})
    assert run.state == "succeeded", run.outcome
    assert (run.outcome or {})["result"]["job"] == {"reviewed": ["octo-org/garden#3"]}
    (review,) = forge.reviews
    assert (review["number"], review["commit_id"]) == (3, SHA)
    assert review["body"].endswith("-->\nLine 1 is wrong.")
    told = (tmp_path / "told").read_text()
    assert f"## octo-org/garden#3@{SHA}\nChange 3" in told
    assert "+shut = True" in told
    assert "#4" not in told
    again = m.runs.wait(m.run("s").id, timeout=90)
    assert (again.state, again.reason, len(forge.reviews)) == ("skipped", "no_work", 1)
    forge.pulls[0]["head"]["sha"] = "c3" * 20
    assert m.runs.wait(m.run("s").id, timeout=90).state == "succeeded"


def test_a_change_that_github_does_not_show_stops_no_other(m: Matins, forge: Forge, tmp_path: Path) -> None:
    forge.pull("octo-org/garden", 1, "1" * 40, large=True)
    forge.pull("octo-org/garden", 2, "2" * 40)
    agent(m, tmp_path, "cat")
    run = fire(m, "review_prs", {"repos": ["octo-org/garden"], "base_url": forge.url})
    assert run.state == "succeeded", run.outcome
    assert "they are too large" in (run.outcome or {})["result"]["text"]
    assert (run.outcome or {})["result"]["job"] == {"reviewed": ["octo-org/garden#1", "octo-org/garden#2"]}


def test_v10_max_prs(m: Matins, forge: Forge, tmp_path: Path) -> None:
    """V10: "optional `maxPrs`" """
    for number in range(1, 5):
        forge.pull("octo-org/garden", number, f"{number}" * 40)
    agent(m, tmp_path, "cat")
    run = fire(m, "review_prs", {"repos": ["octo-org/garden"], "maxPrs": 2, "base_url": forge.url})
    assert run.state == "succeeded", run.outcome
    assert (run.outcome or {})["result"]["job"] == {"reviewed": ["octo-org/garden#1", "octo-org/garden#2"]}
