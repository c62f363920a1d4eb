"""A type checker knows the settings: a misspelt one is refused before a program runs. So docs/library.md says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "library.md").read_text(encoding="utf-8")
PYRIGHT = Path(sys.executable).with_name("pyright")
RIGHT = """
from datetime import datetime

from matins import AsyncClient, Client, Matins


def calls(m: Matins | Client, started: datetime) -> list[str | None]:
    m.add("daily", when="every day at 9am", job="greet", overlap="queue", catch_up="run_once", retries=2)
    m.edit("daily", overlap=None)
    m.agents.set("ann", runner="claude", max_cost="$2")
    m.quiet_hours.edit("nights", mode="defer")
    m.throttles.set("anthropic", resets_at=started)
    run = m.runs.wait(m.run("daily").id, timeout=1.5)
    if run.slot is not None and run.slot > started and run.state == "succeeded":
        return [run.reason]
    return [m.quiet_hours.get("nights").timezone, m.runs.list(schedule="daily", limit=5)[0].status]


async def awaited(m: Matins, client: AsyncClient) -> list[str | None]:
    for calls in (m.awaitable, client):
        added = await calls.add("daily", when="every day at 9am", job="greet", overlap="queue", retries=2)
        await calls.agents.set("ann", runner="claude", max_cost="$2")
        run = await calls.runs.wait((await calls.run(added.name)).id, timeout=1.5)
        if run.state == "succeeded":
            return [run.reason, (await calls.limits.get("global")).scope]
    async for event in client.events.follow(schedule="daily"):
        return [event.schedule, (await client.quiet_hours.get("nights")).timezone]
    return []
"""
WRONG = {
    'm.add("daily", when="1d", job="greet", overlp="queue")': 'No parameter named "overlp"',
    'm.add("daily", when="1d", job="greet", catch_up="sometimes")': "Literal['sometimes']",
    'm.add("daily", when=5, job="greet")': 'cannot be assigned to parameter "when"',
    'm.edit("daily", retires=2)': 'No parameter named "retires"',
    'm.agents.set("ann", runer="claude")': 'No parameter named "runer"',
    'm.agents.set("ann", model="opus")': 'Argument missing for parameter "runner"',
    'm.quiet_hours.edit("nights", mode="deferred")': "Literal['deferred']",
    "m.runs.list(schedul='daily')": 'No parameter named "schedul"',
    "m.runs.list()[0].sloot": 'Cannot access attribute "sloot"',
    'm.add("daily", when="1d", job="greet", connection=5)': '"Literal[5]" is not assignable to "Connection[Any]"',
    'a.add("daily", when="1d", job="greet", overlp="queue")': 'No parameter named "overlp"',
    'm.awaitable.edit("daily", retires=2)': 'No parameter named "retires"',
    'm.schedule("1d", retires=2)': 'No parameter named "retires"',
    "Matins(thread=4)": 'No parameter named "thread"',
    "a.runs.list(schedul='daily')": 'No parameter named "schedul"',
    'a.run("daily").id': 'Cannot access attribute "id"',
    "async def wrong(): return (await a.limits.get('global')).sizes": 'Cannot access attribute "sizes"',
}


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, str]]:
    """What pyright says of all files, once: the message by the line, of each file."""
    folder = tmp_path_factory.mktemp("typed")
    (folder / "right.py").write_text(RIGHT, encoding="utf-8")
    wrong = "\n".join(WRONG)
    (folder / "wrong.py").write_text(
        f"from matins import *\nm, a = Matins(), AsyncClient('')\n{wrong}\n", encoding="utf-8"
    )
    for number, block in enumerate(plain_examples()):
        (folder / f"page{number}.py").write_text(block, encoding="utf-8")
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard", "pythonVersion": "3.11"}')
    said = subprocess.run(
        [str(PYRIGHT), "--outputjson", "--pythonpath", sys.executable, "--project", str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    found: dict[str, dict[int, str]] = {name.name: {} for name in folder.glob("*.py")}
    report = json.loads(said.stdout)
    assert report["summary"]["filesAnalyzed"] == len(found)
    for problem in report["generalDiagnostics"]:
        lines = found[Path(problem["file"]).name]
        line = problem["range"]["start"]["line"]
        lines[line] = f"{lines.get(line, '')}\n{problem['message']}"
    return found


def plain_examples() -> list[str]:
    """The page's programs; doctest runs the other examples."""
    return [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if ">>>" not in block]


def test_the_right_settings_pass(problems: dict[str, dict[int, str]]) -> None:
    assert problems["right.py"] == {}


@pytest.mark.parametrize(("line", "message"), WRONG.items())
def test_a_wrong_one_is_refused(problems: dict[str, dict[int, str]], line: str, message: str) -> None:
    assert message in problems["wrong.py"].get(2 + list(WRONG).index(line), "nothing was found")


def test_the_page_shows_what_pyright_says(problems: dict[str, dict[int, str]]) -> None:
    assert f"error: {WRONG[next(iter(WRONG))]}\n" in PAGE


def test_the_programs_of_the_page_pass(problems: dict[str, dict[int, str]]) -> None:
    pages = [name for name in problems if name.startswith("page")]
    assert len(pages) >= 2
    assert {name: problems[name] for name in pages} == {name: {} for name in pages}
