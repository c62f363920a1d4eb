"""What is declared in one place, and every surface has it: a copy of Matins gets one of each, then one `make pages`.

Settings, kinds of records, use cases, gates, events and queries; runners and kinds of destinations, by an entry point.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[1]
COPIED = ("src", "tests", "tools", "docs", "Makefile", "pyproject.toml")
GENERATED = ("api/_types.py", "api/_results.py", "api/_nouns.py", "api/_awaitable.pyi", "store/_rows.py")
OTHER_PAGES = ("cli_page", "golden", "row_coverage")
"""What they write is typed commands and names of tests. Tests of their own compare it."""
SETTING = """    mood: Annotated[str | None, Setting(Text(), "Mood of the agent.", "calm")] = None
"""
RECORD = '''
"""Moods: how agents feel."""

from dataclasses import dataclass
from typing import Annotated

from matins.model.settings import Choice, Setting
from matins.records.kind import Column, RecordKind
from matins.records.kind import POLICIES


@dataclass(frozen=True, slots=True)
class Mood:
    name: str
    colour: Annotated[str, Setting(Choice(("red", "blue")), "Colour of the mood.", "red", required=True)]


MOODS = RecordKind(
    kind="mood",
    noun="moods",
    one="mood",
    value=Mood,
    help="Manage moods.",
    file_help="How agents feel, by name.",
    storage=POLICIES,
    columns=(Column("NAME", "name"), Column("COLOUR", "colour")),
    example="matins moods set calm --colour blue",
)
'''
USE_CASE = '''
    @use_case("read", "GET /v1/echo")
    def echo(self, text: str) -> str:
        """Give a text back."""
        ...

'''
GATE = '''
"""Whether the moon is full."""

from matins.engine.gates.gate import Gate, Verdict
from matins.model.run import RunState

MOON = Gate(
    name="moon",
    order=65,
    stages=("plan",),
    settings="`job`: `howl`",
    refusal="The slot is `skipped`.",
    applies=lambda definition: definition.job == "howl",
    judge=lambda candidate: Verdict(RunState.SKIPPED, "no_moon") if candidate.definition.job == "howl" else None,
    sentence=lambda candidate: "The schedule does not howl.",
)
'''
EVENT = """    EventKind("moon.rose", "The moon rose.", of_jobs=True),
"""
QUERY = """
-- schedules_like(pattern: str) -> list[str]: the names of the schedules that are like a pattern
SELECT name FROM schedules WHERE name LIKE :pattern ORDER BY name;
"""
RUNNER = '''
"""A parrot: it says what it hears."""

from matins.executors.runners.builtin import ShellReader
from matins.executors.runners.protocol import Command, Needs, RunnerRequest
from matins.executors.runners.request_checks import check_call


class Parrot:
    name = "parrot"
    program = "cat"
    provider = "parrot"
    chooses_session = False
    needs = Needs("buy one", ("PARROT_KEY",), "parrot login", ())

    def check(self, call: RunnerRequest) -> None:
        check_call(call)

    def command(self, call: RunnerRequest) -> Command:
        return Command((self.program,), call.prompt.encode())

    def reader(self) -> ShellReader:
        return ShellReader()
'''
DESTINATION = '''
"""A file, to which messages are added."""

from pathlib import Path

from matins.delivery.destinations import Address, DestinationKind
from matins.delivery.texts import NoticeText
from matins.errors import InvalidInput
from matins.model.destination import Destination


def send_to_file(address: Address, message: NoticeText) -> None:
    with Path(address.to[0]).open("a", encoding="utf-8") as file:
        file.write(message.title + "\\n")


def check_file(destination: Destination) -> None:
    if not destination.to[0].startswith("/"):
        raise InvalidInput("A file needs its whole path.", value=list(destination.to), field="to")


LOGBOOK = DestinationKind("logbook", "A file (to).", send_to_file, needs=("to",), check=check_file)
'''
ENTRY_POINTS = {
    'python = "matins.executors': 'parrot = "matins.coding_tools.parrot:Parrot"\n',
    'email = "matins.delivery': 'logbook = "matins.delivery.destinations.logbook:LOGBOOK"\n',
}
LOOK = """
import json
from matins import Client, Matins
from matins.config.schema import schema
from matins.surfaces.http.openapi import openapi

m = Matins()
found = schema()["properties"]
api = openapi()
added = m.add("x", when="1d", job="message", mood="calm")
m.moods.set("calm", colour="blue")
print(json.dumps({
    "setting in the schema": "mood" in schema()["$defs"]["schedule"]["properties"],
    "setting in OpenAPI": "mood" in json.dumps(api["paths"]["/v1/schedules"]["post"]),
    "setting in the library": added.settings["mood"],
    "setting in help()": "Mood of the agent." in Matins.add.__doc__,
    "kind in the schema": "moods" in found,
    "kind in OpenAPI": sorted(api["paths"]["/v1/moods/{name}"]),
    "kind in the library": m.moods.get("calm").colour,
    "kind in the client": hasattr(Client, "moods") and hasattr(Client.moods, "set"),
    "use case in OpenAPI": "get" in api["paths"].get("/v1/echo", {}),
    "use case in the library": hasattr(Matins.system, "echo"),
    "use case in the client": hasattr(Client.system, "echo"),
}))
"""
LOOK_AT_GATES = """
import json
from matins.testing import ManualClock, Sandbox

m = Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))
jobs = ("howl", "work")
for job in jobs:
    m.job(job)(lambda run: None)
    m.add(job, when="0 * * * *", job=job)
m.run_until("2026-03-27T09:00:00Z")
print(json.dumps({
    "why": {job: [[report.gate, report.passes, report.sentence] for report in m.why(job).now] for job in jobs},
    "preview": [[report.gate, report.passes] for report in m.preview("howl").slots[0].gates],
    "verdict": m.preview("howl").slots[0].sentence,
    "runs": {job: [[run.status, run.reason] for run in m.runs.list(schedule=job)] for job in jobs},
}))
"""
LOOK_AT_EVENTS = """
import json
from matins import InvalidInput
from matins.testing import Sandbox

m = Sandbox()
heard = []
m.subscribe(heard.append, ["moon.rose"])
m.job("watch")(lambda run: run.emit("moon.rose", {"phase": "full"}))
m.add("night", when="2030-01-01 00:00", job="watch")
m.run("night")
m.settle()
m.outbox.run_once(m.clock.now_ms())
try:
    m.subscribe(heard.append, ["moon.ros"])
except InvalidInput as error:
    refused = error.hint
print(json.dumps({
    "log": [event.data for event in m.events.list(types=["moon.rose"])],
    "heard": [[event["type"], event["data"]] for event in heard],
    "webhook": m.webhooks.add("moon", "https://example.com/moon", types=["moon.rose"]).types,
    "near": refused,
}))
"""
LOOK_AT_QUERIES = """
import json
from matins.testing import Sandbox

m = Sandbox()
for name in ("moth", "moon", "sun"):
    m.add(name, when="1d", job="message")
with m._store.reading() as transaction:
    print(json.dumps([transaction.schedules_like("mo%"), transaction.schedules_like.__doc__]))
"""
LOOK_AT_RUNNERS = """
import json
from matins import InvalidInput, Matins
from matins.executors.registry import runners
from matins.testing import check_runner

check_runner(runners()["parrot"], [b"Good morning"])
with Matins("sqlite:///parrot.db") as m:
    m.agents.set("polly", runner="parrot", isolation="none")
    m.add("call", when="2030-01-01 00:00", agent="polly", prompt="Good morning")
    run = m.runs.wait(m.run("call").id, timeout=60)
    try:
        m.agents.set("poll", runner="parro")
    except InvalidInput as error:
        refused = error.hint
    print(json.dumps({
        "run": [run.status, run.outcome["result"]["text"]],
        "tools": [[tool.agent, tool.install] for tool in m.system.tools(versions=False) if tool.runner == "parrot"],
        "doctor": [finding.sentence for finding in m.system.doctor() if "PARROT_KEY" in finding.sentence],
        "near": refused,
    }))
"""
LOOK_AT_DESTINATIONS = """
import json
from pathlib import Path
from matins import InvalidInput
from matins.testing import Sandbox

m, path = Sandbox(), Path("messages").absolute()
refused = []
for to in ([], ["messages"]):
    try:
        m.destinations.set("log", kind="logbook", to=to)
    except InvalidInput as error:
        refused.append(error.message)
m.destinations.set("log", kind="logbook", to=[str(path)])
tested = m.destinations.test("log")
m.job("fall")(lambda run: 1 / 0)
m.add("moon", when="2030-01-01 00:00", job="fall")
m.run("moon")
m.settle()
m.outbox.run_once(m.clock.now_ms())
print(json.dumps({"refused": refused, "tested": tested.delivered, "messages": path.read_text().splitlines()}))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Matins with a few lines and files more, and what follows from them renewed."""
    root = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, root)
        else:
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "recordings"))
    package = root / "src" / "matins"
    _insert(package / "model" / "schedule.py", "    overlap: Annotated", SETTING)
    _insert(package / "api" / "system.py", '    @use_case("read", "GET /v1/whoami"', USE_CASE)
    _insert(package / "engine" / "events.py", '    EventKind("schedule.paused"', EVENT)
    for path, text in {
        "records/moods.py": RECORD,
        "engine/gates/moon.py": GATE,
        "coding_tools/parrot.py": RUNNER,
        "delivery/destinations/logbook.py": DESTINATION,
    }.items():
        (package / path).write_text(text.lstrip(), encoding="utf-8")
    with (package / "store" / "sql" / "schedules.sql").open("a", encoding="utf-8") as file:
        file.write(QUERY)
    for before, line in ENTRY_POINTS.items():
        _insert(root / "pyproject.toml", before, line)
    _install(root)
    _make_pages(root)
    return root


def _insert(path: Path, before: str, lines: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, path
    path.write_text(text.replace(before, lines + before), encoding="utf-8")


def _install(root: Path) -> None:
    """Write the metadata that `pip install` makes, which comes before that of the installed Matins."""
    groups = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    sections = (
        "".join([f"[{group}]\n", *(f"{name} = {value}\n" for name, value in points.items())])
        for group, points in groups.items()
    )
    metadata = root / "src" / "matins-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: matins\nVersion: 0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text("\n".join(sections), encoding="utf-8")


def _make_pages(root: Path) -> None:
    recipe = re.search(r"^pages:.*\n((?:\t.*\n)+)", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert recipe is not None
    for line in recipe[1].splitlines():
        if not any(name in line for name in OTHER_PAGES):
            program, *arguments = line.split()
            _run(root, *arguments, program=str(Path(sys.executable).with_name(program.removeprefix("$(BIN)/"))))


def _run(root: Path, *arguments: str, program: str = sys.executable) -> str:
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "MATINS_HOME": str(root / "home"), "COLUMNS": "200"}
    done = subprocess.run(
        [program, *arguments], cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _files(root: Path) -> dict[Path, bytes]:
    files = (path for name in ("src", "docs") for path in (root / name).rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if path.parent.name != "__pycache__"}


def _page(root: Path, name: str) -> str:
    return (root / "docs" / name).read_text(encoding="utf-8")


def test_one_make_pages_is_enough(copy: Path) -> None:
    """What is generated does not depend on what was generated before."""
    once = _files(copy)
    _make_pages(copy)
    assert _files(copy) == once
    for name in GENERATED:
        (copy / "src" / "matins" / name).unlink()
    _make_pages(copy)
    assert _files(copy) == once, "nothing was generated before"


def test_each_is_on_every_surface(copy: Path) -> None:
    found = json.loads(_run(copy, "-c", LOOK))
    assert [what for what, there in found.items() if not there] == []
    assert found["setting in the library"] == "calm"
    assert found["kind in OpenAPI"] == ["delete", "get", "patch", "put"]
    assert found["kind in the library"] == "blue"
    assert "| `mood` | Mood of the agent." in _page(copy, "file.md")
    assert "Colour of the mood." in _page(copy, "file.md")
    assert "Give a text back." in _page(copy, "calls.md")


def test_each_is_in_the_help_of_the_command_line(copy: Path) -> None:
    assert "--mood" in _run(copy, "-m", "matins", "add", "--help")
    assert "Manage moods." in _run(copy, "-m", "matins", "--help")
    assert "--colour" in _run(copy, "-m", "matins", "moods", "set", "--help")
    assert "Give a text back." in _run(copy, "-m", "matins", "call", "--help")


def test_a_kind_of_record_works_from_the_command_line(copy: Path) -> None:
    _run(copy, "-m", "matins", "moods", "set", "calm", "--colour", "blue")
    assert json.loads(_run(copy, "-m", "matins", "moods", "list", "--json")) == [{"name": "calm", "colour": "blue"}]


def test_b8_a_gate_is_judged_explained_and_documented(copy: Path) -> None:
    """B2 B3 B8"""
    found = json.loads(_run(copy, "-c", LOOK_AT_GATES))
    against = 'Would be skipped: the reason is "no_moon".'
    names = [name for name, _, _ in found["why"]["howl"]]
    moon = names.index("moon")
    assert names[moon - 1 : moon + 2] == ["budget", "moon", "capacity"]
    assert found["why"]["howl"][moon] == ["moon", False, against]
    assert ["moon", True, "The schedule does not howl."] in found["why"]["work"]
    assert found["preview"][-1] == ["moon", False]
    assert found["verdict"] == 'Will be skipped: the reason is "no_moon".'
    assert found["runs"] == {"howl": [["skipped", "no_moon"]], "work": [["succeeded", None]]}
    assert "| moon | `job`: `howl` | The slot is `skipped`. |\n" in _page(copy, "gates.md")


def test_an_event_is_written_heard_and_documented(copy: Path) -> None:
    found = json.loads(_run(copy, "-c", LOOK_AT_EVENTS))
    assert found["log"] == [{"phase": "full"}]
    assert found["heard"] == [["matins.moon.rose", {"phase": "full"}]]
    assert found["webhook"] == ["moon.rose"]
    assert found["near"] == 'Did you mean "moon.rose"?'
    assert "| `moon.rose` | The moon rose. | |\n" in _page(copy, "events.md")


def test_a_query_is_a_method_that_answers(copy: Path) -> None:
    help_ = "The names of the schedules that are like a pattern."
    assert json.loads(_run(copy, "-c", LOOK_AT_QUERIES)) == [["moon", "moth"], help_]


def test_a_runner_wakes_agents_and_is_known_to_doctor(copy: Path) -> None:
    found = json.loads(_run(copy, "-c", LOOK_AT_RUNNERS))
    assert found["run"] == ["succeeded", "[Scheduled Task] Good morning\n"]
    assert found["tools"] == [["polly", "buy one"]]
    assert found["doctor"] == ["parrot finds no login and none of PARROT_KEY in the environment of its runs."]
    assert found["near"] == 'Did you mean "parrot"?'


def test_a_kind_of_destination_is_checked_and_reached(copy: Path) -> None:
    found = json.loads(_run(copy, "-c", LOOK_AT_DESTINATIONS))
    assert found["refused"] == ['The kind logbook needs "to".', "A file needs its whole path."]
    assert found["tested"] is True
    assert found["messages"] == ["✓ Matins can reach you", "✗ moon failed"]
