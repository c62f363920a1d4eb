"""Whether all is well, and for what is not, the command that mends it."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from matins.engine.policies import Policies
from matins.errors import FileInvalid, MatinsError
from matins.executors.deliveries import ALLOWED_HOSTS
from matins.executors.findings import agent_findings
from matins.executors.registry import runners
from matins.model.principal import Principal
from matins.ports import Store, Transaction
from matins.runtime.clock import SystemClock
from matins.runtime.deadman import MOST_LAG_MS
from matins.service.file_plans import defined_by
from matins.service.files import Files
from matins.service.jobs import missing_jobs
from matins.service.machine import clock_is_kept, zone_data
from matins.service.rights import needs
from matins.service.stats import LEASE_MS

_LEAST_FREE_BYTES = 500 << 20
_BACK_MS = 1_000
_APART_MS = 1_000
_NAMED = 5
_YEAR_MS = 31_557_600_000
_MEND_FILE = "mend that line, then look again: matins plan"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Finding(NamedTuple):
    what: str
    ok: bool | None
    """None where it cannot be known."""
    sentence: str
    mend: str | None = None
    """The command, or the step, that mends it."""


class Doctoring(Files):
    @needs("read")
    def doctor(self, principal: Principal) -> list[Finding]:
        """Clock and zone data, store, permissions, engine, agents and their runners, secrets, webhooks, file."""
        now = self._clock.now_ms()
        with self._store.reading() as transaction:
            policies = self._catalog.policies(transaction)
            clock, webhooks = list(_clock(transaction, now)), list(_webhooks(transaction))
            missing = missing_jobs(transaction, self.own_jobs)
        found = [*clock, *_host_clock(self._store), *_zones(now), *_engine(self._store, now), *webhooks]
        found += [*_store(self._store), *_permissions(self._store), *self._about_file(principal)]
        found += [*_jobs(missing, shared=self._store.shared), *_agents(policies, self._workdir or str(Path.cwd()))]
        found += [
            Finding("policies", False, f"{what} cannot be read, and counts as if it were not there", "set it again")
            for what in policies.unreadable
        ]
        return found

    def _about_file(self, principal: Principal) -> Iterator[Finding]:
        if self.file is None:
            return
        path = self.file.path
        with self._store.reading() as transaction:
            missed = defined_by(transaction, path)
        if not path.exists() and not missed:
            yield Finding("file", True, f"None is used: there is no {path}")
            return
        try:
            plan = self.plan(principal)
        except MatinsError as error:
            single = error.problems if isinstance(error, FileInvalid) else ()
            for wrong in single or (error,):
                yield Finding("file", False, wrong.message, wrong.hint or _MEND_FILE)
            return
        moves = plan["added"] + plan["removed"] + plan["changed"]
        if plan["waits"]:
            yield Finding("file", False, f"{path} waits for you: {plan['waits']}", "matins plan, then matins apply")
        elif moves:
            yield Finding("file", False, f"{path} says other things than what is applied", "matins apply")
        else:
            yield Finding("file", True, f"What {path} says is applied")


def _clock(transaction: Transaction, now: int) -> Iterator[Finding]:
    if clock_is_kept():
        yield Finding("clock", True, "A time server keeps the clock")
    else:  # that of a virtual machine may be kept from outside
        yield Finding("clock", None, "No time server is known to keep the clock", "timedatectl set-ntp true")
    behind = transaction.last_written() - now
    if behind > _BACK_MS:
        sentence = f"The clock is {behind // 1000} s behind what was written last: it went back"
        yield Finding("clock", False, sentence, "timedatectl status")


def _host_clock(store: Store) -> Iterator[Finding]:
    """The server's clock decides what is due, but logs, files and people go by the machine's."""
    host = SystemClock()
    server = store.clock(host)
    if server is host:
        return
    ahead = host.now_ms() - server.now_ms()
    if abs(ahead) <= _APART_MS:
        yield Finding("clock", True, "The clocks of this machine and of the database agree")
        return
    way = "ahead of" if ahead > 0 else "behind"
    sentence = f"This machine's clock is {round(abs(ahead) / 1000)} s {way} the database's, by which schedules run"
    yield Finding("clock", False, sentence, "on the one that is wrong: timedatectl set-ntp true")


def _zones(now: int) -> Iterator[Finding]:
    zones = zone_data()
    if zones is None:
        yield Finding("zones", None, "The time zone data do not say which version they are")
    else:
        old = int(zones.version[:4]) < 1970 + now // _YEAR_MS - 1
        age = ", which is more than a year old" if old else ""
        sentence = f"Time zone data {zones.version} from {zones.source}{age}"
        yield Finding("zones", not old, sentence, zones.renew if old else None)


def _engine(store: Store, now: int) -> Iterator[Finding]:
    there = store.engines(LEASE_MS)
    if not there:
        yield Finding("engine", False, "No engine runs: nothing is woken", "matins up")
        return
    yield Finding("engine", True, "An engine runs" if there == 1 else f"{there} engines run")
    with store.reading() as transaction:
        due = transaction.next_due()
    lag = 0 if due is None else max(0, now - due)
    late = lag >= MOST_LAG_MS
    sentence = f"What is due has waited for {lag // 1000} s" if late else "What is due is planned at once"
    yield Finding("planner", not late, sentence, "look at its log, then start it again: matins up" if late else None)


def _store(store: Store) -> Iterator[Finding]:
    wrong = store.damage()
    where = "" if store.path is None else f" in {store.path}"
    if wrong:
        yield Finding("store", False, f"{store.about()}{where} is damaged: {wrong[0]}", "restore a backup")
    else:
        yield Finding("store", True, f"{store.about()}{where}")
    if store.path is not None:
        disk = shutil.disk_usage(store.path.parent)
        low = disk.free < _LEAST_FREE_BYTES
        sentence = f"{disk.free >> 20} MB free where the store is"
        yield Finding("disk", not low, sentence, f"make room: du -xh {store.path.parent} | sort -h" if low else None)


def _permissions(store: Store) -> Iterator[Finding]:
    """Prompts and output are nobody else's to read."""
    if store.path is None:
        return
    beside = [store.path.with_name(store.path.name + end) for end in ("", "-wal", "-shm", ".lock", ".sock", ".runs")]
    open_to_others = [path for path in beside if path.exists() and path.stat().st_mode & _OTHERS]
    if _closed(store.path.parent) or not open_to_others:
        yield Finding("permissions", True, "Nobody else can read the store")
        return
    names = " ".join(map(str, open_to_others))
    yield Finding("permissions", False, f"Other users can read {open_to_others[0]}", f"chmod go= {names}")


def _closed(folder: Path) -> bool:
    return not folder.stat().st_mode & _OTHERS


def _jobs(missing: Mapping[str, Sequence[str]], *, shared: bool) -> Iterator[Finding]:
    """Where the store is shared, another engine may have it: but whichever is free takes a run."""
    for job, names in missing.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        sentence = f"No engine here has it, so the runs of {', '.join(names[:_NAMED])}{more} fail"
        mend = f"run the program that registers it in place of matins up; until then: matins pause {names[0]}"
        yield Finding(f"job {job}", None if shared else False, sentence, mend)


def _agents(policies: Policies, workdir: str) -> Iterator[Finding]:
    known, hosts = runners(), policies.settings.get(ALLOWED_HOSTS, ())
    for agent in policies.agents.values():
        what = f"agent {agent.name}"
        found = agent_findings(agent, known, workdir=workdir, allowed_hosts=hosts, prices=policies.prices)
        if not found:
            yield Finding(what, True, f"Its runner {agent.runner} is there")
        for wrong in found:
            yield Finding(what, False, wrong.what, wrong.mend)


def _webhooks(transaction: Transaction) -> Iterator[Finding]:
    for hook in transaction.subscriptions():
        what = f"{hook.kind} {hook.name}"
        if hook.state == "paused":
            note = f": {hook.note}" if hook.note else ""
            yield Finding(what, False, f"It is paused{note}", f"matins webhooks resume {hook.name}")
        if given_up := transaction.deliveries(hook.name, "given_up", 0, 1):
            event = given_up[0]
            sentence = f"An event was given up after {event.attempts} attempts: {event.last_error}"
            yield Finding(what, False, sentence, f"matins webhooks redeliver {hook.name} {event.event_id}")
        elif hook.state == "active" and hook.kind == "webhook":
            yield Finding(what, True, "It gets its events")
