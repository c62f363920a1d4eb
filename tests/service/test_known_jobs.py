"""A schedule whose job nobody has: refused when it is made; and said when its engine is not running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import every_store
import pytest

from matins import InvalidInput, Matins
from matins.api.results import Finding
from matins.testing import Sandbox

postgres_server, postgres_url, url = every_store.postgres_server, every_store.postgres_url, every_store.url
bench, in_memory = every_store.bench, every_store.in_memory


def about_jobs(bench: Matins) -> list[Finding]:
    return [finding for finding in bench.system.doctor() if finding.what.startswith("job ")]


def engines_with(m: Matins, job: str) -> int | None:
    return next((found.engines for found in m.system.jobs() if found.name == job), None)


def forget(bench: Sandbox, *names: str) -> None:
    """The program no longer registers these jobs; its engine has noticed."""
    for name in names:
        del bench.jobs._own[name]
    bench.jobs._counted = False
    bench.settle()


@pytest.fixture
def without_backup(bench: Sandbox) -> Sandbox:
    """An engine that had the job "backup" when schedules were made, and has it no more."""
    bench.job("backup")(lambda run: None)
    for name, job in (("a", "backup"), ("b", "backup"), ("c", "work"), ("d", "message"), ("e", "backup")):
        bench.add(name, when="every day at 9am", job=job)
    bench.pause("e")
    bench.settle()
    forget(bench, "backup")
    return bench


def test_b2_doctor_names_the_job_and_who_wants_it(without_backup: Sandbox) -> None:
    """B2: with what mends it; paused ones and those whose job is there are not told"""
    (found,) = about_jobs(without_backup)
    assert found.what == "job backup"
    assert found.ok is False
    assert found.sentence == "No live node offers it, so runs of a, b wait"
    assert "matins pause a" in (found.fix or "")


def test_b2_the_schedule_is_named_with_its_agent(in_memory: Sandbox) -> None:
    """B2: another agent may have one of the same name, and the command would be refused"""
    in_memory.job("backup")(lambda run: None)
    for agent in ("ann", "bob"):
        in_memory.add("nightly", when="every day at 9am", job="backup", agent=agent)
    in_memory.settle()
    forget(in_memory, "backup")
    (found,) = about_jobs(in_memory)
    assert (found.fix or "").endswith("Until then: matins pause ann/nightly")


def test_many_that_want_it_are_counted(in_memory: Sandbox) -> None:
    in_memory.job("backup")(lambda run: None)
    for number in range(8):
        in_memory.add(f"s{number}", when="every day at 9am", job="backup")
    forget(in_memory, "backup")
    (found,) = about_jobs(in_memory)
    assert "runs of s0, s1, s2, s3, s4 and 3 more wait" in found.sentence


def test_b2_why_says_that_its_job_is_not_there(without_backup: Sandbox) -> None:
    """B2: before it is due"""
    says = without_backup.why("a").now[-1]
    assert (says.gate, says.passes) == ("engine", False)
    assert says.sentence.startswith('No node can run it now: it needs the job "backup".')
    assert says.sentence.endswith(' has no job "backup". Runs wait for one.')
    assert [says.gate for says in without_backup.why("c").now if says.gate == "engine"] == []


def test_c15_an_unknown_job_is_refused_by_the_library(bench: Sandbox) -> None:
    """C15: with the nearest name, or with how to register it; nothing is written"""
    with pytest.raises(InvalidInput, match='There is no job "wrok"') as refused:
        bench.add("a", when="every day at 9am", job="wrok")
    assert (refused.value.field, refused.value.hint) == ("job", 'Did you mean "work"?')
    with pytest.raises(InvalidInput) as refused:
        bench.add("a", when="every day at 9am", job="zzzz")
    assert '@m.job("zzzz")' in (refused.value.hint or "")
    bench.add("a", when="every day at 9am", job="work")
    with pytest.raises(InvalidInput, match='There is no job "zzzz"'):
        bench.edit("a", job="zzzz")
    assert [found.job for found in bench.list()] == ["work"]


def test_c15_an_unknown_job_is_refused_in_the_file(in_memory: Sandbox, tmp_path: Path) -> None:
    """C15: where it stands, with the nearest name; nothing of the file is applied"""
    file = tmp_path / "matins.yaml"
    file.write_text("schedules: {s: {when: 5m, job: wrok}, t: {when: 5m, job: work}}\n")
    found = in_memory.watch_file(file).check()
    assert found.state == "invalid"
    assert 'schedules.s.job: There is no job "wrok". (Did you mean "work"?)' in found.message
    assert in_memory.list() == []


def test_what_an_engine_once_had_is_known_to_every_process(tmp_path: Path) -> None:
    """S7: a client may schedule the jobs of a program that is not running now"""
    url = f"sqlite:///{tmp_path}/matins.db"
    with closing(Matins(url)) as owner, closing(Matins(url)) as guest:
        owner.job("backup")(lambda run: None)
        assert engines_with(guest, "backup") is None
        with pytest.raises(InvalidInput, match='There is no job "backup"'):
            guest.add("a", when="0 0 1 1 *", job="backup")
        owner.start()
        assert engines_with(guest, "backup") == engines_with(owner, "backup") == engines_with(guest, "message") == 1
        owner.stop()
        assert engines_with(guest, "backup") == engines_with(guest, "message") == 0
        guest.add("a", when="0 0 1 1 *", job="backup")


def test_nothing_is_said_while_no_engine_runs(tmp_path: Path) -> None:
    """A program that has it may start"""
    with closing(Matins(f"sqlite:///{tmp_path}/matins.db")) as alone:
        alone.job("backup")(lambda run: None)
        alone.add("a", when="every day at 9am", job="backup")
        assert about_jobs(alone) == []
        assert alone.why("a").now[-1].gate != "engine"


@pytest.fixture
def engines(postgres_url: str) -> Iterator[tuple[Matins, Matins]]:
    with closing(Matins(postgres_url)) as one, closing(Matins(postgres_url)) as other:
        one.start()
        other.start()
        yield one, other


def test_another_engine_may_have_it(engines: tuple[Matins, Matins]) -> None:
    """V2: on a shared store the engines know of each other's jobs"""
    one, _other = engines
    with pytest.raises(InvalidInput, match='There is no job "backup"'):
        one.add("a", when="0 0 1 1 *", job="backup")
    assert engines_with(one, "message") == 2


def test_a_job_that_is_registered_late_is_offered(postgres_url: str) -> None:
    """C15: engines renew what they offer"""
    with closing(Matins(postgres_url)) as one, closing(Sandbox(postgres_url)) as other:
        other.job("backup")(lambda run: None)
        other.settle()
        one.add("a", when="0 0 1 1 *", job="backup")
        assert about_jobs(one) == about_jobs(other) == []
