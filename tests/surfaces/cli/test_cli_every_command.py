"""Every command of docs/cli.md against one daemon in which something failed, waits, runs, is paused and is throttled:
as text and as JSON, at 80 columns and in a pipe."""

from __future__ import annotations

import atexit
import json
import os
import pty
import re
import shlex
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from click.testing import CliRunner, Result

from house import PATIENCE_S, House
from matins.app import App
from matins.surfaces.cli import cli

FILE = """\
schedules:
  from-file:
    when: every day at 4am
    job: message
    prompt: Good morning
"""
CRONTAB = "0 9 * * 1-5 /usr/local/bin/report.sh --all\n"
LONG = "the registry answered 503, and then it closed the connection without another word about what it wants"


class Typed(NamedTuple):
    words: str
    """What follows `matins`; names in braces are filled in for each call."""
    code: int = 0
    free: bool = False
    """Whether the lines are for copying or are another program's, and so may be wider than the terminal."""
    typed: str = ""


# Each command with what a person types. The same command by its noun (`schedules list`) is typed once.
COMMANDS = [
    Typed("add 'every weekday at 9am' -n added-{n} --job message 'Good morning, everybody'"),
    Typed("add 'every day at 9am' --agent demo -n dry --dry-run Hello"),
    Typed("list"), Typed("list --tab attention --sort next"), Typed("list --text nothing-has-this"),
    Typed("show breaks"), Typed("show rests"), Typed("show slow"), Typed("show from-file"), Typed("show chain"),
    Typed("edit busy --retries {n}"), Typed("edit breaks --dry-run --when 'every day at 5am'"),
    Typed("pause slow --until 2h --note 'the disk is full'"), Typed("resume slow"),
    Typed("rename added-{n} renamed-{n}"), Typed("schedules rename renamed-{n} added-{n}"), Typed("rm added-{n}"),
    Typed("undelete added-{n}"), Typed("rm added-{n}"), Typed("schedules undelete added-{n}"), Typed("rm added-{n}"),
    Typed("diff {failed} {running}"), Typed("runs diff {failed} {running}"),
    Typed("next"), Typed("next 'every 2 weeks on friday at 17:30'"),
    Typed("preview busy"), Typed("preview rests"), Typed("preview breaks --when 'every day at noon'"),
    Typed("preview breaks --catch-up-since {yesterday}"),
    Typed("jobs"), Typed("jobs message"),
    Typed("missions make trip-{n} --step 'Pack @demo: Pack it' --step 'Go (after Pack) @demo'"),
    Typed("missions list"), Typed("missions show chain"), Typed("missions draft trip-{n}"),
    Typed("missions abort trip-{n}"), Typed("missions delete trip-{n}"),
    Typed("why breaks"), Typed("why busy"), Typed("why slow"), Typed("why rests"), Typed("why asks"),
    Typed("why breaks --at {yesterday}"),
    Typed("run sends --wait"), Typed("run breaks --wait", code=5), Typed("run asks --wait", code=8),
    Typed("runs list"), Typed("runs list breaks"), Typed("runs list --since {yesterday} --state failed"),
    Typed("search breaks"), Typed("search 503 registry --limit 5"), Typed("logs --grep 503"),
    Typed("runs show {failed}"), Typed("runs show {running}"), Typed("runs show {chain}"), Typed("runs show {waiting}"),
    Typed("runs show {throttled}"),
    Typed("logs {running}"), Typed("logs breaks"), Typed("logs {failed} --stderr"), Typed("logs {failed} --raw"),
    Typed("edit reviews --description 'seen {n} times'"), Typed("history reviews"), Typed("undo reviews --yes"),
    Typed("backfill daily --from {day} --to {day} --dry-run"), Typed("backfills list"),
    Typed("backfills show {backfill}"), Typed("backfills pause {backfill}"), Typed("backfills resume {paused}"),
    Typed("backfills cancel {backfill}"),
    Typed("pings url daily", code=1), Typed("pings rotate daily", code=1), Typed("pings send daily fail", code=1),
    Typed("nodes list"), Typed("nodes cordon {node} --note 'new driver'"), Typed("nodes open {node}"),
    Typed("nodes drain nowhere", code=2),
    Typed("calendars set closed --dates 12-25"), Typed("calendars edit closed --dates 12-2{n}"),
    Typed("calendars list"), Typed("calendars show closed"), Typed("calendars rm closed"),
    Typed("temporal set main --address 127.0.0.1:7233"), Typed("temporal edit main --namespace team-{n}"),
    Typed("temporal list"), Typed("temporal show main"), Typed("temporal rm main"),
    Typed("cancel {new_waiting}"), Typed("retry {failed}"), Typed("resolve {failed} succeeded", code=1),
    Typed("report done", code=1), Typed("context"),
    Typed("calls list"), Typed("calls show {call}"), Typed("calls replay {call}"),
    Typed("approvals list"), Typed("approvals show {approval}"),
    Typed("approve {new_approval} --yes"), Typed("deny {new_approval} --yes --note 'not today'"),
    Typed("agents set scout --runner demo --max-cost '$2'"), Typed("agents edit scout --max-turns {n}"),
    Typed("agents rename scout scout-{n}"), Typed("agents rename scout-{n} scout"),
    Typed("agents show scout"), Typed("agents list"), Typed("agents rm scout"),
    Typed("agent-rules set --max-schedules 5"), Typed("agent-rules edit --max-schedules {n}"),
    Typed("agent-rules list"), Typed("agent-rules show"), Typed("agent-rules rm"),
    Typed("allowed-hosts set models.lan:8080"), Typed("allowed-hosts show"), Typed("allowed-hosts rm"),
    Typed("budgets set daily --max-cost '$5' --period day"), Typed("budgets edit daily --max-cost '$7'"),
    Typed("budgets list"), Typed("budgets show daily"), Typed("budgets rm daily"),
    Typed("chat set slack --token env:MATINS_NO_TOKEN --signing-secret env:MATINS_NO_SECRET"),
    Typed("chat edit slack --admin C{n}"), Typed("chat list"), Typed("chat show slack"), Typed("chat rm slack"),
    Typed("destinations set phone --kind webhook --url https://example.invalid/x"),
    Typed("destinations edit phone --max-per-hour {n}"), Typed("destinations list"), Typed("destinations show phone"),
    Typed("notify set --to phone"), Typed("notify edit --on failed", free=True), Typed("notify show"),
    Typed("notify test", code=1), Typed("notify rm"), Typed("deliver set --to phone"), Typed("deliver edit --if news"),
    Typed("deliver show"), Typed("runs deliver {failed} --to phone"), Typed("deliver rm"),
    Typed("runs erase {chain} --yes"),
    Typed("destinations rm phone"),
    Typed("heartbeat set https://example.invalid/beat"), Typed("heartbeat show"), Typed("heartbeat rm"),
    Typed("hooks set after:run --command true"), Typed("hooks edit after:run --timeout {n}s"), Typed("hooks list"),
    Typed("hooks show after:run"), Typed("hooks rm after:run"),
    Typed("http-server set --max-connections 200"), Typed("http-server edit --header-timeout 1{n}s"),
    Typed("http-server show"), Typed("http-server rm"),
    Typed("inbound set other --kind github --secret env:GH_SECRET"), Typed("inbound edit other --max-per-minute {n}"),
    Typed("inbound list"), Typed("inbound show prs"), Typed("inbound calls"),
    Typed("inbound test prs --body {body}", free=True), Typed("inbound replay {call}"), Typed("inbound rm other"),
    Typed("inbound-listen set 127.0.0.1:{port}"), Typed("inbound-listen show"), Typed("inbound-listen rm"),
    Typed("limits set global 40"), Typed("limits list"), Typed("limits show global"), Typed("limits rm global"),
    Typed("people set ada{n} --role operator"), Typed("people edit ada{n} --email ada{n}@example.org"),
    Typed("people list"),
    Typed("people show ada{n}"), Typed("people link ada{n} telegram", code=1), Typed("login ada{n}", free=True),
    Typed("people grant ada{n} --label team=ops"), Typed("people invite bo{n}@example.org", free=True),
    Typed("people leave bo{n}"), Typed("people rm ada{n}"),
    Typed("sign-in set --issuer https://accounts.example.com --client-id matins"),
    Typed("sign-in edit --domains example.org"), Typed("sign-in show"), Typed("sign-in rm"),
    Typed("prices set house/small --input '$1' --output '$2'"), Typed("prices edit house/small --input '${n}'"),
    Typed("prices list"), Typed("prices show house/small"), Typed("prices rm house/small"),
    Typed("quiet-hours set night --windows 22:00-06:00"), Typed("quiet-hours edit night --windows 1{n}:00-06:00"),
    Typed("quiet-hours list"), Typed("quiet-hours show night"), Typed("quiet-hours rm night"),
    Typed("rates set EUR 1.1"), Typed("rates list"), Typed("rates show EUR"), Typed("rates rm EUR"),
    Typed("smtp set --host mail.example.com --sender m@example.com"), Typed("smtp edit --port 2{n}"),
    Typed("smtp show"), Typed("smtp rm"),
    Typed("threads list"), Typed("threads show {thread}"), Typed("threads reply {thread} 'And now?'"),
    Typed("throttles set other --resets-at 2h --reason 'weekly limit'"), Typed("throttles edit other --resets-at 3h"),
    Typed("throttles list"), Typed("throttles show busy"), Typed("throttles rm other"),
    Typed("webhooks add hook-{n} https://example.invalid/hook --types run.failed", free=True),
    Typed("webhooks set set-{n} --url https://example.invalid/hook --secret env:GH_SECRET", free=True),
    Typed("webhooks edit hook-{n} --types run.failed,run.succeeded"), Typed("webhooks list"),
    Typed("webhooks show hook-{n}"), Typed("webhooks deliveries hook-{n}"), Typed("webhooks pause hook-{n}"),
    Typed("webhooks redeliver hook-{n} 1"), Typed("webhooks resume hook-{n}"), Typed("webhooks rm hook-{n}"),
    Typed("work-sources set todo --kind tasks"), Typed("work-sources edit todo --path T{n}.yaml"),
    Typed("work-sources list"), Typed("work-sources show todo"), Typed("work-sources rm todo"),
    Typed("status"),
    Typed("incidents list"), Typed("incidents list --all"), Typed("incidents show {incident}"),
    Typed("ack {incident}"),
    Typed("events list"), Typed("events list --type run.failed --schedule breaks"),
    Typed("stats"), Typed("spend"), Typed("spend --label team=ops --since 7d"),
    Typed("doctor", code=-1), Typed("audit verify"), Typed("audit seal", code=-1),
    Typed("plan", free=True), Typed("apply", free=True), Typed("schema", free=True),  # with the path of the file
    Typed("import crontab {crontab} --isolation none", free=True),
    Typed("import crontab - --isolation none", typed=CRONTAB, free=True),
    Typed("import cortex {nothing}", code=2), Typed("import corvid {nothing}", code=2),
    Typed("import herdctl {nothing}", code=2), Typed("import polpo {nothing}", code=2),
    Typed("import syris {nothing}", code=2), Typed("import hermes {nothing}", code=2),
    Typed("import openclaw {nothing}", code=2), Typed("import systemd {nothing}", free=True),
    Typed("import github-actions {nothing}", free=True), Typed("worker", free=True),
    Typed("init --isolation none", code=1), Typed("up", code=1), Typed("demo", code=1),
    Typed("mcp install claude --dry-run", free=True), Typed("mcp serve", free=True),
    Typed("tokens create ci-{n} --role viewer", free=True), Typed("tokens list"), Typed("tokens revoke {token}"),
    Typed("sessions list"), Typed("sessions revoke nobody"),
    Typed("export", free=True), Typed("export label.team=none", free=True),
    Typed("promote sqlite:///{copy}.moved", 1, free=True),
    Typed("backup {copy}", free=True), Typed("service install --print", free=True),
    Typed("service rm matins", code=2),  # of a machine that may have one: it is only refused here
    Typed("call system.whoami", free=True), Typed("call runs.list state=failed", free=True),
    Typed("completion bash", free=True),
    Typed(""),
]  # fmt: skip


class ClosingApp(App):
    """A process closes its connections by ending; here, the test does."""

    def __init__(self, end: ExitStack) -> None:
        self._end = end

    def transport(self, *location: Any, **named: Any) -> Any:
        made = super().transport(*location, **named)
        self._end.callback(getattr(made, "close", lambda: None))
        return made


class World:
    """The daemon, and what the commands name in it."""

    def __init__(self, house: House, folder: Path) -> None:
        self.house = house
        self.folder = folder
        self.names: dict[str, Any] = {}
        self.count = 0
        self.form = 0
        """Which of the forms is typed: what one added, another does not find."""

    def furnish(self) -> None:
        house, client = self.house, self.house.client
        house.shell("breaks", f"echo '{LONG}' >&2; exit 3")
        house.shell("slow", "echo begun; exec sleep 1000", timeout="1h", idle_timeout="1h")
        house.shell("busy", "true", provider="busy")
        for name in ("rests", "asks", "sends"):
            house.ask("schedules.add", name=name, when="every 1 day", job="message", prompt=f"{name} {LONG}")
        house.ask("agents.set", name="demo", runner="demo")
        house.ask("schedules.add", name="talks", when="every 1 day", agent="demo", prompt="Hello")
        house.ask("schedules.edit", name="asks", approval="owner_approve", overlap="allow")
        house.ask("schedules.add", name="chain", when="every 1 day",
                  steps=[{"title": "first", "job": "message", "prompt": "one"},
                         {"title": "second", "agent": "breaks", "prompt": LONG, "after": ["first"]}])  # fmt: skip
        house.ask("schedules.add", name="daily", when="every day at 9am", agent="slow", prompt="Wait")
        house.ask("schedules.pause", name="rests", note=LONG)
        house.ask("throttles.set", provider="busy", resets_at="2099-01-01T00:00:00Z", reason=LONG)
        house.ask("inbound.set", name="prs", kind="github", secret="env:GH_SECRET")
        house.ask("schedules.add", name="reviews", on="webhook prs", job="message", prompt="Review")
        assert house.fire("breaks")[0].state == "failed"
        chain = client.runs.wait(client.run("chain").id, timeout=PATIENCE_S)
        client.runs.wait(client.run("talks").id, timeout=PATIENCE_S)
        (self.folder / "body.json").write_text('{"action": "opened"}')
        (self.folder / "crontab").write_text(CRONTAB)
        (self.folder / "nothing").write_text("no file of another system")
        self.names = {
            "failed": client.runs.list(schedule="breaks")[0].id,
            "chain": chain.id,
            "running": self.run_until("slow", "running"),
            "throttled": self.run_until("busy", "waiting"),
            "waiting": self.run_until("asks", "waiting"),
            "approval": client.approvals.list()[0].id,
            "thread": client.threads.list()[0].id,
            "body": self.folder / "body.json",
            "crontab": self.folder / "crontab",
            "nothing": self.folder / "nothing",
            "node": house.ask("nodes.list")[0]["name"],
            "yesterday": "2026-01-01T00:00:00Z",
            "day": "2026-01-01",
        }
        self.types("inbound test prs --body {body}", 80)
        self.names["call"] = house.ask("calls.list")[0]["id"]
        self.names["incident"] = self.until(lambda: house.ask("incidents.list"))[0]["id"]

    def run_until(self, name: str, state: str) -> str:
        run = self.house.client.run(name)
        self.until(lambda: self.house.client.runs.get(run.id).state == state)
        return run.id

    def until(self, holds: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while not (found := holds()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return found

    # -- values that are new for each command

    def fresh(self, words: str) -> dict[str, Any]:
        self.count += 1
        more: dict[str, Any] = {"n": self.form, "copy": self.folder / f"copy-{self.count}.db", "port": 0}
        if "{new_" in words:
            run = self.run_until("asks", "waiting")
            pending = [one for one in self.house.ask("approvals.list") if str(one["run_id"]) == str(run)]
            more |= {"new_waiting": run, "new_approval": pending[0]["id"]}
        if "{backfill}" in words or "{paused}" in words:
            day = (date(2001, 1, 1) + timedelta(days=self.count)).isoformat()  # one that no backfill has
            made = self.house.ask("backfills.create", name="daily", start=day, end=day, which="all")["id"]
            more |= {"backfill": made, "paused": made}
            if "{paused}" in words:
                self.house.ask("backfills.pause", backfill_id=str(made))
        if "{token}" in words:
            more["token"] = self.house.client.tokens.create(f"gone-{self.count}").id
        return self.names | more

    def types(self, words: str, columns: int | None, typed: str = "") -> Result:
        given = [word.format_map(self.fresh(words)) for word in shlex.split(words)]
        environment = {"COLUMNS": str(columns or ""), "MATINS_HOME": str(self.house.home), "MATINS_DEBUG": None}
        with ExitStack() as end, pytest.MonkeyPatch.context() as patch:
            patch.setattr(atexit, "register", end.callback)
            patch.chdir(self.folder)
            return CliRunner().invoke(cli, given, obj=ClosingApp(end), env=environment, input=typed)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("every-command")
    home = folder / "home"
    home.mkdir(mode=0o700)
    (home / "matins.yaml").write_text(FILE)
    house = House(home, GH_SECRET="s3cret")
    try:
        made = World(house.up(), folder)
        made.furnish()
        yield made
    finally:
        house.kill()


FORMS = [pytest.param(as_json, columns, id=f"{'json' if as_json else 'text'}-{columns or 'pipe'}")
         for as_json in (False, True) for columns in (80, None)]  # fmt: skip
_SLIPS = re.compile(r"Traceback|Unexpected error|\[internal\]|\bNone\b|\{'|\bdatetime\b")
_MILLISECONDS = re.compile(r"\b[1-4][0-9]{12}\b")  # until the end of this century


@pytest.mark.long
@pytest.mark.parametrize(("as_json", "columns"), FORMS)
def test_every_command(world: World, as_json: bool, columns: int | None) -> None:
    """B2 B10 B12: each does what it says, and prints what a person, or a program, can read"""
    world.form += 1
    wrong = [
        text
        for command in COMMANDS
        for text in problems(command, world.types(f"{command.words}{' --json' * as_json}", columns, command.typed),
                             as_json=as_json, columns=columns)
    ]  # fmt: skip
    assert wrong == [], "\n".join(wrong)


def problems(command: Typed, result: Result, *, as_json: bool, columns: int | None) -> Iterator[str]:
    said = f"matins {command.words}: exit {result.exit_code}\n{result.stdout}{result.stderr}"
    if result.exit_code != command.code and not (command.code == -1 and result.exit_code in (0, 1)):
        yield f"not {command.code}: {said}"
    if slip := _SLIPS.search(re.sub(r'"[^"]*"', "", result.output) if as_json else result.output):
        yield f"{slip[0]!r} in {said}"
    if not as_json and (found := _MILLISECONDS.search(result.output)):
        yield f"{found[0]}, an instant that people cannot read, in {said}"
    if not (result.stdout or result.stderr) and command.words not in ("mcp serve", "worker"):
        yield f"nothing is said: {said}"
    if as_json and result.stdout and command.words not in ("mcp serve", "worker", "completion bash"):
        try:
            json.loads(result.stdout)
        except ValueError:
            yield f"not JSON: {said}"
    if not as_json and columns and not command.free:
        lines = result.stdout.splitlines()
        for line in lines if len(lines) > 1 else ():  # one sentence is broken by the terminal
            # words of others, and lines to copy
            as_written = line.endswith(LONG) or line.lstrip().startswith("fix: ") or ": matins " in line
            if len(line) > columns and not as_written:
                yield f"{len(line)} columns: {line}\n  of matins {command.words}"


@pytest.mark.parametrize("command", ["status", "runs", "why breaks"])
def test_a_real_terminal_and_a_real_pipe(world: World, command: str) -> None:
    """B12: a process at a terminal of 80 columns has colours and fits; in a pipe it has none, and nothing is cut"""
    piped = world.house.matins(*command.split())
    assert LONG in piped
    assert "\x1b" not in piped
    code, shown = at_terminal([sys.executable, "-m", "matins", *command.split()], world.house.environment)
    assert code == 0, shown
    assert "\x1b[" in shown
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert max(map(len, lines)) <= 80


def at_terminal(argv: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """The exit code of a program at a terminal of 80 columns, and what it printed."""
    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover - in the child
        termios.tcsetwinsize(0, (40, 80))
        os.execve(argv[0], argv, {**environment, "TERM": "xterm"})
    printed = bytearray()
    with os.fdopen(terminal, "rb", buffering=0) as screen, suppress(OSError):  # EIO: the program has ended
        while part := screen.read(65_536):
            printed += part
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), printed.decode().replace("\r\n", "\n")


def test_logs_of_a_run_that_wrote_to_stderr_alone(world: World) -> None:
    """B2: what it wrote is shown, and where it was written"""
    shown = world.types("logs {failed}", 80)
    assert shown.stdout.strip() == LONG
    assert "stderr" in shown.stderr
    assert "begun" in world.types("logs {running}", 80).stdout  # the control: it wrote to stdout


def test_no_command_is_left_out() -> None:
    """A new command is added here too; a command by its noun is the command itself"""
    typed = {id(_command(shlex.split(command.words))) for command in COMMANDS}
    left = [" ".join(path) for path, command in _leaves(cli, ()) if id(command) not in typed]
    assert left == []


def _leaves(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from _leaves(found, (*path, name))
        elif found is not None:
            yield (*path, name), found


def _command(words: list[str]) -> click.Command | None:
    found: click.Command | None = cli
    while words and isinstance(found, click.Group):
        found, words = found.get_command(click.Context(found), words[0]), words[1:]
    return found
