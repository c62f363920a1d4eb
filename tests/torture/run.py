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
from functools import partial
from pathlib import Path
from random import Random

from agent_ledger import RUNS, check_agents
from clockwork import Clockwork
from director import LIVES, MOSTLY_STOPS, ON_A_FILE, WITH_AGENTS, WITHOUT_STOPS, Director
from ledger import Rows, Tally, reckon
from planted import FAULTS, FAULTS_SEEN_AS
from power import LOSSES, Power
from proxy import MODES, Network
from restorer import Restorer
from scenes import Places, Scenes
from stage import Stage
from theatre import Cover, Theatre

_LOOK_S = 0.004
_MORE_LIVES = 400
"""So many processes may start, beyond what was asked for, in search of points that are not insisted on."""
_MORE_S = 600
"""So long may it take, beyond one and a half of what was asked for: on a busy machine it ends with less, and tells."""
_COUNTS = ("slots", "lost", "duplicated", "repeated", "stale_accepted", "unfinished", "held")
_SHORT_MEMORY_DAYS = 4 / 86_400
_STAGES = ("main", "clock", "memory", "agents")
"""All policies; a clock that steps; a history that is soon forgotten; agents whose journals are lost."""
_RESTORED = "restored"
"""A stage of its own, since nothing that is true of the others is true of a store that goes back."""
_LIVES = {"agents": WITH_AGENTS}
_RESTART_EVERY_S = 12
_WEATHER_S = 1.2
"""How long the network stays as it is: longer than a lease."""


@dataclass(frozen=True)
class House:
    stages: list[Stage]
    restored: Stage
    save: Callable[[], None] | None = None
    restore: Callable[[], None] | None = None
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
        with _house(store, folder, _STAGES[:1] if asked.planted else _STAGES) as house:
            show = Show(house, asked)
            try:
                show.play()
            except SystemExit:
                show.tell()  # how far it came, to those who had no more patience
                raise
            finally:
                show.kill_all()
            line, wrong, missing = show.reckoning(store)
        print(json.dumps(line), flush=True)  # noqa: T201 - this is what the command is for
        print(f"{store}: {show.story()}", file=sys.stderr)  # noqa: T201
        for note in wrong + missing:
            print(f"{store}: {note}", file=sys.stderr)  # noqa: T201
        wrong += [] if asked.coarse else missing
        bad = bad or (not line[FAULTS_SEEN_AS[asked.planted]] if asked.planted else bool(wrong))
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
    parser.add_argument("--planted", choices=sorted(FAULTS), default="", help="with a fault, which it is to notice")
    parser.add_argument(
        "--coarse",
        action="store_true",
        help="try for a death in each function, not at each of its points; what was not reached is told, and not wrong",
    )
    parser.add_argument("--keep", action="store_true", help="keep the stores when something is wrong")
    return parser.parse_args()


@contextmanager
def _house(store: str, folder: Path, names: tuple[str, ...]) -> Iterator[House]:
    if store == "sqlite":
        stages = [_stage(name, f"sqlite:///{folder / name}.db", folder) for name in (*names, _RESTORED)]
        yield House(stages[:-1], stages[-1])
        return
    from server import Server

    with Server(folder / "pg") as server, closing(Network(server.socket, "network")) as network:
        urls = {name: server.url(name, network.port if name == "main" else None) for name in (*names, _RESTORED)}
        stages = [_stage(name, url, folder) for name, url in urls.items()]
        save, restore = partial(server.save, _RESTORED), partial(server.restore, _RESTORED)
        yield House(stages[:-1], stages[-1], save, restore, server.restart, network)


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
        self._directors = {stage.name: self._director(stage) for stage in house.stages}
        self._main = self._directors["main"]
        self._clock: Clockwork | None = None
        self._restorer: Restorer | None = None
        self._scenes: Scenes | None = None
        if not asked.planted:
            clock, agents = self._directors["clock"], self._directors["agents"]
            agents.power = Power(agents.stage, f"{asked.seed} power")
            self._clock = Clockwork(clock.theatre, f"{asked.seed} clock")
            restored = Theatre(house.restored, self._cover)
            self._restorer = Restorer(restored, f"{asked.seed} restored", house.save, house.restore)
            places = Places(
                self._main, clock, self._clock, agents, self._restorer, house.restart, house.network
            )  # fmt: skip
            self._scenes = Scenes(places, f"{asked.seed} scenes")
        self._settled: dict[str, int] = {}
        self._lives_asked_for = 0
        self._minutes = 1
        self._took: list[float] = []
        """Seconds until the stages were set, until the faults ended, and until everything was settled."""

    def _director(self, stage: Stage) -> Director:
        main = stage.name == "main"
        if self._asked.planted:
            lives = MOSTLY_STOPS if self._asked.planted == "no-epochs" else ("long",)
        elif main:
            lives = ON_A_FILE if stage.sqlite else LIVES
        else:
            lives = _LIVES.get(stage.name, WITHOUT_STOPS)
        engines = 4 if main and not stage.sqlite else 1
        seed = f"{self._asked.seed} {stage.name}"
        director = Director(stage, self._cover, seed, engines=engines, clients=2 if main else 0, lives=lives)
        director.planted = self._asked.planted
        return director

    def kill_all(self) -> None:
        for stage in (*self._directors.values(), self._restorer):
            if stage is not None:
                stage.kill_all()

    def play(self) -> None:
        """Until there were enough kills and stops, for long enough, and every fault was reached."""
        began = time.monotonic()
        for stage in (*self._directors.values(), self._restorer):
            if stage is not None:
                stage.set_stage()
        self._took = [time.monotonic() - began]
        for theatre in self._theatres():
            theatre.meanwhile = partial(self._step, but=theatre.stage.name)
        while not self._over(began):
            self._step()
            for faults in (self._clock, self._scenes):
                if faults is not None:
                    faults.step()
            self._pull_away(began)
            self._change_weather()
            if time.monotonic() - began > 60 * self._minutes:
                self._minutes += 1
                self.tell()
            time.sleep(_LOOK_S)
        self._took.append(time.monotonic() - began)
        for theatre in self._theatres():
            theatre.meanwhile = lambda: None
        if self._network is not None:
            self._network.turn("well")
        self._settled = {name: director.finish() for name, director in self._directors.items()}
        self._took.append(time.monotonic() - began)

    def _step(self, but: str | None = None) -> None:
        """Look after the engines of all stages, also while a scene is played on one of them."""
        for name, director in self._directors.items():
            if name != but:
                director.step()

    def tell(self) -> None:
        """How far it is."""
        missing = self._missing()
        told = f"{self._kills()} kills, {len(self._cover.died)} points, {len(missing)} faults missing: {missing[:12]}"
        print(told, file=sys.stderr, flush=True)  # noqa: T201

    def _over(self, began: float) -> bool:
        """Whether all that was asked for is done, and every fault was reached or looked for long enough."""
        lives, took = sum(theatre.started for theatre in self._theatres()), time.monotonic() - began
        if took > 1.5 * self._asked.seconds + _MORE_S:
            return True
        if self._kills() < self._asked.kills or took < self._asked.seconds:
            self._lives_asked_for = lives
            return False
        return not self._missing() or (not self._insisted_on() and lives - self._lives_asked_for > _MORE_LIVES)

    def _pull_away(self, began: float) -> None:
        """Restart the server now and then, without a goodbye to anybody."""
        due = time.monotonic() - began > _RESTART_EVERY_S * (self._restarts + 1)
        if self._restart is not None and due and not self._asked.planted:
            self._restart()
            self._restarts += 1

    def _change_weather(self) -> None:
        if self._network is not None and not self._asked.planted and time.monotonic() >= self._turn_at:
            self._network.turn(self._weather.choice(("well", *MODES)))
            self._turn_at = time.monotonic() + self._weather.uniform(0.2, _WEATHER_S)

    def _missing(self) -> list[str]:
        """The faults that were not reached, and the points at which nothing died."""
        never = [] if self._scenes is None or self._clock is None else self._cover.never()
        return self._missing_faults() + [f"a death at {point}" for point in never]

    def _insisted_on(self) -> list[str]:
        """What is still to be reached. A rare point is reached by chance, which a test must not depend on."""
        if self._asked.planted:
            return []
        return self._missing_faults() if self._asked.coarse else self._missing()

    def _missing_faults(self) -> list[str]:
        if self._scenes is None or self._clock is None:
            # On a server an attempt that was followed may have had nothing left to write.
            enough = self._main.followed >= (2 if self._main.stage.sqlite else 5)
            return [] if enough or self._asked.planted != "no-epochs" else ["no attempt was followed by another"]
        power = self._directors["agents"].power
        missing = [f"two faults at once: {pair}" for pair in self._scenes.missing()]
        missing += [f"a power cut: {loss}" for loss in LOSSES if power is None or not power.cuts[loss]]
        if self._network is not None:
            missing += [f"a network: {mode}" for mode in MODES if not self._network.seen[mode]]
        reached = {
            "a stale write that is refused": self._refused(),
            "a process that stands still": self._pauses(),
            "a full disk": self._full(),
            "a clock that steps four times": self._clock.steps >= 4,
            "a restart of the server": self._restart is None or self._restarts,
        }
        missing += [what for what, times in reached.items() if not times]
        return missing

    def _theatres(self) -> list[Theatre]:
        theatres = [director.theatre for director in self._directors.values()]
        return theatres if self._restorer is None else [*theatres, self._restorer.theatre]

    def _kills(self) -> int:
        return sum(theatre.kills for theatre in self._theatres())

    def _pauses(self) -> int:
        return sum(theatre.pauses for theatre in self._theatres())

    def _refused(self) -> int:
        return sum(theatre.refused for theatre in self._theatres())

    def _full(self) -> int:
        return sum(theatre.told["full"] for theatre in self._theatres())

    def story(self) -> str:
        """What was reached, besides what is counted."""
        power = None if self._scenes is None else self._directors["agents"].power
        set_after, played_until, settled_after = (round(seconds) for seconds in self._took)
        return (
            f"set after {set_after} s, played until {played_until} s, settled after {settled_after} s, "
            f"{self._refused()} stale writes refused, "
            f"{self._clock.steps if self._clock else 0} steps of the clock, {self._full()} full disks, "
            f"{self._restarts} restarts, network {dict(self._network.seen) if self._network else 'none'}, "
            f"power cuts {dict(power.cuts) if power else 'none'}"
        )

    def reckoning(self, store: str) -> tuple[dict[str, object], list[str], list[str]]:
        """The counts, what is wrong, and what was not reached."""
        tallies = {name: self._reckoned(director) for name, director in self._directors.items()}
        line: dict[str, object] = {"store": store, "kills": self._kills(), "pauses": self._pauses()}
        line |= {count: sum(getattr(tally, count) for tally in tallies.values()) for count in _COUNTS}
        kinds = sorted({kind for tally in tallies.values() for kind in tally.copies})
        told = {kind: [tally.copies[kind] for tally in tallies.values() if kind in tally.copies] for kind in kinds}
        line["answers"] = {kind: sum(count for count, _ in some) for kind, some in told.items()}
        line["copies"] = {kind: sum(again for _, again in some) for kind, some in told.items()}
        line |= {"points": len(self._cover.died), "pairs": dict(self._scenes.reached) if self._scenes else {}}
        wrong = [f"{name}: {note}" for name, tally in tallies.items() for note in tally.notes]
        wrong += [note for director in self._directors.values() for note in director.theatre.findings]
        if self._restorer is not None:
            wrong += [f"{_RESTORED}: {note}" for note in self._restorer.check()[1]]
        missing = [f"not reached: {what}" for what in self._insisted_on()]
        if not sum(tally.steps for tally in tallies.values()):
            missing.append("there were no steps")
        if self._kills() < self._asked.kills:
            missing.append(f"not reached: {self._asked.kills} kills in {round(self._took[1])} s")
        missing += [f"there were no {what}" for what in ("kills", "pauses", "slots") if not line[what]]
        if not self._asked.planted and not line["held"]:
            missing.append("no agent was ever held")
        return line, wrong, missing

    def _reckoned(self, director: Director) -> Tally:
        stage, name = director.stage, director.stage.name
        memory = None if stage.history_days is None else round(stage.history_days * 86_400_000)
        tally = reckon(stage.url, director.theatre.lines, self._settled[name], memory_ms=memory, notes=stage.notes)
        if name == "agents":
            rows = Rows(stage.url)
            check_agents(tally, stage, rows.all(RUNS))
            rows.close()
        return tally


if __name__ == "__main__":
    sys.exit(main())
