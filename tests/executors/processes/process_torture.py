"""What takes long: many runs, a large flood, and engines, wardens and keepers that are killed or stopped at any moment.

python tests/executors/processes/process_torture.py --runs 10000 --flood 1000000000 --kills 300 --seed 1
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from process_harness import Gate, Harness, Marks, kill
from torture_engine import code_of, read_diary

from matins.executors.processes import proc
from matins.executors.processes.proc import Process

LANES = 4
ENGINE = str(Path(__file__).parent / "torture_engine.py")


# -- many runs


def endure(harness: Harness, runs: int) -> dict[str, Any]:
    """Four at a time; afterwards nobody is left over, and nobody has more open than before."""
    _hire(harness, LANES)
    everybody = [harness.keeper(), *harness.wardens()]
    before = [_open_files(process.pid) for process in everybody], _open_files(os.getpid())
    begun = 0
    ended = 0
    while ended < runs:
        while begun < runs and harness.supervisor.running() < LANES:
            harness.start("sh", "-c", "echo x", stdin=b"prompt")
            begun += 1
        harness.rung.wait(60)
        ended += harness.collect()
    assert all(outcome[:2] == ("finished", 0) for outcome in harness.outcomes.values())
    after = [_open_files(process.pid) for process in everybody], _open_files(os.getpid())
    zombies = [process for process in _below(os.getpid(), *(process.pid for process in everybody)) if process.is_zombie]
    assert not zombies
    assert after[1] <= before[1], "we have more files open"
    assert after[0] == before[0], "somebody has more files open"
    return {"runs": ended, "zombies": len(zombies), "wardens": len(everybody) - 1}


def _hire(harness: Harness, count: int) -> None:
    """So many wardens, by keeping each of them busy until all are there."""
    with (
        contextlib.closing(Marks(harness.folder / "said")) as said,
        contextlib.closing(Gate(harness.folder / "gate")) as gate,
    ):
        runs = [harness.start("sh", "-c", f"echo > {said.path}; read x < {gate.path}") for _ in range(count)]
        for _ in runs:
            said.line()
        gate(count)
        for run in runs:
            assert harness.wait(run).exit_code == 0


def _open_files(pid: int) -> int:
    """How many there are. Keepers and wardens are closed to an ordinary account: the room of their tables, which a file
    that stays open after each run would have doubled."""
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except PermissionError:
        return int(Path(f"/proc/{pid}/status").read_text().split("FDSize:")[1].split()[0])


def _below(*pids: int) -> Iterator[Process]:
    for path in Path("/proc").iterdir():
        process = proc.read_process(int(path.name)) if path.name.isdigit() else None
        if process is not None and process.parent in pids:
            yield process


# -- a flood


def flood(harness: Harness, size: int) -> dict[str, Any]:
    """Memory of the engine and of the warden; the file is capped, the end is there."""
    assert harness.run("true").exit_code == 0
    warden = harness.wardens()[-1]
    before = peak_kb(warden.pid) + peak_kb(os.getpid())
    script = f"echo first; yes 'a line of the flood' | head -c {size}; echo last"
    run = harness.start("sh", "-c", script, head_bytes=1_000_000, secrets=("not there",))
    outcome = harness.wait(run)
    took_kb = peak_kb(warden.pid) + peak_kb(os.getpid()) - before
    assert (outcome.exit_code, outcome.stdout_bytes, outcome.truncated) == (0, size + 11, True)
    assert Path(outcome.stdout_path).stat().st_size == 1_000_000
    assert harness.output(run).startswith(b"first\na line of the flood\n")
    assert harness.supervisor.files.tail(run, 1).endswith(b"last\n")
    assert len(harness.supervisor.files.tail(run, 1)) == 262_144
    assert took_kb < 20_000, f"{took_kb} kB"
    return {"flood": size, "took_kb": took_kb}


def peak_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


# -- deaths


class Deaths:
    """Two engines beside each other, each killed after a while; wardens and keepers too, or stopped."""

    def __init__(self, folder: Path, kills: int, seed: int, *, others: bool) -> None:
        folder.mkdir(parents=True)
        (folder / "diary").touch()
        (folder / "effects").touch()
        self._folder = folder
        self._kills = kills
        self._others = others
        self._random = Random(seed)
        self.killed: Counter[str] = Counter()

    def run(self) -> dict[str, Any]:
        engines = [self._engine("WORK"), self._engine("WORK")]
        while self.killed["engine"] < self._kills or (self._others and not self._met_all()):
            self._live_a_little(engines[0])
            if self._others:
                self._kill_somebody_else()
                self._stop_a_supervisor()
            engines[0].kill()
            engines[0].communicate()
            self.killed["engine"] += 1
            engines = [engines[1], self._engine("WORK")]
        for engine in engines:
            engine.kill()
            engine.communicate()
        last = self._engine("FINISH")
        _, errors = last.communicate(timeout=120)
        assert last.returncode == 0, errors
        return self._reckon()

    def _met_all(self) -> bool:
        return self.killed["warden"] >= 3 and self.killed["warden stopped"] >= 3 and self.killed["keeper stopped"] >= 1

    def _engine(self, task: str) -> subprocess.Popen[str]:
        command = [sys.executable, ENGINE, str(self._folder), task]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def _live_a_little(self, engine: subprocess.Popen[str]) -> None:
        assert engine.stdout is not None
        for _ in range(self._random.randint(1, 60)):
            assert engine.stdout.readline(), engine.communicate()[1]

    def _kill_somebody_else(self) -> None:
        lock = self._folder / "processes" / "keeper.lock"
        who = lock.read_text().split() if lock.exists() else []
        keeper = proc.find(*map(int, who)) if who else None
        if keeper is None:
            return
        if self._random.random() < 0.05:
            kill(keeper)
            self.killed["keeper"] += 1
        below = proc.descendants(keeper.pid)
        at_work = {process.parent for process in below}
        wardens = [process for process in below if process.parent == keeper.pid and process.pid in at_work]
        if wardens and self._random.random() < 0.4:
            kill(self._random.choice(wardens))
            self.killed["warden"] += 1

    def _stop_a_supervisor(self) -> None:
        """Wardens once or as often as a run would: the keeper continues or ends them. A keeper: the engines do."""
        lock = self._folder / "processes" / "keeper.lock"
        who = lock.read_text().split() if lock.exists() else []
        keeper = proc.find(*map(int, who)) if who else None
        if keeper is None:
            return
        wardens = [process for process in proc.descendants(keeper.pid) if process.parent == keeper.pid]
        if wardens and self._random.random() < 0.4:
            warden = self._random.choice(wardens)
            for _ in range(self._random.choice((1, 1, 5))):
                proc.send([warden], signal.SIGSTOP)
            self.killed["warden stopped"] += 1
        if self._random.random() < 0.1:
            proc.send([keeper], signal.SIGSTOP)
            self.killed["keeper stopped"] += 1

    def _reckon(self) -> dict[str, Any]:
        """Every run has one end, which both engines saw alike, and what it did fits to it."""
        diary = read_diary(self._folder)
        effects = Counter(int(line) for line in (self._folder / "effects").read_text().split())
        meant = {run for kind, run, *_ in diary if kind == "meant"}
        outcomes: dict[int, set[tuple[str, int | None]]] = {}
        for kind, run, *more in diary:
            if kind == "fate":
                outcomes.setdefault(run, set()).add((more[0], more[1]))
        assert meant == set(outcomes), "a run has no end"
        assert max(effects.values()) == 1, "a run was run twice"
        for run, told in outcomes.items():
            self._check(run, told, effects[run])
        assert not (left := self._left_over()), left
        found = Counter(more[0] for kind, _, *more in diary if kind == "reaped")
        ends = Counter(kind for told in outcomes.values() for kind, _ in told)
        return {"killed": dict(self.killed), "runs": len(meant), "found": dict(found), "ends": dict(ends)}

    def _check(self, run: int, told: set[tuple[str, int | None]], effect: int) -> None:
        certain = told - {("unknown", None)}
        assert len(certain) <= 1, (run, told)
        assert certain == told or self.killed["warden"] or self.killed["warden stopped"], (run, told)
        if certain == {("never_started", None)}:
            assert effect == 0, (run, told)
        elif certain == {("finished", None)}:  # it was ended in the place of a warden that was stopped
            assert self.killed["warden stopped"] or self.killed["keeper stopped"], (run, told)
        elif certain:
            assert certain == {("finished", code_of(run))}, (run, told)
            assert effect == 1, (run, told)

    def _left_over(self) -> list[str]:
        """Who does not go: a warden whose keeper was killed may have a moment's work left."""
        mine = str(self._folder).encode()
        ours = [process for process in proc.living() if mine in _words(process.pid)]
        proc.send(ours, signal.SIGCONT)  # a supervisor without a run stays stopped otherwise
        return [str(_words(process.pid)) for process in ours if not proc.wait_gone(process, 20_000)]


def _words(pid: int) -> bytes:
    """The environment, where commands have the folder, and the command line, where keepers and wardens have it."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--flood", type=int, default=1_000_000_000)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="matins-torture-processes-"))
    harness = Harness(folder / "desk")
    for told in (endure(harness, asked.runs), flood(harness, asked.flood)):
        print(json.dumps(told), flush=True)  # noqa: T201 - this is what the command is for
    harness.supervisor.close(leave_running=False)
    for others in (False, True):
        deaths = Deaths(folder / f"deaths-{others}", asked.kills, asked.seed, others=others)
        print(json.dumps(deaths.run()), flush=True)  # noqa: T201
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
