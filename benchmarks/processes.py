"""What a supervised process costs over a bare one: runs of /bin/true a second, beside asyncio's own subprocesses.

Everybody runs once in each round, in an order that is shuffled anew, in the same process. Then, with Matins alone, what
a flood of output takes of memory, and whether anything is left of many runs. One JSON line is printed for each
contestant and round, then tables and the aims. `docs/processes.md` says what Matins does in that time.

With --before, Matins alone beside an earlier commit, in turn: give the Python of an environment in which that commit is
installed. Judge by CPU time, of the engine, keeper, wardens and commands.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from asyncio.subprocess import PIPE
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from statistics import median

from matins.executors.processes import proc
from matins.executors.processes.launch import Launch
from matins.executors.processes.supervisor import Supervisor
from matins.executors.processes.walls import Layout

COMMAND = "/bin/true"
BARE, CAPTURED, MATINS, MATINS_FSYNC = "asyncio, bare", "asyncio, output captured", "Matins", "Matins, fsync"
ISOLATED = "Matins, isolated"
MOST_OF_ISOLATION = 1.10
"""Times a supervised process without isolation, in the same round."""
LANES = {"one at a time": 1, "four at a time": 4}
AIMS = {"one at a time": 0.5, "four at a time": 1.0}
"""Times the bare process, with journal and output captured."""
MOST_OF_A_CHANGE = 1.05
"""Times the CPU time of a supervised process before."""
FLOOD_AIM_MB = 20.0
PATIENCE_S = 60
Contestant = Callable[[int, int], None]


class OfMatins:
    """A supervisor as an engine has it: start, wait to be woken, take what has ended."""

    def __init__(self, folder: Path, *, fsync: bool, isolated: bool = False) -> None:
        self._folder = folder
        self._layout: Layout | None = None
        self._rung = threading.Event()
        self._supervisor = Supervisor(folder, self._rung.set, fsync=fsync)
        self._begun = 0
        if isolated:
            kept = folder / "agents" / "one"
            kept.mkdir(parents=True)
            self._layout = Layout((str(folder),), (str(kept),), ())

    @property
    def can_be_isolated(self) -> bool:
        return self._supervisor.probe().works

    def __call__(self, count: int, lanes: int) -> None:
        last = self._begun + count
        for _ in range(lanes):
            self._start()
        ended = 0
        while ended < count:
            if not self._rung.wait(PATIENCE_S):
                raise TimeoutError
            self._rung.clear()
            for _, _, outcome in self._supervisor.ended():
                if outcome.exit_code != 0:
                    raise RuntimeError(outcome)
                ended += 1
                if self._begun < last:
                    self._start()

    def _start(self, *argv: str) -> None:
        self._begun += 1
        environment = {"PATH": os.environ["PATH"]}
        self._supervisor.start(Launch(self._begun, 1, argv or (COMMAND,), environment, "/", layout=self._layout))

    def flood_mb(self, size: int) -> float:
        """What our memory and that of the keeper and its wardens rise by at their highest, while so much is written."""
        before = {pid: _forget_peak(pid) for pid in self._all_processes()}
        self._start("sh", "-c", f"yes 'a line of the flood' | head -c {size}")
        if not self._rung.wait(PATIENCE_S):
            raise TimeoutError
        self._rung.clear()
        ((_, _, outcome),) = self._supervisor.ended()
        if outcome.stdout_bytes != size:
            raise RuntimeError(outcome)
        return round(sum(_memory_kb(pid, "VmHWM") - kb for pid, kb in before.items()) / 1000, 1)

    def left_by(self, count: int) -> tuple[int, int]:
        """Zombies, and open files more than before, when so many runs are over, four at a time."""
        processes = self._all_processes()
        before = sum(map(_open_files, processes))
        self(count, 4)
        zombies = [
            pid
            for pid in _pids()
            if (found := proc.read_process(pid)) and found.is_zombie and found.parent in processes
        ]
        return len(zombies), sum(map(_open_files, processes)) - before

    def cpu_us(self, count: int, lanes: int) -> float:
        """CPU time of a run."""
        before = sum(map(_cpu_ticks, self._all_processes()))
        self(count, lanes)
        return 1e6 * (sum(map(_cpu_ticks, self._all_processes())) - before) / os.sysconf("SC_CLK_TCK") / count

    def _all_processes(self) -> list[int]:
        keeper = int((self._folder / "keeper.lock").read_text().split()[0])
        return [os.getpid(), keeper, *(process.pid for process in proc.descendants(keeper))]

    def close(self) -> None:
        self._supervisor.close(leave_running=False)


def _forget_peak(pid: int) -> int:
    """What it holds now, from which its highest counts again.

    Keepers and wardens are closed to an ordinary account: their highest counts from their start, which is never less.
    """
    with suppress(PermissionError, FileNotFoundError, ProcessLookupError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    return _memory_kb(pid, "VmRSS")


def _memory_kb(pid: int, word: str) -> int:
    """What a process holds; nothing if it has ended meanwhile."""
    try:
        held = Path(f"/proc/{pid}/status").read_text().partition(f"{word}:")[2]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(held.split()[0]) if held else 0


def _cpu_ticks(pid: int) -> int:
    """Of the process, and of its children that have ended. If it has ended itself, its parent counts them."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(map(int, fields[11:15]))


def _open_files(pid: int) -> int:
    """How many there are; of a process that is closed to this account, how many its table has room for."""
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except PermissionError:
        return _memory_kb(pid, "FDSize")
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def of_asyncio(*, captured: bool) -> Contestant:
    async def once() -> None:
        pipe = PIPE if captured else None
        process = await asyncio.create_subprocess_exec(COMMAND, stdout=pipe, stderr=pipe)
        if captured:
            await process.communicate()
        if await process.wait() != 0:
            raise RuntimeError(process.returncode)

    async def lane(count: int) -> None:
        for _ in range(count):
            await once()

    async def run(count: int, lanes: int) -> None:
        await asyncio.gather(*(lane(count // lanes) for _ in range(lanes)))

    return lambda count, lanes: asyncio.run(run(count, lanes))


def create_us(folder: Path, times: int = 50) -> float:
    """What the file system takes to make a small file; Matins makes one for each run."""
    began = time.perf_counter()
    for n in range(times):
        (folder / f"probe-{time.time_ns()}-{n}").write_bytes(b"x" * 400)
    return round(1e6 * (time.perf_counter() - began) / times, 1)


def rate(contestant: Contestant, count: int, lanes: int) -> float:
    began = time.perf_counter()
    contestant(count, lanes)
    return round(count / (time.perf_counter() - began), 1)


def measure(
    contestants: dict[str, Contestant], folder: Path, rounds: int, count: int
) -> dict[tuple[str, str], list[float]]:
    random = Random(0)
    found: dict[tuple[str, str], list[float]] = {}
    for contestant in contestants.values():
        contestant(8, 4)  # all are warm, and the wardens are there
    for nth in range(rounds):
        for name, lanes in LANES.items():
            for contestant in random.sample(list(contestants), len(contestants)):
                reached = rate(contestants[contestant], count, lanes)
                found.setdefault((name, contestant), []).append(reached)
                beside = {"round": nth, "load": round(os.getloadavg()[0], 1), "create_us": create_us(folder)}
                say({"measure": name, "contestant": contestant} | beside | {"runs_per_s": reached})
    return found


def say(record: dict[str, object]) -> None:
    print(json.dumps(record), flush=True)


def table(found: dict[tuple[str, str], list[float]], name: str) -> str:
    """Medians, and the median over the rounds of the ratio to the bare process of the same round."""
    lines = ["| contestant | runs_per_s | times bare | rounds |", "| --- | ---: | ---: | ---: |"]
    for (measured, contestant), rates in found.items():
        if measured == name:
            lines.append(
                f"| {contestant} | {median(rates):,.0f} | {times_bare(found, name, rates):.2f} | {len(rates)} |"
            )
    return "\n".join(lines)


def times_bare(found: dict[tuple[str, str], list[float]], name: str, rates: Sequence[float]) -> float:
    return median(own / bare for own, bare in zip(rates, found[name, BARE], strict=True))


def verdict(found: dict[tuple[str, str], list[float]]) -> str:
    lines: list[str] = []
    for name, aim in AIMS.items():
        reached = times_bare(found, name, found[name, MATINS])
        word = "reached" if reached >= aim else "MISSED"
        lines.append(f"- {word}: {name}, Matins: {reached:.2f} times the bare process (aim {aim:g})")
    return "\n".join(lines)


def cost_of_isolation(found: dict[tuple[str, str], list[float]]) -> str:
    """What isolation adds to the time of a run, by rounds."""
    lines: list[str] = []
    for name in LANES:
        pairs = zip(found[name, MATINS], found[name, ISOLATED], strict=True)
        took = median(plain / isolated for plain, isolated in pairs)
        word = "reached" if took <= MOST_OF_ISOLATION else "MISSED"
        lines.append(f"- {word}: {name}, isolation: {took:.2f} times the time without (at most {MOST_OF_ISOLATION:g})")
    return "\n".join(lines)


def examine(matins: OfMatins, flood: int, runs: int) -> str:
    """What only Linux tells."""
    took_mb = matins.flood_mb(flood)
    say({"measure": "flood", "bytes": flood, "memory_mb": took_mb})
    zombies, files = matins.left_by(runs)
    say({"measure": "many runs", "runs": runs, "zombies": zombies, "open_files_more": files})
    word = "reached" if took_mb < FLOOD_AIM_MB else "MISSED"
    nothing = "reached" if (zombies, files) == (0, 0) else "MISSED"
    return (
        f"- {word}: a flood of {flood:,} bytes: {took_mb:g} MB of memory (aim below {FLOOD_AIM_MB:g})\n"
        f"- {nothing}: after {runs:,} runs: {zombies} zombies, {files} open files more (aim 0)"
    )


# -- beside an earlier commit


def sample(folder: Path, count: int) -> None:
    """CPU time and time of a run, by kind and number of lanes, as one line."""
    ours = {MATINS: OfMatins(folder / "plain", fsync=False)}
    if ours[MATINS].can_be_isolated:
        ours[ISOLATED] = OfMatins(folder / "isolated", fsync=False, isolated=True)
    found: dict[str, tuple[float, float]] = {}
    for kind, matins in ours.items():
        matins(40, 4)
        for name, lanes in LANES.items():
            began = time.perf_counter()
            cpu_us = matins.cpu_us(count, lanes)
            found[f"{kind}, {name}"] = cpu_us, 1e6 * (time.perf_counter() - began) / count
        matins.close()
    say(dict(found))


def beside(before: str, folder: Path, rounds: int, count: int) -> str:
    """A table of medians: before, now and the ratio."""
    samples: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for nth in range(rounds):
        for side in ("before", "now")[:: 1 if nth % 2 else -1]:
            place = Path(tempfile.mkdtemp(dir=folder))
            command = [before if side == "before" else sys.executable, __file__, "--sample", "--folder", str(place)]
            told = subprocess.run([*command, "--count", str(count)], check=True, capture_output=True, text=True).stdout
            for name, figures in json.loads(told).items():
                samples.setdefault((name, side), []).append((figures[0], figures[1]))
            say({"round": nth, "side": side, "load": round(os.getloadavg()[0], 1)} | json.loads(told))
    lines = [
        "| what | CPU µs before | now | ratio | ratio of the least | µs before | now | ratio | |",
        "| --- |" + " ---: |" * 7 + " --- |",
    ]
    for name in sorted({name for name, _ in samples}):
        old, new = samples[name, "before"], samples[name, "now"]
        cells = [name]
        for figure in (0, 1):
            a, b = median(each[figure] for each in old), median(each[figure] for each in new)
            cells += [f"{a:,.0f}", f"{b:,.0f}", f"{b / a:.3f}"]
            if figure == 0:
                cells.append(f"{min(each[0] for each in new) / min(each[0] for each in old):.3f}")
                word = "reached" if b / a <= MOST_OF_A_CHANGE else "MISSED"
        lines.append("| " + " | ".join([*cells, word]) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Supervised processes beside bare ones.")
    parser.add_argument("--quick", action="store_true", help="small and once, to see that it runs")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=200, help="runs of each contestant in a round")
    parser.add_argument("--without-flood", action="store_true", help="only the rounds")
    parser.add_argument(
        "--folder", type=Path, help="where the journals lie; its file system is part of what is measured"
    )
    parser.add_argument("--before", metavar="PYTHON", help="beside an earlier commit, which this Python has")
    parser.add_argument("--sample", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    rounds, count = (1, 20) if options.quick else (options.rounds, options.count)
    if options.sample:
        sample(options.folder, count)
        return
    if options.before is not None:
        with tempfile.TemporaryDirectory(prefix="matins-bench-", dir=options.folder) as place:
            print("\n" + beside(options.before, Path(place), rounds, count))
        return
    folder = Path(tempfile.mkdtemp(prefix="matins-bench-", dir=options.folder))
    ours = {name: OfMatins(folder / name, fsync=name == MATINS_FSYNC) for name in (MATINS, MATINS_FSYNC)}
    isolates = ours[MATINS].can_be_isolated
    if isolates:
        ours[ISOLATED] = OfMatins(folder / ISOLATED, fsync=False, isolated=True)
    try:
        say({"python": platform.python_version(), "system": platform.platform(), "cpus": os.cpu_count()})
        bare = {BARE: of_asyncio(captured=False), CAPTURED: of_asyncio(captured=True)}
        found = measure({**bare, **ours}, folder, rounds, count)
        size, runs = (1_000_000, 100) if options.quick else (1_000_000_000, 10_000)
        examined = cost_of_isolation(found) + "\n" if isolates else "- isolation cannot be had here\n"
        examined += examine(ours[MATINS], size, runs) if sys.platform == "linux" and not options.without_flood else ""
    finally:
        for contestant in ours.values():
            contestant.close()
        shutil.rmtree(folder, ignore_errors=True)
    tables = (f"{name}\n\n{table(found, name)}" for name in LANES)
    print("\n" + "\n\n".join([*tables, f"{verdict(found)}\n{examined}"]))


if __name__ == "__main__":
    main()
