"""A schedule whose job nobody has: said when it is made, when one looks, and when a run fails for want of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import every_store
import pytest

from matins import Matins
from matins.api.results import Finding, Jobs
from matins.testing import Sandbox

postgres_server, postgres_url, url = every_store.postgres_server, every_store.postgres_url, every_store.url
bench, in_memory = every_store.bench, every_store.in_memory
BUILT_IN = ["message", "scheduled-task"]


def about_jobs(bench: Matins) -> list[Finding]:
    return [finding for finding in bench.system.doctor() if finding.what.startswith("job ")]


def test_b2_doctor_names_the_job_and_who_wants_it(bench: Sandbox) -> None:
    """B2: with what mends it; paused ones and those whose job is there are not told"""
    for name, job in (("a", "backup"), ("b", "backup"), ("c", "work"), ("d", "message"), ("e", "other")):
        bench.add(name, when="every day at 9am", job=job)
    bench.pause("e")
    (found,) = about_jobs(bench)
    assert found.what == "job backup"
    assert found.ok is (None if bench.store.shared else False)
    assert found.sentence == "This engine does not have it, so runs of a, b fail"
    assert "matins pause a" in (found.fix or "")


def test_many_that_want_it_are_counted(in_memory: Sandbox) -> None:
    for number in range(8):
        in_memory.add(f"s{number}", when="every day at 9am", job="backup")
    (found,) = about_jobs(in_memory)
    assert "runs of s0, s1, s2, s3, s4 and 3 more fail" in found.sentence


def test_b2_why_says_that_its_job_is_not_there(bench: Sandbox) -> None:
    """B2: before it is due and afterwards; the slot has its record"""
    bench.add("a", when="every day at 9am", job="backup")
    bench.add("c", when="every day at 9am", job="work")
    says = bench.why("a").now[-1]
    assert (says.gate, says.passes) == ("job", False)
    assert says.sentence == 'This engine has no job "backup". Its runs fail.'
    assert [says.gate for says in bench.why("c").now if says.gate == "job"] == []
    bench.run_until("2026-03-27T09:00:00Z")
    (run,) = bench.runs.list(schedule="a")
    assert run.state == "failed"
    assert 'the job "backup" is not registered in this process' in bench.why("a").summary


def test_the_engine_is_asked_and_not_the_store(tmp_path: Path) -> None:
    """S7: another process learns it from the one that runs them; without an engine nobody knows"""
    url = f"sqlite:///{tmp_path}/matins.db"
    with closing(Matins(url)) as owner, closing(Matins(url)) as guest:
        owner.job("backup")(lambda run: None)
        assert guest.system.jobs() == Jobs(False, BUILT_IN, 0)
        owner.start()
        assert guest.system.jobs() == owner.system.jobs() == Jobs(True, ["backup", *BUILT_IN], 0)
        owner.stop()
        assert owner.system.jobs() == guest.system.jobs() == Jobs(False, BUILT_IN, 0)


def test_nothing_is_said_where_nobody_can_know(tmp_path: Path) -> None:
    """A program that has it may run elsewhere"""
    with closing(Matins(f"sqlite:///{tmp_path}/matins.db")) as alone:
        alone.add("a", when="every day at 9am", job="backup")
        assert about_jobs(alone) == []
        assert alone.why("a").now[-1].gate != "job"


@pytest.fixture
def engines(postgres_url: str) -> Iterator[tuple[Matins, Matins]]:
    with closing(Matins(postgres_url)) as one, closing(Matins(postgres_url)) as other:
        one.start()
        other.start()
        yield one, other


def test_another_engine_may_have_it(engines: tuple[Matins, Matins]) -> None:
    """V2: on a shared store it is not called wrong"""
    one, other = engines
    other.job("backup")(lambda run: None)
    one.add("a", when="0 0 1 1 *", job="backup")
    assert one.system.jobs() == Jobs(True, BUILT_IN, 1)
    assert [finding.ok for finding in about_jobs(one)] == [None]
    assert about_jobs(other) == []
