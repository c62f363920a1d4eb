"""How calls end: cancelled, at a limit, at the cap, with Matins, in a crash; and how many there are at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import calling
import pytest
from calling import KEY, ask, asked
from office import Office

from matins import SchedulerShutdownError, parse_trigger
from matins.engine.jobs import AGENT_JOB
from matins.engine.policies import Policies
from matins.engine.schedules import encode
from matins.executors.agent_checks import MAX_AGENTS
from matins.executors.agents import AgentExecutor
from matins.executors.isolation import Places
from matins.executors.processes.supervisor import SharedSupervisor, Supervisor
from matins.executors.registry import runners
from matins.executors.runners.protocol import EndpointConnection, RunnerRequest, RunnerResult
from matins.model.agent import Agent
from matins.model.schedule import ScheduleDefinition
from matins.runtime.attempt import Attempt, AttemptEnd
from matins.runtime.catalog import Catalog, CompiledSchedule
from matins.runtime.run_context import ContextLoader, RunContext
from matins.store import open_store
from matins.testing import ManualClock
from standins.endpoint import Endpoint

endpoint = calling.endpoint
office = calling.office


def hung_up(endpoint: Endpoint) -> None:
    """Whoever called has gone; on a machine that is busy its second may be over before it has called."""
    assert not endpoint.requests or endpoint.gone.acquire(timeout=90)


def test_b9_cancelling_ends_the_connection(office: Office, endpoint: Endpoint) -> None:
    """B9"""
    run_id = ask(office, endpoint, "fault:hang")
    endpoint.wait_for(1)
    office.matins.runs.cancel(run_id)
    assert endpoint.gone.acquire(timeout=90)
    assert office.wait("s").state == "cancelled"


@pytest.mark.parametrize("fault", ["hang", "slow"])
@pytest.mark.parametrize(
    ("limits", "ended_by"),
    [({"timeout": "1s"}, "timeout"), ({"idle_timeout": "1s"}, "idle_timeout")],
    ids=["timeout", "idle_timeout"],
)
def test_b9_limits_end_the_connection(
    office: Office, endpoint: Endpoint, limits: dict[str, str], ended_by: str, fault: str
) -> None:
    """B9: also of one that has not begun to answer"""
    run = asked(office, endpoint, f"fault:{fault}", **limits)
    assert (run.state, run.reason) == ("failed", "timed_out"), run.outcome
    assert run.outcome["result"]["ended_by"] == ended_by
    hung_up(endpoint)


def test_b9_the_wall_holds_for_one_that_never_stops_talking(office: Office, endpoint: Endpoint) -> None:
    """B9"""
    run = asked(office, endpoint, "fault:endless", timeout="1s")
    assert (run.reason, run.outcome["result"]["ended_by"]) == ("timed_out", "timeout")
    hung_up(endpoint)


@pytest.mark.parametrize("words", [{"max_tokens": 5_000}, {"max_cost": "$0.01"}], ids=["tokens", "money"])
def test_b5_it_is_ended_at_its_cap_while_it_speaks(office: Office, endpoint: Endpoint, words: dict[str, Any]) -> None:
    """B5: nobody tells the tokens before the end, so they are reckoned from what was said"""
    office.matins.prices.set("m", input="$1", output="$2", cached="$0.5")
    run = asked(office, endpoint, "fault:endless", words)
    assert run.state == "over_budget", run.outcome
    assert "more than" in run.outcome["error"]
    assert endpoint.gone.acquire(timeout=90)
    tokens = run.outcome["result"]["tokens"]
    assert (tokens["in"], tokens["out"] > 4_000) == (len("[Scheduled Task] fault:endless") // 4, True)


def test_h11_what_is_said_when_matins_stops_is_cut_and_recorded(office: Office, endpoint: Endpoint) -> None:
    """H11"""
    ask(office, endpoint, "fault:hang")
    endpoint.wait_for(1)
    with pytest.raises(SchedulerShutdownError) as caught:
        office.matins.stop(timeout=0.05)
    assert caught.value.running_job_count == 1
    assert endpoint.gone.acquire(timeout=90)
    (run,) = office.matins.runs.list(schedule="s")
    assert (run.state, run.reason) == ("interrupted", "stopped")


CRASHING = """
import sys
from matins import Matins
m = Matins(sys.argv[1])
m.allowed_hosts.set(hosts=["127.0.0.1"])
m.agents.set("ann", runner="openai", model="m", url=sys.argv[2])
words = {"on_unknown": sys.argv[3]} if sys.argv[3] else {}
m.add("s", when="every day at 09:00", agent="ann", prompt="fault:hang", **words)
m.run("s")
m.run_forever()
"""


@pytest.mark.parametrize(("on_unknown", "word"), [("", "held"), ("retry", "running")])
def test_b9_a_call_that_a_crash_cut_is_unknown(tmp_path: Path, endpoint: Endpoint, on_unknown: str, word: str) -> None:
    """B9: it cannot be taken up; it is held for a person, or repeated where the schedule says so"""
    url = f"sqlite:///{tmp_path}/matins.db"
    with subprocess.Popen([sys.executable, "-c", CRASHING, url, endpoint.url, on_unknown]) as engine:
        endpoint.wait_for(1)
        os.kill(engine.pid, signal.SIGKILL)
    assert endpoint.gone.acquire(timeout=90)
    office = Office(url)
    with office.matins:
        run = office.wait("s", lambda run: run.state == word and (run.epoch > 1 or word == "held"))
        if word == "held":
            assert run.reason == "unknown"
            assert "the outcome is unknown" in run.outcome["error"]
        else:
            endpoint.wait_for(2)
        endpoint.go_on.set()
    office.matins.close()
    assert len(endpoint.requests) == (1 if word == "held" else 2)


def test_no_more_are_called_at_once_than_there_is_room_for(office: Office, endpoint: Endpoint) -> None:
    """H10 B9: what is beyond that waits, and is not lost"""
    m = office.matins
    m.agents.set("ann", runner="openai", model="m", url=endpoint.url)
    names = [f"s{number}" for number in range(MAX_AGENTS + 3)]
    m.add_many([{"name": n, "when": "every day at 09:00", "agent": "ann", "prompt": "fault:hang"} for n in names])
    for name in names:
        m.run(name)
    endpoint.wait_for(MAX_AGENTS)
    endpoint.go_on.set()
    assert {office.wait(name).state for name in names} == {"succeeded"}


class Unresponsive:
    """A runner of somebody else's that waits on nothing of ours."""

    name = provider = "unresponsive"
    chooses_session = False

    def __init__(self) -> None:
        self.go = threading.Event()

    def check(self, call: RunnerRequest) -> None:
        pass

    def call(self, call: RunnerRequest, connection: EndpointConnection) -> RunnerResult:
        assert self.go.wait(90)
        raise OSError(f"cut: {connection.closed}, {call.secrets}")


class OfAnn(ContextLoader):
    """All runs are of one agent."""

    def run_context(self, attempt: Attempt) -> RunContext:
        return RunContext(Agent("ann", "unresponsive", timeout_ms=None), None, None, Policies())


class Hall:
    """An executor of agents alone, with a runner that waits until it may go on."""

    def __init__(self) -> None:
        self.clock, self.runner = ManualClock(), Unresponsive()
        self.woken = threading.Semaphore(0)
        self.executor = AgentExecutor(
            {"unresponsive": self.runner},
            SharedSupervisor(self.no_processes),
            self.clock,
            self.woken.release,
            OfAnn(open_store("sqlite://", self.clock), Catalog(), self.clock, 15_000, 60_000),
            workdir="/",
            places=lambda: Places(Path("/nowhere")),
        )
        self.executor.start()

    def no_processes(self) -> Supervisor:
        raise AssertionError("nothing is started")

    def works(self, count: int) -> list[Attempt]:
        definition = ScheduleDefinition(parse_trigger("0 9 * * *").definition, AGENT_JOB, prompt="Hello")
        known = CompiledSchedule(1, 1, "s", "ann", encode(definition))
        return [Attempt(number, 1, 1, None, 1, None, 0, known) for number in range(count)]

    def ended(self, count: int) -> list[AttemptEnd]:
        """So many, once they have."""
        ended = self.executor.drain()
        while len(ended) < count:
            assert self.woken.acquire(timeout=90)
            ended += self.executor.drain()
        return ended

    def close(self) -> None:
        self.runner.go.set()
        self.ended(self.executor.running())
        self.executor.stop()


PLACES = 4
"""So few threads that a busy machine starts them soon."""


@pytest.fixture
def hall(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hall]:
    monkeypatch.setattr("matins.executors.agents.MAX_AGENTS", PLACES)
    made = Hall()
    yield made
    made.close()


def test_h10_what_has_no_place_waits_and_is_given_back(hall: Hall) -> None:
    """H10: after a while, since another engine may have one; all of it when this one stops"""
    executor, works = hall.executor, hall.works(PLACES + 5)
    executor.submit(works[:-1])
    assert (executor.running(), executor.capacity()) == (PLACES + 4, -4)
    assert executor.withdraw() == []
    hall.clock.advance(10_001)
    executor.submit(works[-1:])
    assert executor.withdraw() == works[PLACES:-1]
    assert executor.withdraw(everything=True) == works[-1:]
    assert (executor.running(), executor.capacity(), executor.busy()) == (PLACES, 0, True)


def test_h10_what_waits_begins_when_another_ends(hall: Hall) -> None:
    """H10"""
    executor, works = hall.executor, hall.works(PLACES + 5)
    executor.submit(works)
    hall.runner.go.set()
    assert {ended.attempt.run_id for ended in hall.ended(len(works))} == {work.run_id for work in works}
    assert (executor.running(), executor.busy()) == (0, False)


def test_what_is_cancelled_before_it_began_needs_no_place(hall: Hall) -> None:
    """B9: nothing is spent on it"""
    executor, works = hall.executor, hall.works(PLACES + 2)
    executor.submit(works)
    executor.cancel({works[-1].run_id})
    (ended,) = hall.ended(1)
    assert (ended.attempt, ended.outcome.cancelled) == (works[-1], True)
    assert executor.running() == PLACES + 1


def test_h11_what_has_not_begun_when_matins_stops_is_given_back(hall: Hall) -> None:
    """H11"""
    executor, works = hall.executor, hall.works(1)
    assert executor.interrupt() == 0
    executor.submit(works)
    assert hall.woken.acquire(timeout=90)
    assert (executor.withdraw(), executor.running()) == (works, 0)


def test_b9_a_call_that_nobody_can_end_is_held_until_it_ends(
    office: Office, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """B9: with its place; and what it raises is its failure, without the secret"""
    monkeypatch.setenv("THE_KEY", KEY)
    monkeypatch.setattr("matins.executors.endpoint_requests._UNRESPONSIVE_MS", 0)
    unresponsive = Unresponsive()
    monkeypatch.setitem(runners(), "unresponsive", unresponsive)
    m = office.matins
    m.agents.set("ann", runner="unresponsive", timeout="1s", environment={"A_KEY": "env:THE_KEY"})
    m.add("s", when="every day at 09:00", agent="ann", prompt="Hello")
    m.run("s")
    held = office.wait("s", lambda run: run.state == "held")
    assert held.reason == "timed_out"
    m.runs.cancel(held.id)
    unresponsive.go.set()
    run = office.wait("s")
    assert "OSError" in run.outcome["error"]
    assert KEY not in run.outcome["error"] + caplog.text
