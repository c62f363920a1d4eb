"""`matins prices`, `hooks`, `limits`, `work-sources`, `rules`, `threads`, and `agents edit`."""

from __future__ import annotations

import json
from textwrap import dedent
from typing import Any

import pytest
from cli_daemon import served
from cli_user import User

from matins.engine import agent_rules, prices
from matins.surfaces.cli.words import HOOK, PRICE, RULES, SOURCE
from matins.testing import Bench
from matins.work.base import KINDS


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (PRICE, prices.WORDS),
        (HOOK, ("command", "limit")),
        (RULES, agent_rules.WORDS),
        (SOURCE, ("kind", *KINDS["tasks"], *KINDS["github"])),
    ],
    ids=["price", "hook", "rules", "source"],
)
def test_every_word_has_an_option(table: Any, words: tuple[str, ...]) -> None:
    assert {word.name for word in table} == set(words)


def test_b5_prices(user: User) -> None:
    """B5: list prices, one's own, and back again"""
    listed = {item["model"]: item for item in user.json("prices")}
    assert (
        user.says("prices", "set", "gpt-5", "--input", "$1", "--output", "$8")
        == "Set the price of gpt-5: $1.00 in, $8.00 out\n"
    )
    shown = user.says("prices")
    assert shown.splitlines()[0].split() == ["MODEL", "INPUT", "OUTPUT", "CACHED"]
    assert ["gpt-5", "$1.00", "$8.00", "$1.00"] in [line.split() for line in shown.splitlines()]
    assert max(map(len, shown.splitlines())) <= 80
    assert user.says("prices", "rm", "gpt-5") == "Removed the price of gpt-5.\n"
    assert {item["model"]: item for item in user.json("prices")} == listed
    assert user.says("prices", "rm", "gpt-5") == "There was no price of gpt-5: nothing done.\n"
    assert 'A price needs "output"' in user.complains("prices", "set", "house/small", "--input", "$1")


def test_b5_rates(user: User) -> None:
    """B5: other currencies"""
    assert user.says("prices", "rate") == "CURRENCY  DOLLARS\nUSD             1\n"
    assert user.says("prices", "rate", "EUR", "1.10") == "1 EUR is $1.1\n"
    user.types("budgets", "set", "daily", "--money", "5 EUR", "--per", "day")
    assert user.json("budgets")[0]["money"] == "$5.50"
    assert user.json("prices", "rate") == [{"currency": "EUR", "usd": 1.1}, {"currency": "USD", "usd": 1.0}]
    assert user.json("prices", "rate", "EUR", "--rm") == {"removed": True}
    assert user.json("prices", "rate", "EUR", "--rm") == {"removed": False}
    assert "matins prices rate EUR 1.10" in user.complains("prices", "rate", "EUR")
    assert "is not a currency code" in user.complains("prices", "rate", "euro", "1.1")
    assert "Hint: how many dollars one of it is: 1.08" in user.complains("prices", "rate", "EUR", "0")


def test_b5_a_rate_is_removed_or_set(user: User) -> None:
    """B5: nothing is done where both are said, or nothing to remove"""
    user.types("prices", "rate", "EUR", "1.10")
    for words in (["EUR", "1.2", "--rm"], ["--rm"]):
        assert "--rm takes a currency, and no dollars" in user.complains("prices", "rate", *words)
    assert user.json("prices", "rate")[0] == {"currency": "EUR", "usd": 1.1}
    assert "[CURRENCY] [DOLLARS]" in user.says("prices", "rate", "--help")


@pytest.mark.parametrize("daemon", [False, True])
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("prices set house/small --input $1", "--output '$2'"),
        ("work-sources set w --kind github --repo foo", "--repo octo-org/garden"),
        ("work-sources set w --kind github --repo a/b --token x", "--token env:GITHUB_TOKEN"),
        ("hooks set nonsense --command true", "before:schedule:trigger, after:run"),
        ("hooks set before:schedule:trigger", "matins hooks set needs: event, command"),
        ("threads show 99", "see what there is: matins threads"),
    ],
)  # fmt: skip
def test_hints_are_what_one_types_here(user: User, bench: Bench, words: str, hint: str, daemon: bool) -> None:
    """C7: not what one writes in Python"""
    if daemon:
        with served(bench) as client:
            token = bench.create_token("ci").token
            said = user.complains("--url", client.url, "--token", token, *words.split())
    else:
        said = user.complains(*words.split())
    assert said.endswith(f"Hint: {hint}\n")


def test_hooks(user: User, bench: Bench) -> None:
    """C6: a text for the shell, or a list; both are run"""
    assert user.says("hooks").startswith("No hooks. Set one: ")
    assert (
        user.says("hooks", "set", "before:schedule:trigger", "--command", "true && exit 1")
        == "Set the hook before:schedule:trigger: true && exit 1\n"
    )
    user.types("add", "every day at 9am", "--do", "work", "-n", "s")
    user.types("run", "s")
    bench.settle()
    assert user.json("runs")[0]["reason"] == "hook"
    made = user.json("hooks", "set", "before:schedule:trigger", "--command", '["true", "a b"]', "--limit", "20s")
    assert made == {"event": "before:schedule:trigger", "command": ["true", "a b"], "limit_ms": 20_000}
    assert user.says("hooks") == dedent("""\
        EVENT                    COMMAND     LIMIT
        before:schedule:trigger  true 'a b'  20s
        """)
    assert user.says("hooks", "rm", "before:schedule:trigger") == "Removed the hook before:schedule:trigger.\n"
    assert user.json("hooks") == []
    assert 'There is no hook "sometimes"' in user.complains("hooks", "set", "sometimes", "--command", "true")


def test_limits(user: User, bench: Bench) -> None:
    """B6: and gone again, so that all may run"""
    assert user.says("limits") == "No limits. Set one: matins limits set global 4\n"
    assert user.says("limits", "set", "global", "4") == "At most 4 at once: global\n"
    assert user.json("limits", "set", "agent:scout", "2") == {"scope": "agent:scout", "size": 2, "taken": 0}
    assert user.says("limits") == dedent("""\
        SCOPE        SIZE  TAKEN
        agent:scout     2      0
        global          4      0
        """)
    assert user.says("limits", "rm", "global") == "Removed the limit global.\n"
    assert user.json("limits", "rm", "global") == {"removed": False}
    assert user.json("stats")["max_concurrent"] is None
    assert [limit.scope for limit in bench.limits()] == ["agent:scout"]
    assert '"size" must be a whole number' in user.complains("limits", "set", "global", "0")


def test_work_sources(user: User) -> None:
    """C3"""
    assert user.says("work-sources").startswith("No sources of work. Make one: ")
    made = user.says("work-sources", "set", "todo", "--kind", "github", "--repo", "ada/site", "--labels", "ready,small")
    assert made == "Set the source todo: github, ada/site\n"
    user.types("work-sources", "set", "list", "--kind", "tasks")
    assert user.says("work-sources") == dedent("""\
        NAME  KIND    WHERE       LABELS
        list  tasks   TASKS.yaml  –
        todo  github  ada/site    ready, small
        """)
    user.types("agents", "set", "scout", "--runner", "demo")
    user.types("add", "every day at 9am", "Do it", "--agent", "scout", "--work", "list", "-n", "s")
    assert '"list" gives work to s' in user.complains("work-sources", "rm", "list", code=1)
    assert user.json("work-sources", "rm", "todo") == {"removed": True}


def test_b7_rules(user: User) -> None:
    """B7: of all agents, and of one"""
    assert user.says("rules") == dedent("""\
        quota             20 schedules at once
        depth             1
        floor             every 5m at the most
        expiry            after 30d
        approval expires  after 7d
        auto one shots    no
        auto jobs         scheduled-task
        """)
    said = user.says("rules", "set", "scout", "--quota", "5", "--floor", "10m", "--auto-one-shots")
    assert said.startswith("Set the rules of the agent scout:\nquota             5 schedules at once\n")
    assert user.json("rules", "scout")["auto_one_shots"] is True
    assert user.json("rules")["quota"] == 20
    assert user.says("rules", "set", "--quota", "3").startswith("Set the rules of all agents:\n")
    assert user.json("rules", "show")["quota"] == user.json("rules", "show", "another")["quota"] == 3
    assert '"quota" must be' in user.complains("rules", "set", "scout", "--quota", "many")


def test_c4_threads(user: User, bench: Bench) -> None:
    """C4: what was said, made harmless"""
    assert user.says("threads") == "No threads yet: a run of an agent makes one.\n"
    bench.set_agent("herald", runner="message")
    user.types("add", "every day at 9am", "Good\nmorning \x1b[2J", "--agent", "herald", "-n", "hello")
    bench.run_until("2026-03-28T09:05:00Z")
    first, second = (item["id"] for item in reversed(user.json("threads")))
    assert user.says("threads") == dedent(f"""\
        THREAD  AGENT   CHANNEL  STATE    LAST
        {second}       herald  –        waiting  5m ago (09:00)
        {first}       herald  –        waiting  24h ago (Fri 09:00)
        """)
    assert user.types("threads", "--limit", "1").stderr == f"There is more: matins threads --before {second}\n"
    shown = user.says("threads", "show", first)
    assert shown.startswith("Fri 09:00 user (run 1):\n  [Scheduled Task] Good\n  morning \\x1b[2J\n")
    (message, *_) = user.json("threads", "show", first)
    assert message["thread_id"] == first
    assert "There is no thread 99" in user.complains("threads", "show", "99")
    assert '"herald" is not the number of a thread' in user.complains("threads", "show", "herald")


def test_h12_an_agent_is_edited_word_by_word(user: User) -> None:
    """H12: what is not said stays, secrets too"""
    user.types(
        "agents", "set", "scout", "--runner", "claude", "--model", "opus", "--max-cost", "$2", "--wall", "2h",
        "--environment", '{"SECRET": "hunter2", "TOKEN": "env:TOKEN"}', "--max-concurrent", "2",
    )  # fmt: skip
    assert user.says("agents", "edit", "scout", "--model", "sonnet", "--unset", "max-cost") == dedent("""\
          model: opus → sonnet
          max cost: $2.00 → none
        Changed the agent scout.
        """)
    kept = user.bench.get_agent("scout")
    assert (kept.model, kept.max_cost, kept.wall_ms, kept.provider) == ("sonnet", None, 7_200_000, "anthropic")
    assert dict(kept.environment) == {"SECRET": "hunter2", "TOKEN": "env:TOKEN"}
    assert user.json("agents", "edit", "scout", "--unset", "wall", "--runner", "codex")["provider"] == "openai"
    assert user.bench.get_agent("scout").wall_ms == 3_600_000
    assert [limit.size for limit in user.bench.limits()] == [2]
    user.types("agents", "edit", "scout", "--max-concurrent", "3")
    assert [limit.size for limit in user.bench.limits()] == [3]
    user.types("agents", "edit", "scout", "--unset", "max_concurrent")
    assert user.bench.limits() == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["scout"], "Nothing is said that should change"),
        (["nobody", "--model", "x"], 'There is no agent "nobody"'),
        (["scout", "--unset", "runner"], 'An agent needs "runner"'),
        (["scout", "--runner", "clod"], 'There is no runner "clod"'),
        (["scout", "--set", "modle=x"], 'did you mean "model"?'),
        (["scout", "--max-turns", "0"], '"max_turns" must be'),
    ],
    ids=["nothing", "nobody", "no-runner", "odd-runner", "odd-word", "odd-value"],
)
def test_a_slip_in_an_edit_changes_nothing(user: User, words: list[str], says: str) -> None:
    user.types("agents", "set", "scout", "--runner", "demo", "--model", "x")
    before = user.json("agents", "show", "scout")
    assert says in user.complains("agents", "edit", *words)
    assert user.json("agents", "show", "scout") == before


def test_the_same_over_http(user: User, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """V12: word by word, whoever answers"""
    steps = [
        "agents set scout --runner demo --model a", "agents edit scout --model b --unset max_cost",
        "agents edit scout -z x", "agents edit nobody --model b", "prices set house/small --input $1 --output $2",
        "prices rate EUR 1.1", "prices rate EUR --rm", "prices rate EUR --rm", "prices rm house/small",
        "prices rm house/small", "hooks set after:run --command true", "hooks rm after:run", "limits set global 3",
        "limits", "limits rm global", "limits rm global", "rules set scout --quota 4", "rules scout",
        "work-sources set t --kind tasks", "work-sources", "work-sources rm t", "threads", "agents rm scout",
    ]  # fmt: skip
    with served(bench) as client:
        told: list[list[tuple[int, str, str]]] = []
        for _ in range(2):
            results = [user.types(*step.split(), *more, code=None) for step in steps for more in ((), ("--json",))]
            told.append([(result.exit_code, result.stdout, result.stderr) for result in results])
            monkeypatch.setattr(user.app, "door", lambda **place: client)
    assert told[0] == told[1]
    assert [code for code, _, _ in told[0]].count(0) == len(told[0]) - 4
    assert json.loads(told[0][3][1])["model"] == "b"
