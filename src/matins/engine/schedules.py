"""Schedule definitions: parsed from settings, and in stored form.

Settings that have no effect without another: notes say so where people give them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, cast

import orjson

from matins.engine.calendars import check_days, split_exception
from matins.engine.calls import describe_on, follows_schedule
from matins.engine.commands import check_no_placeholder
from matins.engine.inputs import check_payload, with_defaults
from matins.engine.jobs import AGENT_JOB, MESSAGE_JOB, PING_JOB, decided_by, full_prompt
from matins.engine.prompts import check_fields, first_name, has_input, inputs_in
from matins.engine.settings import (
    DOLLARS,
    ParseContext,
    dump_settings,
    format_settings,
    is_private,
    load_settings,
    loaders_of,
    origin,
    parse_setting,
    parse_settings,
)
from matins.engine.steps import STEPS_JOB, answer_field, before, check_steps, of_step
from matins.engine.targets import ends_conversations
from matins.engine.validation import check_names_known, invalid, nearest, referred_names
from matins.engine.when import definitions
from matins.engine.when.durations import format_duration
from matins.engine.when.parse import parse_trigger
from matins.engine.when.rrule import rule_text
from matins.engine.when.systemd import PREFIX
from matins.engine.when.triggers import Trigger, compile_trigger
from matins.errors import Example, InvalidInput, TriggerError
from matins.model.call import OnWebhook
from matins.model.job import JobTypes
from matins.model.schedule import ScheduleDefinition, Step, TriggerSettings
from matins.model.settings import Table, settings_of
from matins.model.trigger import Cron, Interval, Never, OnCalendar, Once, Rrule, TriggerDefinition

OWNER = "A schedule"
OWN_SETTINGS: Table = settings_of(ScheduleDefinition)
TRIGGER_SETTINGS: Table = settings_of(TriggerSettings)
SETTINGS: Table = settings_of(ScheduleDefinition, TriggerSettings)
STEP_SETTINGS: Table = settings_of(Step)
NOTABLE_SETTINGS = tuple(
    name for name, declared in SETTINGS.items() if declared.setting.owner_only or declared.setting.notable
)
"""Settings that reach beyond an agent's own prompt and target. A proposal highlights them."""
PRIVATE_SETTINGS = frozenset(name for name, declared in SETTINGS.items() if is_private(declared))
_MAX_PATTERNS, _MAX_PATTERN = 20, 500
_MAX_STEP_COMMANDS = 16_000
"""Each word may name a file, which is looked for while the proposal is stored."""
_DERIVED = ("job_prompt", "harmless", "step_jobs", "files")
"""Fields that follow from the type of the job, and from the files that commands run; they are no settings."""
UNREADABLE = ScheduleDefinition(TriggerDefinition(Once(0)), job="")
"""The substitute for a stored definition that cannot be read."""


def parse_schedule(
    when: Any,
    settings: Mapping[str, Any],
    now: int,
    rates: Mapping[str, float] = DOLLARS,
    local_zone: Callable[[], str] = lambda: "UTC",
    jobs: JobTypes | None = None,
    name: str | None = None,
) -> tuple[ScheduleDefinition, Trigger]:
    """The definition of these settings. An error names the setting and what to type. `jobs`: the job must be one of
    them, and the payload what it needs. `H` in a cron expression follows from `name`."""
    check_names_known(OWNER, settings, SETTINGS)
    when, skipped = split_exception(when)
    if skipped:
        settings = {**settings, "skip_on": [*_listed(settings.get("skip_on")), *skipped]}
    job = _job(settings)
    context = ParseContext(now, rates, local_zone)
    if follows_schedule(when):
        when, settings = None, {**settings, "on": [*_listed(settings.get("on")), when]}
    elif when is None and settings.get("on") is None and settings.get("steps") is None:
        hint = Example({"when": "every weekday at 9am"})
        raise InvalidInput('A schedule needs "when" or "on".', value=None, field="when", hint=hint)
    trigger = parse_when(when, settings, context, name)
    own = {name: value for name, value in settings.items() if name in OWN_SETTINGS} | {"job": job}
    values = parse_settings(OWNER, OWN_SETTINGS, own, context._replace(timezone=trigger.timezone))
    if values.get("on") and isinstance(trigger.definition.when, Never):  # each call matters
        values.setdefault("overlap", "queue")
    if jobs is not None and "steps" not in values:
        decided = decided_by(
            jobs.find(values["job"]), with_defaults(values.get("inputs", ()), values.get("payload")), context
        )
        values["job_prompt"], values["harmless"] = decided
    definition = ScheduleDefinition(trigger=trigger.definition, **values)
    if jobs is not None and definition.steps:
        definition = apply_types(definition, jobs, context)
    check_texts(definition)
    if definition.ping is not None and not re.match("https?://[^/]", definition.ping):
        raise InvalidInput('"ping" must be an http or https URL.', field="ping")  # it may contain a key
    check_days(definition.skip_on)
    if len(definition.attach) > _MAX_PATTERNS or any(len(pattern) > _MAX_PATTERN for pattern in definition.attach):
        allowed = f"at most {_MAX_PATTERNS} patterns of at most {_MAX_PATTERN} characters"
        hint = Example({"attach": ["reports/*.pdf"]})
        raise InvalidInput(f'"attach" must be {allowed}.', field="attach", allowed=allowed, hint=hint)
    for pattern in definition.attach:
        if pattern.startswith(("/", "~")) or ".." in pattern.split("/") or not pattern.isprintable():
            message = f'"attach" must name files below the directory of the run, not {pattern!r}.'
            raise InvalidInput(message, value=pattern, field="attach", hint=Example({"attach": ["reports/*.pdf"]}))
    return definition, trigger


def apply_types(definition: ScheduleDefinition, jobs: JobTypes, context: ParseContext) -> ScheduleDefinition:
    """The definition with what the types of its jobs decide: of its own, or of its steps."""
    if not definition.steps:
        prompt, harmless = decided_by(
            jobs.find(definition.job), with_defaults(definition.inputs, definition.payload), context
        )
        return replace(definition, job_prompt=prompt, harmless=harmless, step_jobs=())
    found: list[tuple[str | None, bool]] = []
    definition = replace(definition, step_jobs=())  # an edit may have replaced the steps
    for number in range(1, len(definition.steps) + 1):
        step = of_step(definition, number)
        try:
            decided = decided_by(jobs.find(step.job), with_defaults(step.inputs, step.payload), context)
        except InvalidInput as error:
            error.field = f"steps[{number}].{error.field}"
            raise
        found.append(decided)
    return replace(definition, job_prompt=None, harmless=False, step_jobs=tuple(found))


def _job(settings: Mapping[str, Any]) -> Any:
    """The job that these settings mean."""
    job = settings.get("job")
    if settings.get("steps") is not None:
        for name in ("prompt", "command", "stdin", "work_source"):
            if settings.get(name) is not None:
                message, hint = f'"{name}" cannot be combined with "steps".', "Give it to a step."
                raise InvalidInput(message, value=settings[name], field=name, hint=hint)
        if job not in (None, STEPS_JOB):
            hint = 'Make it a step: {"title": "…", "job": "…"}.'
            raise InvalidInput('"job" cannot be combined with "steps".', value=job, field="job", hint=hint)
        return STEPS_JOB
    if settings.get("command") is not None:
        return AGENT_JOB if job is None else job
    if job is None and (settings.get("prompt") is not None or settings.get("work_source") is not None):
        return AGENT_JOB
    if job is None or job == STEPS_JOB:
        hint = Example({"prompt": "Summarise my open PRs"})
        raise InvalidInput('A schedule needs "prompt", "command", "job" or "steps".', field="job", hint=hint)
    return job


def parse_when(when: Any, settings: Mapping[str, Any], context: ParseContext, schedule: str | None) -> Trigger:
    """The trigger, with those of the settings that belong to it."""
    options = {
        name: parse_setting(TRIGGER_SETTINGS[name], value, context)
        for name, value in settings.items()
        if name in TRIGGER_SETTINGS and value is not None
    }
    if when is None:
        when = "never"
    if isinstance(when, Mapping):
        when = compile_trigger(definitions.from_dict(cast("Mapping[str, Any]", when)))
    if isinstance(when, Trigger):
        if options:
            name = next(iter(options))
            raise InvalidInput(f'"{name}" is part of the trigger already.', value=name, field=name, hint="Omit it.")
        return when
    if not isinstance(when, str):
        raise invalid("when", when, "text or a trigger", hint=Example({"when": "every weekday at 9am"}))
    try:
        return parse_trigger(when, now_ms=context.now, name=schedule, **options)
    except TriggerError as error:
        error.field, error.hint = error.field or "when", error.hint or Example({"when": "every weekday at 9am"})
        raise


def _listed(on: Any) -> list[Any]:
    return [] if on is None else list(cast("list[Any]", on)) if isinstance(on, (list, tuple)) else [on]


def check_texts(definition: ScheduleDefinition) -> None:
    """Raise if a prompt, or a message's payload, has an unknown placeholder; or if its parts are inconsistent."""
    if definition.job == PING_JOB and definition.retries:
        message = '"retries" cannot be combined with the job "expect_ping": Matins does not start the work.'
        hint = "Set retries to 0: what works elsewhere decides whether it tries again."
        raise InvalidInput(message, value=definition.retries, field="retries", hint=hint)
    has_work, has_call = definition.work_source is not None, bool(definition.on)
    check_steps(definition.steps)
    _check_command(definition, "")
    size = sum(
        len(step.command if isinstance(step.command, str) else "".join(step.command or ())) for step in definition.steps
    )
    if size > _MAX_STEP_COMMANDS:
        message = f"The commands of all steps must be at most {_MAX_STEP_COMMANDS:,} characters, not {size:,}."
        raise InvalidInput(message, field="steps", hint="Put them into scripts, and name the scripts.")
    for number, step in enumerate(definition.steps, 1):
        _check_command(step, f"steps[{number}].")
        earlier = tuple(answer_field(other.title) for other in before(definition.steps, number))
        for name, text in (("prompt", step.prompt), ("stdin", step.stdin)):
            if text is not None:
                works, field = step.work_source is not None, f"steps[{number}].{name}"
                check_fields(text, has_work=works, has_call=has_call, field=field, more=earlier)
    if definition.stdin is not None:
        check_fields(definition.stdin, has_work=has_work, has_call=has_call, field="stdin")
    if (prompt := full_prompt(definition)) is not None:
        field = "prompt" if definition.prompt else "payload"
        check_fields(prompt, has_work=has_work, has_call=has_call, field=field)
    if definition.job == MESSAGE_JOB:
        for text in _strings_in(definition.payload):
            check_fields(text, has_work=False, has_call=has_call, field="payload")
    _check_inputs(definition)


def _check_inputs(definition: ScheduleDefinition) -> None:
    """Raise if the payload is not as declared, a prompt names no input, or one has no default: a schedule that fires by
    itself needs defaults."""
    if definition.inputs:
        check_payload(definition.inputs, definition.payload)
    fires = not isinstance(definition.trigger.when, Never) or bool(definition.on)
    known = with_defaults(definition.inputs, definition.payload)
    for one in definition.inputs:
        if fires and one.required and not has_input(f"input.{one.name}", known):
            message = f'"inputs.{one.name}" has no default, and the schedule fires by itself.'
            hint = Example({"inputs": {one.name: {"type": one.type, "default": "…"}}})
            raise InvalidInput(message, value=one.name, field=f"inputs.{one.name}", hint=hint)
    declared = {one.name for one in definition.inputs}
    for path in (path for text in _all_texts(definition) for path in inputs_in(text)):
        name = first_name(path)
        if declared and name and name not in declared and not has_input(path, known):
            message, hint = f"The placeholder {{{{{path}}}}} names no input.", nearest(name, declared)
            raise InvalidInput(message, value=path, field="inputs", hint=hint)
        if fires and not has_input(path, known):
            message = f'"{path}" has no default, and the schedule fires by itself.'
            raise InvalidInput(message, value=path, field="payload", hint=Example({"payload": {name: "…"}}))


def _all_texts(definition: ScheduleDefinition) -> Iterable[str]:
    numbers = range(1, len(definition.steps) + 1)
    for part in [of_step(definition, number) for number in numbers] or [definition]:
        yield from texts_of(part)


def texts_of(definition: ScheduleDefinition) -> Iterable[str]:
    """The texts of a schedule without steps, or of a step, that may have placeholders."""
    yield from (text for text in (full_prompt(definition), definition.stdin) if text is not None)
    if definition.job == MESSAGE_JOB:
        yield from _strings_in(definition.payload)


def _check_command(part: ScheduleDefinition | Step, place: str) -> None:
    """Raise if a schedule or step has a command beside other work, or one that something would be filled into."""
    if part.command is None:
        if part.stdin is not None:
            hint = Example({"command": "sort", "stdin": part.stdin})
            raise InvalidInput('"stdin" needs "command".', value=part.stdin, field=f"{place}stdin", hint=hint)
        return
    for name in ("prompt", "job", "work_source", "target"):
        if (value := getattr(part, name)) not in (None, "", AGENT_JOB):
            message, hint = f'"{name}" cannot be combined with "command".', "Keep one of them."
            raise InvalidInput(message, value=value, field=place + name, hint=hint)
    check_no_placeholder(part.command, f"{place}command")


def _strings_in(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    for item in cast("dict[str, Any]", value).values() if isinstance(value, dict) else ():
        yield from _strings_in(item)
    for item in cast("list[Any]", value) if isinstance(value, list) else ():
        yield from _strings_in(item)


def check_approval(definition: ScheduleDefinition) -> None:
    """Raise unless there are enough approvers."""
    approvers, required = definition.approvers, definition.approvals_required
    if definition.approval == "council_approve" and not approvers:
        hint = Example({"approvers": ["ada", "grace"], "approvals_required": 2})
        raise InvalidInput("council_approve needs named approvers.", field="approvers", hint=hint)
    if required > max(1, len(approvers)):
        raise InvalidInput(
            f'"approvals_required" is {required}, but there are {max(1, len(approvers))} approvers.',
            value=required,
            field="approvals_required",
            hint="Name more approvers, or require fewer approvals.",
        )


def schedule_settings(definition: ScheduleDefinition) -> dict[str, Any]:
    """The settings that differ from the default, as people write them."""
    settings = _when_settings(definition.trigger) | format_settings(definition)
    if definition.job == AGENT_JOB or definition.steps:
        settings.pop("job")
    if definition.on and isinstance(definition.trigger.when, Never):
        settings["overlap"] = definition.overlap
        if definition.overlap == "queue":  # the default without times
            settings.pop("overlap")
        settings.pop("when")
    return settings


def without_keys(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as people write them, without the paths of URLs, which may contain keys."""
    return {name: origin(value) if name in PRIVATE_SETTINGS else value for name, value in settings.items()}


@lru_cache(maxsize=4096)
def _when_settings(trigger: TriggerDefinition) -> dict[str, Any]:
    return {"when": trigger_source(trigger), "timezone": trigger.timezone, **trigger_settings(trigger)}


def trigger_settings(trigger: TriggerDefinition) -> dict[str, Any]:
    """The settings of a trigger that differ from the default, apart from its times."""
    defaults = TriggerSettings()
    found = {name: _held(trigger, name) for name in TRIGGER_SETTINGS}
    return {name: value for name, value in found.items() if value not in (None, getattr(defaults, name))}


def _held(trigger: TriggerDefinition, name: str) -> Any:
    return getattr(trigger, name, None) if hasattr(trigger, name) else getattr(trigger.when, name, None)


class Reference(NamedTuple):
    """A setting that names a record of another kind."""

    setting: str
    noun: str
    name: str


_REFERRING = tuple(
    (declared.name, noun) for declared in OWN_SETTINGS.values() if (noun := getattr(declared.kind, "of", ""))
)
_referred_by = attrgetter(*(OWN_SETTINGS[name].field for name, _ in _REFERRING))


def references(definition: ScheduleDefinition) -> Iterable[Reference]:
    for (setting, noun), held in zip(_REFERRING, _referred_by(definition), strict=True):
        for name in referred_names(held) if held else ():
            yield Reference(setting, noun, name)
    for trigger in definition.on:
        if isinstance(trigger, OnWebhook):
            yield Reference("on", "inbound", trigger.webhook)
    for number, step in enumerate(definition.steps, 1):
        if step.work_source is not None:
            yield Reference(f"steps[{number}].work_source", "work_sources", step.work_source)


def encode(definition: ScheduleDefinition) -> str:
    """The stored form: the settings that differ from the defaults."""
    data = {"trigger": definitions.to_dict(definition.trigger), **dump_settings(definition)}
    data |= {name: value for name in _DERIVED if (value := getattr(definition, name))}
    return orjson.dumps(data).decode()


_LOADERS = loaders_of(OWN_SETTINGS)


def decode(text: str) -> ScheduleDefinition:
    return _decoded(orjson.loads(text))


ONCE = '{"trigger":{"kind":"once"'
"""The stored settings of a one-shot begin like this, since `encode` begins with the trigger."""


def decode_payload(text: str) -> Any:
    """The payload alone."""
    return orjson.loads(text).get("payload")


def shared_words(text: str) -> bytes | None:
    """The stored settings without what is each schedule's own: the payload, and the instant of a one-shot. None when
    they have neither, or steps, which have payloads of their own."""
    data = orjson.loads(text)
    trigger = data["trigger"]
    once = trigger.get("kind") == "once"
    if "steps" in data or not (once or "payload" in data):
        return None
    data.pop("payload", None)
    if once:
        trigger.pop("at", None)
    return orjson.dumps(data)


def _decoded(data: dict[str, Any]) -> ScheduleDefinition:
    given = data["trigger"]
    once = given.get("kind") == "once"  # an instant of its own: remembering it would only displace others
    trigger = definitions.from_dict(given) if once else _trigger_of(orjson.dumps(given))
    derived = {name: data[name] for name in _DERIVED if name in data}
    for name in derived.keys() & {"step_jobs", "files"}:
        derived[name] = tuple((first, second) for first, second in derived[name])
    return ScheduleDefinition(trigger=trigger, **derived, **load_settings(_LOADERS, data))


@lru_cache(maxsize=4096)
def _trigger_of(text: bytes) -> TriggerDefinition:
    """Cached: many schedules share one trigger."""
    return definitions.from_dict(orjson.loads(text))


@lru_cache(maxsize=4096)
def trigger_text(definition: TriggerDefinition) -> str:
    """The trigger in English. Cached: many schedules share one trigger, and lists are long."""
    return compile_trigger(definition).describe()


def start_text(definition: ScheduleDefinition) -> str:
    """What starts the runs, in English: times, calls, or both."""
    if not definition.on:
        if definition.skip_on:
            return f"{trigger_text(definition.trigger)} except on {', '.join(definition.skip_on)}"
        return trigger_text(definition.trigger)
    calls = describe_on(definition.on)
    timed = not isinstance(definition.trigger.when, Never)
    return f"{trigger_text(definition.trigger)}, and {calls}" if timed else calls


@lru_cache(maxsize=4096)
def trigger_source(definition: TriggerDefinition) -> str:
    """A text that parses back to the same times, if the grammar has one."""
    match definition.when:
        case Cron(expression):
            return expression
        case Interval(every_ms):
            return f"every {format_duration(every_ms)}"
        case Once():
            return definitions.to_dict(definition)["at"]
        case OnCalendar(expression):
            return f"{PREFIX}{expression}"
        case Rrule() as rrule:
            return trigger_text(definition) if _parses_back(definition) else rule_text(rrule)
        case _:
            return trigger_text(definition)


def _parses_back(definition: TriggerDefinition) -> bool:
    text, exception = split_exception(trigger_text(definition))
    try:
        return not exception and parse_trigger(text, now_ms=0, timezone=definition.timezone).definition == definition
    except TriggerError:
        return False


def idle_settings(definition: ScheduleDefinition, given: Mapping[str, Any]) -> list[str]:
    """One sentence for each given setting that has no effect without another."""
    found = [(name, *_NEEDED_BY[name]) for name, value in given.items() if name in _NEEDED_BY and value is not None]
    return [f'"{name}" has no effect: it needs {needed}.' for name, needed, works in found if not works(definition)]


def newly_idle(before: ScheduleDefinition, after: ScheduleDefinition, given: Mapping[str, Any]) -> list[str]:
    """One sentence for each setting that an edit gives without effect, or whose effect it takes away."""
    had, has = schedule_settings(before), schedule_settings(after)
    idle = set(idle_settings(before, had))
    taken = [note for note in idle_settings(after, has) if note not in idle]
    return list(dict.fromkeys([*idle_settings(after, given), *taken]))


def _checks(definition: ScheduleDefinition) -> bool:
    return any(command is not None for command in (definition.pre_check, definition.before_run, definition.after_run))


_NEEDS: tuple[tuple[str, Callable[[ScheduleDefinition], bool], tuple[str, ...]], ...] = (
    ("retries", lambda definition: definition.retries > 0, ("retry_delay", "max_retry_delay")),
    ("catch_up: run_all_capped", lambda definition: definition.catch_up == "run_all_capped", ("catch_up_limit",)),
    ("overlap: queue", lambda definition: definition.overlap == "queue", ("queue_limit",)),
    ("an interval, such as every 5 minutes", lambda definition: isinstance(definition.trigger.when, Interval),
     ("anchor", "first")),
    ("pre_check, before_run or after_run", _checks, ("check_timeout",)),
    ("ping", lambda definition: definition.ping is not None, ("ping_style",)),
    ("a target other than fresh", lambda definition: definition.target is None or definition.target.kind != "fresh",
     ("fresh_after", "fresh_after_tokens")),
    ("fresh_after or fresh_after_tokens", ends_conversations, ("keep",)),
    ("fallback: wait", lambda definition: definition.fallback == "wait", ("fallback_timeout", "final_fallback")),
)  # fmt: skip
"""What settings need in order to have an effect."""
_NEEDED_BY = {name: (needed, works) for needed, works, names in _NEEDS for name in names}
