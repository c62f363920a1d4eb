"""Checks of the installation.

Each problem has the command that fixes it.

Facts about the machine: whether its clock is synchronized, and the version of its time zone data.
"""

from __future__ import annotations

import ctypes
import json
import re
import shlex
import shutil
import stat
import sys
import zoneinfo
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import tzdata
from msgspec import structs

from matins.api.results import Finding
from matins.delivery.destinations import problem_of
from matins.delivery.notices import address_of
from matins.engine.answers import deliver_command, reaches_nobody, recipients
from matins.engine.jobs import runs_only_commands
from matins.engine.notify_addresses import KIND as ALGORAND
from matins.engine.notify_addresses import NO_ADDRESS, NOTIFY_ADDRESS, address_in, fix_for, is_address, nothing_sent
from matins.engine.planning import Timetable
from matins.engine.policies import Policies
from matins.engine.reasons import changed_text, rfc3339
from matins.engine.when.durations import DAY_MS
from matins.engine.when.triggers import compile_trigger
from matins.errors import Example, InvalidFile, MatinsError, StoreCorrupt
from matins.executors.agent_checks import Surroundings, agent_doubts, agent_problems, raised_by, schedule_problems
from matins.executors.isolation import NOT_ISOLATED, Isolation, fix_of, isolated_again
from matins.executors.processes.walls import SIGNAL_VERSION
from matins.executors.registry import runners
from matins.executors.secrets import check_program
from matins.model.access import ChatBot, Principal
from matins.model.rows import WorkerRow
from matins.model.run import RunState
from matins.model.schedule import CommandLine, ScheduleRecord
from matins.runtime.approval_requests import allowed_files
from matins.runtime.clock import SystemClock
from matins.runtime.command_files import COMMANDS, changed_among, changed_of, has_commands, lines_of
from matins.runtime.heartbeat import MAX_LAG_MS
from matins.runtime.zone_changes import moved_text
from matins.service.bulk import full_name
from matins.service.core import LEASE_MS, MAX_ID, Core
from matins.service.file.apply import File
from matins.service.file.plan import missing_agents, ownership
from matins.service.forecasts import frequent_wakes
from matins.service.jobs import fails_without, troubles_of
from matins.store import Store
from matins.store.transaction import Transaction

_TIMEX_BYTES = 512
_UNSYNCHRONISED = 5  # TIME_ERROR


class ZoneData(NamedTuple):
    version: str
    source: str
    renew: str


def clock_is_synchronized() -> bool | None:
    """Whether the kernel considers the clock synchronized; None if it does not say."""
    if sys.platform != "linux":
        return None
    call = getattr(ctypes.CDLL(None), "adjtimex", None)
    if call is None:
        return None
    state: int = call(ctypes.create_string_buffer(_TIMEX_BYTES))  # all zeros: read only
    return None if state < 0 else state != _UNSYNCHRONISED


def zone_data(folders: tuple[str, ...] | None = None) -> ZoneData | None:
    """The time zone data of the first folder that has any, which is the one in use; None if its version is unknown."""
    for folder in map(Path, zoneinfo.TZPATH if folders is None else folders):
        if folder.is_dir():
            version = _version_in(folder)
            renew = "apt-get install --only-upgrade tzdata"
            return None if version is None else ZoneData(version, str(folder), renew)
    return ZoneData(tzdata.IANA_VERSION, "the package tzdata", "pip install --upgrade tzdata")


def _version_in(folder: Path) -> str | None:
    for name in ("tzdata.zi", "+VERSION"):
        if (folder / name).exists():
            first = (folder / name).read_text(encoding="utf-8").partition("\n")[0]
            return first.removeprefix("# version ").strip()
    return None


_MIN_FREE_BYTES = 500 << 20
_MAX_STEP_BACK_MS = 1_000
_APART_MS = 1_000
_NAMED = 5
_NEWEST_RUNS = 1_000
_RECENT_MS = 7 * DAY_MS
_YEAR_MS = 31_557_600_000
_CORRECT_FILE = "Correct that line, then run: matins plan"
_CHANGE = re.compile(r" --([\w-]++) ('[^']*'|[^\s;]++)")
_EDIT = re.compile(
    rf"(?P<after> && )?matins (?P<noun>agents )?edit (?P<name>'[^']*'|[^\s']++)(?P<changes>(?:{_CHANGE.pattern})++)"
)
Lines = Mapping[tuple[str, str], str]
"""Where the file has each record, by its kind and name."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True)
class Doctor:
    """Checks clock and zone data, store, permissions, engine, agents and runners, secrets, webhooks, file."""

    core: Core
    file: File

    def findings(self, principal: Principal) -> list[Finding]:
        try:
            return self._findings(principal)
        except StoreCorrupt:  # what else there is to say cannot be read
            return [*_store(self.core.store), *_permissions(self.core.store)]

    def _findings(self, principal: Principal) -> list[Finding]:
        now, engines = self.core.clock.now_ms(), self.core.store.engines(LEASE_MS)
        with self.core.store.reading() as transaction:
            policies = self.core.catalog.policies(transaction)
            clock, webhooks = list(_clock(transaction, now)), list(_webhooks(transaction))
            bots = [_bot(found) for found in transaction.chat_bots()]
            restored = list(_restored(transaction, now))
            moved = list(_moved(transaction, now))
            stuck = list(_stuck(transaction))
            lines = {
                (entry.kind, entry.name): f"{entry.path}, line {entry.line}" for entry in transaction.file_entries()
            }
            schedules = self.core.all_schedules(transaction)
            missing = self.core.jobs.missing(schedules, engines, policies)
            agents = [
                Finding(f"agent {one.name}", False, one.sentence, one.fix)
                for one in missing_agents(transaction, policies)
            ]
            frequent = list(_frequent(transaction, schedules, policies, now))
            commands = [
                *_hook_files(policies, lines),
                *self._command_files(transaction, schedules, policies, lines),
            ]
        workdir = self.core.workdir or str(Path.cwd())
        found = [
            *clock,
            *_host_clock(self.core.store),
            *_zones(now),
            *moved,
            *_engine(self.core.store, len(engines), now),
            *_machines(engines),
            *_outside(policies),
            *webhooks,
            *bots,
        ]
        found += [
            *_store(self.core.store),
            *restored,
            *stuck,
            *_permissions(self.core.store),
            *self._about_file(principal),
        ]
        found += [
            *_jobs(missing),
            *agents,
            *_notify_addresses(schedules, policies),
            *_answers(schedules, policies),
            *_destinations(policies, now),
            *frequent,
            *commands,
            *_hook_programs(policies, workdir),
            *_schedules(schedules, Surroundings(policies, runners(), self.core.jobs.registry, workdir, now)),
            *_agents(policies, workdir, self.core.local.isolation),
        ]
        found += _isolation(policies, self.core.local.isolation)
        found += [
            Finding("policies", False, f"{what} cannot be read and is ignored", "Set it again.")
            for what in policies.unreadable
        ]
        return [_of_file(finding, lines) for finding in found]

    def _command_files(
        self, transaction: Transaction, schedules: Sequence[ScheduleRecord], policies: Policies, lines: Lines
    ) -> Iterator[Finding]:
        """Scripts of commands, pre-checks and hooks that an agent may have changed."""
        for schedule in schedules:
            if schedule.state not in ("active", "paused"):
                continue
            definition = schedule.definition
            if not has_commands(definition):
                continue
            known = allowed_files(transaction, self.core.compiled(transaction, schedule), policies)
            checks = {name: getattr(definition, name) for name in COMMANDS}
            changed = {
                name: changed_of([command], known, policies) for name, command in checks.items() if command is not None
            }
            own = [line.files(known) for line in lines_of(definition, schedule.agent, policies)]
            work = "steps" if definition.command is None else "command"  # steps, or the command of the agent
            changed[work] = [path for files in own for path in changed_among(files, known, policies)]
            if files := list(dict.fromkeys(path for paths in changed.values() for path in paths)):
                words = [
                    f"--{name.replace('_', '-')} {_command_text(getattr(definition, name))}"
                    for name in changed
                    if changed[name] and name != "steps"
                ]
                fix = "Look at it, then approve the run: matins approvals"
                if words and ("schedule", _address(schedule)) not in lines:  # the file has the command already
                    fix += f"; or set the command again: matins edit {_addressed(schedule)} {' '.join(words)}"
                sentence = f"{changed_text(files)} It does not run, and runs wait"
                yield Finding(f"schedule {schedule.name}", None, sentence, fix)

    def _about_file(self, principal: Principal) -> Iterator[Finding]:
        file = self.core.local.file
        if file is None:
            return
        path = file.path
        with self.core.store.reading() as transaction:
            missed = ownership(transaction, file, None) is not None
        if not path.exists() and not missed:
            yield Finding("file", True, f"No file is used: {path} does not exist")
            return
        try:
            plan = self.file.plan(principal)
        except MatinsError as error:
            single = error.problems if isinstance(error, InvalidFile) else ()
            for wrong in single or (error,):
                yield Finding("file", False, wrong.message, wrong.hint or _CORRECT_FILE)
            return
        moves = plan.added + plan.removed + plan.changed
        if plan.waits:
            yield Finding(
                "file", False, f"{path} waits for confirmation: {plan.waits}", "Run matins plan, then matins apply."
            )
        elif moves:
            yield Finding("file", False, f"{path} has changes that are not applied", "matins apply")
        else:
            yield Finding("file", True, f"{path} is applied")


def _of_file(finding: Finding, lines: Lines) -> Finding:
    """The finding with the line to change in place of a command, which a record of the file would refuse."""

    def written(found: re.Match[str]) -> str:
        line = lines.get(("agent" if found["noun"] else "schedule", "".join(shlex.split(found["name"]))))
        if line is None:
            return found[0]
        changes = [
            f"remove {value}" if name == "unset" else f"write {name.replace('-', '_')}: {_yaml_text(value)}"
            for name, value in _CHANGE.findall(found["changes"])
        ]
        return f"{', then ' if found['after'] else ''}in {line}, {' and '.join(changes)}"

    fix = finding.fix and _EDIT.sub(written, finding.fix)
    return finding if fix == finding.fix else structs.replace(finding, fix=fix)


def _yaml_text(word: str) -> str:
    """A word of a command as a value of the file: JSON needs no quotes, and other quotes mean the same there."""
    return word[1:-1] if word.startswith(("'{", "'[")) else word


def _clock(transaction: Transaction, now: int) -> Iterator[Finding]:
    if clock_is_synchronized():
        yield Finding("clock", True, "The clock is synchronized")
    else:  # the host may synchronize the clock of a virtual machine
        yield Finding("clock", None, "The clock is not known to be synchronized", "timedatectl set-ntp true")
    behind = transaction.last_written() - now
    if behind > _MAX_STEP_BACK_MS:
        sentence = f"The clock is {behind // 1000} s behind the last record: it went back"
        yield Finding("clock", False, sentence, "timedatectl status")


def _host_clock(store: Store) -> Iterator[Finding]:
    """Compare the two clocks: the server's decides which slots are due; logs and files use the machine's."""
    host = SystemClock()
    server = store.clock(host)
    if server is host:
        return
    ahead = host.now_ms() - server.now_ms()
    if abs(ahead) <= _APART_MS:
        yield Finding("clock", True, "The clocks of this machine and of the database agree")
        return
    way = "ahead of" if ahead > 0 else "behind"
    sentence = f"This machine's clock is {round(abs(ahead) / 1000)} s {way} the database's, which schedules use"
    yield Finding("clock", False, sentence, "On the machine that is wrong: timedatectl set-ntp true")


def _zones(now: int) -> Iterator[Finding]:
    zones = zone_data()
    if zones is None:
        yield Finding("zones", None, "The version of the time zone data is unknown")
    else:
        old = int(zones.version[:4]) < 1970 + now // _YEAR_MS - 1
        age = ", which is more than a year old" if old else ""
        sentence = f"Time zone data {zones.version} from {zones.source}{age}"
        yield Finding("zones", not old, sentence, zones.renew if old else None)


def _moved(transaction: Transaction, now: int) -> Iterator[Finding]:
    """Report that new time zone data moved schedules, and data in which engines may differ."""
    versions = transaction.zone_versions()
    for one in versions:
        if one.moved_at is not None and now - one.moved_at < _RECENT_MS:
            sentence = f"On {rfc3339(one.moved_at)} the data of {one.name} changed: {moved_text(one.moved)}"
            yield Finding("zones", True, sentence)
    names = [one.name for one in versions]
    several = sorted({name for name in names if names.count(name) > 1})
    if several:
        sentence = f"Engines may have different data of {', '.join(several[:_NAMED])}"
        yield Finding("zones", None, sentence, "Renew tzdata on every machine, and restart its engine")


def _engine(store: Store, there: int, now: int) -> Iterator[Finding]:
    if not there:
        yield Finding("engine", False, "No engine is running: no schedule runs", "matins up")
        return
    yield Finding("engine", True, "An engine is running" if there == 1 else f"{there} engines are running")
    with store.reading() as transaction:
        due = transaction.next_due()
    lag = 0 if due is None else max(0, now - due)
    late = lag >= MAX_LAG_MS
    sentence = f"Due schedules have waited for {lag // 1000} s" if late else "Due schedules are planned at once"
    yield Finding("planner", not late, sentence, "Check the log, then restart the engine: matins up" if late else None)


def _machines(engines: Sequence[WorkerRow]) -> Iterator[Finding]:
    """Report engines whose machine cannot start agents now."""
    for host, reason in troubles_of(engines):
        fix = f"On {host}: df -h; df -i; free -m; ulimit -u. It tries again by itself"
        yield Finding(f"engine on {host}", False, f"It cannot start agents, and leaves them to others: {reason}", fix)


def _store(store: Store) -> Iterator[Finding]:
    wrong = store.integrity_problems()
    where = "" if store.path is None else f" in {store.path}"
    if wrong:
        yield Finding("store", False, f"{store.version_text()}{where} is damaged: {wrong[0]}", "Restore a backup.")
    else:
        yield Finding("store", True, f"{store.version_text()}{where}")
    if store.path is not None:
        disk = shutil.disk_usage(store.path.parent)
        low = disk.free < _MIN_FREE_BYTES
        sentence = f"{disk.free >> 20} MB are free on the disk of the store"
        yield Finding(
            "disk",
            not low,
            sentence,
            f"Free some space: du -xh {shlex.quote(str(store.path.parent))} | sort -h" if low else None,
        )


def _restored(transaction: Transaction, now: int) -> Iterator[Finding]:
    at = transaction.restored_at()
    if at is not None and now - at < _RECENT_MS:
        sentence = f"On {rfc3339(at)} the store was found to be an older copy: slots since that copy may run again"
        yield Finding("store", None, sentence, "Compare: matins events --type store.restored; matins runs")


def _outside(policies: Policies) -> Iterator[Finding]:
    """Check the connections to engines elsewhere."""
    from matins.executors.outside import outside_kinds  # few installations have one

    for kind in outside_kinds().values():
        for name, record in policies.records.get(kind.name, {}).items():
            for ok, sentence, fix in kind.check(name, record):
                yield Finding(f"{kind.name} {name}", ok, sentence, fix)


def _stuck(transaction: Transaction) -> Iterator[Finding]:
    """Report runs that nobody works on."""
    held = [row for row in transaction.recent_runs(MAX_ID, _NEWEST_RUNS, None) if row.state == RunState.HELD]
    if held:
        named = ", ".join(str(row.id) for row in held[:_NAMED])
        sentence = f"{len(held)} of the newest runs wait for a person: {named}"
        fix = f"matins why {shlex.quote(held[0].schedule)}; then: {_resolve(held[0].id)}"
        yield Finding("runs", False, sentence, fix)
    if lost := transaction.orphans():
        sentence = f"Run {lost[0].id} has started, but its worker is gone"
        yield Finding("runs", False, sentence, f"Start an engine: matins up; or: {_resolve(lost[0].id)}")


def _resolve(run_id: int) -> str:
    return f"matins resolve {run_id} failed # or succeeded, unknown, retry"


def _permissions(store: Store) -> Iterator[Finding]:
    """Check that other users cannot read prompts and output."""
    if store.path is None:
        return
    beside = [store.path.with_name(store.path.name + end) for end in ("", "-wal", "-shm", ".lock", ".sock", ".runs")]
    open_to_others = [path for path in beside if path.exists() and path.stat().st_mode & _OTHERS]
    if _closed(store.path.parent) or not open_to_others:
        yield Finding("permissions", True, "Other users cannot read the store")
        return
    names = shlex.join(map(str, open_to_others))
    yield Finding("permissions", False, f"Other users can read {open_to_others[0]}", f"chmod go= {names}")


def _closed(folder: Path) -> bool:
    return not folder.stat().st_mode & _OTHERS


_FIXES = {
    "job": "Start the program that registers it",
    "runner": "Install {name} where an engine runs",
    "label": "On a node that has it: matins up --label {name}",
    "host": "On that machine: matins up --name {name}",
    "agent": "On a node that takes it: matins up --agents {name}",
}


def _jobs(missing: Mapping[str, Sequence[ScheduleRecord]]) -> Iterator[Finding]:
    """Report what runs need and no live node offers: jobs, tools, labels, nodes."""
    for need, schedules in missing.items():
        kind, _, name = need.partition(":") if ":" in need else ("label", "", need)
        failing = [one for one in schedules if fails_without(one, [need])]
        waiting = [one for one in schedules if not fails_without(one, [need])]
        first = _addressed([*waiting, *failing][0])
        groups = ((waiting, "wait"), (failing, "fail"))
        ends = [f"runs of {_listed([one.name for one in some])} {verb}" for some, verb in groups if some]
        sentence = f"No live node offers it, so {' and '.join(ends)}"
        fix = _FIXES[kind].format(name=shlex.quote(name))
        yield Finding(f"{kind} {name}", False, sentence, f"{fix}. Until then: matins pause {first}")


def _notify_addresses(schedules: Iterable[ScheduleRecord], policies: Policies) -> Iterator[Finding]:
    """Report addresses of corvid-agent that nothing is sent to."""
    for schedule in schedules:
        address = address_in(schedule.definition.labels)
        if address is None or schedule.state not in ("active", "paused"):
            continue
        told = recipients("failed", policies, [schedule.definition])
        if not any(policies.destinations[name].kind == ALGORAND for name in told):
            what = f"schedule {schedule.name}"
            fix = fix_for(address) if is_address(address) else f"Correct its label {NOTIFY_ADDRESS}."
            problem = nothing_sent(address) if is_address(address) else f"Its {NOTIFY_ADDRESS} {NO_ADDRESS}."
            yield Finding(what, None, problem.removesuffix("."), fix)


def _answers(schedules: Iterable[ScheduleRecord], policies: Policies) -> Iterator[Finding]:
    """Report schedules whose answers nobody gets."""
    live = (one for one in schedules if one.state in ("active", "paused"))
    names = [full_name(one) for one in live if reaches_nobody(one.definition, one.agent, policies)]
    if names:
        sentence = f"No destination gets the answers of {_listed(names)}"
        yield Finding("answers", None, sentence, deliver_command(policies))


def _destinations(policies: Policies, now: int) -> Iterator[Finding]:
    """Report destinations to which nothing can be sent."""
    for one in policies.destinations.values():
        if (problem := problem_of(address_of(one, policies, now))) is not None:
            fix = str(problem.hint or f"matins destinations show {shlex.quote(one.name)}")
            yield Finding(f"destination {one.name}", False, problem.message.removesuffix("."), fix)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _agents(policies: Policies, workdir: str, isolation: Isolation | None) -> Iterator[Finding]:
    known, hosts = runners(), policies.allowed_hosts
    for agent in policies.agents.values():
        what = f"agent {agent.name}"
        found = agent_problems(
            agent, known, workdir=workdir, allowed_hosts=hosts, prices=policies.prices, isolation=isolation
        )
        doubts = [] if found else agent_doubts(agent, known.get(agent.runner))
        if not found and not doubts:
            yield Finding(what, True, f"Its runner {agent.runner} is available")
        for doubt in doubts:
            yield Finding(what, None, doubt.message, doubt.fix)
        for wrong in found:
            yield Finding(what, False, wrong.message, wrong.fix)


def _schedules(schedules: Sequence[ScheduleRecord], here: Surroundings) -> Iterator[Finding]:
    """Report schedules whose runs would not start."""
    for schedule in schedules:
        if schedule.state != "active":
            continue
        for error in schedule_problems(schedule.definition, schedule.agent, here):
            yield Finding(f"schedule {schedule.name}", False, error.message, _fix(error, schedule))


def _frequent(
    transaction: Transaction, schedules: Sequence[ScheduleRecord], policies: Policies, now: int
) -> Iterator[Finding]:
    """Schedules that wake a paid agent more than once a minute."""
    for schedule in schedules:
        if schedule.state != "active" or schedule.next_slot is None:
            continue
        timetable = Timetable(schedule.definition, compile_trigger(schedule.definition.trigger))
        found = frequent_wakes(schedule.agent, timetable, policies.agents, now, (transaction, schedule.id))
        if found is not None:
            fix = f"matins edit {_addressed(schedule)} --when {shlex.quote(found.when)}"
            yield Finding(f"schedule {schedule.name}", None, found.sentence, fix)


def _fix(error: MatinsError, schedule: ScheduleRecord) -> str:
    if isinstance(error.hint, Example):
        words = [f"--{name.replace('_', '-')} {_value_text(value)}" for name, value in error.hint.settings.items()]
        return f"matins edit {_addressed(schedule)} {' '.join(words)}"
    return error.hint or f"Change the schedule. To see it: matins show {_addressed(schedule)}"


def _addressed(schedule: ScheduleRecord) -> str:
    """The name of the schedule in a command, with its agent: another one may have the same name."""
    return shlex.quote(_address(schedule))


def _address(schedule: ScheduleRecord) -> str:
    return f"{schedule.agent}/{schedule.name}" if schedule.agent else schedule.name


def _command_text(command: CommandLine) -> str:
    return _value_text(command if isinstance(command, str) else list(command))


def _value_text(value: Any) -> str:
    return shlex.quote(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _hook_programs(policies: Policies, workdir: str) -> Iterator[Finding]:
    """Report hooks whose program is missing: no run starts, or no hook gets its end."""
    for event, hook in policies.hooks.items():
        if (error := raised_by(lambda command=hook.command: check_program(command, workdir))) is not None:
            yield Finding(f"hook {event}", False, error.message, error.hint)


def _hook_files(policies: Policies, lines: Lines) -> Iterator[Finding]:
    for event, hook in policies.hooks.items():
        known = {path: (content,) for path, content in policies.hook_files.get(event, {}).items()}
        if changed := changed_of([hook.command], known, policies):
            fix = "Look at it, then approve a run that waits: matins approvals"
            if ("hook", event) not in lines:
                fix += f"; or set it again: matins hooks set {event} --command {_command_text(hook.command)}"
            yield Finding(f"hook {event}", None, f"{changed_text(changed)} It does not run, and runs wait", fix)


def _isolation(policies: Policies, isolation: Isolation | None) -> Iterator[Finding]:
    """Report whether agents are kept from the files of Matins."""
    if isolation is None or not policies.agents:
        return
    probe = isolation.probe()
    for agent in policies.agents.values():
        if runs_only_commands(agent):  # its commands are those of people
            continue
        refused = raised_by(lambda agent=agent: isolation.check(agent)) is not None  # said above: it does not run
        if not refused and (refusal := isolation.refusal(agent)) is not None:
            fix = isolated_again(agent) if agent.isolation == "none" else fix_of(probe, agent)
            yield Finding("isolation", None, f"The agent {agent.name} is {NOT_ISOLATED}: {refusal}", fix)
    if probe.works and probe.landlock < SIGNAL_VERSION:
        sentence = "Agents can send signals to Matins: this kernel has no Landlock 6"
        yield Finding("isolation", None, sentence, "Use Linux 6.12 or later")
    for agent in policies.agents.values():
        for folder in isolation.frozen_in(agent):
            fix = "Install Matins elsewhere: pipx install matins. Or give the agent another workdir"
            yield Finding("isolation", None, f"The agent {agent.name} cannot change {folder}: Matins runs from it", fix)
    for path in isolation.open_files():
        fix = f"Move it to a directory of its own, or to the home: {path}"
        yield Finding("isolation", None, f"Agents see {path}, because it is among other files", fix)


def _bot(bot: ChatBot) -> Finding:
    what = f"chat {bot.service}"
    if bot.problem is not None:
        return Finding(what, False, bot.problem.removesuffix("."), f"See the log, and: matins chat show {bot.service}")
    return Finding(what, True, f"It reads the messages to {bot.name}" if bot.name else "It is connected")


def _webhooks(transaction: Transaction) -> Iterator[Finding]:
    given_up = {delivery.subscription: delivery for delivery in transaction.given_up()}
    for hook in transaction.subscriptions():
        what = f"{hook.kind} {hook.name}"
        if hook.state == "paused":
            note = f": {hook.note}" if hook.note else ""
            yield Finding(what, False, f"It is paused{note}", f"matins webhooks resume {shlex.quote(hook.name)}")
        if event := given_up.get(hook.name):
            sentence = f"An event was not delivered after {event.attempts} attempts: {event.last_error}"
            yield Finding(what, False, sentence, f"matins webhooks redeliver {shlex.quote(hook.name)} {event.event_id}")
        elif hook.state == "active" and hook.kind == "webhook":
            yield Finding(what, True, "It receives its events")
