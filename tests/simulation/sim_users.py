"""The users of the simulation: they add, edit, pause, resume, delete, start, cancel and limit, through the service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from sim_violation import Violation, require
from sim_worker import BOTH_JOBS, Actor

from matins.api.schedules import Api
from matins.errors import InvalidInput, StoreUnavailable
from matins.executors.registry import JobRegistry
from matins.model.access import OWNER, Principal
from matins.model.run import RunState
from matins.service import Service
from matins.surfaces.transports.in_process import InProcess
from matins.testing import ManualClock

_WHEN: tuple[dict[str, Any], ...] = (
    {"when": "*/5 * * * * *"},
    {"when": "*/20 * * * * *"},
    {"when": "* * * * *"},
    {"when": "0 * * * *", "timezone": "Europe/London"},
    {"when": "7s"},
    {"when": "9s", "first": "immediately"},
    {"when": "11s", "anchor": "start"},
    {"when": "10s", "anchor": "grid"},
    {"when": "in 40s"},
)
_WORDS: dict[str, tuple[Any, ...]] = {
    "catch_up": ("skip", "run_once", "run_all_capped"),
    "catch_up_limit": (1, 2, 4),
    "grace": (None, "2s", "1m"),
    "overlap": ("skip", "queue", "cancel_other", "allow"),
    "queue_limit": (1, 3),
    "at_capacity": ("wait", "wait", "skip"),
    "retries": (0, 1, 3),
    "retry_delay": ("1s",),
    "max_retry_delay": ("6s",),
    "on_unknown": ("retry", "retry", "hold"),
    "jitter": (0, 0, 5),
    "timeout": (None, "4s"),
    "max_executions": (None, None, None, 12),
}
_STEP_WORDS: dict[str, tuple[Any, ...]] = {
    "agent": (None, None, "ann", "bob"),
    "retries": (None, None, 1),
    "on_unknown": (None, None, "hold"),
    "timeout": (None, None, None, "4s"),
}
_SHAPES = (
    {"A": "", "B": "A", "C": "B"},
    {"A": "", "B": "A", "C": "A", "D": "BC"},
    {"D": "BC", "C": "A", "B": "A", "A": ""},
    {"A": "", "B": "", "C": ""},
    {"A": "", "B": "", "C": "AB"},
    {"A": ""},
)
"""Steps, each with those that it waits for."""
_SCOPES = ("global", "agent:ann", "agent:bob")
_ENDS = ("succeeded", "failed", "unknown", "retry")
_NAMES = tuple(f"job{n}" for n in range(7))

_WIDE = 20
_WHERE: tuple[dict[str, Any], ...] = ({}, {}, {"runs_on": ["gpu"]}, {"host": "w1"})
_JOBS: dict[str, Callable[..., None]] = dict.fromkeys(sorted(BOTH_JOBS), lambda run: None)


class Users(Actor):
    def __init__(self, clock: ManualClock, rng: Random) -> None:
        super().__init__("users", clock)
        self._rng = rng
        self._can: Sequence[Callable[[Any], str]] = ACTIONS
        self._vocabulary: Mapping[str, tuple[Any, ...]] = _WORDS
        self._step_words: Mapping[str, tuple[Any, ...]] = _STEP_WORDS
        self.actions: Counter[str] = Counter()
        self.rare: Random | None = None
        """Where machines differ: draws which jobs are those that some of them lack."""

    def open(self) -> None:
        self.service = Service(self.store, self.clock, jobs=JobRegistry(_JOBS))
        self.owner = self.acting_as(OWNER)

    def acting_as(self, who: Principal) -> Api:
        return Api(InProcess(self.service, who))

    def act(self) -> str:
        """One of them does something; a refusal or a fault is an answer like another."""
        action = self._rng.choice(self._can)
        try:
            said = action(self)
            self.actions[action.__name__] += 1
        except InvalidInput as error:
            said = f"refused: {type(error).__name__}"
        except StoreUnavailable:
            said = "failed"
        except Exception as error:
            raise Violation(11, f"{action.__name__} failed by itself: {error!r}") from error
        return f"{action.__name__}: {said}"

    def prepare(self) -> None:
        for name in self._rng.sample(_NAMES, self._rng.randint(2, 5)):
            self._add(name)
        for scope in _SCOPES:
            if self._rng.random() < 0.3:
                self.owner.limits.set(scope, size=self._rng.randint(1, 4))

    def open_everything(self) -> None:
        """Nothing that people put in the way is in the way any more."""
        for limit in self.owner.limits.list():
            if limit.size < _WIDE:  # with a narrow one, the backlog of a leap of the clock takes hours
                self.owner.limits.set(limit.scope, size=_WIDE)
        for schedule in self.owner.list():
            if schedule.state == "paused":
                self.owner.resume(schedule.name, agent=schedule.agent)
        for backfill in self.owner.backfills.list():
            if backfill.state == "paused":
                self.owner.backfills.resume(backfill.id)

    def resolve_all(self, run_ids: list[int]) -> None:
        """What became of runs that are held because their worker is gone, a person must say."""
        for run_id in run_ids:
            self.owner.runs.resolve(run_id, self._rng.choice(_ENDS))

    def add(self) -> str:
        return self._add(self._rng.choice(_NAMES))

    def edit(self) -> str:
        words = self._words(2)
        if self._rng.random() < 0.4:
            words |= self._rng.choice(_WHEN)
        if self._rng.random() < 0.2:
            words |= {"steps": self._steps()} if self._rng.random() < 0.7 else {"steps": None, "job": "job"}
        schedule = self.owner.edit(self._name(), **words)
        return f"{schedule.name} {words}"

    def pause(self) -> str:
        return self.owner.pause(self._name()).name

    def resume(self) -> str:
        return self.owner.resume(self._name()).name

    def delete(self) -> str:
        return str(self.owner.delete(self._name()))

    def run(self) -> str:
        """The same key gives the same run, also after an answer that was lost."""
        name, key = self._name(), f"key{self._rng.randrange(6)}"
        run = self.owner.run(name, key=key)
        require(8, run.request_key == key, f"the key {key} gave another run: {run}")
        return f"{name} {key} is run {run.id}"

    def backfill(self) -> str:
        """Start one for slots of the last minutes, or let one wait, go on or end."""
        open_ones = [one for one in self.owner.backfills.list(limit=20) if one.state in ("running", "paused")]
        if open_ones and self._rng.random() < 0.4:
            one, verb = self._rng.choice(open_ones), self._rng.choice(("pause", "resume", "resume", "cancel"))
            return f"{verb} {one.id}: {getattr(self.owner.backfills, verb)(one.id).state}"
        name, now = self._name(), self.clock.now_ms()
        most = self._rng.choice((2, 5))
        start, which = now - self._rng.choice((30_000, 180_000)), self._rng.choice(("missing", "failed", "all"))
        newest_first = self._rng.random() < 0.3
        overlaps = self.owner.get(name).settings.get("overlap") == "allow"
        parallel = self._rng.choice((1, 3)) if overlaps else 1
        made = self.owner.backfills.create(
            name, start=start, end=now, which=which, limit=most, newest_first=newest_first, max_parallel=parallel
        )
        return f"{name}: {made.id} with {made.planned} runs"

    def retry(self) -> str:
        """Some run that is over, as a whole or from a step on."""
        with self.store.reading() as transaction:
            rows = [row for row in transaction.recent_runs(1 << 60, 30, None) if row.state >= RunState.SUCCEEDED]
        if not rows:
            return "nothing to retry"
        run, start = self._rng.choice(rows), self._rng.choice((None, None, "1", "2"))
        return f"{run.id} from {start} is {self.owner.runs.retry(run.id, from_step=start).id}"

    def cancel(self) -> str:
        live = self._live()
        if not live:
            return "nothing to cancel"
        run = self.owner.runs.cancel(self._rng.choice(live))
        return f"{run.id} {run.state}"

    def resolve(self) -> str:
        held = self._live(RunState.HELD)
        if not held:
            return "nothing to resolve"
        run = self.owner.runs.resolve(self._rng.choice(held), self._rng.choice(_ENDS))
        return f"{run.id} {run.state}"

    def limit(self) -> str:
        scope, size = self._rng.choice(_SCOPES), self._rng.randint(1, 4)
        self.owner.limits.set(scope, size=size)
        return f"{scope} {size}"

    def _live(self, state: RunState | None = None) -> list[int]:
        """Runs and steps that are live."""
        with self.store.reading() as transaction:
            runs = transaction.live([schedule.id for schedule in transaction.schedules(0, None, 100)])
            found = [run.id for run in runs] + transaction.live_steps([run.id for run in runs])
            rows = [transaction.run(run_id) for run_id in sorted(found)]
        return [row.id for row in rows if row is not None and state in (None, row.state)]

    def _add(self, name: str) -> str:
        words = self._drawn_words(len(self._vocabulary)) | self._work() | self._where()
        self.owner.add(name, agent=self._rng.choice(("", "ann", "bob")), **words)
        return f"{name} {words}"

    def _drawn_words(self, count: int) -> dict[str, Any]:
        return self._rng.choice(_WHEN) | self._words(count)

    def _work(self) -> dict[str, Any]:
        return {"steps": self._steps()} if self._rng.random() < 0.35 else {"job": self._job()}

    def _where(self) -> dict[str, Any]:
        """Where machines differ, on which of them it runs."""
        return {} if self.rare is None else self.rare.choice(_WHERE)

    def _job(self) -> str:
        return "job" if self.rare is None or self.rare.random() < 0.6 else "rare"

    def _steps(self) -> list[dict[str, Any]]:
        shape = self._rng.choice(_SHAPES)
        return [self._step(title, after) for title, after in shape.items()]

    def _step(self, title: str, after: str) -> dict[str, Any]:
        step: dict[str, Any] = {"title": title, "job": self._job(), "after": list(after)}
        for word, values in self._step_words.items():
            if (value := self._rng.choice(values)) is not None:
                step[word] = value
        return step

    def _name(self) -> str:
        return self._rng.choice(_NAMES)

    def _words(self, count: int) -> dict[str, Any]:
        chosen = self._rng.sample(sorted(self._vocabulary), count)
        words = {word: self._rng.choice(self._vocabulary[word]) for word in sorted(chosen)}
        return {word: value for word, value in words.items() if value is not None}


ACTIONS: tuple[Callable[[Users], str], ...] = (
    Users.add,
    Users.add,
    Users.edit,
    Users.edit,
    Users.pause,
    Users.resume,
    Users.resume,
    Users.delete,
    Users.run,
    Users.run,
    Users.run,
    Users.cancel,
    Users.retry,
    Users.backfill,
    Users.backfill,
    Users.cancel,
    Users.resolve,
    Users.limit,
)
