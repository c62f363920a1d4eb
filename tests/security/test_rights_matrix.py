"""Every use case, asked by every role about its own object and about somebody else's. Row B7."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from security_cast import ADA, OWNER, ROVER, SCOUT, VIC, WAITING, Watched, at
from security_rows import everything

import matins
from matins.api.schedules import Api
from matins.api.use_case import NOUNS, USE_CASES, Noun
from matins.errors import InvalidInput, MatinsError, NotAllowed, NotFound
from matins.model.access import Principal
from matins.records import record_kinds
from matins.service import Service
from matins.service.permissions import GRANTS

ROLES = {"owner": OWNER, "operator": ADA, "viewer": VIC, "agent": SCOUT}
EVERYBODY = {"owner", "operator", "viewer", "agent"}
MAY: dict[str, set[str]] = {
    "read": EVERYBODY,
    "run": {"owner", "operator", "agent"},
    "change": {"owner", "operator", "agent"},
    "operate": {"owner", "operator"},
    "approve": {"owner"},  # and whom a schedule names: that has tests of its own
    "govern": {"owner"},
}
"""Said again here, so that a right that is given away by mistake is seen."""
MAKING = {"schedules.add", "schedules.add_many", "missions.make", "runs.report_outcome", "runs.send"}
"""Agents make schedules only for themselves, and report only the run that they speak from; there is no object."""


class Thing(NamedTuple):
    """A schedule with a run that waits for leave."""

    name: str
    run_id: str
    approval_id: str


class World(NamedTuple):
    bench: Watched
    own: dict[str, Thing]
    others: dict[str, Thing]


Arguments = Callable[[Thing], dict[str, Any]]


def call(**arguments: Any) -> Arguments:
    return lambda thing: arguments


def about(field: str, **more: Any) -> Arguments:
    """About the schedule, the run or the question of a thing."""
    return lambda thing: {field: getattr(thing, field), **more}


def mission() -> Arguments:
    """About the mission of whoever has a thing."""
    return lambda thing: {"name": f"mission-{thing.name}"}


CALLS: dict[str, Arguments] = {
    "approvals.answer": about("run_id", approved=True),
    "approvals.approve": about("approval_id"),
    "approvals.deny": about("approval_id"),
    "approvals.get": about("approval_id"),
    "approvals.list": call(),
    "audit.seal": call(),
    "audit.verify": call(),
    "pings.rotate": about("name"),
    "pings.send": about("name"),
    "pings.url": about("name"),
    "backfills.cancel": call(backfill_id="1"),
    "backfills.create": about("name", start="2026-03-26", end="2026-03-26"),
    "backfills.get": call(backfill_id="1"),
    "backfills.list": call(),
    "backfills.pause": call(backfill_id="1"),
    "backfills.preview": about("name", start="2026-03-26", end="2026-03-26"),
    "backfills.resume": call(backfill_id="1"),
    "events.list": call(),
    "file.apply": call(),
    "file.place": call(noun="budgets", name="daily"),
    "file.plan": call(),
    "missions.abort": mission(),
    "missions.delete": mission(),
    "missions.draft": mission(),
    "missions.get": mission(),
    "missions.list": call(),
    "missions.make": call(name="new", steps=[{"title": "Build", "job": "work"}]),
    "runs.cancel": about("run_id"),
    "runs.retry": about("run_id"),
    "runs.checks": about("run_id"),
    "runs.deliver": about("run_id", to=["ops"]),
    "runs.erase": about("run_id"),
    "runs.facts": about("run_id"),
    "runs.grep": call(text="text"),
    "runs.get": about("run_id"),
    "runs.live": call(),
    "runs.list": lambda thing: {"schedule": thing.name},
    "runs.preview_bulk": lambda thing: {"do": "cancel", "runs": [thing.run_id]},
    "runs.bulk": lambda thing: {"do": "cancel", "runs": [thing.run_id]},
    "runs.output": about("run_id"),
    "runs.report_outcome": call(outcome="failed"),
    "runs.resolve": about("run_id", outcome="failed"),
    "runs.send": call(text="Half done."),
    "runs.snapshot": about("run_id"),
    "runs.thread": about("run_id"),
    "runs.transcript": about("run_id"),
    "schedules.add": call(name="new", when="every 1h", job="work"),
    "schedules.add_many": call(schedules=[{"name": "new", "when": "every 1h", "job": "work"}]),
    "calls.fire": call(source="chat", name="C07", key="another"),
    "calls.get": call(call_id="1"),
    "calls.list": call(),
    "calls.replay": call(call_id="1"),
    "agents.rename": call(name="ann", to="anne"),
    "destinations.test": call(name="phone"),
    "inbound.test": call(name="prs", type="push"),
    "incidents.acknowledge": call(incident_id="1"),
    "incidents.acknowledge_cause": call(kind="failed", signature="x"),
    "incidents.causes": call(),
    "incidents.get": call(incident_id="1"),
    "incidents.list": call(),
    "schedules.calendar": about("name"),
    "schedules.counts": call(),
    "schedules.history": lambda thing: {"name": thing.name},
    "schedules.undo": lambda thing: {"name": thing.name},
    "bulk.preview": lambda thing: {"do": "pause", "select": thing.name},
    "bulk.apply": lambda thing: {"do": "pause", "select": thing.name, "note": "a note"},
    "schedules.pauses": call(),
    "schedules.preview_catch_up_all": call(),
    "system.absences": call(),
    "system.spend": call(),
    "schedules.search": call(text="of"),
    "schedules.delete": about("name"),
    "schedules.edit": about("name", payload="edited"),
    "schedules.get": about("name"),
    "schedules.list": call(),
    "schedules.next_times": call(text="every 5m"),
    "schedules.pause": about("name", note="a note"),
    "schedules.preview": about("name"),
    "schedules.preview_catch_up": about("name"),
    "schedules.preview_new": call(name="new", when="every 1h", job="work"),
    "schedules.preview_edit": about("name", payload="edited"),
    "runs.diff": lambda thing: {"run_id": thing.run_id, "other": thing.run_id},
    "schedules.undelete": about("name", new_name="back"),
    "schedules.rename": about("name", to="another"),
    "schedules.resume": about("name"),
    "schedules.run": about("name", key="key"),
    "schedules.lanes": call(),
    "schedules.timeline": call(),
    "schedules.upcoming": call(),
    "schedules.usual": about("name"),
    "schedules.why": about("name"),
    "subscriptions.delete": call(name="feed"),
    "subscriptions.deliveries": call(name="hook"),
    "subscriptions.open": call(name="feed"),
    "subscriptions.redeliver": call(name="hook", event_id="1"),
    "system.attention": call(),
    "system.context": call(),
    "system.status": call(),
    "system.backup": call(path="/nowhere/copy.db"),
    "nodes.list": call(),
    "nodes.get": call(name=socket.gethostname()),
    "nodes.cordon": call(name=socket.gethostname()),
    "nodes.drain": call(name=socket.gethostname()),
    "nodes.open": call(name=socket.gethostname()),
    "system.doctor": call(),
    "system.jobs": call(),
    "system.stats": call(),
    "system.tools": call(versions=False),
    "system.whoami": call(),
    "threads.list": call(),
    "threads.messages": call(thread_id="1"),
    "threads.reply": call(thread_id="1", text="Go on"),
    "sessions.create": call(),
    "people.invite": call(email="eve@example.com"),
    "people.leave": call(name="ada"),
    "people.edit_me": call(timezone="Europe/Berlin"),
    "people.password": call(password="correct horse battery"),
    "people.link": call(name="ada", service="telegram"),
    "sessions.list": call(),
    "sessions.revoke": call(session_id="abcdefgh"),
    "tokens.create": call(name="laptop"),
    "tokens.list": call(),
    "tokens.revoke": call(token_id="abcdefgh"),
    "webhooks.add": call(name="another", url="https://example.com/hook"),
    "webhooks.pause": call(name="hook"),
    "webhooks.resume": call(name="hook"),
}
"""Plausible arguments for each. A new use case belongs here: the attack begins with knowing it."""


class Record(NamedTuple):
    key: str
    settings: Mapping[str, Any]
    edit: Mapping[str, Any]


RECORDS: dict[str, Record] = {
    "agent_rules": Record("scout", {"max_schedules": 1_000}, {"max_depth": 2}),
    "agents": Record("ann", {"runner": "demo"}, {"model": "opus"}),
    "allowed_hosts": Record("", {"hosts": ["localhost"]}, {"hosts": ["printer"]}),
    "budgets": Record("day", {"max_cost": "$100", "period": "day"}, {"max_cost": "$200"}),
    "heartbeat": Record("", {"url": "https://example.com/alive"}, {"url": "https://example.com/well"}),
    "hooks": Record("after:run", {"command": "true"}, {"timeout": "5s"}),
    "http_server": Record("", {"max_connections": 100}, {"max_connections": 200}),
    "inbound": Record("prs", {"kind": "github", "secret": "file:/etc/hostname"}, {"max_per_minute": 5}),
    "calendars": Record("holidays", {"dates": ["2026-12-24"]}, {"dates": ["2026-12-25"]}),
    "chat": Record("slack", {"token": "env:B", "app_token": "env:A"}, {"admin": "C0OPS"}),
    "destinations": Record("phone", {"kind": "ntfy", "to": ["t"], "url": "http://127.0.0.1:9"}, {"max_per_hour": 5}),
    "notify": Record("", {"to": [], "on": ["failed"]}, {"on": ["held"]}),
    "deliver": Record("", {"to": [], "on": ["failed"]}, {"on": ["succeeded"]}),
    "sign_in": Record("", {"issuer": "https://sso.example.com", "client_id": "m"}, {"client_id": "matins"}),
    "smtp": Record("", {"host": "mail.example.com"}, {"port": 465}),
    "people": Record("ada", {"role": "viewer"}, {"timezone": "Europe/Berlin"}),
    "inbound_listen": Record("", {"address": "127.0.0.1:7412"}, {"address": "127.0.0.1:7413"}),
    "limits": Record("global", {"size": 3}, {"size": 4}),
    "prices": Record("sonnet", {"input": "$3", "output": "$15"}, {"input": "$4"}),
    "quiet_hours": Record("night", {"windows": ["01:00-02:00"]}, {"mode": "skip"}),
    "rates": Record("EUR", {"usd": 1.1}, {"usd": 1.2}),
    "temporal": Record("main", {"address": "127.0.0.1:7233"}, {"namespace": "ops"}),
    "throttles": Record("openai", {"resets_at": at("12:00")}, {"reason": "busy"}),
    "webhooks": Record("hook", {"url": "https://example.com/hook", "secret": "env:SECRET"}, {"types": ["run.failed"]}),
    "work_sources": Record("todo", {"kind": "tasks"}, {"path": "TODO.yaml"}),
}
"""One of each kind. A new kind belongs here; its verbs follow."""


def arguments_of(use_case: str, thing: Thing) -> dict[str, Any]:
    if use_case in CALLS:
        return CALLS[use_case](thing)
    noun, _, verb = use_case.partition(".")
    kind, record = record_kinds()[noun], RECORDS[noun]
    key = {} if kind.single or verb == "list" else {kind.key: record.key}
    return {**key, **{"set": record.settings, "edit": record.edit}.get(verb, {})}


def build(bench: Watched) -> World:
    """There is one of each kind of record. Everybody who can make a schedule has one; agents propose theirs."""
    for noun, record in RECORDS.items():
        key = {} if record_kinds()[noun].single else {record_kinds()[noun].key: record.key}
        bench.invoke(OWNER, USE_CASES[f"{noun}.set"], {**key, **record.settings})
    for principal in (OWNER, ADA, SCOUT, ROVER):
        acting = bench.acting_as(principal)
        acting.add(f"of-{principal.name}", when="5 * * * *", job="work")
        acting.missions.make(f"mission-of-{principal.name}", steps=[{"title": "Build", "job": "work"}])
    for approval in bench.approvals.list():
        bench.approvals.approve(approval.id)
    for schedule in bench.list():
        bench.edit(schedule.name, approval="owner_approve")
        bench.edit(schedule.name, payload="of now")  # what an operator may undo
    bench.run_until(at("08:06"))
    things = {name: thing(bench, f"of-{name}") for name in ("owner", "ada", "scout", "rover")}
    own = {"owner": things["owner"], "operator": things["ada"], "viewer": things["owner"], "agent": things["scout"]}
    others = {"owner": things["ada"], "operator": things["owner"], "viewer": things["ada"], "agent": things["rover"]}
    return World(bench, own, others)


def thing(bench: Watched, name: str) -> Thing:
    run = bench.last(name)
    assert run.status == "awaiting_approval"
    return Thing(name, run.id, bench.asked(name).id)


CONTENT = (
    "runs.output",
    "runs.transcript",
    "runs.snapshot",
    "runs.diff",
    "runs.checks",
    "runs.thread",
    "schedules.preview_edit",
    "schedules.history",
)
"""What runs said and did, and the settings that an edit would change: an agent reads only its own."""


def allowed(use_case: str, role: str, own: bool) -> bool:
    right = USE_CASES[use_case].right
    if role not in MAY[right]:
        return False
    touches = (right in ("run", "change") and use_case not in MAKING) or use_case in CONTENT
    return own or role != "agent" or not touches


def attempts() -> Iterator[tuple[str, str, bool]]:
    for use_case in USE_CASES:
        for role in ROLES:
            for own in (True, False):
                yield use_case, role, own


def ask(world: World, principal: Principal, use_case: str, role: str, own: bool) -> MatinsError | None:
    """What it is refused with; None when it was done."""
    arguments = arguments_of(use_case, (world.own if own else world.others)[role])
    try:
        world.bench.invoke(principal, USE_CASES[use_case], arguments)
    except MatinsError as error:
        return error
    return None


def test_the_rights_of_each_role() -> None:
    """B7: said once more, word by word: agents do not approve, nobody but the owner governs."""
    assert {role: set(rights) for role, rights in GRANTS.items()} == {
        "owner": {"read", "run", "change", "approve", "operate", "govern"},
        "operator": {"read", "run", "change", "approve", "operate"},
        "viewer": {"read"},
        "agent": {"read", "run", "change"},
    }


@pytest.mark.parametrize("use_case", USE_CASES)
def test_every_use_case_is_in_the_matrix(use_case: str) -> None:
    """B7: nobody adds a use case, or a right, without saying here what it takes to attack it."""
    assert arguments_of(use_case, Thing("s", "1", "1")).keys() <= {
        *USE_CASES[use_case].parameters,
        *_settings(use_case),
    }
    assert USE_CASES[use_case].right in MAY


def _settings(use_case: str) -> set[str]:
    noun = USE_CASES[use_case].noun
    if noun in ("schedules", "missions"):
        return {"job", "payload", "steps"}
    return set(record_kinds()[noun].table) if noun in RECORDS else set()


def test_nothing_in_the_matrix_is_gone() -> None:
    """B7"""
    assert set(RECORDS) == set(record_kinds())
    assert set(CALLS) <= set(USE_CASES)
    assert {name.partition(".")[0] for name in USE_CASES} == set(NOUNS) == {*RECORDS, *_nouns()}


def _nouns() -> set[str]:
    return {name.partition(".")[0] for name in CALLS}


def test_there_is_one_way_in() -> None:
    """B7: what a surface can call is checked by the service, in `invoke` and nowhere else."""
    assert {name for name in dir(Service) if not name.startswith("_")} == {"invoke", "method"}
    unchecked = [path.name for path in Path(matins.__file__).parent.rglob("*.py") if ".method(" in path.read_text()]
    assert unchecked == ["service.py"], "what `method` gives checks no rights: only `invoke` takes it"
    declared = {id(use_case) for use_case in USE_CASES.values()}
    methods = [value for kind in (Api, *NOUNS.values()) for value in vars(kind).values() if hasattr(value, "use_case")]
    assert {id(method.use_case) for method in methods} == declared
    assert all(issubclass(kind, Noun) for kind in NOUNS.values())


def test_what_only_looks_needs_the_right_to_read_and_nothing_else_does() -> None:
    """B7: by the methods of HTTP, so that a right that is given away by mistake is seen."""
    looks = {name for name, use_case in USE_CASES.items() if use_case.method == "GET"}
    reads = {name for name, use_case in USE_CASES.items() if use_case.right == "read"}
    assert looks - reads == {"sessions.list", "tokens.list"}
    previews = {"schedules.preview_edit", "schedules.preview_new", "bulk.preview", "runs.preview_bulk", "file.plan"}
    assert reads - looks == previews, "their settings are in a body, and nothing is written"


def test_a_look_writes_nothing(memory: Watched) -> None:
    """B7: whoever may only read changes nothing by it, but that the machine of a live run sends its output sooner."""
    world = build(memory)

    def kept() -> dict[str, list[str]]:
        return {table: rows for table, rows in everything(memory).items() if table != "output_followers"}

    before = kept()
    for name, use_case in USE_CASES.items():
        if use_case.right == "read":
            for role in ROLES:
                ask(world, ROLES[role], name, role, True)
            assert kept() == before, name


def test_rights_are_checked_before_arguments(memory: Watched) -> None:
    """B7: who lacks the right learns nothing about what there is."""
    nobody = Principal("nobody", "owner")  # type: ignore[arg-type]
    for use_case in USE_CASES.values():
        with pytest.raises(NotAllowed):
            memory.invoke(nobody, use_case, {"no such argument": object()})
        with pytest.raises(InvalidInput):
            memory.invoke(OWNER, use_case, {"no such argument": object()})


def test_who_lacks_the_right_is_refused_and_nothing_is_written(bench: Watched) -> None:
    """B7: role × use case × own or somebody else's; a refusal names who is able, and leaves every table as it was."""
    world = build(bench)
    before = everything(bench)
    tried = 0
    for use_case, role, own in attempts():
        if not allowed(use_case, role, own):
            error = ask(world, ROLES[role], use_case, role, own)
            # An agent selects only what it made, and nothing of it is deleted.
            selects = use_case in ("bulk.apply", "runs.bulk", "schedules.undelete") and isinstance(error, NotFound)
            assert selects or isinstance(error, NotAllowed), f"{role} {use_case} own={own}: {error!r}"
            assert error.hint or error.field == "principal"
            assert everything(bench) == before, f"{role} {use_case} own={own} was refused, and yet wrote"
            tried += 1
    assert tried > 100


@pytest.mark.parametrize("use_case", USE_CASES)
def test_who_has_the_right_is_not_refused(use_case: str) -> None:
    """B7: the other half of the matrix, so that "deny all" would not pass."""
    asked = [(role, own) for role in ROLES for own in (True, False) if allowed(use_case, role, own)]
    looks = USE_CASES[use_case].right == "read"  # and leaves the world as it was, as a test above says
    for group in [asked] if looks else [[one] for one in asked]:
        with closing(Watched()) as bench:
            world = build(bench)
            for role, own in group:
                error = ask(world, ROLES[role], use_case, role, own)
                assert not isinstance(error, NotAllowed), f"{role} {use_case} own={own}: {error!r}"
            bench.settle()


@pytest.mark.parametrize("role", ["root", "", "Owner", "OWNER", None, "system"])
def test_a_role_that_nobody_knows_may_do_nothing(memory: Watched, role: Any) -> None:
    """B7: deny by default, reading included."""
    world = build(memory)
    before = everything(memory)
    for use_case in USE_CASES:
        error = ask(world, Principal(role, "owner"), use_case, "owner", True)
        assert isinstance(error, NotAllowed), f"{role!r} {use_case}: {error!r}"
    assert everything(memory) == before


def test_an_agent_that_bears_the_owners_name_is_still_an_agent(memory: Watched) -> None:
    """B7: rights go by role; a name gives none."""
    memory.add("s", **WAITING)
    memory.run_until(at("08:06"))
    impostor = memory.acting_as(Principal("agent", "owner"))
    before = everything(memory)
    for attempt in (
        lambda: impostor.edit("s", payload="evil"),
        lambda: impostor.pause("s"),
        lambda: impostor.delete("s"),
        lambda: impostor.run("s"),
        lambda: impostor.runs.cancel(memory.last().id),
        lambda: impostor.approvals.approve(memory.asked().id),
        lambda: impostor.limits.set("global", size=1),
    ):
        with pytest.raises(NotAllowed):
            attempt()
    assert everything(memory) == before
