"""Answers of real agents and commands on their way to a folder: silence, files, and what the agent is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import calling
import pytest
from calling import asked
from office import Office

from matins.engine.answers import SILENCE
from standins.endpoint import Endpoint

endpoint = calling.endpoint
office = calling.office


@pytest.fixture
def reports(office: Office, tmp_path: Path) -> Path:
    office.matins.destinations.set("notes", kind="file", to=[str(tmp_path / "reports")])
    return tmp_path / "reports"


def notes(office: Office, reports: Path, wanted: int) -> list[str]:
    """What arrived, when as much as wanted has."""

    def found() -> list[Any]:
        return sorted(reports.glob("*.md")) if reports.is_dir() else []

    return [path.read_text() for path in office.until(lambda: found() if len(found()) >= wanted else [])]


@pytest.mark.parametrize(
    ("settings", "is_asked"),
    [({"deliver_if": "news"}, True), ({"deliver_if": "changed"}, False), ({}, False),
     ({"deliver": ["none"], "deliver_if": "news"}, False)],
)  # fmt: skip
def test_only_news_asks_the_agent_for_silence(
    office: Office, endpoint: Endpoint, reports: Path, settings: dict[str, Any], is_asked: bool
) -> None:
    """B21: told to every agent, the sentence would contradict their prompts."""
    asked(office, endpoint, "Look", {"deliver": ["notes"], **settings})
    (message,) = endpoint.requests[0].body["messages"]
    assert message["content"].endswith(f"\n\n{SILENCE}") == is_asked


def test_of_steps_only_the_last_is_asked(office: Office, endpoint: Endpoint, reports: Path) -> None:
    office.matins.agents.set("ann", runner="openai", model="m", url=endpoint.url)
    steps = [{"title": "Look", "prompt": "Look"}, {"title": "Tell", "prompt": "Tell", "after": ["Look"]}]
    office.matins.add("s", when="every day at 09:00", agent="ann", steps=steps, deliver=["notes"], deliver_if="news")
    office.fire("s")
    prompts = [request.body["messages"][-1]["content"] for request in endpoint.requests]
    assert [SILENCE in prompt for prompt in prompts] == [False, True]


@pytest.mark.parametrize("condition", ["news", "text"])
def test_silence_is_withheld_and_a_text_with_the_word_arrives(office: Office, reports: Path, condition: str) -> None:
    """B21: the word as the whole answer is silence; a report that contains it is delivered."""
    m = office.matins
    deliver: dict[str, Any] = {"when": "0 9 * * *", "deliver": ["notes"], "deliver_if": condition}
    m.add("quiet", command="echo '**NOTHING_TO_REPORT**.'", **deliver)
    m.add("loud", command="echo 'Two open. NOTHING_TO_REPORT about the rest.'", **deliver)
    assert office.fire("quiet").outcome["result"]["declared"] == "nothing"
    office.fire("loud")
    (note,) = notes(office, reports, 1)
    assert "Two open. NOTHING\\_TO" not in note
    assert "Two open. NOTHING_TO_REPORT about the rest." in note


def test_a_failure_is_never_silent(office: Office, reports: Path) -> None:
    office.matins.notify.set(to=["none"])
    deliver: dict[str, Any] = {"deliver": ["notes"], "deliver_if": "news", "deliver_on": ["failed"]}
    office.matins.add("broken", when="0 9 * * *", command="echo NOTHING_TO_REPORT; exit 3", **deliver)
    office.fire("broken")
    (note,) = notes(office, reports, 1)
    assert note.startswith("# ✗ broken")


def test_files_arrive_with_the_answer_and_what_is_left_out_is_said(
    office: Office, reports: Path, tmp_path: Path
) -> None:
    """B21: the copy of the run's end, in the folder of the note."""
    (tmp_path / "work").mkdir()
    command = "printf data > data.csv; truncate -s 10000001 large.csv; echo Done."
    office.matins.add(
        "report", when="0 9 * * *", command=command, workdir=str(tmp_path / "work"),
        deliver=["notes"], attach=["*.csv"],
    )  # fmt: skip
    office.fire("report")
    (note,) = notes(office, reports, 1)
    assert "Files of the run: data.csv." in note
    assert "Not attached: large.csv: it is larger than 10,000,000 bytes." in note
    (file,) = (path for path in reports.rglob("*.csv"))
    assert file.read_text() == "data"
