"""Whatever is sent to the API, it answers: schemathesis over every route, and hostile strings in every field."""

from __future__ import annotations

import http.client
import json
import os
import re
from collections.abc import Iterator
from contextlib import closing
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

import pytest
import requests
import schemathesis
from http_server import YEARLY, HttpServer
from hypothesis import HealthCheck, Phase, given, seed, settings
from record_examples import RECORDS
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from matins.api.use_case import USE_CASES
from matins.surfaces.http.openapi import body_schema

EXAMPLES = int(os.environ.get("MATINS_FUZZ_EXAMPLES", "5"))
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
ASIDE = {"/v1/events/stream", "/v1/backup", "/readyz", "/login"}
"""One never ends, one writes files wherever it is told to, one says 503 where no engine runs, one has its own tests."""
KNOWN = {
    "name": "a",
    "run_id": "1",
    "approval_id": "1",
    "thread_id": "1",
    "agent": "scout",
    "provider": "acme",
    "currency": "EUR",
    "event": "after:run",
    "scope": "global",
}


@pytest.fixture(scope="module")
def idle_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """No engine runs: what is made up here must not be started."""
    made = HttpServer(f"sqlite:///{tmp_path_factory.mktemp('fuzz')}/matins.db", start=False)
    made.client.add(name="a", when=YEARLY, job="work", approval="owner_approve")
    made.client.run("a")
    made.client.agents.set("scout", runner="demo")
    yield made
    made.close()


@pytest.fixture(scope="module")
def schema(idle_server: HttpServer) -> Any:
    return schemathesis.openapi.from_dict(idle_server.ask("GET", "/openapi.json").json)


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_schemathesis_finds_nothing(idle_server: HttpServer, schema: Any, mode: GenerationMode) -> None:
    """No 5xx, and every answer is as the description says: status, content type and shape."""
    troubles: list[str] = []
    asked = 0
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {idle_server.token}"
        for result in schema.get_all_operations():
            operation = result.ok()
            if operation.path not in ASIDE:
                asked += 1
                troubles += attempt(idle_server, session, operation, mode)
    assert asked > 80
    assert not troubles, "\n\n".join(troubles[:10])


def ask(server: HttpServer, session: requests.Session, case: Case) -> None:
    response = case.call(base_url=server.url, session=session)
    case.validate_response(response, checks=CHECKS)


def attempt(server: HttpServer, session: requests.Session, operation: Any, mode: GenerationMode) -> list[str]:
    names = [parameter.name for parameter in operation.path_parameters]
    known = {name: KNOWN.get(name, "a") for name in names}
    found: list[str] = []

    def test(case: Case) -> None:
        case.headers = {name: value for name, value in (case.headers or {}).items() if name != "Authorization"}
        ask(server, session, case)
        if known:
            # The same once more about something that is there, and on no condition.
            case.path_parameters = known
            case.headers = {"If-Match": "*"} if case.method == "PATCH" else {}
            ask(server, session, case)

    try:
        quick = settings(
            max_examples=EXAMPLES,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            database=None,
            deadline=None,
        )
        seed(7)(quick(given(case=operation.as_strategy(mode))(test)))()
    except BaseExceptionGroup as group:
        found += [f"{operation.label}: {error}" for error in group.exceptions]
    except Exception as error:
        if type(error).__name__ not in ("Unsatisfiable", "InvalidArgument"):
            found.append(f"{operation.label}: {type(error).__name__} {error}")
    return found


PIECES = ["'", '"', "\\", ";", "$(touch x)", "`", "\0", "\r\n", "\x1b[31m", "%00", "../", "{{", "<script>", "é",
          "\u202e", "🦇", "-- ", "NaN", "-1", "9" * 40, "1e999", "null", " ", "\u2028", "[", "}", "* * * * *",
          "every 5m", "A" * 300]  # fmt: skip


def hostile(random: Random) -> str:
    return "".join(random.choice(PIECES) for _ in range(random.randint(1, 5)))


def test_ten_thousand_hostile_strings(idle_server: HttpServer) -> None:
    """In paths, queries, headers, settings and values: each is answered, none is a fault of ours, none is run."""
    random = Random(11)
    names = ["when", "prompt", "timezone", "overlap", "payload", "ends_at", "job", "target", "max_cost", "pre_check",
             "work_source"]  # fmt: skip
    statuses: set[int] = set()
    with closing(http.client.HTTPConnection("127.0.0.1", idle_server.port, timeout=90)) as connection:
        for _ in range(1_250):
            query = urlencode({"agent": hostile(random)})
            body = {hostile(random) if n == 3 else random.choice(names): hostile(random) for n in range(4)}
            path = f"/v1/schedules/{quote(hostile(random), safe='')}/preview?{query}"
            statuses.add(send(idle_server, connection, path, body, quote(hostile(random))[:300]))
            made = {"name": hostile(random), "when": YEARLY, "job": "work", random.choice(names): hostile(random)}
            statuses.add(send(idle_server, connection, "/v1/schedules", made))
            lost = f"/v1/schedules/{quote(hostile(random), safe='')}/pause?{query}"
            statuses.add(send(idle_server, connection, lost, {"note": hostile(random)}))
    assert statuses <= {200, 201, 404, 409, 422}
    assert {201, 404, 422} <= statuses
    assert idle_server.client.audit.verify().problems == []


ODD: list[Any] = [None, True, 0, -1, 5.5, 1e308, 10**30, "", "x", "5m", [], [[]], ["x", 5], {}, {"a": {"b": []}}]
BODIES = {
    "schedules.add": {"name": "odd", "when": YEARLY, "job": "work"},
    "webhooks.add": {"name": "odd", "url": "https://example.com/x"},
} | {f"{noun}.set": made for noun, (_, made, _) in RECORDS.items()}


def test_every_setting_with_every_kind_of_value(idle_server: HttpServer) -> None:
    """The service checks settings itself: whatever JSON can hold is refused with an error, or taken."""
    troubles: list[str] = []
    with closing(http.client.HTTPConnection("127.0.0.1", idle_server.port, timeout=90)) as connection:
        for use_case in USE_CASES.values():
            asked = use_case.has_body and use_case.name != "system.backup"
            for name in body_schema(use_case)["properties"] if asked else ():
                for odd in ODD:
                    path = re.sub(r"{(\w+)(?::path)?}", lambda match: KNOWN.get(match[1], "a"), use_case.path)
                    body = {**BODIES.get(use_case.name, {}), name: odd}
                    status = send(idle_server, connection, path, body, method=use_case.method)
                    if status >= 500:
                        troubles.append(f"{use_case.name} {name}={odd!r}: {status}")
    assert not troubles, "\n".join(troubles)


def send(
    server: HttpServer,
    connection: http.client.HTTPConnection,
    path: str,
    body: Any,
    key: str | None = None,
    method: str = "POST",
) -> int:
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    headers |= {} if key is None else {"Idempotency-Key": key}
    headers |= {"If-Match": "*"} if method == "PATCH" else {}
    connection.request(method, path, json.dumps(body), headers)
    response = connection.getresponse()
    response.read()
    return response.status
