"""Torture: real processes on a real store, killed, stopped and starved; then a reckoning. One line of JSON per store.

python tests/torture/run.py --store sqlite --store postgres --kills 500 --seconds 60 --seed 7
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from clockwork import Clockwork
from director import LIVES, MOSTLY_STOPS, WITHOUT_STOPS, Director
from ledger import Tally, reckon
from proxy import MODES, Network
from stage import Stage
from theatre import Cover

_LOOK_S = 0.004
_WORST_S = 800
"""How long it may take, beyond what was asked for, until every point has had its death."""
_COUNTS = ("slots", "lost", "duplicated", "repeated", "stale_accepted", "unfinished")
_SHORT_MEMORY_DAYS = 4 / 86_400
_STAGES = ("main", "clock", "memory")
"""All policies; a clock that steps; a history that is soon forgotten."""
_RESTART_EVERY_S = 12
_WEATHER_S = 1.2
"""How long the network stays as it is: longer than a lease."""


@dataclass(frozen=True)
class House:
    stages: list[Stage]
    restart: Callable[[], None] | None = None
    """Pulls the server away, if there is one."""
    network: Network | None = None
    """Between the first stage and the server."""


def main() -> int:
    asked = _arguments()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(2))  # so that no process is left behind
    bad = False
    for store in asked.store or ("sqlite", "postgres"):
        folder = Path(tempfile.mkdtemp(prefix=f"matins-torture-{store}-"))
        # Without the check the faults that matter are the stops.
        with _house(store, folder, _STAGES[:1] if asked.forget_epochs else _STAGES) as house:
            show = Show(house, asked)
            try:
                show.play()
            finally:
                show.kill_all()
            line, wrong = show.reckoning(store)
        print(json.dumps(line), flush=True)  # noqa: T201 - this is what the command is for
        print(f"{store}: {show.story()}", file=sys.stderr)  # noqa: T201
        for note in wrong:
            print(f"{store}: {note}", file=sys.stderr)  # noqa: T201
        bad = bad or bool(wrong)
        if wrong and asked.keep:
            print(f"{store}: kept in {folder}", file=sys.stderr)  # noqa: T201
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return int(bad)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", action="append", choices=("sqlite", "postgres"))
    parser.add_argument("--kills", type=int, default=300, help="at least so many")
    parser.add_argument("--seconds", type=float, default=0, help="at least so long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--forget-epochs", action="store_true", help="without the check that fences old workers off")
    parser.add_argument("--coarse", action="store_true", help="one death in each function, not at each of its points")
    parser.add_argument("--keep", action="store_true", help="keep the stores when something is wrong")
    return parser.parse_args()


@contextmanager
def _house(store: str, folder: Path, names: tuple[str, ...]) -> Iterator[House]:
    if store == "sqlite":
        yield House([_stage(name, f"sqlite:///{folder / name}.db", folder) for name in names])
        return
    from server import Server

    with Server(folder / "pg") as server, closing(Network(server.socket, "network")) as network:
        urls = [server.url(name, network.port if name == "main" else None) for name in names]
        stages = [_stage(name, url, folder) for name, url in zip(names, urls, strict=True)]
        yield House(stages, server.restart, network)


def _stage(name: str, url: str, folder: Path) -> Stage:
    place = folder / name
    place.mkdir()
    return Stage(name, url, place, _SHORT_MEMORY_DAYS if name == "memory" else None, few=name != "main")


class Show:
    """All stages of one store."""

    def __init__(self, house: House, asked: argparse.Namespace) -> None:
        self._asked = asked
        self._restart = house.restart
        self._network = house.network
        self._weather, self._turn_at = Random(f"{asked.seed} network"), 0.0
        self._restarts = 0
        self._cover = Cover(coarse=asked.coarse)
        self._directors = [self._director(stage) for stage in house.stages]
        self._main = self._directors[0]
        self._clocks = [
            Clockwork(director.theatre, f"{asked.seed} clock")
            for director in self._directors
            if director.stage.name == "clock"
        ]
        self._settled: list[int] = []
        self._took = 0.0

    def _director(self, stage: Stage) -> Director:
        main = stage.name == "main"
        director = Director(
            stage,
            self._cover,
            f"{self._asked.seed} {stage.name}",
            engines=4 if main and not stage.sqlite else 1,
            clients=2 if main else 0,
            lives=WITHOUT_STOPS if not main else MOSTLY_STOPS if self._asked.forget_epochs else LIVES,
        )
        director.forget_epochs = self._asked.forget_epochs
        return director

    def kill_all(self) -> None:
        for director in self._directors:
            director.kill_all()

    def play(self) -> None:
        """Until there were enough kills and stops, for long enough, and somebody has died at every point."""
        began = time.monotonic()
        for director in self._directors:
            director.set_stage(die=not self._asked.forget_epochs)
        while True:
            while not self._enough(began) and time.monotonic() - began < self._asked.seconds + _WORST_S:
                for director in self._directors:
                    director.step()
                for clock in self._clocks:
                    clock.step()
                self._pull_away(began)
                self._change_weather()
                time.sleep(_LOOK_S)
            if self._network is not None:
                self._network.turn("well")
            self._settled = [director.finish() for director in self._directors]
            self._took = time.monotonic() - began
            if self._enough(began) or time.monotonic() - began > self._asked.seconds + _WORST_S:
                return

    def _pull_away(self, began: float) -> None:
        """Restart the server now and then, without a goodbye to anybody."""
        due = time.monotonic() - began > _RESTART_EVERY_S * (self._restarts + 1)
        if self._restart is not None and due and not self._asked.forget_epochs:
            self._restart()
            self._restarts += 1

    def _change_weather(self) -> None:
        if self._network is not None and not self._asked.forget_epochs and time.monotonic() >= self._turn_at:
            self._network.turn(self._weather.choice(("well", *MODES)))
            self._turn_at = time.monotonic() + self._weather.uniform(0.2, _WEATHER_S)

    def _bad_weather(self) -> bool:
        """Whether the network has had every mode, if there is one."""
        return self._network is None or set(MODES) <= self._network.seen.keys()

    def _enough(self, began: float) -> bool:
        """Everything that was asked for, and every fault at least a few times."""
        enough = self._kills() >= self._asked.kills and time.monotonic() - began >= self._asked.seconds
        if self._asked.forget_epochs:
            # On a server an attempt that was followed may have had nothing left to write.
            return enough and self._main.followed >= (2 if self._main.stage.sqlite else 5)
        faults = self._refused() > 0 and self._steps() >= 4 and self._full() > 0
        outside = self._bad_weather() and (self._restart is None or self._restarts > 0)
        return enough and faults and outside and not self._cover.never()

    def _kills(self) -> int:
        return sum(director.theatre.kills for director in self._directors)

    def story(self) -> str:
        """What was done, besides what is counted."""
        return (
            f"{self._took:.0f} s, {len(self._cover.died)} points died at, {self._refused()} stale writes refused, "
            f"{self._steps()} steps of the clock, {self._full()} full disks, {self._restarts} restarts, "
            f"network {dict(self._network.seen) if self._network else 'none'}"
        )

    def _refused(self) -> int:
        return sum(director.theatre.refused for director in self._directors)

    def _steps(self) -> int:
        return sum(clock.steps for clock in self._clocks)

    def _full(self) -> int:
        return sum(line["kind"] == "full" for director in self._directors for line in director.theatre.lines)

    def reckoning(self, store: str) -> tuple[dict[str, object], list[str]]:
        tallies: list[Tally] = []
        for director, settled in zip(self._directors, self._settled, strict=True):
            days = director.stage.history_days
            memory = None if days is None else round(days * 86_400_000)
            tallies.append(reckon(director.stage.url, director.theatre.lines, settled, memory_ms=memory))
        pauses = sum(director.theatre.pauses for director in self._directors)
        line: dict[str, object] = {"store": store, "kills": self._kills(), "pauses": pauses}
        line |= {count: sum(getattr(tally, count) for tally in tallies) for count in _COUNTS}
        wrong = [f"{d.stage.name}: {note}" for d, t in zip(self._directors, tallies, strict=True) for note in t.notes]
        wrong += [note for director in self._directors for note in director.theatre.findings]
        wrong += [f"nobody died at {point}" for point in self._cover.never() if not self._asked.forget_epochs]
        if not sum(tally.steps for tally in tallies):
            wrong.append("there were no steps")
        wrong += [f"there were no {what}" for what in ("kills", "pauses", "slots") if not line[what]]
        if not self._asked.forget_epochs and not self._refused():
            wrong.append("no stale write was ever refused: nothing was tried")
        return line, wrong


if __name__ == "__main__":
    sys.exit(main())
