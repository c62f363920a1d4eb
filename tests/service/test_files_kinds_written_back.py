"""What governs schedules, changed elsewhere and written back into the file: each kind that it defines. Row C7."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import every_store
import orjson
import pytest
from file_steps import Desk

from matins.errors import Conflict, InvalidFile, InvalidInput, ManagedByFile, NotAllowed
from matins.model.access import Principal
from matins.testing import Sandbox

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
  everything: { period: month, max_cost: €50 } # all of it
  scouting:
    scope: agent
    of: scout
    period: day
    max_cost: $5 # five
rates: { EUR: 1.08, GBP: 1.25 } # of today
prices:
  mine.v1: { input: $0.10, output: $0.40 }
  yours: { input: $1, output: $2 }
hooks:
  before:schedule:trigger:
    command: "true" # a look
    timeout: 30s
  after:run: "true" # done
webhooks:
  ops: # they listen
    url: https://example.com/hook
    secret: env:HOOK_SECRET
    # and nothing else
  # nobody else
allowed_hosts:
  - localhost:11434 # a model
heartbeat: https://hc.example.com/ping/1 # alive
limits: { global: 8, agent:idle: 1 }
work_sources:
  backlog: { kind: tasks, path: TASKS.yaml } # ours
  issues:
    kind: github
    repo: octo-org/garden
    token: env:GITHUB_TOKEN
agent_rules:
  "*": { max_schedules: 5, min_interval: 10m }
  scout:
"""


class Case(NamedTuple):
    change: Callable[[Sandbox], Any]
    before: str
    after: str
    seen: Callable[[Sandbox], bool]


def sizes(bench: Sandbox) -> dict[str, int]:
    return {limit.scope: limit.size for limit in bench.limits.list() if limit.size}


def budgets(bench: Sandbox) -> dict[str, Any]:
    return {budget.name: budget for budget in bench.budgets.list()}


def prices(bench: Sandbox) -> dict[str, Any]:
    return {price.model: price for price in bench.prices.list()}


def commands(bench: Sandbox) -> dict[str, Any]:
    return {hook.event: (hook.command, hook.timeout) for hook in bench.hooks.list()}


SCOUT: dict[str, Any] = {
    "runner": "demo",
    "model": "m1",
    "tools": ["Read", "Grep"],
    "environment": {"LANG": "C", "API_KEY": "env:API_KEY"},
    "max_concurrent": 2,
}
CASES = {
    "a setting of an agent": Case(
        lambda b: b.agents.set("scout", **{**SCOUT, "model": "m2"}),
        "model: m1 #",
        'model: "m2" #',
        lambda b: b.agents.get("scout").model == "m2",
    ),
    "its tools, line by line": Case(
        lambda b: b.agents.set("scout", **{**SCOUT, "tools": ("Read", "Write")}),
        "      - Grep\n",
        '      - "Write"\n',
        lambda b: b.agents.get("scout").tools == ["Read", "Write"],
    ),
    "its environment, name by name": Case(
        lambda b: b.agents.set("scout", **{**SCOUT, "environment": {"API_KEY": "env:API_KEY", "TZ": "UTC"}}),
        "      LANG: C\n",
        '      TZ: "UTC"\n',
        lambda b: b.agents.get("scout").environment == {"API_KEY": "env:API_KEY", "TZ": "…"},
    ),
    "how many of it at once": Case(
        lambda b: b.agents.set("scout", **{**SCOUT, "max_concurrent": 3}),
        "max_concurrent: 2",
        "max_concurrent: 3",
        lambda b: sizes(b)["agent:scout"] == 3,
    ),
    "fewer settings of an agent": Case(
        lambda b: b.agents.set("scout", runner="demo", environment=SCOUT["environment"]),
        TEXT[TEXT.index("    model: m1") : TEXT.index("    schedules:")],
        "    environment:\n      API_KEY: env:API_KEY # where it is\n      LANG: C\n",
        lambda b: b.agents.get("scout").tools == [] and "agent:scout" not in sizes(b),
    ),
    "only what is given of an agent": Case(
        lambda b: b.agents.edit("scout", model=None, max_concurrent=4),
        "    model: m1 # the big one\n" + TEXT[TEXT.index("    tools:") : TEXT.index("    schedules:")],
        TEXT[TEXT.index("    tools:") : TEXT.index("    schedules:")].replace("max_concurrent: 2", "max_concurrent: 4"),
        lambda b: (b.agents.get("scout").model, sizes(b)["agent:scout"]) == (None, 4),
    ),
    "an agent between braces": Case(
        lambda b: b.agents.set("idle", runner="shell", command=["ls", "-l"]),
        "{runner: demo, model: x}",
        '{runner: "shell", "command": ["ls", "-l"]}',
        lambda b: b.agents.get("idle").command == ["ls", "-l"],
    ),
    "an agent gone": Case(
        lambda b: b.agents.delete("idle"),
        "  idle: {runner: demo, model: x} # sleeps\n",
        "",
        lambda b: [agent.name for agent in b.agents.list()] == ["scout"],
    ),
    "quiet hours": Case(
        lambda b: b.quiet_hours.set("nights", windows=["22:00-07:00", "sun 00:00-24:00"], mode="defer"),
        'windows: ["22:00-07:00"]\n',
        'windows: ["22:00-07:00", "sun 00:00-24:00"]\n    mode: defer\n',
        lambda b: {hours.name: hours.mode for hours in b.quiet_hours.list()} == {"nights": "defer", "noon": "skip"},
    ),
    "quiet hours gone": Case(
        lambda b: b.quiet_hours.delete("nights"),
        '  nights: # sleep\n    windows: ["22:00-07:00"]\n',
        "",
        lambda b: [hours.name for hours in b.quiet_hours.list()] == ["noon"],
    ),
    "a budget": Case(
        lambda b: b.budgets.set("scouting", scope="agent", of="scout", period="day", max_cost="$6", max_tokens="2M"),
        "max_cost: $5 # five\n",
        'max_cost: "$6" # five\n    max_tokens: "2M"\n',
        lambda b: (budgets(b)["scouting"].max_cost, budgets(b)["scouting"].max_tokens) == ("$6.00", 2_000_000),
    ),
    "only what is given of a budget": Case(
        lambda b: b.budgets.edit("everything", max_cost="€60"),
        "max_cost: €50",
        'max_cost: "€60"',
        lambda b: (budgets(b)["everything"].max_cost, budgets(b)["everything"].period) == ("$64.80", "month"),
    ),
    "a budget gone": Case(
        lambda b: b.budgets.delete("everything"),
        "  everything: { period: month, max_cost: €50 } # all of it\n",
        "",
        lambda b: list(budgets(b)) == ["scouting"],
    ),
    "a price": Case(
        lambda b: b.prices.set("mine.v1", input="$0.10", output="$0.50", cached="$0.01"),
        "output: $0.40 }",
        'output: "$0.50", "cached": "$0.01" }',
        lambda b: (prices(b)["mine.v1"].output, prices(b)["mine.v1"].cached) == ("$0.50", "$0.01"),
    ),
    "a price gone": Case(
        lambda b: b.prices.delete("mine.v1"),
        "  mine.v1: { input: $0.10, output: $0.40 }\n",
        "",
        lambda b: "mine.v1" not in prices(b),
    ),
    "a rate": Case(
        lambda b: b.rates.set("GBP", usd=1.3),
        "GBP: 1.25",
        "GBP: 1.3",
        lambda b: {rate.currency: rate.usd for rate in b.rates.list()}["GBP"] == 1.3,
    ),
    "a rate gone": Case(
        lambda b: b.rates.delete("GBP"),
        ", GBP: 1.25",
        "",
        lambda b: "GBP" not in [rate.currency for rate in b.rates.list()],
    ),
    "a hook as a mapping": Case(
        lambda b: b.hooks.set("before:schedule:trigger", command="echo hi"),
        'command: "true" # a look\n    timeout: 30s\n',
        'command: "echo hi" # a look\n',
        lambda b: commands(b)["before:schedule:trigger"] == ("echo hi", "15s"),
    ),
    "a hook alone": Case(
        lambda b: b.hooks.set("after:run", command=["echo", "hi"]),
        'after:run: "true"',
        'after:run: ["echo", "hi"]',
        lambda b: commands(b)["after:run"] == (["echo", "hi"], "15s"),
    ),
    "a hook alone no longer": Case(
        lambda b: b.hooks.set("after:run", command="true", timeout="1m"),
        'after:run: "true"',
        'after:run: {"command": "true", "timeout": "1m"}',
        lambda b: commands(b)["after:run"] == ("true", "1m"),
    ),
    "a hook gone": Case(
        lambda b: b.hooks.delete("after:run"),
        '  after:run: "true" # done\n',
        "",
        lambda b: list(commands(b)) == ["before:schedule:trigger"],
    ),
    "the types of a webhook": Case(
        lambda b: b.webhooks.edit("ops", types=["run.failed"]),
        "    secret: env:HOOK_SECRET\n",
        '    secret: env:HOOK_SECRET\n    types: ["run.failed"]\n',
        lambda b: b.webhooks.get("ops").types == ["run.failed"],
    ),
    "a webhook gone": Case(
        lambda b: b.webhooks.delete("ops"),
        TEXT[TEXT.index("  ops:") : TEXT.index("  # nobody else")],
        "",
        lambda b: b.webhooks.list() == [],
    ),
    "allowed hosts": Case(
        lambda b: b.allowed_hosts.set(hosts=["localhost:11434", "nas:80"]),
        "  - localhost:11434 # a model\n",
        '  - localhost:11434 # a model\n  - "nas:80"\n',
        lambda b: b.allowed_hosts.get().hosts == ["localhost:11434", "nas:80"],
    ),
    "the heartbeat": Case(
        lambda b: b.heartbeat.set(url="https://hc.example.com/ping/2"),
        "heartbeat: https://hc.example.com/ping/1 #",
        'heartbeat: "https://hc.example.com/ping/2" #',
        lambda b: b.heartbeat.get().url == "https://hc.example.com/ping/2",
    ),
    "no heartbeat": Case(
        lambda b: b.heartbeat.delete(),
        "heartbeat: https://hc.example.com/ping/1 # alive\n",
        "",
        lambda b: b.heartbeat.get().url is None,
    ),
    "a limit": Case(
        lambda b: b.limits.set("global", size=9), "global: 8", "global: 9", lambda b: sizes(b)["global"] == 9
    ),
    "a limit gone": Case(
        lambda b: b.limits.delete("global"),
        "global: 8, ",
        "",
        lambda b: sizes(b) == {"agent:scout": 2, "agent:idle": 1},
    ),
    "a source of work": Case(
        lambda b: b.work_sources.set("issues", kind="github", repo="octo-org/park", token="env:GITHUB_TOKEN"),
        "octo-org/garden",
        '"octo-org/park"',
        lambda b: [source.repo for source in b.work_sources.list() if source.name == "issues"] == ["octo-org/park"],
    ),
    "a source of work gone": Case(
        lambda b: b.work_sources.delete("backlog"),
        "  backlog: { kind: tasks, path: TASKS.yaml } # ours\n",
        "",
        lambda b: [source.name for source in b.work_sources.list()] == ["issues"],
    ),
    "rules for all agents": Case(
        lambda b: b.agent_rules.set(max_schedules=6),
        "max_schedules: 5, min_interval: 10m",
        "max_schedules: 6",
        lambda b: (b.agent_rules.get().max_schedules, b.agent_rules.get().min_interval) == (6, "5m"),
    ),
    "rules where none were": Case(
        lambda b: b.agent_rules.set("scout", max_schedules=3, auto_approve_jobs=["tidy"]),
        "  scout:\n",
        '  scout: {"max_schedules": 3, "auto_approve_jobs": ["tidy"]}\n',
        lambda b: b.agent_rules.get("scout").auto_approve_jobs == ["tidy"],
    ),
}


@pytest.fixture
def desk(in_memory: Sandbox, tmp_path: Path) -> Desk:
    return opened(in_memory, tmp_path, TEXT)


def opened(bench: Sandbox, folder: Path, text: str) -> Desk:
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
    assert desk.bench.file.plan().state == "same"


def test_c7_one_after_another_on_every_store(bench: Sandbox, tmp_path: Path) -> None:
    """C7: each in one transaction; a fresh reading of the text says what the store has"""
    desk = opened(bench, tmp_path, TEXT)
    for name, case in CASES.items():
        desk.write(TEXT)
        bench.file.apply()
        case.change(bench)
        assert case.seen(bench), name
        desk.file.written = None
        assert (desk.look(), bench.file.plan().state) == ("applied", "same"), name


def test_what_is_there_already_is_not_written_again(desk: Desk) -> None:
    desk.bench.agents.set("scout", **SCOUT)
    desk.bench.rates.set("EUR", usd=1.08)
    desk.bench.hooks.set("after:run", command="true")
    desk.bench.quiet_hours.set("noon", windows=["12:00-13:00"])
    assert desk.path.read_text() == TEXT


def test_what_is_written_there_is_told_once(desk: Desk) -> None:
    """An agent's limit comes with it"""
    since = len(desk.bench.events.list(limit=1_000))
    desk.bench.agents.set("scout", **{**SCOUT, "max_concurrent": 3})
    desk.bench.agents.edit("scout", max_concurrent=4)
    told = [event.type for event in desk.bench.events.list(limit=1_000)[since:]]
    assert told == ["policy.set", "limit.set", "file.applied"] * 2


def test_v6_only_the_owner_writes_what_only_the_owner_sets(desk: Desk) -> None:
    """V6: the file is no way round"""
    for role in ("operator", "viewer", "agent"):
        theirs: Any = desk.bench.acting_as(Principal(role, "scout"))
        for case in CASES.values():
            with pytest.raises(NotAllowed):
                case.change(theirs)
    assert desk.path.read_text() == TEXT


def test_v6_no_setting_but_its_own_gets_into_the_file(desk: Desk) -> None:
    """V6: neither another setting of the file, nor a text that would become one"""
    bad: list[Callable[[], Any]] = [
        lambda: desk.bench.agents.set("idle", runner="demo", schedules={"s": {"when": "5m", "prompt": "Hi"}}),
        lambda: desk.bench.agents.set("idle", runner="demo", **{"model: x\n  evil": "y"}),
        lambda: desk.bench.agents.edit("idle", **{"options: {}\n  evil": {"runner": "shell"}}),
        lambda: desk.bench.budgets.set("scouting", period="day", max_cost="$5", edits="refuse"),
    ]
    for attempt in bad:
        with pytest.raises(InvalidInput):
            attempt()
    evil = "x\n  evil: {runner: shell} #"
    hostile: dict[str, Any] = {"arguments": ["-v", evil], "environment": {"API_KEY": "file:/k"}}
    desk.bench.agents.edit("scout", **hostile)
    assert sorted(agent.name for agent in desk.bench.agents.list()) == ["idle", "scout"]
    scout = desk.bench.agents.get("scout")
    assert scout.arguments == ["-v", evil]
    assert desk.look() == "applied"


def test_v7_a_reference_stays_one(desk: Desk) -> None:
    """V7: the file says where a secret is, and never learns what it is"""
    with pytest.raises(Conflict, match="line 9 of the file: API_KEY refers to its value") as refused:
        desk.bench.agents.edit("scout", environment={"API_KEY": "sk-123", "LANG": "C"})
    assert "sk-123" not in f"{refused.value}{refused.value.value}{refused.value.hint}"
    assert desk.path.read_text() == TEXT
    desk.bench.agents.edit("scout", environment={"API_KEY": "file:/run/key", "LANG": "C"})
    assert desk.path.read_text() == TEXT.replace("env:API_KEY #", '"file:/run/key" #')
    events = orjson.dumps([event.data for event in desk.bench.events.list(limit=1_000)]).decode()
    assert "file:/run/key" in events


def test_what_would_mean_something_else_is_not_written(in_memory: Sandbox, tmp_path: Path) -> None:
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
    with pytest.raises(
        Conflict, match="line 3 of the file: written to the file, the change would have another meaning"
    ):
        desk.bench.limits.delete("global")
    assert (desk.path.read_text(), sizes(desk.bench)) == (before, {"global": 5})
    hours = desk.bench.quiet_hours.set("noon", windows=["12:00-13:00"])
    assert desk.path.read_text() == before.replace('"]}', '"], "timezone": "UTC"}')
    assert [known.timezone for known in desk.bench.quiet_hours.list()] == [hours.timezone] == ["UTC"]


def test_a_limit_of_the_preset_is_refused_with_its_line(in_memory: Sandbox, tmp_path: Path) -> None:
    desk = opened(in_memory, tmp_path, "edits: write_back\npreset: corvid\n")
    with pytest.raises(Conflict, match="preset, line 2 of the file: it is part of the preset") as refused:
        desk.bench.limits.set("global", size=7)
    assert refused.value.hint == "Add it to the file, under limits."
    assert sizes(desk.bench) == {"global": 2}


def test_what_others_need_stays(desk: Desk) -> None:
    """The whole file is checked, and the place of what would be wrong is told"""
    with pytest.raises(InvalidFile, match="EUR"):
        desk.bench.rates.delete("EUR")
    with pytest.raises(InvalidFile, match="is defined on line"):
        desk.bench.agents.set("idle", runner="demo", max_concurrent=2)
    with pytest.raises(Conflict, match='The agent "scout" is used by check'):
        desk.bench.agents.delete("scout")
    assert desk.path.read_text() == TEXT


def test_other_files_keep_refusing(in_memory: Sandbox, tmp_path: Path) -> None:
    """C7: where the user chose nothing, and where another file defines it"""
    desk = opened(in_memory, tmp_path, TEXT.replace("write_back", "refuse"))
    before = desk.path.read_text()
    for case in CASES.values():
        with pytest.raises(ManagedByFile, match=rf"is managed by {desk.path} \(line \d+\)"):
            case.change(desk.bench)
    assert desk.path.read_text() == before
    desk.write(TEXT)
    desk.look()
    desk.bench._service.local.file = None
    with pytest.raises(ManagedByFile):
        desk.bench.limits.set("global", size=9)


def test_agents_in_a_list(in_memory: Sandbox, tmp_path: Path) -> None:
    """H12: as herdctl writes them"""
    text = "edits: write_back\nagents:\n  - name: a # one\n    runner: demo\n  # two\n  - runner: demo\n    name: b\n"
    desk = opened(in_memory, tmp_path, text)
    desk.bench.agents.set("b", runner="demo", model="m")
    assert desk.path.read_text() == text + "    model: m\n"
    desk.bench.agents.delete("b")
    assert desk.path.read_text() == text[: text.index("  - runner")]
    desk.bench.agents.delete("a")
    assert desk.path.read_text() == "edits: write_back\nagents:\n  # two\n"
    assert desk.bench.agents.list() == []
