"""Every use case, asked by every role about its own object and about somebody else's. Row B7."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

import pytest
from security_cast import ADA, OWNER, ROVER, SCOUT, START, VIC, WAITING, Watched, at
from security_rows import everything

from matins.errors import MatinsError, NotAllowed
from matins.model.principal import Principal
from matins.service import RIGHTS, Service
from matins.service.rights import GRANTS
from matins.testing import instant

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
MAKING = {"add", "add_many"}
"""Agents make schedules only for themselves; there is no object yet."""


class Thing(NamedTuple):
    """A schedule with a run that waits for leave."""

    name: str
    run_id: int
    approval_id: int


class World(NamedTuple):
    bench: Watched
    own: dict[str, Thing]
    others: dict[str, Thing]


Arguments = Callable[[Thing], tuple[tuple[Any, ...], dict[str, Any]]]


def call(*arguments: Any, **options: Any) -> Arguments:
    return lambda thing: (arguments, options)


def about(field: str, *more: Any, **options: Any) -> Arguments:
    return lambda thing: ((getattr(thing, field), *more), options)


CALLS: dict[str, Arguments] = {
    "add": lambda thing: (("new", "every 1h"), {"do": "work"}),
    "add_many": call([{"name": "new", "when": "every 1h", "do": "work"}]),
    "add_webhook": call("hook", "https://example.com/hook"),
    "agent_rules": call("scout"),
    "agents": call(),
    "allowed_hosts": call(),
    "approvals": call(),
    "approve": about("approval_id"),
    "audit": call(),
    "budgets": call(),
    "cancel": about("run_id"),
    "checks": about("run_id"),
    "deliveries": call("hook"),
    "deny": about("approval_id"),
    "drop_agent": call("ann"),
    "edit_agent": call("ann", model="opus"),
    "drop_price": call("sonnet"),
    "drop_rate": call("EUR"),
    "rates": call(),
    "drop_limit": call("global"),
    "known_jobs": call(),
    "drop_budget": call("day"),
    "drop_hook": call("after:run"),
    "drop_quiet_hours": call("night"),
    "drop_webhook": call("hook"),
    "edit": about("name", payload="edited"),
    "forget_subscription": call("feed"),
    "get": about("name"),
    "get_agent": call("ann"),
    "get_approval": about("approval_id"),
    "get_run": about("run_id"),
    "landing": about("run_id"),
    "last_seal": call(),
    "lift_throttle": call("anthropic"),
    "limit": call("global", 3),
    "list": call(),
    "look": about("name"),
    "next_times": call("every 5m"),
    "overview": call(),
    "recent": call(),
    "upcoming": call(),
    "whoami": call(),
    "backup": call("/nowhere/copy.db"),
    "create_token": call("laptop"),
    "doctor": call(),
    "events": call(),
    "hooks": call(),
    "limits": call(),
    "output": about("run_id"),
    "snapshot": about("run_id"),
    "revoke_token": call("abcdefgh"),
    "tokens": call(),
    "messages": call(1),
    "open_subscription": call("feed"),
    "apply": call(),
    "plan": call(),
    "pause": about("name", None, "a note"),
    "pause_webhook": call("hook"),
    "preview": about("name"),
    "preview_catch_up": about("name"),
    "preview_change": about("name", payload="edited"),
    "prices": call(),
    "quiet_hours": call(),
    "redeliver": call("hook", 1),
    "remove": about("name"),
    "resolve": about("run_id", "failed"),
    "resolve_approval": about("run_id", True),
    "resume": about("name"),
    "resume_webhook": call("hook"),
    "run": about("name", "key"),
    "runs": about("name"),
    "set_agent": call("ben", runner="demo"),
    "set_agent_rules": call("scout", quota=1_000),
    "set_allowed_hosts": call(["localhost"]),
    "set_budget": call("week", money="$5", per="day"),
    "set_hook": call("after:run", "true"),
    "set_price": call("sonnet", input="$3", output="$15"),
    "set_quiet_hours": call("noon", windows=["12:00-13:00"]),
    "set_rate": call("EUR", 1.1),
    "stats": call(),
    "set_work_source": call("todo", kind="tasks"),
    "drop_work_source": call("todo"),
    "work_sources": call(),
    "threads": call(),
    "throttle": call("openai", instant(START) + 86_400_000),
    "throttles": call(),
    "verify_audit": call(),
    "webhooks": call(),
    "why": about("name"),
}
"""Plausible arguments for each. A new use case belongs here: the attack begins with knowing it."""


def build(bench: Watched) -> World:
    """Everybody who can make a schedule has one; agents propose theirs."""
    bench.set_quiet_hours("night", windows=["01:00-02:00"])
    bench.set_budget("day", money="$100", per="day")
    bench.set_hook("after:run", "true")
    bench.set_agent("ann", runner="demo")
    for principal in (OWNER, ADA, SCOUT, ROVER):
        bench.acting_as(principal).add(f"of-{principal.name}", when="5 * * * *", do="work")
    for approval in bench.approvals():
        bench.approve(approval.id)
    for schedule in bench.list():
        bench.edit(schedule.name, approval="owner_approve")
    bench.run_until(at("08:06"))
    things = {name: thing(bench, f"of-{name}") for name in ("owner", "ada", "scout", "rover")}
    own = {"owner": things["owner"], "operator": things["ada"], "viewer": things["owner"], "agent": things["scout"]}
    others = {"owner": things["ada"], "operator": things["owner"], "viewer": things["ada"], "agent": things["rover"]}
    return World(bench, own, others)


def thing(bench: Watched, name: str) -> Thing:
    run = bench.last(name)
    assert run.status == "awaiting_approval"
    return Thing(name, run.id, bench.asked(name).id)


def allowed(use_case: str, role: str, own: bool) -> bool:
    if role not in MAY[RIGHTS[use_case]]:
        return False
    touches = RIGHTS[use_case] in ("run", "change") and use_case not in MAKING
    return own or role != "agent" or not touches


def attempts() -> Iterator[tuple[str, str, bool]]:
    for use_case in sorted(CALLS):
        for role in ROLES:
            for own in (True, False):
                yield use_case, role, own


def ask(world: World, principal: Principal, use_case: str, role: str, own: bool) -> MatinsError | None:
    """What it is refused with; None when it was done."""
    arguments, options = CALLS[use_case]((world.own if own else world.others)[role])
    try:
        world.bench.call_as(principal, use_case, *arguments, **options)
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


def test_every_use_case_is_in_the_matrix() -> None:
    """B7: nobody adds a use case, or a right, without saying here what it takes to attack it."""
    assert set(CALLS) == set(RIGHTS)
    assert set(RIGHTS.values()) <= set(MAY)


def test_every_use_case_names_its_right() -> None:
    """B7: what a surface can call is checked; `next_fires` reads no store and knows no principal."""
    public = {name for name in dir(Service) if not name.startswith("_")}
    assert public - set(RIGHTS) == {"next_fires"}


def test_who_lacks_the_right_is_refused_and_nothing_is_written(bench: Watched) -> None:
    """B7: role × use case × own or somebody else's; a refusal names who is able, and leaves every table as it was."""
    world = build(bench)
    before = everything(bench)
    tried = 0
    for use_case, role, own in attempts():
        if not allowed(use_case, role, own):
            error = ask(world, ROLES[role], use_case, role, own)
            assert isinstance(error, NotAllowed), f"{role} {use_case} own={own}: {error!r}"
            assert error.hint or error.field == "principal"
            assert everything(bench) == before, f"{role} {use_case} own={own} was refused, and yet wrote"
            tried += 1
    assert tried > 100


@pytest.mark.parametrize("role", ROLES)
def test_who_has_the_right_is_not_refused(role: str) -> None:
    """B7: the other half of the matrix, so that "deny all" would not pass."""
    for use_case, who, own in attempts():
        if who == role and allowed(use_case, role, own):
            with closing(Watched()) as bench:
                error = ask(build(bench), ROLES[role], use_case, role, own)
                assert not isinstance(error, NotAllowed), f"{role} {use_case} own={own}: {error!r}"
                bench.settle()


@pytest.mark.parametrize("role", ["root", "", "Owner", "OWNER", None, "system"])
def test_a_role_that_nobody_knows_may_do_nothing(memory: Watched, role: Any) -> None:
    """B7: deny by default, reading included."""
    world = build(memory)
    before = everything(memory)
    for use_case in sorted(CALLS):
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
        lambda: impostor.remove("s"),
        lambda: impostor.run("s"),
        lambda: impostor.cancel(memory.last().id),
        lambda: impostor.approve(memory.asked().id),
        lambda: impostor.limit("global", 1),
    ):
        with pytest.raises(NotAllowed):
            attempt()
    assert everything(memory) == before
