"""A setting, a kind of record, a use case and a gate are each declared in one place, and every surface has them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "matins"
TESTS = Path(__file__).parent
TOOLS = TESTS.parent / "tools"
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
LOOK = """
import json, sys
sys.path[:0] = [{docs!r}, {config!r}]
from matins import Client, Matins
from matins.config.schema import schema
from matins.surfaces.http.openapi import openapi
import file_settings_page, use_case_page

m = Matins()
found = schema()["properties"]
api = openapi()
added = m.add("x", when="1d", job="message", mood="calm")
m.moods.set("calm", colour="blue")
print(json.dumps({{
    "setting in the schema": "mood" in schema()["$defs"]["schedule"]["properties"],
    "setting in OpenAPI": "mood" in json.dumps(api["paths"]["/v1/schedules"]["post"]),
    "setting in the library": added.settings["mood"],
    "setting in help()": "Mood of the agent." in Matins.add.__doc__,
    "setting on the page": "| `mood` | Mood of the agent." in file_settings_page.rendered(),
    "kind in the schema": "moods" in found,
    "kind in OpenAPI": sorted(api["paths"]["/v1/moods/{{name}}"]),
    "kind in the library": m.moods.get("calm").colour,
    "kind in the client": hasattr(Client, "moods") and hasattr(Client.moods, "set"),
    "kind on the page": "Colour of the mood." in file_settings_page.rendered(),
    "use case in OpenAPI": "get" in api["paths"].get("/v1/echo", {{}}),
    "use case in the library": hasattr(Matins.system, "echo"),
    "use case in the client": hasattr(Client.system, "echo"),
    "use case on the page": "Give a text back." in use_case_page.rendered(),
}}))
"""
LOOK_AT_GATES = """
import json, sys
sys.path[:0] = [{docs!r}]
from matins.testing import ManualClock, Sandbox
import gate_table

m = Sandbox(clock=ManualClock("2026-03-27T08:00:00Z"))
jobs = ("howl", "work")
for job in jobs:
    m.job(job)(lambda run: None)
    m.add(job, when="0 * * * *", job=job)
m.run_until("2026-03-27T09:00:00Z")
print(json.dumps({{
    "why": {{job: [[report.gate, report.passes, report.sentence] for report in m.why(job).now] for job in jobs}},
    "preview": [[report.gate, report.passes] for report in m.preview("howl").slots[0].gates],
    "verdict": m.preview("howl").slots[0].sentence,
    "runs": {{job: [[run.status, run.reason] for run in m.runs.list(schedule=job)] for job in jobs}},
    "page": gate_table.rendered(gate_table.PAGE.read_text(encoding="utf-8")),
}}))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with one line, one file and one signature more, and what follows from them renewed."""
    root = tmp_path_factory.mktemp("copy")
    package = root / "matins"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    _insert(package / "model" / "schedule.py", "    retry_delay_ms: Annotated", SETTING)
    _insert(package / "api" / "system.py", '    @use_case("read", "GET /v1/whoami"', USE_CASE)
    (package / "records" / "moods.py").write_text(RECORD.lstrip(), encoding="utf-8")
    (package / "engine" / "gates" / "moon.py").write_text(GATE.lstrip(), encoding="utf-8")
    _run(root, str(TOOLS / "generate_types.py"))
    _run(root, str(TOOLS / "generate_awaitable.py"))
    return root


def _insert(path: Path, before: str, lines: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, path
    path.write_text(text.replace(before, lines + before), encoding="utf-8")


def _run(root: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(root), "MATINS_HOME": str(root / "home"), "COLUMNS": "200"}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_is_on_every_surface(copy: Path) -> None:
    script = LOOK.format(docs=str(TESTS / "docs"), config=str(TESTS / "config"))
    found = json.loads(_run(copy, "-c", script))
    assert [what for what, there in found.items() if not there] == []
    assert found["setting in the library"] == "calm"
    assert found["kind in OpenAPI"] == ["delete", "get", "patch", "put"]
    assert found["kind in the library"] == "blue"


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
    found = json.loads(_run(copy, "-c", LOOK_AT_GATES.format(docs=str(TESTS / "docs"))))
    against = 'Would be skipped: the reason is "no_moon".'
    assert found["why"]["howl"][6:9][1] == ["moon", False, against]
    assert [name for name, _, _ in found["why"]["howl"]][6:9] == ["budget", "moon", "capacity"]
    assert ["moon", True, "The schedule does not howl."] in found["why"]["work"]
    assert found["preview"][-1] == ["moon", False]
    assert found["verdict"] == 'Will be skipped: the reason is "no_moon".'
    assert found["runs"] == {"howl": [["skipped", "no_moon"]], "work": [["succeeded", None]]}
    assert "| moon | `job`: `howl` | The slot is `skipped`. |\n" in found["page"]
