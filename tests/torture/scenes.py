"""Two faults at once, on purpose: each pair of a list is played again and again, until all were reached and beyond."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from clockwork import Clockwork
from director import Director
from proxy import Network
from restorer import Restorer
from theatre import Cover, Process, Theatre

_EVERY_S, _LATER_S = 0.5, 12.0
"""How long one pair comes after another: while some were not reached, or lead to the last points, and otherwise."""
_PATIENCE_S = 90.0
_TOGETHER_S = 0.4


@dataclass(frozen=True)
class Places:
    """Where faults can be: the stages of one store, its server and the network before it."""

    main: Director
    clock: Director
    clockwork: Clockwork
    agents: Director
    restorer: Restorer
    restart: Callable[[], None] | None = None
    network: Network | None = None


class Scenes:
    def __init__(self, places: Places, seed: str) -> None:
        self._at = places
        self._rng = Random(seed)
        self._deck: list[str] = []
        self._name = ""
        self._next = 0.0
        outside = {**_NETWORK, **_RESTART} if places.network is not None else _DISK
        self._pairs = {**_EVERYWHERE, **outside}
        self.reached: Counter[str] = Counter(dict.fromkeys(self._pairs, 0))

    def missing(self) -> list[str]:
        return [name for name, times in self.reached.items() if not times]

    def step(self) -> None:
        """Play the next pair, when it is time: first those that were never reached, then those that lead to points at
        which nobody died."""
        if time.monotonic() < self._next:
            return
        if not self._deck:
            self._deck = self.missing() or self._leads() or list(self._pairs)
            self._rng.shuffle(self._deck)
        self._name = self._deck.pop()
        self.reached[self._name] += self._pairs[self._name](self)
        self._next = time.monotonic() + (_EVERY_S if self.missing() or self._leads() else _LATER_S)

    @property
    def _cover(self) -> Cover:
        return self._at.main.theatre.cover

    def _leads(self) -> list[str]:
        theatres = [self._at.main.theatre, self._at.clock.theatre, self._at.agents.theatre, self._at.restorer.theatre]
        lives = {life for theatre in theatres for life in self._cover.leads(theatre.stage.name)}
        return [name for name in self._pairs if name in lives]

    # -- full disk

    def full_and_killed(self) -> bool:
        return self._while_full(signal.SIGKILL)

    def full_and_ended(self) -> bool:
        return self._while_full(signal.SIGTERM)

    def _while_full(self, number: signal.Signals) -> bool:
        theatre, engine = self._at.main.theatre, self._guest(self._at.main, stays_full=True)
        if engine is None:
            return False
        theatre.until(engine, lambda: self._told(engine, "full"), _PATIENCE_S)
        self._pause()
        return self._finish(theatre, engine, number) and self._told(engine, "full")

    # -- a clock that leaps

    def leapt_and_killed(self) -> bool:
        return self._after_a_leap(signal.SIGKILL)

    def leapt_and_ended(self) -> bool:
        return self._after_a_leap(signal.SIGTERM)

    def _after_a_leap(self, number: signal.Signals) -> bool:
        theatre, engine = self._at.clock.theatre, self._guest(self._at.clock)
        if engine is None or not theatre.until(engine, lambda: self._told(engine, "started"), _PATIENCE_S):
            return self._finish(theatre, engine, signal.SIGKILL) and False
        reached: list[bool] = []

        def meanwhile() -> None:
            self._pause()
            reached.append(self._finish(theatre, engine, number))

        self._at.clockwork.leap(meanwhile)
        return reached[0]

    # -- the server and the network before it

    def restarted_and_killed(self) -> bool:
        return self._over_a_restart(signal.SIGKILL)

    def restarted_and_ended(self) -> bool:
        return self._over_a_restart(signal.SIGTERM)

    def _over_a_restart(self, number: signal.Signals) -> bool:
        assert self._at.restart is not None
        engine, theatre = self._busy_engine(), self._at.main.theatre
        if engine is None:
            return False
        timer = threading.Timer(self._rng.uniform(0.0, _TOGETHER_S), engine.send, (number,))
        timer.start()
        self._at.restart()
        timer.join()
        return self._finish(theatre, engine, number)

    def unanswered_and_killed(self) -> bool:
        return self._after_a_lost_answer(signal.SIGKILL)

    def unanswered_and_ended(self) -> bool:
        return self._after_a_lost_answer(signal.SIGTERM)

    def _after_a_lost_answer(self, number: signal.Signals) -> bool:
        network = self._at.network
        assert network is not None
        engine, theatre = self._busy_engine(), self._at.main.theatre
        if engine is None:
            return False
        before = network.lost_answers()
        network.turn("cut_after_commit")
        lost = theatre.until(engine, lambda: network.lost_answers() > before, _PATIENCE_S)
        engine.send(number)
        self._pause()  # the network comes back while it says goodbye
        network.turn("well")
        return self._finish(theatre, engine, number) and lost

    # -- the disk of a file

    def unwritten_and_killed(self) -> bool:
        return self._on_an_unsound_disk(signal.SIGKILL)

    def unwritten_and_ended(self) -> bool:
        return self._on_an_unsound_disk(signal.SIGTERM)

    def _on_an_unsound_disk(self, number: signal.Signals) -> bool:
        theatre, engine = self._at.main.theatre, self._guest(self._at.main, unsound_disk=True)
        if engine is None:
            return False
        lost = theatre.until(engine, lambda: self._told(engine, "unanswered"), _PATIENCE_S)
        self._pause()
        return self._finish(theatre, engine, number) and lost

    def _busy_engine(self) -> Process | None:
        """One that has begun to work."""
        theatre, engine = self._at.main.theatre, self._guest(self._at.main)
        if engine is None or theatre.until(engine, lambda: self._told(engine, "begin"), _PATIENCE_S):
            return engine
        self._finish(theatre, engine, signal.SIGKILL)
        return None

    # -- what is gone

    def lost_journals_and_killed(self) -> bool:
        """The engine that finds agents without journals is killed over it."""
        director = self._at.agents
        assert director.power is not None
        theatre, effects = director.theatre, director.stage.effects
        begun = effects.read_text().count("begin") if effects.exists() else 0
        engine = self._guest(director, boot=director.power.boot)
        if engine is None:
            return False
        theatre.until(engine, lambda: effects.exists() and effects.read_text().count("begin") > begun, _PATIENCE_S)
        self._finish(theatre, engine, signal.SIGKILL)
        director.power.cut()
        heir = self._guest(director, boot=director.power.boot)
        assert heir is not None  # nobody stands still here
        theatre.until(heir, lambda: self._told(heir, "started"), _PATIENCE_S)
        self._pause()
        return self._finish(theatre, heir, signal.SIGKILL)

    def restored_and_killed(self) -> bool:
        return self._at.restorer.restore_and_kill(self._name)

    # -- helpers

    def _guest(self, director: Director, **words: Any) -> Process | None:
        """While pairs are missing, none dies before it is in the midst of one. Where nobody changes the weather
        meanwhile, it must be well to begin with."""
        if self._at.network is not None:
            self._at.network.turn("well")
        return director.guest(hunts=not self.missing(), life=self._name, **words)

    def _told(self, process: Process, kind: str) -> bool:
        return any(line["kind"] == kind for line in process.diary.lines)

    def _pause(self) -> None:
        time.sleep(self._rng.uniform(0.0, _TOGETHER_S))

    def _finish(self, theatre: Theatre, process: Process | None, number: signal.Signals) -> bool:
        """Send a signal, wait for the end, and bury it; whether it ended of this signal, or as it asked for."""
        if process is None:
            return False
        if process.code is None:
            process.send(number)
            theatre.until(process, lambda: False, _PATIENCE_S)
        if process.code is None:
            doing = f"{process.diary.lines[-3:]}\n{process.stacks()}"
            theatre.findings.append(
                f"an engine did not end within {_PATIENCE_S} s of {number.name}: {self._name}: {doing}"
            )
            process.send(signal.SIGKILL)
            process.wait()
        theatre.bury(process)
        return (process.code == -signal.SIGKILL) is (number is signal.SIGKILL)


_EVERYWHERE: dict[str, Callable[[Scenes], bool]] = {
    "full disk, kill": Scenes.full_and_killed,
    "full disk, stop": Scenes.full_and_ended,
    "clock leap, kill": Scenes.leapt_and_killed,
    "clock leap, stop": Scenes.leapt_and_ended,
    "lost journals, kill": Scenes.lost_journals_and_killed,
    "restore, kill": Scenes.restored_and_killed,
}
_DISK: dict[str, Callable[[Scenes], bool]] = {
    "lost answer to commit, kill": Scenes.unwritten_and_killed,
    "lost answer to commit, stop": Scenes.unwritten_and_ended,
}
_NETWORK: dict[str, Callable[[Scenes], bool]] = {
    "lost answer to commit, kill": Scenes.unanswered_and_killed,
    "lost answer to commit, stop": Scenes.unanswered_and_ended,
}
_RESTART: dict[str, Callable[[Scenes], bool]] = {
    "server restart, kill": Scenes.restarted_and_killed,
    "server restart, stop": Scenes.restarted_and_ended,
}
