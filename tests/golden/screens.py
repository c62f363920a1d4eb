"""What people see: screens of commands, their help, their errors, and the pages, of one scene at one instant.

Run it to renew the files beside it, which `test_golden_screens.py` compares: `make pages` does.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from cli_user import User
from golden_scene import scene
from page_server import PageServer
from page_text import page_text

from matins.service import doctor
from matins.surfaces.cli import cli, times
from matins.surfaces.http.authentication import COOKIE
from matins.testing import Sandbox

FOLDER = Path(__file__).parent
SCREENS = """
list | list --tab attention --sort next | list --query nothing-has-this | list --json --limit 1
show report | show backup | show broken | show limited | show deploy | show resting | show once | show finishing
show called | show yearly | show release | show report --json
status | stats | doctor | jobs | jobs message | next | next 'every 2 weeks on friday at 17:30'
why report | why backup | why broken | why limited | why deploy | why resting | why once | why finishing | why called
why yearly | why broken --at 2026-03-27T10:30:00Z | why limited --json
runs | runs list broken | runs list --state failed --limit 2 | runs show 26 | runs show 20 | runs show 16 | runs show 12
runs show 22 | runs show 4 | runs show 26 --json
preview report | preview backup --when 'every day at noon' | preview broken --catch-up-since 2026-03-27T09:00:00Z
add 'every weekday at 9am' --agent scout -n dry --dry-run Hello | edit broken --dry-run --when 'every day at 5am'
approvals | approvals show 1 | incidents | incidents list --all | incidents show 1 | events list --limit 12
events list --type run.failed --schedule release | threads | threads show 1 | calls | calls show 1
missions | missions show release | agents | agents show scout | agents show writer | budgets | budgets show daily
quiet-hours | quiet-hours show night | limits | people | people show ada | prices | rates | throttles
destinations | destinations show phone | notify show | inbound | inbound show prs | webhooks | webhooks show ledger
webhooks deliveries ledger | work-sources | work-sources show todo | hooks | tokens | sessions | agent-rules show
allowed-hosts show | heartbeat show | http-server show | smtp show | audit verify | logs broken | context
call system.whoami | call runs.list state=failed limit=1
"""
ERRORS = """
list --tab nothing | show nothing | show repport | edit broken --retries many | edit broken --no-such-option
add | add 'every weekday at 25:00' --agent scout Hello | add 'whenever' --agent scout Hello
add 'every day' --agent nobody Hello
add 'every day at 9am' -n report --agent scout Hello | pause nothing | resume report | rm nothing | run nothing
runs show 999 | runs show word | cancel 26 | resolve 26 succeeded | retry 999 | approve 999 --yes | deny word --yes
agents set x --runner nothing | agents set x --runner demo --max-cost lots | agents rm scout | budgets set x
quiet-hours set x --windows 25:00-26:00 | next 'every fortnight on the moon' | why nothing | calls show 999
incidents show 999 | events list --type run.nothing | webhooks add x not-a-url | inbound set x --kind nothing
missions show nothing | threads show 999 | tokens revoke nothing | call nothing.at_all | call runs.list nothing=1
nothing | lst | report done | throttles set x --resets-at never | limits set global none | list --json --tab nothing
"""
PAGES = """
/ /welcome /schedules /schedules/new /schedules/scout/report /schedules/broken /schedules/scout/deploy
/schedules/resting /schedules/scout/report/edit /runs /runs?state=failed /runs/26 /runs/20 /runs/16 /runs/4
/runs/4?tab=definition /approvals /approvals/1 /missions /missions/scout/release /agents /agents/scout
/events?group=run /incidents?all=1
/spend /catch-up /settings /inbound /inbound/1 /more /schedules/nothing /nothing /ui/palette?q=re
"""
_MASKS = (
    (
        re.compile(r"SQLite [0-9.]+, schema ([0-9]+) in\s+\S+(?:\n {9}(?!fix:)\S+)*"),
        r"SQLite VERSION, schema \1 in FILE",
    ),
    (re.compile(r"/static/[0-9a-f]+/"), "/static/HASH/"),
    (re.compile(r"127\.0\.0\.1:[0-9]+"), "HOST"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r'"incarnation":"[0-9a-f]+"'), '"incarnation":"HEX"'),
    (re.compile(r"(Traceback \(most recent call last\):)(?:\n +.*)+"), r"\1 …"),
    (re.compile(r"(Traceback \(most recent call last\):)(?:\\n  (?:[^\"\\]|\\[^n])*)+"), r"\1 …"),
    (re.compile(r"(Traceback \(most recent call last\):) File [^…\n]*…"), r"\1 …"),  # found by search, on one line
    (re.compile(r"(Answer of the run> Traceback \(most recent call last\):)[^<]*"), r"\1 …\n"),
    (re.compile(r"End the session [a-z0-9]+"), "End the session ID"),
    (re.compile(r"(seal(?: is)? [0-9]+:)[0-9a-f]+…"), r"\1HEX…"),  # these two cover the paths in a traceback
    (re.compile(r'"digest": "[0-9a-f]{32}"'), '"digest": "HEX"'),
)
"""What depends on the machine or is random, and what is said in its place."""


def renewed(folder: Path) -> dict[str, str]:
    """The text of each file."""
    with scene(folder) as bench, _terminal(bench):
        user = User(bench)
        texts = {
            "screens.txt": "".join(_typed(user, words) for words in _lines(SCREENS)),
            "errors.txt": "".join(_typed(user, words) for words in _lines(ERRORS)),
            "help.txt": "".join(_dense(_typed(user, f"{words} --help".strip())) for words in _commands()),
        }
        return {
            **{name: _masked(text, folder) for name, text in texts.items()},
            "pages.txt": "".join(_pages(bench, folder)),
        }


@contextmanager
def _terminal(bench: Sandbox) -> Iterator[None]:
    """Of 80 columns, without programs on the PATH, in UTC, at the instant of the scene."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(times, "now", lambda: datetime.fromtimestamp(bench.clock.now_ms() / 1000, UTC))
        for name in [name for name in os.environ if name.startswith(("MATINS_", "XDG_", "LC_", "LANG"))]:
            patch.delenv(name)
        patch.setattr(doctor, "clock_is_synchronized", lambda: True)
        patch.setattr(doctor, "zone_data", lambda: SimpleNamespace(version="2026a", source="the system"))
        patch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**12, 0, 10**12))  # type: ignore[attr-defined]
        patch.setenv("TZ", "UTC")
        patch.setenv("PATH", "/nowhere")
        time.tzset()
        yield
    time.tzset()


def _lines(commands: str) -> list[str]:
    return [words.strip() for line in commands.strip().splitlines() for words in line.split(" | ")]


def _typed(user: User, words: str) -> str:
    result = user.types(*shlex.split(words), code=None)
    code = f"exit {result.exit_code}\n" if result.exit_code else ""
    printed = result.output
    if result.stdout.startswith(("{", "[")):
        printed = f"{json.dumps(json.loads(result.stdout), indent=1, ensure_ascii=False)}\n{result.stderr}"
    lines = "\n".join(line.rstrip() for line in printed.splitlines())
    return f"$ matins {words}\n{lines}\n{code}\n"


def _dense(text: str) -> str:
    return "".join(f"{line}\n" for line in text.splitlines() if line) + "\n"


def _commands() -> Iterator[str]:
    """Every command, and every verb of a noun that is no command by itself."""
    root, seen = click.Context(cli, info_name="matins"), set[int]()
    yield ""
    for name in cli.list_commands(root):
        command = cli.get_command(root, name)
        assert command is not None
        seen.add(id(command))
        yield name
    for name in cli.list_commands(root):
        command = cli.get_command(root, name)
        for verb, one in command.commands.items() if isinstance(command, click.Group) else ():
            if id(one) not in seen:
                seen.add(id(one))
                yield f"{name} {verb}"


def _pages(bench: Sandbox, folder: Path) -> Iterator[str]:
    server = PageServer("", start=False, matins=bench)
    try:
        cookie = f"{COOKIE}={server.session()}; matins_zone=Europe%2FBerlin"
        for path in PAGES.split():
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=90)
            try:
                connection.request("GET", path, headers={"Cookie": cookie, "Accept": "text/html"})
                response = connection.getresponse()
                page = response.read().decode()
                text = page_text(page, lambda line: _masked(line, folder), whole=path == "/")
                yield f"GET {path} {response.status}\n{text}\n"
            finally:
                connection.close()
    finally:
        server.server.stop()


def _masked(text: str, folder: Path) -> str:
    text = text.replace(str(folder), "FOLDER")
    for pattern, instead in _MASKS:
        text = pattern.sub(instead, text)
    return text


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        for name, text in renewed(Path(temporary)).items():
            (FOLDER / name).write_text(text, encoding="utf-8")
