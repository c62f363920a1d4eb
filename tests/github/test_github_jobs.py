"""Jobs that only ask GitHub. Row V10."""

from __future__ import annotations

from forge import Forge

from jobs import job_bench
from jobs.job_bench import add, ended, result
from matins.testing import Sandbox

bench = job_bench.bench


def test_v10_star_repo(bench: Sandbox, forge: Forge) -> None:
    """V10: "Star GitHub repositories" """
    add(bench, "star_repo", {"repos": ["octo-org/garden", "octo-org/shed"], "base_url": forge.url})
    assert result(bench) == "Starred octo-org/garden, octo-org/shed"
    assert forge.requests == ["PUT /user/starred/octo-org/garden", "PUT /user/starred/octo-org/shed"]


def test_v10_fork_repo(bench: Sandbox, forge: Forge) -> None:
    """V10: "Fork GitHub repositories" """
    add(bench, "fork_repo", {"repos": ["octo-org/garden"], "base_url": forge.url})
    assert result(bench) == ["me/garden"]


def test_what_github_refuses_is_a_failure_that_says_why(bench: Sandbox, forge: Forge) -> None:
    add(bench, "fork_repo", {"repos": ["octo-org/nothing"], "base_url": forge.url})
    run = ended(bench)
    assert run.state == "failed"
    assert "GitHub does not find octo-org/nothing: forks." in (run.outcome or {})["error"]
