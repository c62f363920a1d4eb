"""What governs schedules, changed elsewhere and written back into the file: each kind that it defines. Row C7."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import every_store
import orjson
import pytest
from file_steps import Desk

from matins.errors import BelongsToFile, Conflict, FileInvalid, InvalidInput, NotAllowed
from matins.model.principal import Principal
from matins.testing import Bench

postgres_server, postgres_url, url = every_store.postgres_server, every_store.postgres_url, every_store.url
bench, in_memory = every_store.bench, every_store.in_memory
TEXT = """\
edits: write_back # as we like it
agents:
  scout: # looks around
    runner: demo
    model: m1 # the big one
    tools:
      - Read # only looks
      - Grep
    environment:
      API_KEY: env:API_KEY # where it is
      LANG: C
    max_concurrent: 2
    schedules:
      check: {when: 5m, prompt: Hi}
  # a quiet one
  idle: {runner: demo, model: x} # sleeps

quiet_hours:
  nights: # sleep
    windows: ["22:00-07:00"]
  noon: {windows: "12:00-13:00"}

# money
budgets:
  everything: { per: month, money: €50 } # all of it
  scouting:
    scope: agent
    of: scout
    per: day
    money: $5 # five
rates: { EUR: 1.08, GBP: 1.25 } # of today
prices:
  mine.v1: { input: $0.10, output: $0.40 }
  yours: { input: $1, output: $2 }
hooks:
  before:schedule:trigger:
    command: "true" # a look
    limit: 30s
  after:run: "true" # done
webhooks:
  ops: # they listen
    url: https://example.com/hook
    secret: env:HOOK_SECRET
    # and nothing else
  # nobody else
allowed_hosts:
  - localhost:11434 # a model
limits: { global: 8, agent:idle: 1 }
work_sources:
  backlog: { kind: tasks, path: TASKS.yaml } # ours
  issues:
    kind: github
    repo: octo-org/garden
    token: env:GITHUB_TOKEN
agent_rules:
  "*": { quota: 5, floor: 10m }
  scout:
"""


class Case(NamedTuple):
    change: Callable[[Bench], Any]
    before: str
    after: str
    seen: Callable[[Bench], bool]


def sizes(bench: Bench) -> dict[str, int]:
    return {limit.scope: limit.size for limit in bench.limits() if limit.size}


def budgets(bench: Bench) -> dict[str, Any]:
    return {budget.name: budget for budget, _ in bench.budgets()}


def prices(bench: Bench) -> dict[str, Any]:
    return {price.model: price for price in bench.prices()}


def commands(bench: Bench) -> dict[str, Any]:
    return {hook.event: (hook.command, hook.limit_ms) for hook in bench.hooks()}


SCOUT: dict[str, Any] = {
    "runner": "demo",
    "model": "m1",
    "tools": ["Read", "Grep"],
    "environment": {"LANG": "C", "API_KEY": "env:API_KEY"},
    "max_concurrent": 2,
}
CASES = {
    "a word of an agent": Case(
        lambda b: b.set_agent("scout", **{**SCOUT, "model": "m2"}),
        "model: m1 #",
        'model: "m2" #',
        lambda b: b.get_agent("scout").model == "m2",
    ),
    "its tools, line by line": Case(
        lambda b: b.set_agent("scout", **{**SCOUT, "tools": ("Read", "Write")}),
        "      - Grep\n",
        '      - "Write"\n',
        lambda b: b.get_agent("scout").tools == ("Read", "Write"),
    ),
    "its environment, name by name": Case(
        lambda b: b.set_agent("scout", **{**SCOUT, "environment": {"API_KEY": "env:API_KEY", "TZ": "UTC"}}),
        "      LANG: C\n",
        '      TZ: "UTC"\n',
        lambda b: b.get_agent("scout").environment == (("API_KEY", "env:API_KEY"), ("TZ", "UTC")),
    ),
    "how many of it at once": Case(
        lambda b: b.set_agent("scout", **{**SCOUT, "max_concurrent": 3}),
        "max_concurrent: 2",
        "max_concurrent: 3",
        lambda b: sizes(b)["agent:scout"] == 3,
    ),
    "fewer words of an agent": Case(
        lambda b: b.set_agent("scout", runner="demo", environment=SCOUT["environment"]),
        TEXT[TEXT.index("    model: m1") : TEXT.index("    schedules:")],
        "    environment:\n      API_KEY: env:API_KEY # where it is\n      LANG: C\n",
        lambda b: b.get_agent("scout").tools == () and "agent:scout" not in sizes(b),
    ),
    "only what is said of an agent": Case(
        lambda b: b.edit_agent("scout", model=None, max_concurrent=4),
        "    model: m1 # the big one\n" + TEXT[TEXT.index("    tools:") : TEXT.index("    schedules:")],
        TEXT[TEXT.index("    tools:") : TEXT.index("    schedules:")].replace("max_concurrent: 2", "max_concurrent: 4"),
        lambda b: (b.get_agent("scout").model, sizes(b)["agent:scout"]) == (None, 4),
    ),
    "an agent between braces": Case(
        lambda b: b.set_agent("idle", runner="shell", command=["ls", "-l"]),
        "{runner: demo, model: x}",
        '{runner: "shell", "command": ["ls", "-l"]}',
        lambda b: b.get_agent("idle").command == ("ls", "-l"),
    ),
    "an agent gone": Case(
        lambda b: b.drop_agent("idle"),
        "  idle: {runner: demo, model: x} # sleeps\n",
        "",
        lambda b: [agent.name for agent in b.agents()] == ["scout"],
    ),
    "quiet hours": Case(
        lambda b: b.set_quiet_hours("nights", windows=["22:00-07:00", "sun 00:00-24:00"], mode="defer"),
        'windows: ["22:00-07:00"]\n',
        'windows: ["22:00-07:00", "sun 00:00-24:00"]\n    mode: defer\n',
        lambda b: {hours.name: hours.mode for hours in b.quiet_hours()} == {"nights": "defer", "noon": "skip"},
    ),
    "quiet hours gone": Case(
        lambda b: b.drop_quiet_hours("nights"),
        '  nights: # sleep\n    windows: ["22:00-07:00"]\n',
        "",
        lambda b: [hours.name for hours in b.quiet_hours()] == ["noon"],
    ),
    "a budget": Case(
        lambda b: b.set_budget("scouting", scope="agent", of="scout", per="day", money="$6", tokens="2M"),
        "money: $5 # five\n",
        'money: "$6" # five\n    tokens: "2M"\n',
        lambda b: (budgets(b)["scouting"].money, budgets(b)["scouting"].tokens) == (6_000_000, 2_000_000),
    ),
    "a budget gone": Case(
        lambda b: b.drop_budget("everything"),
        "  everything: { per: month, money: €50 } # all of it\n",
        "",
        lambda b: list(budgets(b)) == ["scouting"],
    ),
    "a price": Case(
        lambda b: b.set_price("mine.v1", input="$0.10", output="$0.50", cached="$0.01"),
        "output: $0.40 }",
        'output: "$0.50", "cached": "$0.01" }',
        lambda b: (prices(b)["mine.v1"].output, prices(b)["mine.v1"].cached) == (500_000, 10_000),
    ),
    "a price gone": Case(
        lambda b: b.drop_price("mine.v1"),
        "  mine.v1: { input: $0.10, output: $0.40 }\n",
        "",
        lambda b: "mine.v1" not in prices(b),
    ),
    "a rate": Case(
        lambda b: b.set_rate("GBP", 1.3),
        "GBP: 1.25",
        "GBP: 1.3",
        lambda b: {rate.currency: rate.usd for rate in b.rates()}["GBP"] == 1.3,
    ),
    "a rate gone": Case(
        lambda b: b.drop_rate("GBP"),
        ", GBP: 1.25",
        "",
        lambda b: "GBP" not in [rate.currency for rate in b.rates()],
    ),
    "a hook in words": Case(
        lambda b: b.set_hook("before:schedule:trigger", "echo hi"),
        'command: "true" # a look\n    limit: 30s\n',
        'command: "echo hi" # a look\n',
        lambda b: commands(b)["before:schedule:trigger"] == ("echo hi", 15_000),
    ),
    "a hook alone": Case(
        lambda b: b.set_hook("after:run", ["echo", "hi"]),
        'after:run: "true"',
        'after:run: ["echo", "hi"]',
        lambda b: commands(b)["after:run"] == (("echo", "hi"), 15_000),
    ),
    "a hook alone no longer": Case(
        lambda b: b.set_hook("after:run", "true", limit="1m"),
        'after:run: "true"',
        'after:run: {"command": "true", "limit": "1m"}',
        lambda b: commands(b)["after:run"] == ("true", 60_000),
    ),
    "a hook gone": Case(
        lambda b: b.drop_hook("after:run"),
        '  after:run: "true" # done\n',
        "",
        lambda b: list(commands(b)) == ["before:schedule:trigger"],
    ),
    "a webhook gone": Case(
        lambda b: b.drop_webhook("ops"),
        TEXT[TEXT.index("  ops:") : TEXT.index("  # nobody else")],
        "",
        lambda b: b.webhooks() == [],
    ),
    "allowed hosts": Case(
        lambda b: b.set_allowed_hosts(["localhost:11434", "nas:80"]),
        "  - localhost:11434 # a model\n",
        '  - localhost:11434 # a model\n  - "nas:80"\n',
        lambda b: b.allowed_hosts() == ["localhost:11434", "nas:80"],
    ),
    "a limit": Case(lambda b: b.limit("global", 9), "global: 8", "global: 9", lambda b: sizes(b)["global"] == 9),
    "a limit gone": Case(
        lambda b: b.drop_limit("global"), "global: 8, ", "", lambda b: sizes(b) == {"agent:scout": 2, "agent:idle": 1}
    ),
    "a source of work": Case(
        lambda b: b.set_work_source("issues", kind="github", repo="octo-org/park", token="env:GITHUB_TOKEN"),
        "octo-org/garden",
        '"octo-org/park"',
        lambda b: [source.repo for source in b.work_sources() if source.name == "issues"] == ["octo-org/park"],
    ),
    "a source of work gone": Case(
        lambda b: b.drop_work_source("backlog"),
        "  backlog: { kind: tasks, path: TASKS.yaml } # ours\n",
        "",
        lambda b: [source.name for source in b.work_sources()] == ["issues"],
    ),
    "rules for all agents": Case(
        lambda b: b.set_agent_rules(quota=6),
        "quota: 5, floor: 10m",
        "quota: 6",
        lambda b: (b.agent_rules().quota, b.agent_rules().floor_ms) == (6, 300_000),
    ),
    "rules where none were": Case(
        lambda b: b.set_agent_rules("scout", quota=3, auto_jobs=["tidy"]),
        "  scout:\n",
        '  scout: {"quota": 3, "auto_jobs": ["tidy"]}\n',
        lambda b: b.agent_rules("scout").auto_jobs == ("tidy",),
    ),
}


@pytest.fixture
def desk(in_memory: Bench, tmp_path: Path) -> Desk:
    return opened(in_memory, tmp_path, TEXT)


def opened(bench: Bench, folder: Path, text: str) -> Desk:
    made = Desk(bench, folder / "matins.yaml", text)
    assert made.look() == "applied", made.file.state
    return made


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_c7_each_kind_is_written_where_it_stands(desk: Desk, case: Case) -> None:
    """C7: only what changes, comments and layout kept; the store says the same, and our own write is no news"""
    at = TEXT.rindex(case.before) if case.before == "  scout:\n" else TEXT.index(case.before)
    case.change(desk.bench)
    assert desk.path.read_text() == TEXT[:at] + case.after + TEXT[at + len(case.before) :]
    assert case.seen(desk.bench)
    notes = desk.notes()
    assert (desk.look(), desk.notes()) == ("applied", notes)
    assert desk.bench.plan()["state"] == "same"


def test_c7_one_after_another_on_every_store(bench: Bench, tmp_path: Path) -> None:
    """C7: each in one transaction; a fresh reading of the text says what the store has"""
    desk = opened(bench, tmp_path, TEXT)
    for name, case in CASES.items():
        desk.write(TEXT)
        bench.apply()
        case.change(bench)
        assert case.seen(bench), name
        desk.file.written = None
        assert (desk.look(), bench.plan()["state"]) == ("applied", "same"), name


def test_what_is_said_already_is_not_written_again(desk: Desk) -> None:
    desk.bench.set_agent("scout", **SCOUT)
    desk.bench.set_rate("EUR", 1.08)
    desk.bench.set_hook("after:run", "true")
    desk.bench.set_quiet_hours("noon", windows=["12:00-13:00"])
    assert desk.path.read_text() == TEXT


def test_what_is_written_there_is_told_once(desk: Desk) -> None:
    """An agent's limit comes with it"""
    since = len(desk.bench.events(limit=1_000))
    desk.bench.set_agent("scout", **{**SCOUT, "max_concurrent": 3})
    desk.bench.edit_agent("scout", max_concurrent=4)
    told = [event.type for event in desk.bench.events(limit=1_000)[since:]]
    assert told == ["limit.set", "policy.set", "file.applied"] * 2


def test_v6_only_the_owner_writes_what_only_the_owner_sets(desk: Desk) -> None:
    """V6: the file is no way round"""
    for role in ("operator", "viewer", "agent"):
        theirs: Any = desk.bench.acting_as(Principal(role, "scout"))
        for case in CASES.values():
            with pytest.raises(NotAllowed):
                case.change(theirs)
    assert desk.path.read_text() == TEXT


def test_v6_no_word_but_its_own_gets_into_the_file(desk: Desk) -> None:
    """V6: neither another word of the file, nor a text that would become one"""
    bad: list[Callable[[], Any]] = [
        lambda: desk.bench.set_agent("idle", runner="demo", schedules={"s": {"when": "5m", "prompt": "Hi"}}),
        lambda: desk.bench.set_agent("idle", runner="demo", **{"model: x\n  evil": "y"}),
        lambda: desk.bench.edit_agent("idle", **{"options: {}\n  evil": {"runner": "shell"}}),
        lambda: desk.bench.set_budget("scouting", per="day", money="$5", edits="refuse"),
    ]
    for attempt in bad:
        with pytest.raises(InvalidInput):
            attempt()
    evil = "x\n  evil: {runner: shell} #"
    desk.bench.edit_agent("scout", tools=["Read", evil], environment={"API_KEY": "file:/k"}, options={evil: evil})
    assert sorted(agent.name for agent in desk.bench.agents()) == ["idle", "scout"]
    scout = desk.bench.get_agent("scout")
    assert (scout.tools, scout.options) == (("Read", evil), {evil: evil})
    desk.bench.edit_agent("scout", options={evil: "y", f"{evil} ": evil})
    assert desk.bench.get_agent("scout").options == {evil: "y", f"{evil} ": evil}
    assert desk.look() == "applied"


def test_v7_a_reference_stays_one(desk: Desk) -> None:
    """V7: the file says where a secret is, and never learns what it is"""
    with pytest.raises(Conflict, match="line 9 of the file: it says where API_KEY is") as refused:
        desk.bench.edit_agent("scout", environment={"API_KEY": "sk-123", "LANG": "C"})
    assert "sk-123" not in f"{refused.value}{refused.value.value}{refused.value.hint}"
    assert desk.path.read_text() == TEXT
    desk.bench.edit_agent("scout", environment={"API_KEY": "file:/run/key", "LANG": "C"})
    assert desk.path.read_text() == TEXT.replace("env:API_KEY #", '"file:/run/key" #')
    events = orjson.dumps([event.data for event in desk.bench.events(limit=1_000)]).decode()
    assert "file:/run/key" in events


def test_what_would_mean_something_else_is_not_written(in_memory: Bench, tmp_path: Path) -> None:
    """C7: without the file's own limit the preset's would count; and what the defaults say is said otherwise"""
    text = """\
        edits: write_back
        preset: corvid
        limits: {global: 5}
        defaults: {timezone: Europe/Berlin}
        quiet_hours: {noon: {windows: ["12:00-13:00"]}}
        """
    desk = opened(in_memory, tmp_path, text)
    before = desk.path.read_text()
    with pytest.raises(Conflict, match="line 3 of the file: written there, it would not mean what was asked"):
        desk.bench.drop_limit("global")
    assert (desk.path.read_text(), sizes(desk.bench)) == (before, {"global": 5})
    hours = desk.bench.set_quiet_hours("noon", windows=["12:00-13:00"])
    assert desk.path.read_text() == before.replace('"]}', '"], "timezone": "UTC"}')
    assert [known.timezone for known in desk.bench.quiet_hours()] == [hours.timezone] == ["UTC"]


def test_a_limit_of_the_preset_is_refused_with_its_line(in_memory: Bench, tmp_path: Path) -> None:
    desk = opened(in_memory, tmp_path, "edits: write_back\npreset: corvid\n")
    with pytest.raises(Conflict, match="preset, line 2 of the file: it comes with the preset") as refused:
        desk.bench.limit("global", 7)
    assert refused.value.hint == "say it there, under limits"
    assert sizes(desk.bench) == {"global": 2}


def test_what_others_need_stays(desk: Desk) -> None:
    """The whole file is checked, and the place of what would be wrong is told"""
    with pytest.raises(FileInvalid, match="EUR"):
        desk.bench.drop_rate("EUR")
    with pytest.raises(FileInvalid, match="is defined on line"):
        desk.bench.set_agent("idle", runner="demo", max_concurrent=2)
    with pytest.raises(Conflict, match="woken by check"):
        desk.bench.drop_agent("scout")
    assert desk.path.read_text() == TEXT


def test_other_files_keep_refusing(in_memory: Bench, tmp_path: Path) -> None:
    """C7: where the user chose nothing, and where another file defines it"""
    desk = opened(in_memory, tmp_path, TEXT.replace("write_back", "refuse"))
    before = desk.path.read_text()
    for case in CASES.values():
        with pytest.raises(BelongsToFile, match=rf"is defined in {desk.path}, line \d+"):
            case.change(desk.bench)
    assert desk.path.read_text() == before
    desk.write(TEXT)
    desk.look()
    desk.bench._service.file = None
    with pytest.raises(BelongsToFile):
        desk.bench.limit("global", 9)


def test_agents_in_a_list(in_memory: Bench, tmp_path: Path) -> None:
    """H12: as herdctl writes them"""
    text = "edits: write_back\nagents:\n  - name: a # one\n    runner: demo\n  # two\n  - runner: demo\n    name: b\n"
    desk = opened(in_memory, tmp_path, text)
    desk.bench.set_agent("b", runner="demo", model="m")
    assert desk.path.read_text() == text + "    model: m\n"
    desk.bench.drop_agent("b")
    assert desk.path.read_text() == text[: text.index("  - runner")]
    desk.bench.drop_agent("a")
    assert desk.path.read_text() == "edits: write_back\nagents:\n  # two\n"
    assert desk.bench.agents() == []
