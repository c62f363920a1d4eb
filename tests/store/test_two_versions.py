"""Engines of two versions on one PostgreSQL, while nodes are upgraded one after the other. Row B18."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import postgres_fixtures
from matins import Matins
from matins.store.queries import BREAKS

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
ROOT = Path(__file__).parents[2]
MIGRATIONS = "src/matins/store/postgres/migrations"
RUNS = 40
ENGINE = """
import sys, time
from pathlib import Path
from matins import Matins
url, name, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
m = Matins(url, name=name, max_runs=4, state_folder=str(folder / name))
@m.job("work")
def work(run):
    (folder / f"began-{name}").touch()
    while len(list(folder.glob("began-*"))) < 2:  # neither does all of it
        time.sleep(0.02)
    with (folder / "diary").open("a") as diary:
        diary.write(f"{name} {run.id}\\n")
m.run_forever()
"""
Start = Callable[..., "subprocess.Popen[bytes]"]


def git(*arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else b""


def migrations_of(commit: str) -> bytes:
    return git("ls-tree", "-r", commit, MIGRATIONS)


def tree(folder: Path, *, commit: str | None) -> Path:
    """The sources of a commit, or of now, with the entry points that they had."""
    if commit is None:
        shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        shutil.copy(ROOT / "pyproject.toml", folder)
    else:
        subprocess.run(["tar", "-x", "-C", folder], input=git("archive", commit, "src", "pyproject.toml"), check=True)
    points = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["entry-points"]
    info = folder / "src" / "matins-0.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: matins\nVersion: 0.0.0\n")
    lines = [line for group, of in points.items() for line in (f"[{group}]", *(f"{n} = {at}" for n, at in of.items()))]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder


def commit_before() -> str | None:
    """The last commit before this one, with the schema of this one. Without a history: None."""
    commits = git("rev-list", "--max-count=30", "HEAD^").decode().split()
    return next((commit for commit in commits if migrations_of(commit) == migrations_of("HEAD")), None)


def add_migration(folder: Path, number: int, sql: str) -> None:
    (folder / MIGRATIONS / f"{number:04}_more.sql").write_text(sql)


@pytest.fixture
def start(postgres_url: str, tmp_path: Path) -> Iterator[Start]:
    made: list[subprocess.Popen[bytes]] = []

    def start(folder: Path, name: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "errors").open("wb") as errors:
            made.append(
                subprocess.Popen(
                    [sys.executable, "-c", ENGINE, postgres_url, name, str(tmp_path)], cwd=folder, stderr=errors,
                    env={"PYTHONPATH": str(folder / "src"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
                )
            )  # fmt: skip
        return made[-1]

    yield start
    for process in made:
        process.kill()
        process.wait()


def until(found: Callable[[], bool], folder: Path, *processes: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while not found():
        assert time.monotonic() < deadline
        assert [process.poll() for process in processes] == [None] * len(processes), (folder / "errors").read_text()
        time.sleep(0.1)


def test_b18_engines_of_two_versions_drain_one_store(start: Start, postgres_url: str, tmp_path: Path) -> None:
    """B18: the newer one adds a column under the older one; each run happens once; what the older one cannot live
    with is refused while it runs, and later the older one is"""
    for name in ("before", "now", "later"):
        (tmp_path / name).mkdir()
    before, now, later = tree(tmp_path / "before", commit=commit_before()), tmp_path / "now", tmp_path / "later"
    for folder in (now, later):
        add_migration(tree(folder, commit=None), 2, "ALTER TABLE runs ADD COLUMN more text NOT NULL DEFAULT 'x';\n")
    add_migration(later, 3, f"{BREAKS}\nALTER TABLE runs DROP COLUMN more;\n")
    with closing(Matins(postgres_url)) as m:
        m.job("work")(lambda run: None)
        m.add("s", when="every day at 09:00", job="work", overlap="allow")
        older = start(before, "older")
        until(lambda: live(m) == {"older"}, tmp_path, older)
        newer = start(now, "newer")
        until(lambda: live(m) == {"older", "newer"}, tmp_path, older, newer)
        assert columns(m) == 1
        for name in ("older", "newer"):
            m.nodes.cordon(name)
        ids = {int(m.run("s").id) for _ in range(RUNS)}
        for name in ("older", "newer"):
            m.nodes.open(name)
        until(lambda: not any(run.live for run in m.runs.list(limit=RUNS)), tmp_path, older, newer)
        runs = m.runs.list(limit=RUNS)
        assert Counter(run.state for run in runs) == {"succeeded": RUNS}, runs[0].outcome
        lines = [line.split() for line in (tmp_path / "diary").read_text().splitlines()]
        assert sorted(int(run) for _, run in lines) == sorted(ids)
        assert {name for name, _ in lines} == {"older", "newer"}
        assert m.audit.verify().problems == []

        assert start(later, "latest").wait(120)
        said = (tmp_path / "errors").read_text()
        assert "must be upgraded to schema 3, and newer, older cannot work on that." in said, said
        for process in (older, newer):
            process.terminate()
            assert process.wait(120) == 0
        latest = start(later, "latest")
        until(lambda: live(m) == {"latest"}, tmp_path, latest)
        assert columns(m) == 0
        assert start(before, "older").wait(120)
        said = (tmp_path / "errors").read_text()
        assert "was created by a newer version of Matins (schema 3; this version supports 1)" in said, said


def live(m: Matins) -> set[str]:
    return {node.name for node in m.nodes.list() if node.live}


def columns(m: Matins) -> int:
    """How often the column is there that the newer version adds."""
    sql = "SELECT 1 FROM information_schema.columns WHERE column_name = 'more' AND table_schema = current_schema()"
    with m.store.reading() as transaction:
        return len(transaction.execute(sql))
