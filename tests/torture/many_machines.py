"""Torture of several machines on one PostgreSQL: engines are killed, machines lose their power and come back, some with
another disk, networks are cut, the server is restarted; then a reckoning. One line of JSON. Root, on Linux.

python tests/torture/many_machines.py --seconds 60 --seed 7
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from machines import LocalNetwork, Machine, refusal
from server import Server

from matins import Matins
from matins.errors import MatinsError

LEASE_MS, RUN_LEASE_MS, AFTER_LEASE_MS = 3_000, 7_000, 3_000
_SETTLE_S = 240
"""How long it may go on without an end of a run."""
_ENDED = ("succeeded", "failed", "held", "unknown", "interrupted", "cancelled", "skipped", "timed_out")
_STANDINS = Path(__file__).parents[1] / "standins"
_PLANTED = {"": "", "no-lease": "recorder.Reaper._may_live = lambda *given: False"}
_ENGINE = f"""
import sys
from matins import Matins
from matins.runtime import recorder
recorder._AFTER_LEASE_MS = {AFTER_LEASE_MS}
url, name, labels, home, planted = sys.argv[1:]
exec(planted)
Matins(
    url, name=name, labels=labels.split(), state_folder=home + "/state", home=home, max_runs=6,
    lease_ms={LEASE_MS}, beat_ms=300, run_lease_ms={RUN_LEASE_MS},
).run_forever()
"""
_SCRIPT = """
exec 9> {folder}/lock-$MATINS_RUN_ID
flock -n 9 || echo twice $MATINS_RUN_ID $MATINS_ATTEMPT $(hostname) >> {folder}/diary
echo start $MATINS_RUN_ID $MATINS_ATTEMPT $(hostname) >> {folder}/diary
sleep $((MATINS_RUN_ID % 3 * 5))
echo end $MATINS_RUN_ID $MATINS_ATTEMPT $(hostname) >> {folder}/diary
"""
_CHANNELS = 3
SCHEDULES = ("retries", "holds", "gpu", *(f"talk{n}" for n in range(_CHANNELS)))
LABELS = {"one": "gpu", "two": "gpu", "three": "eu"}
FAULTS = ("kill", "power", "disk", "cut", "restart")


class Line(NamedTuple):
    what: str
    run: int
    attempt: int
    machine: str


class Ended(NamedTuple):
    """A run, as the store has it at the end."""

    id: int
    schedule: str
    state: str
    attempt: int
    how: str
    """How its conversation was found, for one that continues a conversation."""


def reckon(lines: Iterable[Line], runs: Iterable[Ended], *, disks_replaced: bool) -> list[str]:
    """What is wrong."""
    by_run: dict[int, list[Line]] = defaultdict(list)
    for line in lines:
        by_run[line.run].append(line)
    wrong: list[str] = []
    for run in runs:
        starts = [line for line in by_run[run.id] if line.what == "start"]
        finished = [line for line in by_run[run.id] if line.what == "end" and line.attempt == run.attempt]
        told = f"run {run.id} of {run.schedule} ({run.state}, attempt {run.attempt})"
        if any(line.what == "twice" for line in by_run[run.id]):
            wrong.append(f"{told} had two live trees: {by_run[run.id]}")
        if run.state not in _ENDED:
            wrong.append(f"{told} never ended")
        if run.state == "cancelled":
            wrong.append(f"{told} was cancelled, and nobody asked for it")
        if len(starts) != len(set(starts)):
            wrong.append(f"{told} started one attempt twice: {starts}")
        if run.schedule == "gpu" and any("gpu" not in LABELS[line.machine] for line in starts):
            wrong.append(f"{told} started where there is no gpu: {starts}")
        if run.schedule == "holds" and len(starts) > 1:
            wrong.append(f"{told} started again, and was to be held: {starts}")
        if run.schedule not in ("retries", "holds", "gpu"):
            if "gone, fallback" in run.how and not disks_replaced:
                wrong.append(f"{told} was sent where its session is not: {run.how}")
        elif run.state == "succeeded" and not finished:
            wrong.append(f"{told} did not finish: {by_run[run.id]}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", default=",".join(FAULTS), help="which of them")
    parser.add_argument("--planted", choices=sorted(_PLANTED), default="", help="with a fault, which it is to notice")
    parser.add_argument("--keep", action="store_true", help="keep the folder when something is wrong")
    asked = parser.parse_args()
    why_not = refusal()
    if why_not is not None:
        print(why_not, file=sys.stderr)  # noqa: T201
        return 2
    folder = Path(tempfile.mkdtemp(prefix="matins-machines-"))
    folder.chmod(0o755)
    with ExitStack() as stack:
        hall = Hall(folder, stack, asked.planted)
        hall.play(asked.seconds, Random(asked.seed), asked.faults.split(","))
        line, wrong = hall.settled()
    print(json.dumps(line), flush=True)  # noqa: T201
    for note in wrong:
        print(note, file=sys.stderr)  # noqa: T201
    if wrong and asked.keep:
        print(f"kept in {folder}", file=sys.stderr)  # noqa: T201
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return int(not wrong if asked.planted else bool(wrong))


class Hall:
    """The server, the machines, and somebody who adds runs."""

    def __init__(self, folder: Path, stack: ExitStack, planted: str) -> None:
        self._folder = folder
        self._planted = _PLANTED[planted]
        network = LocalNetwork()
        stack.callback(network.close)
        self._server = stack.enter_context(Server(folder / "pg", network.address))
        self._url = self._server.url("machines", 5432)
        self._machines: list[Machine] = []
        for number, name in enumerate(LABELS):
            machine = Machine(network, number + 2, name, folder / name, folder / "disk")
            stack.callback(machine.close)
            self._machines.append(machine)
        self._matins = Matins(self._url)
        stack.callback(self._matins.close)
        self._define()
        self._faults = Counter[str]()
        self._back: list[tuple[float, Callable[[], None]]] = []
        """What is mended, and when."""
        for machine in self._machines:
            self._boot(machine)

    def _define(self) -> None:
        m, script = self._matins, _SCRIPT.format(folder=self._folder)
        for name, on_unknown, runs_on in (("retries", "retry", []), ("holds", "hold", []), ("gpu", "retry", ["gpu"])):
            m.agents.set(name, runner="shell", command=["sh", "-c", script], isolation="none")
            m.add(
                name, when="every day at 09:00", agent=name, prompt="Go", overlap="allow",
                on_unknown=on_unknown,
                runs_on=runs_on,
            )  # fmt: skip
        m.agents.set("talker", runner="claude", isolation="none", environment={"STANDIN_HOME": f"{self._folder}/disk"})
        for n in range(_CHANNELS):
            m.add(
                f"talk{n}", when="every day at 09:00", agent="talker", prompt="Go on", overlap="queue",
                queue_limit=1000,
                target={"kind": "channel", "channel": f"C{n}"}, on_unknown="retry",
            )  # fmt: skip

    def _boot(self, machine: Machine) -> None:
        machine.boot()
        self._start(machine)

    def _start(self, machine: Machine) -> None:
        if machine.is_on and not machine.engine_runs:
            machine.start(
                [
                    sys.executable,
                    "-c",
                    _ENGINE,
                    self._url,
                    machine.name,
                    LABELS[machine.name],
                    f"{self._folder}/disk",
                    self._planted,
                ],
                {"HOME": f"{self._folder}/disk", "PATH": f"{_STANDINS}:{os.environ['PATH']}"},
            )

    def play(self, seconds: float, rng: Random, faults: list[str]) -> None:
        until = time.monotonic() + _SETTLE_S
        while len([node for node in self._matins.nodes.list() if node.live]) < len(self._machines):
            assert time.monotonic() < until, "no engine starts"
            for machine in self._machines:
                self._start(machine)
            time.sleep(0.5)
        began = now = next_fault = time.monotonic()
        while now - began < seconds:
            self._add(rng)
            if now >= next_fault:
                self._fault(rng.choice(faults), self._victim(rng), rng)
                next_fault = now + rng.uniform(0.5, 3)
            for at, mend in list(self._back):
                if now >= at:
                    mend()
                    self._back.remove((at, mend))
            time.sleep(0.1)
            now = time.monotonic()

    def _add(self, rng: Random) -> None:
        try:
            self._matins.run(rng.choice(SCHEDULES))
        except MatinsError:  # the server is restarted
            time.sleep(0.2)

    def _victim(self, rng: Random) -> Machine:
        """Any machine, and more often the one that has the most to do."""
        try:
            busy = {node.name: node.runs for node in self._matins.nodes.list()}
        except MatinsError:
            busy = {}
        rng.shuffle(self._machines)
        return max(self._machines, key=lambda one: busy.get(one.name, 0) + rng.uniform(0, 4))

    def _fault(self, kind: str, machine: Machine, rng: Random) -> None:
        if kind != "restart" and (not machine.is_on or machine.is_cut or not machine.engine_runs):
            return  # it has its fault already
        self._faults[kind] += 1
        soon = time.monotonic() + rng.choice((rng.uniform(0, 1), rng.uniform(2, 12)))
        match kind:
            case "kill":
                machine.kill_engine()
                self._back.append((soon, lambda: self._start(machine)))
            case "power" | "disk":
                machine.power_off()
                if kind == "disk":
                    machine.replace_disk()
                self._back.append((soon, lambda: self._boot(machine)))
            case "cut":
                machine.cut()
                self._back.append((soon, machine.mend))
                if rng.random() < 0.3:  # and its engine is killed meanwhile
                    machine.kill_engine()
                    self._back.append((soon + 1, lambda: self._start(machine)))
            case _:
                self._server.restart()

    def settled(self) -> tuple[dict[str, Any], list[str]]:
        """The figures, and what is wrong, once everything is mended and has come to its end."""
        for _, mend in sorted(self._back, key=lambda one: one[0]):
            mend()
        until, least = time.monotonic() + _SETTLE_S, len(self._runs()) + 1
        while least and time.monotonic() < until:
            for machine in self._machines:
                assert machine.is_on
                self._start(machine)
            live = sum(run.state not in _ENDED for run in self._runs())
            if live < least:  # on a busy machine it takes its time
                until, least = time.monotonic() + _SETTLE_S, live
            time.sleep(1)
        for machine in self._machines:
            machine.power_off()
        runs = self._runs(assignments=True)
        diary = self._folder / "diary"
        lines = [_line(text) for text in diary.read_text().splitlines()] if diary.exists() else []
        wrong = reckon(lines, runs, disks_replaced=self._faults["disk"] > 0)
        wrong += [f"the log: {problem}" for problem in self._matins.audit.verify().problems]
        adopted = sum(1 for event in self._events("run.adopted"))
        failures = Counter(
            str((self._matins.runs.get(run.id).outcome or {}).get("error")) for run in runs if run.state == "failed"
        )
        wrong += [f"{count} runs failed: {error}" for error, count in failures.items()]
        if not lines:
            wrong.append("nothing ran")
        states = Counter(run.state for run in runs)
        again = sum(run.attempt > 1 for run in runs)
        return {
            "runs": len(runs), "states": dict(states), "adopted": adopted, "retried": again,
            "faults": dict(self._faults), "boots": sum(machine.boots for machine in self._machines),
            "twice": sum(line.what == "twice" for line in lines), "wrong": len(wrong),
        }, wrong  # fmt: skip

    def _events(self, kind: str) -> list[Any]:
        found: list[Any] = []
        after = 0
        while page := list(self._matins.events.list(types=[kind], after=after, limit=1000)):
            found += page
            after = page[-1].id
        return found

    def _runs(self, *, assignments: bool = False) -> list[Ended]:
        found: list[Ended] = []
        for name in SCHEDULES:
            for run in self._matins.runs.list(schedule=name, limit=1000):
                thread = self._matins.runs.thread(run.id) if assignments and name.startswith("talk") else None
                found.append(Ended(int(run.id), name, run.state, run.attempt, "" if thread is None else thread.how))
        return found


def _line(text: str) -> Line:
    what, run, attempt, machine = text.split()
    return Line(what, int(run), int(attempt), machine)


if __name__ == "__main__":
    os.environ.pop("MATINS_STORE", None)
    sys.exit(main())
