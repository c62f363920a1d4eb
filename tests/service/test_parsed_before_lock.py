"""Schedules are parsed while no transaction is open: a long text does not block other callers of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from matins.api.schedules import Api
from matins.engine import prompts, settings
from matins.engine.when import parse
from matins.errors import Conflict
from matins.mcp.principal_calls import PrincipalCalls
from matins.mcp.tools import TOOLS
from matins.model.access import Principal
from matins.surfaces.transports.in_process import InProcess
from matins.testing import Sandbox

PARSERS: tuple[tuple[Any, str], ...] = (
    (prompts, "placeholders"),
    (parse, "_readable"),
    (prompts, "check_path"),
)
SCOUT = Principal("agent", "scout")


class Watch:
    """Counts what is parsed, and what is parsed while a transaction is open."""

    def __init__(self, bench: Sandbox, patch: pytest.MonkeyPatch) -> None:
        self.open = 0
        self.parsed: set[str] = set()
        self.under_lock: list[str] = []
        for name in ("transaction", "reading"):
            patch.setattr(bench.store, name, self._opening(getattr(bench.store, name)))
        for module, name in PARSERS:
            patch.setattr(module, name, self._parsing(name, getattr(module, name)))
        table = {kind: self._parsing("PARSE", parser) for kind, parser in settings.PARSE.items()}
        patch.setattr(settings, "PARSE", table)

    def _opening(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @contextmanager
        def opened(*given: Any) -> Iterator[Any]:
            with method(*given) as transaction:
                self.open += 1
                try:
                    yield transaction
                finally:
                    self.open -= 1

        return opened

    def _parsing(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def parsed(*given: Any, **named: Any) -> Any:
            self.parsed.add(name)
            self.under_lock += [name] if self.open else []
            return function(*given, **named)

        return parsed


ALL = {name for _, name in PARSERS} | {"PARSE"}


@pytest.fixture
def watch(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    bench.agents.set("scout", runner="demo")
    bench.inbound.set("prs", kind="bearer", secret="env:PRS")
    bench.add("there", when="0 3 * * *", agent="scout", prompt="Look at {{slot}}.", approval="owner_approve")
    made = Watch(bench, monkeypatch)
    yield made
    assert made.parsed
    assert made.under_lock == []


WORDS: dict[str, Any] = {
    "agent": "scout",
    "when": "every weekday at 9am",
    "on": {"webhook": "prs", "filter": {"action": "opened"}},
    "prompt": "Read {{call.body.title}} of {{slot}}.",
    "labels": {"team": "ops"},
    "max_cost": "2 USD",
    "pre_check": "true",
}


def test_added(bench: Sandbox, watch: Watch) -> None:
    bench.add("one", **WORDS)
    assert watch.parsed == ALL
    bench.add_many([{"name": "two", **WORDS}, {"name": "three", **WORDS, "when": "every 5m"}])
    bench.add(**WORDS)
    bench.add("new", when="every 5m", agent="rover", create_agent=True, prompt="Look at {{slot}}.",
              new_agent={"runner": "demo"})  # fmt: skip
    steps = [{"title": "Build", "prompt": "Build {{slot}}."}]
    bench.missions.make("mission", when="every 1h", agent="scout", steps=steps)


def test_edited(bench: Sandbox, watch: Watch) -> None:
    bench.edit("there", **{name: value for name, value in WORDS.items() if name != "agent"})
    assert watch.parsed == ALL
    bench.add("there", replace=True, **{**WORDS, "prompt": "Another {{slot}}."})
    assert bench.get("there").rev == 3
    bench.missions.make("mission", agent="scout", steps=[{"title": "Build", "prompt": "Build {{slot}}."}])
    bench.edit("mission", when="every 1h")
    bench.missions.draft("mission")
    bench.edit("there", when=None)


def test_proposed_by_an_agent(bench: Sandbox, watch: Watch) -> None:
    scout = bench.acting_as(SCOUT)
    scout.add("mine", when="every weekday at 9am", prompt="Look at {{slot}}.")
    scout.edit("mine", prompt="Look again at {{slot}}.")
    (asked,) = bench.approvals.list()
    watch.parsed.clear()
    approved = bench.approvals.approve(asked.id, edits={"prompt": "Look at {{slot}} and {{agent}}."})
    assert {"placeholders", "PARSE"} <= watch.parsed
    assert approved.state == "used"
    assert bench.get("mine").prompt == "Look at {{slot}} and {{agent}}."


def test_edited_by_an_approver(bench: Sandbox, watch: Watch) -> None:
    bench.run("there")
    bench.settle()
    (asked,) = bench.approvals.list()
    watch.parsed.clear()
    bench.approvals.approve(asked.id, edits={"prompt": "Look at {{slot}} and {{agent}}."})
    assert {"placeholders", "PARSE"} <= watch.parsed


def test_over_mcp(bench: Sandbox, watch: Watch) -> None:
    mcp = PrincipalCalls(bench, SCOUT, "http://page.test")
    given = {"name": "mine", "when": "every weekday at 9am", "prompt": "Look at {{slot}}."}
    TOOLS["create_schedule"].call(mcp, given)
    TOOLS["update_schedule"].call(mcp, {"name": "mine", "prompt": "Look again at {{slot}}.", "when": "every 2h"})
    assert bench.get("mine").prompt == "Look again at {{slot}}."
    assert {"placeholders", "_readable", "PARSE"} <= watch.parsed


def test_of_a_file(bench: Sandbox, watch: Watch, tmp_path: Path) -> None:
    """Also one that is changed, and one that a change is written into"""
    path = tmp_path / "matins.yaml"
    text = """
edits: write_back
schedules:
  mine: {agent: scout, when: every weekday at 9am, prompt: "Look at {{slot}}.", on: {webhook: prs}}
"""
    path.write_text(text, encoding="utf-8")
    bench.watch_file(path)
    bench.file.apply()
    assert {"placeholders", "_readable", "PARSE"} <= watch.parsed
    path.write_text(text.replace("9am", "10am").replace("Look", "Look again"), encoding="utf-8")
    bench.file.apply()
    bench.edit("mine", prompt="Written {{slot}}.")
    assert "Written {{slot}}." in path.read_text(encoding="utf-8")
    assert bench.get("mine").prompt == "Written {{slot}}."


def test_a_record_that_is_edited(bench: Sandbox, watch: Watch) -> None:
    bench.budgets.set("all", max_cost="5 USD", period="day")
    watch.parsed.clear()
    bench.budgets.edit("all", max_cost="6 USD")
    assert "PARSE" in watch.parsed


# -- what is changed between reading and writing


def meanwhile(bench: Sandbox, patch: pytest.MonkeyPatch, times: int, change: Callable[[Api, int], Any]) -> None:
    """Change something just before each of the next transactions, as another thread of a running engine may."""
    opened, made = bench.store.transaction, list[int]()
    other = Api(InProcess(bench._service))  # pyright: ignore[reportPrivateUsage]

    def transaction(now: int) -> Any:
        if len(made) < times:
            made.append(len(made))
            with pytest.MonkeyPatch.context() as undone:
                undone.setattr(bench.store, "transaction", opened)
                change(other, len(made))
        return opened(now)

    patch.setattr(bench.store, "transaction", transaction)


def test_an_edit_keeps_what_another_changed_meanwhile(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.add("s", when="0 3 * * *", job="work", payload="before")
    meanwhile(bench, monkeypatch, 3, lambda other, number: other.edit("s", payload=f"other {number}"))
    bench.edit("s", description="mine")
    after = bench.get("s")
    assert (after.description, after.settings["payload"], after.rev) == ("mine", "other 3", 5)


def test_an_edit_ends_when_others_do_not(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.add("s", when="0 3 * * *", job="work", payload="before")
    meanwhile(bench, monkeypatch, 10_000, lambda other, number: other.edit("s", payload=f"other {number}"))
    with pytest.raises(Conflict, match=r'"s" was changed by someone else at the same time\.'):
        bench.edit("s", description="mine")
    assert bench.get("s").description is None


def test_an_amount_has_the_rate_of_its_transaction(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.rates.set("EUR", usd=2)
    bench.add("s", when="0 3 * * *", job="work")
    meanwhile(bench, monkeypatch, 1, lambda other, number: other.rates.set("EUR", usd=4))
    bench.edit("s", max_cost="1 EUR")
    assert bench.get("s").settings["max_cost"] == "$4.00"


def test_a_record_keeps_what_another_changed_meanwhile(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.budgets.set("all", max_cost="5 USD", period="day")
    meanwhile(bench, monkeypatch, 1, lambda other, number: other.budgets.edit("all", period="month"))
    bench.budgets.edit("all", max_cost="6 USD")
    found = bench.budgets.get("all")
    assert (found.max_cost, found.period) == ("$6.00", "month")


def test_an_approver_edits_what_is_asked_for(bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run keeps what was asked for, also when its schedule is edited between reading and writing"""
    bench.add("s", when="0 3 * * *", job="work", payload="one", approval="owner_approve")
    bench.run("s")
    bench.settle()
    (asked,) = bench.approvals.list()
    meanwhile(bench, monkeypatch, 1, lambda other, number: other.edit("s", payload="two"))
    bench.approvals.approve(asked.id, edits={"description": "mine"})
    bench.settle()
    assert bench.runs.list()[0].state == "succeeded"
    assert bench.get("s").settings["payload"] == "two"
