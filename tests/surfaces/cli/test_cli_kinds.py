"""`matins prices`, `hooks`, `limits`, `work-sources`, `rates`, `agent-rules`, `threads`, and `agents edit`."""

from __future__ import annotations

import json
from contextlib import nullcontext
from textwrap import dedent

import pytest
from cli_daemon import served
from cli_user import User

from matins.testing import Sandbox


def test_b5_prices(user: User) -> None:
    """B5: list prices, one's own, and back again"""
    listed = {item["model"]: item for item in user.json("prices")}
    assert (
        user.says("prices", "set", "gpt-5", "--input", "$1", "--output", "$8")
        == "Set the price gpt-5: input $1.00, output $8.00\n"
    )
    shown = user.says("prices")
    assert shown.splitlines()[0].split() == ["MODEL", "INPUT", "OUTPUT", "CACHED"]
    assert ["gpt-5", "$1.00", "$8.00", "$1.00"] in [line.split() for line in shown.splitlines()]
    assert max(map(len, shown.splitlines())) <= 80
    assert user.says("prices", "rm", "gpt-5") == "Deleted the price gpt-5.\n"
    assert {item["model"]: item for item in user.json("prices")} == listed
    assert user.says("prices", "rm", "gpt-5") == 'There is no price "gpt-5": nothing to delete.\n'
    assert 'A price needs "output"' in user.complains("prices", "set", "house/small", "--input", "$1")


def test_b5_rates(user: User) -> None:
    """B5: other currencies"""
    assert user.says("rates") == "CURRENCY  DOLLARS\nUSD             1\n"
    assert user.says("rates", "set", "EUR", "1.10") == "Set the rate EUR: usd 1.1\n"
    user.types("budgets", "set", "daily", "--max-cost", "5 EUR", "--period", "day")
    assert user.json("budgets")[0]["max_cost"] == "$5.50"
    assert user.json("rates") == [{"currency": "EUR", "usd": 1.1}, {"currency": "USD", "usd": 1.0}]
    assert user.json("rates", "rm", "EUR") == {"deleted": True}
    assert user.json("rates", "rm", "EUR") == {"deleted": False}
    assert "Missing argument 'USD'" in user.complains("rates", "set", "EUR")
    assert "is not a currency code" in user.complains("rates", "set", "euro", "1.1")
    assert "Hint: For example: matins rates set EUR" in user.complains("rates", "set", "EUR", "0")


def test_b5_a_rate_is_removed_or_set(user: User) -> None:
    """B5: nothing is done where both are said, or nothing to remove"""
    user.types("rates", "set", "EUR", "1.10")
    assert "unexpected extra argument (1.2)" in user.complains("rates", "rm", "EUR", "1.2")
    assert "Missing argument 'CURRENCY'" in user.complains("rates", "rm")
    assert user.json("rates")[0] == {"currency": "EUR", "usd": 1.1}
    assert "CURRENCY USD" in user.says("rates", "set", "--help")


@pytest.mark.parametrize("daemon", [False, True])
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("prices set house/small --input $1", "For example: --output '$10'"),
        ("work-sources set w --kind github --repo foo", "For example: --repo octo-org/garden"),
        ("work-sources set w --kind github --repo a/b --token x", "For example: --token env:GITHUB_TOKEN"),
        ("hooks set nonsense --command true", "Known: before:schedule:trigger, after:run."),
        ("hooks set before:schedule:trigger", "For example: --command 'node scripts/check-maintenance-window.js'"),
        ("quiet-hours set n", "For example: --windows '22:00-07:00, sat,sun 00:00-24:00'"),
        (
            "add 5m --job work --quiet-hours n",
            'Create it: matins quiet-hours set n --windows "22:00-07:00" -z Europe/London',
        ),
        (
            "add 5m --job work --approval council_approve",
            "For example: --approvers 'ada, grace', --approvals-required 2",
        ),
        ("budgets set daily --period day", "For example: --max-cost '$5', --max-tokens 2M"),
        ("webhooks set ops --url https://93.184.216.34/", "For example: --secret env:HOOK_SECRET"),
        ("threads show 99", "List what there is: matins threads"),
    ],
)  # fmt: skip
def test_hints_are_what_one_types_here(
    user: User, bench: Sandbox, monkeypatch: pytest.MonkeyPatch, words: str, hint: str, daemon: bool
) -> None:
    """C7: not what one writes in Python"""
    with served(bench) if daemon else nullcontext() as transport:
        if transport is not None:
            monkeypatch.setattr(user.app, "transport", lambda **location: transport)
        assert user.complains(*words.split()).endswith(f"Hint: {hint}\n")


def test_hooks(user: User, bench: Sandbox) -> None:
    """C6: a text for the shell, or a list; both are run"""
    assert user.says("hooks").startswith("No hooks. Create one: matins hooks set ")
    assert (
        user.says("hooks", "set", "before:schedule:trigger", "--command", "true && exit 1")
        == "Set the hook before:schedule:trigger: command true && exit 1\n"
    )
    user.types("add", "every day at 9am", "--job", "work", "-n", "s")
    user.types("run", "s")
    bench.settle()
    assert user.json("runs")[0]["reason"] == "hook"
    made = user.json("hooks", "set", "before:schedule:trigger", "--command", '["true", "a b"]', "--timeout", "20s")
    assert made == {"event": "before:schedule:trigger", "command": ["true", "a b"], "timeout": "20s"}
    assert user.says("hooks") == dedent("""\
        EVENT                    COMMAND     TIMEOUT
        before:schedule:trigger  true 'a b'  20s
        """)
    assert "command  true 'a b'\n" in user.says("hooks", "show", "before:schedule:trigger")
    assert user.says("hooks", "rm", "before:schedule:trigger") == "Deleted the hook before:schedule:trigger.\n"
    assert user.json("hooks") == []
    assert 'There is no hook "sometimes"' in user.complains("hooks", "set", "sometimes", "--command", "true")


def test_limits(user: User, bench: Sandbox) -> None:
    """B6: and gone again, so that all may run"""
    assert user.says("limits") == "No limits. Create one: matins limits set global 4\n"
    assert user.says("limits", "set", "global", "4") == "Set the limit global: size 4\n"
    made = user.json("limits", "set", "agent:scout", "2")
    note = 'The limit has no effect: there is no agent "scout". Create it: matins agents set scout --runner claude'
    assert made == {"scope": "agent:scout", "size": 2, "in_use": 0, "notes": [note]}
    assert user.says("limits") == dedent("""\
        SCOPE        SIZE  IN USE
        agent:scout     2       0
        global          4       0
        """)
    assert user.says("limits", "rm", "global") == "Deleted the limit global.\n"
    assert user.json("limits", "rm", "global") == {"deleted": False}
    assert user.json("stats")["max_concurrent"] is None
    assert [limit.scope for limit in bench.limits.list()] == ["agent:scout"]
    assert '"size" must be an integer from 1 to' in user.complains("limits", "set", "global", "0")


def test_work_sources(user: User) -> None:
    """C3"""
    assert user.says("work-sources").startswith("No work sources. Create one: matins work-sources set ")
    made = user.says("work-sources", "set", "todo", "--kind", "github", "--repo", "ada/site", "--labels", "ready,small")
    assert made == "Set the work source todo: kind github, repo ada/site, labels ready, small\n"
    user.types("work-sources", "set", "list", "--kind", "tasks")
    assert user.says("work-sources") == dedent("""\
        NAME  KIND    SOURCE      LABELS
        list  tasks   TASKS.yaml  –
        todo  github  ada/site    ready, small
        """)
    user.types("agents", "set", "scout", "--runner", "demo")
    user.types("add", "every day at 9am", "Do it", "--agent", "scout", "--work-source", "list", "-n", "s")
    assert 'The work source "list" is used by s.' in user.complains("work-sources", "rm", "list", code=1)
    assert user.json("work-sources", "rm", "todo") == {"deleted": True}


def test_b7_rules(user: User) -> None:
    """B7: of all agents, and of one"""
    assert user.says("agent-rules").startswith("agent                   *\nmax schedules           20\n")
    words = ("--max-schedules", "5", "--min-interval", "10m", "--auto-approve-one-shots")
    assert user.says("agent-rules", "set", "scout", *words) == (
        "Set the agent rule set scout: max schedules 5, min interval 10m, auto approve one shots yes\n"
    )
    assert user.json("agent-rules", "scout")["auto_approve_one_shots"] is True
    assert user.json("agent-rules")["max_schedules"] == 20
    assert user.says("agent-rules", "set", "--max-schedules", "3") == "Set the agent rule set *: max schedules 3\n"
    other = user.json("agent-rules", "show", "another")
    assert user.json("agent-rules", "show")["max_schedules"] == other["max_schedules"] == 3
    assert '"max_schedules" must be' in user.complains("agent-rules", "set", "scout", "--max-schedules", "many")
    assert "all agents (*)" in user.says("agent-rules", "set", "--help")


def test_single_records(user: User) -> None:
    """H12: of which there is only one; no name, and the value alone"""
    assert user.says("allowed-hosts") == "hosts  none\n"
    assert user.says("allowed-hosts", "set", "a.lan:80,b.lan") == (
        "Set the list of allowed hosts: hosts a.lan:80, b.lan\n"
    )
    assert user.json("allowed-hosts") == {"hosts": ["a.lan:80", "b.lan"]}
    assert user.says("heartbeat", "set", "https://93.184.216.34/x") == (
        "Set the heartbeat: url https://93.184.216.34/x\n"
    )
    assert user.says("heartbeat") == "url  https://93.184.216.34/x\n"
    assert user.says("heartbeat", "rm") == "Deleted the heartbeat.\n"
    assert user.says("heartbeat", "rm") == "There is no heartbeat: nothing to delete.\n"


def test_c4_threads(user: User, bench: Sandbox) -> None:
    """C4: what was said, made harmless"""
    assert user.says("threads") == "No threads. The first run of an agent creates one.\n"
    bench.agents.set("herald", runner="message")
    user.types("add", "every day at 9am", "Good\nmorning \x1b[2J", "--agent", "herald", "-n", "hello")
    bench.run_until("2026-03-28T09:05:00Z")
    first, second = (item["id"] for item in reversed(user.json("threads")))
    assert user.says("threads") == dedent(f"""\
        THREAD  AGENT   CHANNEL  STATE    UPDATED
        {second}       herald  –        waiting  5m ago (09:00)
        {first}       herald  –        waiting  24h ago (Fri 09:00)
        """)
    assert user.types("threads", "--limit", "1").stderr == f"There are more: matins threads --before {second}\n"
    shown = user.says("threads", "show", first)
    assert shown.startswith("Fri 09:00 user (run 1):\n  [Scheduled Task] Good\n  morning \\x1b[2J\n")
    (message, *_) = user.json("threads", "show", first)
    assert message["thread_id"] == first
    assert "There is no thread 99" in user.complains("threads", "show", "99")
    assert '"herald" is not the number of a thread' in user.complains("threads", "show", "herald")


def test_h12_an_agent_is_edited_setting_by_setting(user: User) -> None:
    """H12: what is not said stays, secrets too"""
    user.types(
        "agents", "set", "scout", "--runner", "claude", "--model", "opus", "--max-cost", "$2", "--timeout", "2h",
        "--environment", '{"SECRET": "hunter2", "TOKEN": "env:TOKEN"}', "--max-concurrent", "2",
    )  # fmt: skip
    assert user.says("agents", "edit", "scout", "--model", "sonnet", "--unset", "max-cost") == dedent("""\
          model: opus → sonnet
          max cost: $2.00 → none
        Changed the agent scout.
        """)
    kept = user.bench.agents.get("scout")
    assert (kept.model, kept.max_cost, kept.timeout, kept.provider) == ("sonnet", None, "2h", "anthropic")
    stored = user.bench._loader.policies().agents["scout"]
    assert dict(stored.environment) == {"SECRET": "hunter2", "TOKEN": "env:TOKEN"}
    assert user.json("agents", "edit", "scout", "--unset", "timeout", "--runner", "codex")["provider"] == "openai"
    assert user.bench.agents.get("scout").timeout == "1h"
    assert [limit.size for limit in user.bench.limits.list()] == [2]
    user.types("agents", "edit", "scout", "--max-concurrent", "3")
    assert [limit.size for limit in user.bench.limits.list()] == [3]
    user.types("agents", "edit", "scout", "--unset", "max_concurrent")
    assert user.bench.limits.list() == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["scout"], "There is nothing to change."),
        (["nobody", "--model", "x"], 'There is no agent "nobody"'),
        (["scout", "--unset", "runner"], 'An agent needs "runner"'),
        (["scout", "--runner", "clod"], 'There is no runner "clod"'),
        (["scout", "--set", "modle=x"], 'Did you mean "model"?'),
        (["scout", "--max-turns", "0"], '"max_turns" must be'),
    ],
    ids=["nothing", "nobody", "no-runner", "odd-runner", "odd-setting", "odd-value"],
)
def test_a_slip_in_an_edit_changes_nothing(user: User, words: list[str], says: str) -> None:
    user.types("agents", "set", "scout", "--runner", "demo", "--model", "x")
    before = user.json("agents", "show", "scout")
    assert says in user.complains("agents", "edit", *words)
    assert user.json("agents", "show", "scout") == before


def test_the_same_over_http(user: User, bench: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """V12: word by word, whoever answers"""
    steps = [
        "agents set scout --runner demo --model a", "agents edit scout --model b --unset max_cost",
        "agents edit scout -z x", "agents edit nobody --model b", "prices set house/small --input $1 --output $2",
        "rates set EUR 1.1", "rates rm EUR", "rates rm EUR", "prices rm house/small",
        "prices rm house/small", "hooks set after:run --command true", "hooks rm after:run", "limits set global 3",
        "limits", "limits rm global", "limits rm global", "agent-rules set scout --max-schedules 4",
        "agent-rules scout",
        "work-sources set t --kind tasks", "work-sources", "work-sources rm t", "threads", "agents rm scout",
    ]  # fmt: skip
    with served(bench) as client:
        told: list[list[tuple[int, str, str]]] = []
        for _ in range(2):
            results = [user.types(*step.split(), *more, code=None) for step in steps for more in ((), ("--json",))]
            told.append([(result.exit_code, result.stdout, result.stderr) for result in results])
            monkeypatch.setattr(user.app, "transport", lambda **location: client)
    assert told[0] == told[1]
    assert [code for code, _, _ in told[0]].count(0) == len(told[0]) - 4
    assert json.loads(told[0][3][1])["model"] == "b"
