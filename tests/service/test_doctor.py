"""Whether all is well, and the command that mends what is not."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import postgres_fixtures
from matins import Matins
from matins.api.results import Finding
from matins.runtime.clock import SystemClock
from matins.service import doctor
from matins.testing import ManualClock, Sandbox

postgres_server, postgres_url = postgres_fixtures.postgres_server, postgres_fixtures.postgres_url
url = postgres_fixtures.kept_url
START = "2026-03-27T08:00:00Z"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Sandbox]:
    tmp_path.chmod(0o700)
    with closing(Sandbox(f"sqlite:///{tmp_path}/matins.db", clock=ManualClock(START))) as made:
        made.job("work")(lambda run: None)
        yield made


def about(bench: Sandbox, what: str) -> list[Finding]:
    return [finding for finding in bench.system.doctor() if finding.what == what]


def test_a_store_that_is_well(url: str) -> None:
    """On every store: an engine runs, nothing is wrong, and what is unknown is not called good."""
    with closing(Sandbox(url, clock=ManualClock(START))) as bench:
        bench.agents.set("scout", runner="demo")
        found = bench.system.doctor()
        wrong = [finding for finding in found if finding.ok is False]
        assert wrong == [] or [finding.what for finding in wrong] == ["permissions"]
        assert {"clock", "zones", "engine", "planner", "store", "agent scout"} <= {finding.what for finding in found}
        assert all(finding.fix for finding in found if finding.ok is False)


def test_nobody_is_there(bench: Sandbox) -> None:
    bench.engine.close()
    assert about(bench, "engine") == [Finding("engine", False, "No engine is running: no schedule runs", "matins up")]


def test_what_is_due_waits(bench: Sandbox) -> None:
    bench.add("s", when="every 1h", job="work")
    clock: Any = bench.clock
    clock.advance(3_600_000 + 90_000)
    (planner,) = about(bench, "planner")
    assert (planner.ok, planner.sentence) == (False, "Due schedules have waited for 90 s")


def test_a_clock_that_went_back(bench: Sandbox) -> None:
    bench.add("s", when="every 1h", job="work")
    clock: Any = bench.clock
    clock.advance(-60_000)
    assert [finding.ok for finding in about(bench, "clock") if "60 s behind" in finding.sentence] == [False]


def test_who_keeps_the_clock(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    for kept, ok in ((True, True), (False, None), (None, None)):
        monkeypatch.setattr(doctor, "clock_is_synchronized", lambda kept=kept: kept)
        assert [finding.ok for finding in about(bench, "clock")] == [ok]
    assert doctor.clock_is_synchronized() in (True, False, None)


@pytest.mark.parametrize(("by", "way"), [(3_600_000, "ahead of"), (-3_600_000, "behind")], ids=["ahead", "behind"])
def test_c7_a_machine_whose_clock_is_not_the_databases(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, by: int, way: str
) -> None:
    """C7 V5"""

    class Astray(SystemClock):
        def now_ms(self) -> int:
            return super().now_ms() + by

    def of_database(matins: Matins) -> list[Finding]:
        return [finding for finding in matins.system.doctor() if "database" in finding.sentence]

    with closing(Matins(postgres_url)) as matins:
        assert [finding.ok for finding in of_database(matins)] == [True]
        monkeypatch.setattr(doctor, "SystemClock", Astray)
        (wrong,) = of_database(matins)
    assert (wrong.what, wrong.ok) == ("clock", False)
    told = re.match(rf"This machine's clock is (\d+) s {way} the database's", wrong.sentence)
    assert told is not None
    assert 3_540 < int(told[1]) < 3_660
    assert "timedatectl set-ntp true" in str(wrong.fix)


def test_how_old_the_zone_data_are(bench: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "zones"
    folder.mkdir()
    assert doctor.zone_data((str(folder),)) is None
    (folder / "tzdata.zi").write_text("# version 2019c\nR A\n")
    old = doctor.zone_data((str(tmp_path / "none"), str(folder)))
    assert old is not None
    assert old.version == "2019c"
    packaged = doctor.zone_data((str(tmp_path / "none"),))
    assert packaged is not None
    assert (packaged.source, packaged.version[:2]) == ("the package tzdata", "20")
    monkeypatch.setattr(doctor, "zone_data", lambda: old)
    (zones,) = about(bench, "zones")
    assert (zones.ok, zones.fix) == (False, "apt-get install --only-upgrade tzdata")


def test_a_damaged_store(bench: Sandbox, tmp_path: Path) -> None:
    bench.add_many([{"name": f"s{n}", "when": "every 1h", "job": "work"} for n in range(500)])
    bench.store.checkpoint()
    size = (tmp_path / "matins.db").stat().st_size
    with (tmp_path / "matins.db").open("r+b") as file:
        file.seek(size - 4096 * 3)
        file.write(b"\x0d\xff\xff\xff" * 1024)
    (store,) = about(bench, "store")
    assert store.ok is False
    assert "is damaged" in store.sentence


def test_others_can_read_it(bench: Sandbox, tmp_path: Path) -> None:
    assert [finding.ok for finding in about(bench, "permissions")] == [True]
    tmp_path.chmod(0o755)
    database = tmp_path / "matins.db"
    database.chmod(0o644)
    (found,) = about(bench, "permissions")
    assert found.ok is False
    assert found.fix is not None
    assert found.fix.startswith(f"chmod go= {database}")


def test_a_disk_that_is_full(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=10 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    (disk,) = about(bench, "disk")
    assert (disk.ok, disk.sentence) == (False, "10 MB are free on the disk of the store")


def test_agents_that_could_not_be_woken(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    bench.agents.set("scout", runner="claude", environment={"KEY": "env:NO_SUCH_KEY"})
    found = {finding.sentence: finding for finding in about(bench, "agent scout")}
    assert found["KEY refers to env:NO_SUCH_KEY, but the environment has no NO_SUCH_KEY."].fix == (
        "Put NO_SUCH_KEY into the environment of the daemon, and start it again."
    )
    assert any("claude" in sentence and "PATH" in sentence for sentence in found)
    assert not any(finding.ok for finding in found.values())


def test_webhooks_that_get_nothing(bench: Sandbox) -> None:
    bench.webhooks.add("ops", "https://example.com/hook")
    assert [finding.ok for finding in about(bench, "webhook ops")] == [True]
    bench.webhooks.pause("ops", note="it moved")
    (paused,) = about(bench, "webhook ops")
    assert (paused.ok, paused.sentence, paused.fix) == (False, "It is paused: it moved", "matins webhooks resume ops")
    bench.webhooks.resume("ops")
    with bench.store.transaction(bench.clock.now_ms()) as transaction:
        event = transaction.events_after(0, 1)[0]
        transaction.insert_deliveries("ops", [event], bench.clock.now_ms())
        transaction.discard_delivery("ops", event, 9, "no answer")
    (lost,) = about(bench, "webhook ops")
    assert lost.ok is False
    assert "not delivered after 9 attempts: no answer" in lost.sentence


def test_a_policy_that_cannot_be_read(bench: Sandbox) -> None:
    bench.quiet_hours.set("night", windows="22:00-07:00")
    store: Any = bench.store
    store._connection.execute("UPDATE policies SET definition = '{' WHERE kind = 'quiet_hours'")
    store._connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'policy_rev'")
    found = [finding for finding in bench.system.doctor() if finding.what == "policies"]
    assert [finding.ok for finding in found] == [False]


def test_a_file_that_nobody_wrote_is_no_fault(bench: Sandbox, tmp_path: Path) -> None:
    bench.watch_file(tmp_path / "matins.yaml")
    assert about(bench, "file") == [Finding("file", True, f"No file is used: {tmp_path}/matins.yaml does not exist")]


def test_c7_each_fault_of_the_file_with_what_mends_it(bench: Sandbox, tmp_path: Path) -> None:
    """C7"""
    path = tmp_path / "matins.yaml"
    path.write_text("schedules:\n  s: {when: 1h, job: work}\n")
    bench.watch_file(path).check()
    assert about(bench, "file") == [Finding("file", True, f"{path} is applied")]
    path.write_text("schedules:\n  s: {when: 61 2 * * *, job: work, overlapp: skip}\n")
    cron, word = about(bench, "file")
    assert f"{path}, line 2, column 13: schedules.s.when: " in cron.sentence
    assert (cron.ok, cron.fix) == (False, "Correct that line, then run: matins plan")
    assert (word.ok, word.fix) == (False, 'Did you mean "overlap"?')
    path.unlink()
    (gone,) = about(bench, "file")
    assert (gone.ok, gone.fix) == (False, "Run matins plan, then matins apply.")
