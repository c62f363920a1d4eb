"""A copy of the store, made while the engine runs."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from tempfile import mkstemp
from typing import Any

import pytest

import postgres_fixtures
from matins import Matins
from matins.api.use_case import USE_CASES
from matins.errors import Conflict, InvalidInput, NotAllowed, StoreCorrupt, StoreError
from matins.model.access import Principal
from matins.store.sqlite import store
from matins.testing import ManualClock, Sandbox

DOCS = Path(__file__).parents[2] / "docs"
postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url


def test_a_copy_made_while_schedules_fire_is_whole(tmp_path: Path) -> None:
    """Every event that was told before is in it, its chains hold, and a Matins runs on it."""
    fired = threading.Event()
    with Matins(f"sqlite:///{tmp_path}/matins.db") as m:

        @m.job("work")
        def work(run: object) -> None:
            fired.set()

        m.add_many(
            [{"name": f"s{n}", "when": "every 1 second", "job": "work", "first": "immediately"} for n in range(50)]
        )
        assert fired.wait(90)
        before = m.events.list(after=0, limit=1000)
        copied = m.system.backup(tmp_path / "copy.db")
        (told,) = m.events.list(types=["store.backed_up"])
        assert told.data == {"by": "owner", "who": "owner", "path": str(tmp_path / "copy.db")}
        m.stop()
        m.close()
    assert copied.bytes == (tmp_path / "copy.db").stat().st_size > 10_000
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.glob("copy*")) == ["copy.db"]
    with closing(Matins(f"sqlite:///{tmp_path}/copy.db")) as copy:
        assert copy.audit.verify().problems == []
        assert len(copy.list()) == 50
        assert copy.events.list(after=0, limit=1000)[: len(before)] == before


def test_the_output_of_runs_is_not_in_a_copy(tmp_path: Path) -> None:
    """S7: the answer is, which is a part of what the agent wrote. The documentation and the call say so."""
    script = "echo answer; seq --format='line %g of the output' 5000; echo error $((40 + 2)) >&2"
    with Matins(f"sqlite:///{tmp_path}/matins.db") as m:
        m.agents.set("scout", runner="shell", command=["sh", "-c", script])
        m.add("look", when="every 1000 days", agent="scout", prompt="Look.")
        run = m.runs.wait(m.run("look").id, timeout=90)
        written = m.runs.output(run.id, limit=1 << 20).text, m.runs.output(run.id, stream="stderr").text
        m.system.backup(tmp_path / "copy.db")
    m.close()
    assert run.state == "succeeded"
    assert ("line 2500 of the output" in written[0], written[1]) == (True, "error 42\n")
    copied = (tmp_path / "copy.db").read_bytes()
    assert (b"line 2500 of the output" in copied, b"error 42" in copied) == (False, False)
    assert list(tmp_path.glob("copy*")) == [tmp_path / "copy.db"]
    with closing(Matins(f"sqlite:///{tmp_path}/copy.db")) as copy:
        assert copy.runs.get(run.id).outcome["result"]["text"].startswith("answer\n")
        assert copy.runs.output(run.id).total == 0
    assert "does not hold the output of runs" in (DOCS / "running.md").read_text(encoding="utf-8")
    assert "without the output of runs" in USE_CASES["system.backup"].help


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    there = tmp_path / "there.db"
    there.write_text("mine")
    beside = tmp_path / "new.db.partial"
    beside.write_text("mine too")
    with closing(Sandbox(f"sqlite:///{tmp_path}/matins.db")) as bench:
        bench.system.backup(tmp_path / "new.db")
        with pytest.raises(Conflict, match="exists already"):
            bench.system.backup(there)
        with pytest.raises(Conflict):
            bench.system.backup(tmp_path / "matins.db")
        with pytest.raises(InvalidInput, match="cannot be written"):
            bench.system.backup(tmp_path / "nowhere" / "copy.db")
    assert (there.read_text(), beside.read_text()) == ("mine", "mine too")


def test_somebody_who_was_quicker_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is taken at the end, and only if it is still free."""
    target = tmp_path / "copy.db"
    with closing(Sandbox(f"sqlite:///{tmp_path}/matins.db")) as bench:
        copy = bench.store.backup

        def late(path: Path) -> None:
            path.write_text("mine")
            copy(path)

        monkeypatch.setattr(bench.store, "backup", late)
        with pytest.raises(Conflict):
            bench.system.backup(target)
    assert target.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".partial")] == []


def test_a_damaged_store_is_not_passed_on(tmp_path: Path) -> None:
    with closing(Sandbox(f"sqlite:///{tmp_path}/matins.db")) as bench:
        bench.job("work")(lambda run: None)
        bench.add_many([{"name": f"s{n}", "when": "every 1h", "job": "work"} for n in range(500)])
        bench.store.checkpoint()
        with (tmp_path / "matins.db").open("r+b") as file:
            for page in range(10, 40):
                file.seek(page * 4096)
                file.write(b"\xff" * 4096)
        with pytest.raises(StoreCorrupt):
            bench.system.backup(tmp_path / "copy.db")
    assert list(tmp_path.glob("copy*")) == []


def test_who_may(tmp_path: Path) -> None:
    with closing(Sandbox(f"sqlite:///{tmp_path}/matins.db")) as bench:
        for role in ("operator", "viewer", "agent"):
            with pytest.raises(NotAllowed):
                bench.acting_as(Principal(role, "x")).system.backup(tmp_path / "copy.db")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="is not an absolute path"):
            bench.acting_as(Principal("owner", "x")).system.backup("copy.db")
    assert list(tmp_path.glob("copy*")) == []


def test_stores_that_are_copied_otherwise(postgres_url: str, tmp_path: Path) -> None:
    clock = ManualClock("2026-03-27T08:00:00Z")
    with closing(Sandbox(postgres_url, clock=clock)) as bench, pytest.raises(Conflict) as told:
        bench.system.backup(tmp_path / "copy.db")
    assert told.value.hint is not None
    assert f"pg_dump --format=custom --file={tmp_path}/copy.db" in told.value.hint
    with closing(Sandbox(clock=clock)) as bench, pytest.raises(StoreError, match="in memory"):
        bench.system.backup(tmp_path / "copy.db")


def test_b16_a_link_in_the_place_of_the_new_copy_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B16: an agent that can write the folder would have the copy written over another database"""
    (tmp_path / "backups").mkdir()
    (tmp_path / "linked").symlink_to("backups")
    with closing(Matins(f"sqlite:///{tmp_path}/other.db")) as other:
        other.agents.set("kept", runner="demo")
    before = (tmp_path / "other.db").read_bytes()
    with closing(Matins(f"sqlite:///{tmp_path}/matins.db")) as m:
        m.system.backup(tmp_path / "linked" / "honest.db")  # control: links of the owner's path count

        def exchanged(*words: Any) -> tuple[int, str]:
            file, name = mkstemp(*words)
            Path(name).unlink()
            Path(name).symlink_to(tmp_path / "other.db")
            return file, name

        monkeypatch.setattr(store, "mkstemp", exchanged)
        with pytest.raises(InvalidInput, match="another file was put in the place of the new one"):
            m.system.backup(tmp_path / "backups" / "copy.db")
    assert (tmp_path / "other.db").read_bytes() == before
    assert sorted(path.name for path in (tmp_path / "backups").iterdir()) == ["honest.db"]
