"""The check of a schedule, and its state as herdctl shows it.

`state` is a Matins, or the path of a state directory. What a program writes into the state of a schedule is a note,
kept beside the schedule as labels. It counts until a run starts: from then on the state follows from the runs. That a
schedule is running is known only to the process that says so, so that no crash leaves one stuck.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from matins.api.results import GateReport, Run, Schedule
from matins.api.schedules import Api
from matins.engine.selectors import selector_text
from matins.engine.when.definitions import instant_text
from matins.engine.when.triggers import to_ms
from matins.errors import InvalidInput, NotFound, ScheduleTriggerError
from matins.library import Matins
from matins.model.settings import MAX_NAME_LENGTH
from matins.seeds.herdctl.types import UNTIMED, ScheduleCheckResult, ScheduleSkipReason, ScheduleState, ScheduleStatus
from matins.seeds.run_views import each_item, error_of, last_started, text_of, under_way

FIELDS = ("status", "last_run_at", "next_run_at", "last_error")
_PREFIX = "herdctl-"
_RUN = f"{_PREFIX}noted_after_run"
_NONE = "-"
_running: set[tuple[str, str, str, datetime]] = set()
"""The schedules that a program of this process runs by itself."""


def check_updates(updates: Mapping[str, Any]) -> dict[str, str | None]:
    """The texts to note. Raises InvalidInput for another field, or a value that is no time."""
    for name in updates:
        if name not in FIELDS:
            allowed = ", ".join(FIELDS)
            raise InvalidInput(
                f'The state of a schedule has no "{name}".', value=name, field=name, allowed=allowed,
                hint=f"Known: {allowed}.",
            )  # fmt: skip
    return {name: _text(name, value) for name, value in updates.items() if name != "status"}


def _text(name: str, value: Any) -> str | None:
    if value is None or name == "last_error":
        text = " ".join(str(value or "").split())
        return text[:MAX_NAME_LENGTH] or None
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        hint = f'For example: {{"{name}": "2025-01-19T10:00:00Z"}}.'
        raise InvalidInput(
            f'"{name}" must be an ISO timestamp, not {value!r}.', value=value, field=name, hint=hint
        ) from None
    return instant_text(to_ms(moment.astimezone(UTC)))  # without a zone it is local, as in herdctl


def write(m: Api, schedule: Schedule, texts: Mapping[str, str | None], last: Run | None) -> None:
    earlier = schedule.labels if schedule.labels.get(_RUN) == _id(last) else _others(schedule)
    noted = {f"{_PREFIX}{name}": text or _NONE for name, text in texts.items()}
    m.edit(schedule.name, agent=schedule.agent, labels={**earlier, **noted, _RUN: _id(last)})


def _others(schedule: Schedule) -> dict[str, str]:
    return {name: text for name, text in schedule.labels.items() if not name.startswith(_PREFIX)}


def _id(last: Run | None) -> str:
    return _NONE if last is None else last.id


def with_notes(state: ScheduleState, schedule: Schedule, last: Run | None) -> ScheduleState:
    """The state with what was noted since the last run started."""
    if schedule.labels.get(_RUN) != _id(last):
        return state
    noted = {name: schedule.labels.get(f"{_PREFIX}{name}") for name in FIELDS}
    return state._replace(**{name: None if text == _NONE else text for name, text in noted.items() if text is not None})


def mark_running(schedule: Schedule, *, running: bool) -> None:
    if running:
        _running.add(_key(schedule))
    else:
        _running.discard(_key(schedule))


def is_marked(schedule: Schedule) -> bool:
    return _key(schedule) in _running


def _key(schedule: Schedule) -> tuple[str, str, str, datetime]:
    """Schedules of two stores may have the same name and id, but hardly the same birth."""
    return schedule.agent, schedule.name, schedule.id, schedule.created_at


StateHolder = Api | str | Path
STORE = "matins.db"
"""The store in a state directory. It has the place of herdctl's state.yaml."""
_REASONS: Mapping[str, ScheduleSkipReason] = {
    "paused": "disabled",
    "ended": "disabled",
    "overlap": "already_running",
    "capacity": "at_capacity",
}
"""herdctl's reasons by gate, in its order of evaluation."""


def check_schedule(
    m: Matins, agent: str, schedule_name: str, schedule: Mapping[str, Any] | None = None
) -> ScheduleCheckResult:
    """Whether the schedule would be triggered now, and otherwise the first condition that fails.

    `schedule`: its entry in the agent's file. Its type may be one that no clock triggers.
    """
    if schedule is not None and schedule.get("type") in UNTIMED:
        return ScheduleCheckResult(False, "unsupported_type")
    found = m.get(schedule_name, agent=agent)
    if found.trigger["kind"] == "never":  # only calls start it
        return ScheduleCheckResult(False, "unsupported_type")
    reports = m.why(schedule_name, agent=agent).now
    if found.state == "active" and is_marked(found):
        return ScheduleCheckResult(False, "already_running")
    waits = any(map(_waits_for_capacity, reports))
    for report in reports:
        if report.gate in _REASONS and report.passes is False and not _waits_for_capacity(report):
            return ScheduleCheckResult(False, _REASONS[report.gate])
    due = waits or (found.due_at is not None and to_ms(found.due_at) <= m.clock.now_ms())
    return ScheduleCheckResult(True) if due else ScheduleCheckResult(False, "not_due")


def _waits_for_capacity(report: GateReport) -> bool:
    """Whether only the schedule's own run, which has not started, blocks it."""
    return report.gate == "overlap" and (report.evidence or {}).get("state") == "ready"


# -- its state


@contextmanager
def opened(state: StateHolder) -> Generator[Api | None]:
    """The Matins of a state directory; None where there is none yet."""
    if not isinstance(state, (str, Path)):
        yield state
        return
    path = Path(state) / STORE
    if not path.is_file():
        yield None
        return
    with closing(Matins(f"sqlite:///{path.absolute()}")) as m:
        yield m


def get_schedule_state(state: StateHolder, agent: str, schedule_name: str) -> ScheduleState:
    """The state; of an unknown schedule the default one, which is idle."""
    with opened(state) as m:
        try:
            return ScheduleState() if m is None else _state(m, m.get(schedule_name, agent=agent))
        except NotFound:
            return ScheduleState()


def get_agent_schedule_states(state: StateHolder, agent: str) -> dict[str, ScheduleState]:
    """The states of every schedule of an agent, by name."""
    with opened(state) as m:
        if m is None:
            return {}
        schedules = each_item(lambda after: m.list(select=selector_text(agent=agent), after=after))
        return {schedule.name: _state(m, schedule) for schedule in schedules}


def update_schedule_state(
    state: StateHolder, agent: str, schedule_name: str, updates: Mapping[str, Any]
) -> ScheduleState:
    """Set fields of the state. `disabled` and `idle` survive a restart; `running` ends with this process. The other
    fields count until a run starts: then they follow from the runs, so that they are never stale."""
    texts = check_updates(updates)
    with opened(state) as m:
        if m is None:
            raise NotFound(f'There is no schedule "{schedule_name}".', value=schedule_name, field="name")
        if "status" in updates:
            _set_status(m, m.get(schedule_name, agent=agent), updates["status"])
        if texts:
            schedule = m.get(schedule_name, agent=agent)
            write(m, schedule, texts, last_started(m, schedule))
        return _state(m, m.get(schedule_name, agent=agent))


def _set_status(m: Api, schedule: Schedule, status: Any) -> None:
    if status not in ("idle", "running", "disabled"):
        allowed = "idle, running, disabled"
        raise InvalidInput(
            f'"status" must be {allowed}, not {status!r}.', value=status, field="status", allowed=allowed
        )
    mark_running(schedule, running=status == "running" and not under_way(last_started(m, schedule)))
    if status == "disabled" and schedule.state != "paused":
        m.pause(schedule.name, agent=schedule.agent)
    elif status == "idle" and schedule.state == "paused":
        m.resume(schedule.name, agent=schedule.agent)


def raise_for_last_run(m: Api, agent: str, schedule_name: str) -> None:
    """A ScheduleTriggerError if its last run failed."""
    last = last_started(m, m.get(schedule_name, agent=agent))
    if last is not None and last.state == "failed":
        raise ScheduleTriggerError(agent, schedule_name, error_of(last))


def _state(m: Api, schedule: Schedule) -> ScheduleState:
    last = last_started(m, schedule)
    state = ScheduleState(
        status=_status(schedule, last),
        last_run_at=text_of(last.started_at) if last else None,
        next_run_at=text_of(schedule.due_at),
        last_error=error_of(last) if last and last.state == "failed" else None,
    )
    return with_notes(state, schedule, last)


def _status(schedule: Schedule, last: Run | None) -> ScheduleStatus:
    if (under_way(last) or is_marked(schedule)) and schedule.state in ("active", "completed"):
        return "running"
    return "idle" if schedule.state == "active" else "disabled"
