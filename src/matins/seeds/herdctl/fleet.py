"""The agents of a herdctl scheduler as schedules in a store: each entry of an agent's file is one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from matins.api.results import Schedule
from matins.config.presets import PRESETS
from matins.engine.when.parse import parse_trigger
from matins.errors import InvalidInput
from matins.library import Matins
from matins.runtime.catalog import CompiledSchedule
from matins.seeds.herdctl.states import UNTIMED
from matins.seeds.herdctl.times import parse_cron_expression, parse_interval
from matins.seeds.herdctl.types import AgentEntry, ScheduleEntry

JOB = "herdctl"
"""The job of all schedules that a Scheduler makes: it calls `on_trigger`."""
_BY_FILE = "enabled: false in the agent's file"


class Planned(NamedTuple):
    agent: str
    name: str
    entry: ScheduleEntry
    when: str
    enabled: bool


class Fleet(Matins):
    """A Matins whose schedules are those of the agents that it is given."""

    def turns(self) -> tuple[int, int | None]:
        """How often the engine has checked what is due, and when last."""
        loop = self._loop
        if loop is None:
            return 0, None
        ago = self.clock.boot_ms() - loop.engine.turned_at
        return loop.engine.turns, self.clock.now_ms() - ago if loop.engine.turns else None

    def set_agents(self, agents: Iterable[AgentEntry]) -> None:
        """Add, change and delete schedules until they are those of these agents. Whatever stays the same keeps its next
        run, its state and its history. A schedule that was disabled stays so while its agent is away."""
        agents = list(agents)
        planned = {(each.agent, each.name): each for agent in agents for each in planned_of(agent)}
        known = {(schedule.agent, schedule.name): schedule for schedule in self._schedules()}
        for key in known.keys() - planned.keys():
            if not _is_disabled(known[key]):
                self.delete(key[1], agent=key[0])
        for agent in agents:
            self.limits.set(f"agent:{agent['name']}", size=max_concurrent(agent))
        for key, each in planned.items():
            self._set(each, known.get(key))

    def count_from(self, agent: str, name: str, at: int) -> None:
        """Count an interval from the end of a run that no clock started."""
        schedule = self.get(name, agent=agent)
        now, number = self.clock.now_ms(), int(schedule.id)
        with self._store.transaction(now) as transaction:
            transaction.lock_due([number])
            row = transaction.schedule(number)
            item = None if row is None else self._catalog.find(transaction, (number, row.rev, 0))
            if row is None or row.state != "active" or not isinstance(item, CompiledSchedule):
                return
            if item.timetable.from_completion:
                slot, due_at = item.timetable.after_completion(number, None, at)
                transaction.replace_cursor(number, slot, due_at, row.rev)
        self._changed()

    def _schedules(self) -> Iterable[Schedule]:
        after: str | None = None
        while page := self.list(after=after):
            yield from (schedule for schedule in page if schedule.job == JOB)
            after = page[-1].id

    def _set(self, each: Planned, known: Schedule | None) -> None:
        before = None if known is None else known.settings.get("payload")
        times = self._times(each)
        if known is None:
            self.add(each.name, agent=each.agent, job=JOB, payload=dict(each.entry), **times)
        elif before != each.entry:
            moved = times if before is None or _times_changed(before, each) else {}
            self.edit(each.name, agent=each.agent, payload=dict(each.entry), **moved)
        paused = known is not None and known.state == "paused"
        if not each.enabled and not paused:
            self.pause(each.name, agent=each.agent, note=_BY_FILE)
        elif each.enabled and known is not None and paused and known.note == _BY_FILE:
            self.resume(each.name, agent=each.agent)

    def _times(self, each: Planned) -> dict[str, Any]:
        """When it is due, with herdctl's defaults."""
        when = parse_trigger(each.when, now_ms=self.clock.now_ms()).definition.when
        times = {"when": each.when, **PRESETS["herdctl"].settings_for(when)}
        # A schedule that is disabled must not be triggered between its insertion and its pause.
        return times if each.enabled or "first" not in times else {**times, "first": "after_interval"}


def _is_disabled(schedule: Schedule) -> bool:
    """Whether a person disabled it, and not its agent's file."""
    return schedule.state == "paused" and schedule.note != _BY_FILE


def planned_of(agent: AgentEntry) -> Iterable[Planned]:
    """The schedules of an agent that a clock triggers."""
    schedules: Mapping[str, ScheduleEntry] = agent.get("schedules") or {}
    for name, entry in schedules.items():
        if entry.get("type") not in UNTIMED:
            yield Planned(agent["name"], name, entry, _when(entry), entry.get("enabled") is not False)


def _times_changed(before: ScheduleEntry, each: Planned) -> bool:
    return _when(before) != each.when or (before.get("enabled") is not False) != each.enabled


def max_concurrent(agent: AgentEntry) -> int:
    instances: Mapping[str, Any] = agent.get("instances") or {}
    return instances.get("max_concurrent") or agent.get("max_concurrent") or 1


def _when(entry: ScheduleEntry) -> str:
    """The trigger of an entry, as Matins writes it."""
    kind = entry.get("type")
    spellings: dict[Any, tuple[tuple[str, ...], Callable[[str], Any]]] = {
        "interval": (("interval",), parse_interval),
        "cron": (("expression", "cron"), parse_cron_expression),
    }
    if kind not in spellings:
        allowed = "interval, cron, webhook, chat"
        raise InvalidInput(f'"type" must be {allowed}, not {kind!r}.', value=kind, field="type", allowed=allowed)
    names, parse = spellings[kind]
    text: str | None = next((entry[name] for name in names if entry.get(name)), None)
    if text is None:
        raise InvalidInput(f'A schedule of type {kind} needs "{names[0]}".', field=names[0], hint=f"{names[0]}: …")
    parse(text)
    return text.strip().lower() if kind == "interval" else text.strip()
