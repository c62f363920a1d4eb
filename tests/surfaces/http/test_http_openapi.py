"""The description of the API is OpenAPI, and true."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from http_server import HttpServer

from matins.api.arguments import setting_names
from matins.api.use_case import USE_CASES
from matins.surfaces.http.openapi import body_schema


@pytest.fixture(scope="module")
def idle_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    made = HttpServer(f"sqlite:///{tmp_path_factory.mktemp('api')}/matins.db", start=False)
    yield made
    made.close()


@pytest.fixture(scope="module")
def document(idle_server: HttpServer) -> Any:
    return idle_server.ask("GET", "/openapi.json").json


def test_a_release_prints_what_the_server_says(document: Any) -> None:
    command = [sys.executable, "-m", "matins.surfaces.http.openapi"]
    printed = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    assert json.loads(printed) == document


def test_it_is_openapi_3_1_with_every_route(idle_server: HttpServer, document: Any) -> None:
    assert document["openapi"].startswith("3.1")
    schemathesis.openapi.from_dict(document).validate()
    described = {(method.upper(), path) for path, operations in document["paths"].items() for method in operations}
    assert {(route.method, route.path.replace(":path}", "}")) for route in idle_server.app.routes} == described
    ids = [operation["operationId"] for operations in document["paths"].values() for operation in operations.values()]
    assert len(ids) == len(set(ids))
    assert USE_CASES.keys() <= set(ids)


def test_every_reference_leads_somewhere(document: Any) -> None:
    used = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert used == set(document["components"]["schemas"])
    assert len(used) > 40


def test_every_response_and_every_body_is_described(document: Any) -> None:
    for use_case in USE_CASES.values():
        operation = document["paths"][use_case.path.replace(":path", "")][use_case.method.lower()]
        assert operation["description"].endswith("."), use_case
        assert ("content" in operation["responses"][str(use_case.status)]) == (use_case.status != 204)
        assert ("requestBody" in operation) == use_case.has_body
        named = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
        assert named == set(use_case.in_path)
        assert not re.search(r"\b(None|False|True)\b", operation["description"]), use_case


def test_bodies_take_the_settings_and_the_arguments() -> None:
    for use_case in USE_CASES.values():
        if use_case.has_body:
            elsewhere = {*use_case.in_path, *use_case.query, use_case.revision}
            expected = ({*use_case.parameters} | {*setting_names(use_case)}) - elsewhere
            assert set(body_schema(use_case)["properties"]) == expected, use_case
