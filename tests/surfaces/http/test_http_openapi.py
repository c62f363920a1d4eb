"""The description of the API is in the repository, and true."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from http_house import House

from matins.config import words as file_words
from matins.engine import agent_rules, agents, budgets, prices, quiet_hours, schedules
from matins.surfaces.http.words import WORDS
from matins.surfaces.routes import ROUTES

PAGE = Path(__file__).parents[3] / "docs" / "openapi.json"
RENEW = f"{Path(sys.executable).name} -m matins.surfaces.http.description > docs/openapi.json"


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Any:
    house = House(f"sqlite:///{tmp_path_factory.mktemp('api')}/matins.db", start=False)
    said = house.ask("GET", "/openapi.json").json
    house.close()
    return said


def test_the_page_is_what_the_server_says(document: Any) -> None:
    assert json.loads(PAGE.read_text(encoding="utf-8")) == document, f"renew it: {RENEW}"


def test_it_is_openapi_3_1_with_every_route(document: Any) -> None:
    assert document["openapi"].startswith("3.1")
    told = {(method.upper(), path) for path, operations in document["paths"].items() for method in operations}
    assert {(route.method, re.sub(r":path}", "}", route.path)) for route in ROUTES} <= told
    ids = [operation["operationId"] for operations in document["paths"].values() for operation in operations.values()]
    assert len(ids) == len(set(ids))


def test_every_reference_leads_somewhere(document: Any) -> None:
    used = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert used <= set(document["components"]["schemas"])
    assert len(used) > 20


def test_every_answer_and_every_body_is_described(document: Any) -> None:
    for route in ROUTES:
        operation = document["paths"][route.path.replace(":path", "")][route.method.lower()]
        assert operation["description"] or route.use_case in _SHORT, route.use_case
        assert ("content" in operation["responses"][str(route.status)]) == (route.status != 204)
        assert ("requestBody" in operation) == route.has_body
        named = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
        assert named == set(route.in_path)


_SHORT = {
    "agents",
    "get_agent",
    "get_approval",
    "get_run",
    "prices",
    "quiet_hours",
    "throttles",
    "work_sources",
    "whoami",
}
_SHORT |= {"agent_rules", "allowed_hosts", "deny", "drop_budget", "drop_hook", "hooks", "messages"}
"""Whose names say it all."""


def test_the_words_are_those_of_the_service() -> None:
    known = {
        "add": schedules.WORDS,
        "set_agent": agents.WORDS,
        "set_budget": budgets.WORDS,
        "set_quiet_hours": quiet_hours.WORDS,
        "set_price": prices.WORDS,
        "set_agent_rules": agent_rules.WORDS,
        "set_work_source": file_words.SOURCE,
    }
    for use_case, words in known.items():
        assert set(WORDS[use_case]) - {"context"} == set(words), use_case
    assert set(WORDS["edit"]) == {*WORDS["add"], "when"}
