"""What every tool is put through. A case raises an AssertionError, or `Unreached` where a version cannot get there."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from real.bench import PATIENCE_S, Bench, Ran, expected_text, processes_in
from real.tools import KEY

Case = Callable[[Bench], Ran | None]
CASES: dict[str, Case] = {}
USAGE = [1200, 34, 500]
TURNS = 12
"""Turns of a run that spends, if nobody ends it."""
LARGE = 1_000_000
LONG = 200_000
_TREE_S = 20
_BY_HAND = {
    "claude": ("-p", "--output-format=json"),
    "codex": ("exec", "--json", "--skip-git-repo-check", "-"),
    "gemini": ("--output-format=json", "--skip-trust"),
    "goose": ("run", "--instructions=-", "--name=by-hand", "--model=fake-model"),
    "opencode": ("run", "--format=json"),
    "qwen": ("--output-format=json",),
}
_LISTS = {
    "claude": ("mcp", "list"),
    "codex": ("mcp", "list"),
    "gemini": ("mcp", "list"),
    "goose": ("info", "-v"),
    "opencode": ("mcp", "list"),
}
"""How a tool of `matins mcp install` tells its servers."""
_CONNECTS = {"claude", "opencode"}
"""Tools that connect to a server before they list it."""
_SESSION_KEYS = ("session_id", "thread_id", "sessionID")
_PRICED = {"claude", "opencode"}
"""Tools that tell money themselves; the price table has that of the others."""


class Unreached(Exception):  # noqa: N818
    """This version of the tool cannot do it, and why."""


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def check(holds: bool, ran: Ran, what: str) -> None:
    if not holds:
        told = {"state": ran.state, "reason": ran.reason, "error": ran.error, "tokens": ran.tokens}
        raise AssertionError(f"{what}: {told}, text {ran.text[:200]!r}, billed {ran.billed()}")


def succeeded(ran: Ran, text: str) -> None:
    check(ran.state == "succeeded", ran, "it did not succeed")
    check(ran.text == text, ran, f"its text is not {text[:80]!r}")


# -- what it says, and what it costs


@case
def plain(bench: Bench) -> Ran:
    """Text, session, tokens and money exactly as the endpoint told."""
    bench.agent("plain")
    ran = bench.run("plain", {"say": "All wet.", "usage": USAGE})
    succeeded(ran, "All wet.")
    check(bool(ran.result["session"]), ran, "it names no session")
    check(ran.tokens == ran.billed(), ran, "its tokens are not those of the endpoint")
    if bench.tool.name not in _PRICED:
        fresh, out, cached = ran.billed()
        check(ran.money == round((fresh + 10 * out + 0.1 * cached), 6) / 1e6, ran, f"its money is {ran.money}")
    check(ran.money > 0, ran, "it has no money")
    return ran


@case
def resume(bench: Bench) -> Ran:
    """Equal wakes in one session: the endpoint receives the earlier turns, and each costs the same."""
    bench.agent("resume")
    target = {"kind": "channel", "channel": "garden"}
    rans = [bench.run("resume", {"say": "All wet.", "usage": USAGE}, target=target) for _ in range(3)]
    for ran in rans:
        succeeded(ran, "All wet.")
        check(ran.result["session"] == rans[0].result["session"], ran, "it is another session")
        check(ran.tokens == ran.billed(), ran, "its tokens are not those of this run alone")
    said = max((one.asked.said for one in rans[2].requests if one.asked), key=len)
    check(sum("Water the plants." in text for role, text in said if role == "user") >= 3, rans[2], "earlier turns lack")
    if bench.tool.name in _PRICED:
        costs = {round(ran.money, 6) for ran in rans}
        check(len(costs) == 1, rans[2], f"equal wakes cost {sorted(costs)}")
    return rans[2]


@case
def begun_by_hand(bench: Bench) -> Ran:
    """A session that a person began: only what the run itself spends is booked."""
    bench.agent("begun_by_hand")
    wish = json.dumps({"id": "by-hand", "say": "Begun.", "usage": USAGE})
    told = bench.by_hand("begun_by_hand", *_BY_HAND[bench.tool.name], prompt=f"Hello. [[fake {wish}]]")
    session = "by-hand" if bench.tool.name == "goose" else _session_in(told)
    target = {"kind": "session", "session": session}
    ran = bench.run("begun_by_hand", {"say": "Gone on.", "usage": USAGE}, target=target)
    succeeded(ran, "Gone on.")
    said = max((one.asked.said for one in ran.requests if one.asked), key=len)
    check(any("Hello." in text for _, text in said), ran, "the earlier turn lacks")
    check(ran.tokens == ran.billed(), ran, "its tokens are not those of this run alone")
    if bench.tool.name == "claude":
        alone = bench.run("begun_by_hand", {"say": "Alone.", "usage": USAGE}, name="alone")
        check(ran.money == alone.money, ran, f"it cost {ran.money}, a run alone {alone.money}")
    return ran


@case
def tool_call(bench: Bench) -> Ran:
    """A tool of the agent writes a file into the workdir."""
    bench.agent("tool_call")
    path = bench.workdir("tool_call") / "greeting.txt"
    wish = {"tool": "write", "path": str(path), "content": "good morning", "say": "Written.", "usage": USAGE}
    ran = bench.run("tool_call", wish)
    succeeded(ran, "Written.")
    check(path.exists() and path.read_text().strip() == "good morning", ran, "the file is not there")
    check(ran.tokens == ran.billed(), ran, "its tokens are not those of the endpoint")
    return ran


@case
def schedules_itself(bench: Bench) -> Ran:
    """C13 P4 B7: with the server that its runner gave it, the agent lists, proposes, is told that it waits, asks why
    and reports; the proposal is stamped with its run, waits for a person, and the workdir is as it was. The answer
    passes the link on, and the run's token opens nothing afterwards."""
    bench.agent("schedules_itself")
    before = sorted(path.name for path in bench.workdir("schedules_itself").iterdir())
    calls = [
        {"wanted": "list_schedules", "arguments": {"mine": True}},
        {
            "wanted": "create_schedule",
            "arguments": {"when": "every day at 7am", "prompt": "Look again.", "name": "again"},
        },
        {"wanted": "why", "arguments": {"name": "again"}},
        {"wanted": "report_outcome", "arguments": {"outcome": "nothing", "reason": "no news"}},
    ]
    ran = bench.run("schedules_itself", {"tool": "mcp", "calls": calls, "say": "Approve it: {link}"})
    (approval,) = bench.house.ask("approvals.list")
    succeeded(ran, f"Approve it: {bench.house.url}/approvals/{approval['id']}")
    told = "\n".join(text for one in ran.requests if one.asked for role, text in one.asked.said if role == "tool")
    check("/approvals/" in told and "waits for a person" in told, ran, f"it was not told that it waits: {told[-500:]}")
    check("needs approval" in told, ran, "it was not told why")
    made = bench.house.ask("schedules.get", name="again")
    stamp = made["creator_role"], made["creator_run"], made["state"]
    check(stamp == ("agent", ran.document["id"], "pending"), ran, f"the proposal is not its own: {stamp}")
    check(ran.result["declared"] == "nothing", ran, "its report does not count")
    after = sorted(path.name for path in bench.workdir("schedules_itself").iterdir())
    check(before == after, ran, f"the workdir has changed: {after}")
    check(
        made["creator_run"] in bench.token_of(ran) and bench.mcp_status(bench.token_of(ran)) == 401, ran, "it is open"
    )
    return ran


@case
def at_a_keyboard(bench: Bench) -> None:
    """`matins mcp install`: the tool itself lists the server, twice changes nothing, and `--remove` takes it away."""
    name, case = bench.tool.name, "at_a_keyboard"
    if name not in _LISTS:
        raise Unreached("matins mcp install does not write its settings")
    install = ("mcp", "install", name)
    assert "--client=" not in bench.lists(case, *_LISTS[name])
    found = bench.matins(case, *install)
    assert (found["changed"], len(found["tools"])) == (True, 13), found
    assert not bench.matins(case, *install)["changed"]
    listed = bench.lists(case, *_LISTS[name])
    assert f"--client={name}" in listed, listed
    line = next(line for line in listed.splitlines() if "matins" in line)
    assert name not in _CONNECTS or "connected" in line.lower(), listed
    if name != "goose":  # it cannot read a token from a variable
        found = bench.matins(case, *install, "--http")
        token = Path(found["token_file"]).read_text().strip()
        listed = bench.lists(case, *_LISTS[name], MATINS_MCP_TOKEN=token)
        line = next(line for line in listed.splitlines() if "matins" in line)
        assert name not in _CONNECTS or "connected" in line.lower(), listed
        assert "--client=" not in listed, listed
    assert bench.matins(case, *install, "--remove")["changed"]
    assert f"{bench.house.url}/mcp" not in bench.lists(case, *_LISTS[name])


@case
def own_sandbox(bench: Bench) -> Ran:
    """B16: the tool's own sandbox works inside Matins' isolation, and refuses what Matins would allow."""
    if bench.tool.name not in ("claude", "codex"):
        raise Unreached("it has no sandbox of its own on Linux that works without a container")
    bench.agent("own_sandbox", isolation="required")
    inside, outside = bench.workdir("own_sandbox") / "inside", bench.workdir("beside_own_sandbox") / "outside"
    sandbox = {"enabled": True, "failIfUnavailable": True, "allowUnsandboxedCommands": False}
    bench.write(inside.with_name(".claude") / "settings.json", json.dumps({"sandbox": sandbox}))
    wish = {"tool": "shell", "command": f"echo in > {inside}; echo out > {outside}; true", "say": "Tried."}
    ran = bench.run("own_sandbox", wish)
    succeeded(ran, "Tried.")
    check(ran.document["outcome"]["result"]["isolated"] is True, ran, "it is not isolated")
    check(inside.exists(), ran, "the command did not run")
    check(not outside.exists(), ran, "its sandbox let it write outside")
    return ran


@case
def environment(bench: Bench) -> Ran:
    """The agent's variables and the few that it inherits; nothing of the daemon, and no marks of nesting."""
    bench.agent("environment", environment={"FLOWER": "rose"})
    path = bench.workdir("environment") / "environment.txt"
    ran = bench.run("environment", {"tool": "shell", "command": f"env > {path}", "say": "Seen."})
    succeeded(ran, "Seen.")
    check(path.exists(), ran, "the command did not run")
    seen = dict(line.partition("=")[::2] for line in path.read_text().splitlines() if "=" in line)
    check(seen.get("FLOWER") == "rose" and seen.get("HOME") == str(bench.home), ran, "its own variables lack")
    leaked = {"SECRET_OF_OURS", "MATINS_HOME", "FAKE_KEY"} & set(seen)
    check(not leaked, ran, f"it sees {sorted(leaked)}")
    return ran


@case
def secrets(bench: Bench) -> Ran:
    """The key reaches the endpoint, and is in no output."""
    bench.agent("secrets")
    ran = bench.run("secrets", {"say": f"The key is {KEY}, is it not?"})
    check(ran.state == "succeeded", ran, "it did not succeed")
    check(any(KEY in one.key for one in ran.requests), ran, "the key did not come")
    check(KEY not in ran.text and KEY.encode() not in ran.output(".out") + ran.output(".err"), ran, "the key is told")
    return ran


# -- providers that refuse


@case
def rate_limit(bench: Bench) -> Ran:
    """429 without a reset time: the run waits for a minute at least, and is no failure."""
    bench.agent("rate_limit", idle_timeout=bench.silence)
    ran = bench.run("rate_limit", {"status": 429})
    _throttled(ran)
    check(_wait_s(ran) >= 30, ran, f"it waits {_wait_s(ran)} s only")
    return ran


@case
def rate_limit_until(bench: Bench) -> Ran:
    """A limit whose end is told, in the way that the tool's provider tells it."""
    # With a key, claude does not tell the end; with a subscription it does.
    subscribed = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "env:FAKE_KEY"}
    environment = subscribed if bench.tool.name == "claude" else None
    bench.agent("rate_limit_until", idle_timeout=bench.silence, environment=environment)
    hour = int(time.time()) + 7_200
    wish = {"codex": {"kind": "plan", "reset": hour}, "gemini": {"kind": "day"}}.get(
        bench.tool.name, {"retry_after": 3_600, "reset": hour}
    )
    ran = bench.run("rate_limit_until", {"status": 429, **wish})
    _throttled(ran)
    if bench.tool.name in ("codex", "claude", "opencode"):
        check(3_000 <= _wait_s(ran) <= 7_300, ran, f"it waits {_wait_s(ran)} s")
    return ran


@case
def server_error(bench: Bench) -> Ran:
    """5xx defers the run: the provider has a problem, not the agent."""
    bench.agent("server_error", idle_timeout=bench.silence)
    ran = bench.run("server_error", {"status": 500})
    check(ran.state == "waiting", ran, "it is not deferred")
    check(_wait_s(ran) >= 20, ran, f"it waits {_wait_s(ran)} s only")
    return ran


@case
def overloaded(bench: Bench) -> Ran:
    bench.agent("overloaded", idle_timeout=bench.silence)
    ran = bench.run("overloaded", {"status": 503 if bench.tool.name == "gemini" else 529})
    check(ran.state == "waiting", ran, "it is not deferred")
    return ran


@case
def unauthorized(bench: Bench) -> Ran:
    """401 is no failure of the agent: one cause for all schedules with this login, whose runs wait for a person."""
    bench.agent("unauthorized", idle_timeout=bench.silence)
    ran = bench.run("unauthorized", {"status": 401}, pause_after_failures=1)
    _throttled(ran)
    words = ("401", "api key", "authenti", "unauthori", "x-api-key")
    check(any(word in ran.error.lower() for word in words), ran, "the reason lacks")
    second = bench.run("unauthorized", {"status": 401}, name="unauthorized-too", pause_after_failures=1)
    check((second.state, second.reason) == ("waiting", "throttled"), second, "it does not wait for the login")
    check(not second.requests, second, "the provider was asked although no person logged in")
    for name in ("unauthorized", "unauthorized-too"):
        found = bench.house.ask("schedules.get", name=name)
        check((found["state"], found["failures"]) == ("active", 0), ran, f"{name} is {found['state']}")
    opened = _incidents(bench, "provider-of-unauthorized")
    check([one["kind"] for one in opened] == ["login"], ran, f"people hear of {opened}")
    check("refuses the login" in opened[0]["summary"], ran, f"it says {opened[0]['summary']!r}")
    return ran


@case
def refused(bench: Bench) -> Ran:
    """Nobody listens: the reason survives, also when a limit of ours ends the run."""
    environment = {
        name: text.replace(bench.server.url, "http://127.0.0.1:9") for name, text in bench.environment().items()
    }
    codex = {"arguments": ["-c", 'model_providers.fake.base_url="http://127.0.0.1:9/v1"']}
    more = codex if bench.tool.name == "codex" else {}
    bench.agent("refused", idle_timeout=bench.silence, environment=environment, **more)
    ran = bench.run("refused")
    check(ran.state in ("failed", "waiting"), ran, "it is neither failed nor deferred")
    words = ("refused", "connect", "network", "unreachable", "fetch failed", "no answer", "error sending request")
    check(any(word in ran.error.lower() for word in words), ran, "the reason lacks")
    return ran


@case
def cut(bench: Bench) -> Ran:
    """A stream that ends in the middle, whenever it is tried."""
    bench.agent("cut", idle_timeout=bench.silence)
    ran = bench.run("cut", {"cut": True, "say": "This text is cut somewhere in its middle.", "pieces": 8})
    check(ran.state in ("failed", "waiting"), ran, "it is neither failed nor deferred")
    check(bool(ran.error), ran, "the reason lacks")
    return ran


# -- limits of ours


@case
def time_limit(bench: Bench) -> Ran:
    """A provider that never answers: the time limit ends the tool, and its whole tree."""
    bench.agent("time_limit", timeout=bench.silence)
    ran = bench.run("time_limit", {"hang": True})
    check(ran.state == "failed" and ran.reason == "timed_out", ran, "the time limit did not end it")
    _tree_gone(bench, "time_limit", ran)
    return ran


@case
def cancel(bench: Bench) -> Ran:
    bench.agent("cancel")
    run_id = bench.begin("cancel", {"hang": True})
    assert bench.server.await_request("cancel", PATIENCE_S), "it never asked the endpoint"
    bench.house.ask("runs.cancel", run_id=run_id)
    ran = bench.finish(run_id, "cancel")
    check(ran.state == "cancelled", ran, "it is not cancelled")
    _tree_gone(bench, "cancel", ran)
    return ran


@case
def token_budget(bench: Bench) -> Ran:
    """A run that uses more tokens than it may is ended while it goes on."""
    bench.agent("token_budget")
    return _spends(bench, "token_budget", max_tokens=10_000)


@case
def money_budget(bench: Bench) -> Ran:
    """The tools report a cost of their own: $0.005 for each turn of opencode, which asks for a title besides.

    What goose spent is looked up every 5 s, in which it takes several turns."""
    bench.agent("money_budget")
    limits = {"claude": "$0.04", "opencode": "$0.01", "goose": "$0.01"}
    return _spends(bench, "money_budget", max_cost=limits.get(bench.tool.name, "$0.02"))


@case
def background(bench: Bench) -> Ran:
    """A command that is left behind does not hold the run, and is ended with it."""
    bench.agent("background", exit_timeout="4s")
    began = time.monotonic()
    # Gemini waits for whoever holds the output of its shell, as a person would want it to.
    command = f"sleep 600{' > /dev/null 2>&1' if bench.tool.name in ('gemini', 'opencode') else ''} & echo begun"
    ran = bench.run("background", {"tool": "shell", "command": command, "say": "Left one."})
    succeeded(ran, "Left one.")
    check(time.monotonic() - began < 120, ran, "the command held it")
    _tree_gone(bench, "background", ran)
    return ran


@case
def kill_and_adopt(bench: Bench) -> Ran:
    """kill -9 of the engine while the tool speaks: the next engine adopts the run and reads its end."""
    bench.agent("kill_and_adopt")
    wish = {"say": "Spoken slowly, from the first word to the last.", "slow": 2, "pieces": 8, "usage": USAGE}
    run_id = bench.begin("kill_and_adopt", wish)
    assert bench.server.await_request("kill_and_adopt", PATIENCE_S), "it never asked the endpoint"
    bench.kill_and_restart()
    ran = bench.finish(run_id, "kill_and_adopt")
    succeeded(ran, expected_text(wish))
    check(ran.document["epoch"] == 1, ran, "it was begun again")
    check(ran.tokens == ran.billed(), ran, "its tokens are not those of the endpoint")
    return ran


# -- what goes in, what comes out


@case
def long_prompt(bench: Bench) -> Ran:
    bench.agent("long_prompt")
    prompt = "".join(f"Line {n} of a long letter.\n" for n in range(LONG // 26))
    ran = bench.run("long_prompt", {"say": "Read."}, prompt=prompt)
    succeeded(ran, "Read.")
    longest = max(len(text) for one in ran.requests if one.asked for _, text in one.asked.said)
    check(longest >= len(prompt), ran, f"only {longest} of {len(prompt)} characters came")
    return ran


@case
def odd_prompts(bench: Bench) -> Ran:
    """Prompts that look like options, commands or files are words."""
    bench.agent("odd_prompts")
    bench.write(bench.workdir("odd_prompts") / "notes.txt", "the content of notes\n")
    for number, prompt in enumerate(("-p --help", "/help", "@notes.txt", "!ls", "- one\n- two")):
        name = f"odd-{number}"
        ran = bench.run("odd_prompts", {"say": f"Answer {number}."}, prompt=prompt, name=name)
        succeeded(ran, f"Answer {number}.")
        check(
            any(prompt in text for one in ran.requests if one.asked for _, text in one.asked.said),
            ran,
            f"{prompt!r} did not come as it is",
        )
    return ran


@case
def large_answer(bench: Bench) -> Ran:
    """A megabyte: what is kept and what was cut is said."""
    bench.agent("large_answer")
    wish = {"big": LARGE, "pieces": 50}
    ran = bench.run("large_answer", wish)
    check(ran.state == "succeeded", ran, "it did not succeed")
    whole = expected_text(wish)
    check(
        ran.result["text_length"] == len(whole),
        ran,
        f"it tells {ran.result.get('text_length')} of {len(whole)} characters",
    )
    check(0 < len(ran.text) < len(whole), ran, "what is kept is not bounded")
    return ran


@case
def three_at_once(bench: Bench) -> Ran:
    bench.agent("three_at_once")
    with ThreadPoolExecutor(3) as pool:
        names = [f"at-once-{n}" for n in range(3)]
        rans = list(
            pool.map(
                lambda name: bench.run("three_at_once", {"say": f"I am {name}.", "usage": USAGE}, name=name), names
            )
        )
    for name, ran in zip(names, rans, strict=True):
        succeeded(ran, f"I am {name}.")
        check(ran.tokens == ran.billed(), ran, "its tokens are not its own")
    check(len({ran.result["session"] for ran in rans}) == 3, rans[0], "they share a session")
    return rans[0]


@case
def denied(bench: Bench) -> Ran:
    """What the tool was not allowed is told, and a run whose only purpose was denied is no plain success."""
    modes = {"gemini": "default", "qwen": "default", "claude": "default", "codex": "read-only"}
    if bench.tool.name == "goose":
        raise Unreached("its modes that deny ask a person, and are refused for unattended runs")
    if bench.tool.name in ("gemini", "qwen"):
        raise Unreached("unattended, it offers its model no tool that it would have to ask for")
    environment = None
    if bench.tool.name == "opencode":
        config = json.loads(bench.environment()["OPENCODE_CONFIG_CONTENT"])
        asks = json.dumps({**config, "permission": {"bash": "ask", "edit": "ask"}})
        environment = {"OPENCODE_CONFIG_CONTENT": asks}
    mode = modes.get(bench.tool.name)
    bench.agent("denied", permissive=False, environment=environment, **({"permission_mode": mode} if mode else {}))
    path = bench.workdir("denied") / "forbidden.txt"
    wish = {"tool": "write", "path": str(path), "content": "no\n"}
    if bench.tool.name == "codex":  # its sandbox lets a command fail, and its rules reject some
        wish = {"tool": "shell", "command": f"rm -rf {path}"}
    ran = bench.run("denied", {**wish, "say": "I could not."})
    check(not path.exists(), ran, "it was written")
    check(bool(ran.result["denials"]), ran, "the denial is not told")
    check(ran.state == "failed" and "denied: " in ran.error, ran, "it wanted nothing else, and succeeded")
    return ran


@case
def loop(bench: Bench) -> Ran:
    """A model that repeats itself: a tool that stops itself there has not succeeded."""
    bench.agent("loop")
    ran = bench.run("loop", {"say": "again and again and again and again and so on. ", "repeat": 60})
    if ran.state == "succeeded":
        check(bool(ran.text), ran, "a success with an empty text")
    return ran


@case
def session_gone(bench: Bench) -> Ran:
    """A session that the tool does not know is no failure: the target is gone."""
    bench.agent("session_gone")
    unknown = {"opencode": "ses_00000000000000000000000000", "goose": "never-begun"}
    session = unknown.get(bench.tool.name, "00000000-0000-4000-8000-00000000dead")
    target = {"kind": "session", "session": session}
    ran = bench.run("session_gone", {"say": "Nobody."}, target=target, fallback="skip")
    check(ran.state == "skipped" and ran.reason == "target_gone", ran, "it is not gone")
    return ran


@case
def logs(bench: Bench) -> Ran:
    """`matins logs` shows streamed pieces as one text."""
    bench.agent("logs")
    ran = bench.run("logs", {"say": "Roses are red,\nviolets are blue.", "pieces": 9})
    shown = bench.house.matins("logs", str(ran.document["id"]))
    check("Roses are red,\nviolets are blue." in shown, ran, f"logs shows {shown[:300]!r}")
    return ran


# -- parts


def _session_in(told: str) -> str:
    for line in told.replace("[", "\n").splitlines():
        for key in _SESSION_KEYS:
            if f'"{key}":' in line:
                return line.partition(f'"{key}":')[2].split('"')[1]
    raise AssertionError(f"no session in {told[:300]!r}")


def _throttled(ran: Ran) -> None:
    check(ran.state == "waiting" and ran.reason == "throttled", ran, "it does not wait for its provider")
    check(bool(ran.error), ran, "the reason lacks")


def _wait_s(ran: Ran) -> float:
    at = ran.document["not_before"]
    return (datetime.fromisoformat(at) - datetime.now(UTC)).total_seconds() if at else 0.0


def _spends(bench: Bench, name: str, **limit: object) -> Ran:
    wish = {
        "tool": "shell",
        "command": "sleep 1; echo spent",
        "turns": TURNS,
        "usage": [4_000, 100, 0],
        "say": "Spent.",
    }
    ran = bench.run(name, wish, **limit)
    check(ran.state == "over_budget", ran, "it was not ended")
    check(len(ran.requests) <= TURNS // 2, ran, f"it was ended after {len(ran.requests)} requests")
    check(abs(sum(ran.tokens) - sum(ran.billed())) <= 2 * 4_100, ran, "its tokens are far from those of the endpoint")
    return ran


def _incidents(bench: Bench, provider: str) -> list[dict[str, Any]]:
    """The incidents about a provider, when there are any."""
    until = time.monotonic() + PATIENCE_S
    while True:
        found = [one for one in bench.house.ask("incidents.list") if f'"{provider}"' in one["summary"]]
        if found or time.monotonic() > until:
            return found
        time.sleep(0.2)


def _tree_gone(bench: Bench, name: str, ran: Ran) -> None:
    folder: Path = bench.workdir(name)
    until = time.monotonic() + _TREE_S
    while (left := processes_in(folder)) and time.monotonic() < until:
        time.sleep(0.2)
    check(not left, ran, f"processes are left: {left}")
