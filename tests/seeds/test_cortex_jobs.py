"""Cortex's job types do what they say. Row C3."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from jobs import job_bench
from jobs.job_bench import add, ended, result
from matins import Matins
from matins.seeds.cortex.tasks import read_tasks
from matins.testing import Sandbox

bench = job_bench.bench
TASKS = """\
# Ours
tasks:
  - title: Old
    id: one
    status: done
    done_at: 2026-03-20T09:00:00Z

  # soon
  - title: Open
    id: two
  - title: Recent
    id: three
    status: done
    done_at: 2026-03-26T09:00:00Z
owner: us
"""


def test_c3_task_archive(bench: Sandbox, tmp_path: Path) -> None:
    """C3: "Archives completed tasks older than 3 days"; the rest of the file stays as it is"""
    (tmp_path / "TASKS.yaml").write_text(TASKS)
    add(bench, "task-archive")
    assert result(bench) == "Archived 1 task"
    old, kept = TASKS.index("  - title: Old"), TASKS.index("\n  # soon")
    assert (tmp_path / "TASKS.yaml").read_text() == TASKS[:old] + TASKS[kept:]
    archived = "- title: Old\n  id: one\n  status: done\n  done_at: 2026-03-20T09:00:00Z\n"
    assert (tmp_path / "TASKS.archive.yaml").read_text() == archived
    assert result(bench) == "Archived 0 tasks"
    (tmp_path / "TASKS.yaml").write_text(TASKS)  # as after a crash between the two files
    assert result(bench) == "Archived 1 task"
    assert (tmp_path / "TASKS.archive.yaml").read_text() == archived


def test_c3_an_archive_that_is_a_link_is_refused(bench: Sandbox, tmp_path: Path) -> None:
    """B16"""
    (tmp_path / "TASKS.yaml").write_text(TASKS)
    (tmp_path / "TASKS.archive.yaml").symlink_to(tmp_path / "other.yaml")
    add(bench, "task-archive")
    run = ended(bench)
    assert (run.state, "is a link" in (run.outcome or {})["error"]) == ("failed", True)
    assert (tmp_path / "TASKS.yaml").read_text() == TASKS
    assert not (tmp_path / "other.yaml").exists()


def test_c3_memory_index_regen(bench: Sandbox, tmp_path: Path) -> None:
    """C3: "Rebuilds all experiment/knowledge/pattern index files" """
    for name, text in (("experiments/a.md", "# First try\n"), ("knowledge/deep/b.md", "no title"), ("patterns/x", "")):
        path = tmp_path / "memory" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    add(bench, "memory-index-regen")
    assert result(bench) == {"experiments": 1, "knowledge": 1, "patterns": 0}
    assert (tmp_path / "memory/experiments/INDEX.md").read_text() == "# Experiments\n\n- [First try](a.md)\n"
    assert (tmp_path / "memory/knowledge/INDEX.md").read_text() == "# Knowledge\n\n- [b](deep/b.md)\n"
    (tmp_path / "memory/experiments/a.md").unlink()
    assert result(bench) == {"experiments": 0, "knowledge": 1, "patterns": 0}
    assert "Nothing yet." in (tmp_path / "memory/experiments/INDEX.md").read_text()


def test_c3_an_index_follows_no_link_of_the_agent(bench: Sandbox, tmp_path: Path) -> None:
    """B16: what the agent may not read or write, the job does not read or write for it"""
    memory, secret = tmp_path / "memory", tmp_path / "secret.md"
    secret.write_text("# Secret\n")
    (memory / "experiments").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (memory / "patterns").symlink_to(tmp_path / "elsewhere")
    (memory / "experiments/a.md").symlink_to(secret)
    (memory / "experiments/INDEX.md").symlink_to(secret)
    add(bench, "memory-index-regen")
    assert result(bench) == {"experiments": 0}
    assert secret.read_text() == "# Secret\n"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_c3_task_dispatch_claims_a_task_and_writes_its_outcome(tmp_path: Path) -> None:
    """C3: "selects, claims, and dispatches a task from TASKS.yaml"; by a real agent, in a process of its own"""
    (tmp_path / "TASKS.yaml").write_text("- title: Low\n  priority: low\n- title: Oil the hinges\n  priority: high\n")
    with closing(Matins(f"sqlite:///{tmp_path}/matins.db")) as m:
        m.agents.set("scout", runner="demo", workdir=str(tmp_path))
        m.add("s", when="0 0 1 1 *", agent="scout", job="task-dispatch")
        with m:
            run = m.runs.wait(m.run("s").id, timeout=60)
        assert run.state == "succeeded"
    low, high = read_tasks((tmp_path / "TASKS.yaml").read_text()).tasks
    assert (low.status, high.status) == ("open", "done")
