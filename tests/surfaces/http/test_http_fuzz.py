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
from http_house import YEARLY, House
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from matins.surfaces.http.arguments import Inputs
from matins.surfaces.routes import ROUTES

EXAMPLES = int(os.environ.get("MATINS_FUZZ_EXAMPLES", "5"))
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
ASIDE = {"/v1/events/stream", "/v1/backup", "/readyz", "/login"}
"""One never ends, one writes files wherever it is told to, one says 503 where no engine runs, one has its own tests."""
KNOWN = {"name": "a", "run_id": "1", "approval_id": "1", "thread_id": "1", "agent": "scout", "provider": "acme"}


@pytest.fixture(scope="module")
def quiet_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """No engine runs: what is made up here must not be started."""
    made = House(f"sqlite:///{tmp_path_factory.mktemp('fuzz')}/matins.db", start=False)
    made.client.add(name="a", when=YEARLY, do="work", approval="owner_approve")
    made.client.run(name="a")
    made.client.set_agent(name="scout", runner="demo")
    yield made
    made.close()


@pytest.fixture(scope="module")
def schema(quiet_house: House) -> Any:
    return schemathesis.openapi.from_dict(quiet_house.ask("GET", "/openapi.json").json)


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_schemathesis_finds_nothing(quiet_house: House, schema: Any, mode: GenerationMode) -> None:
    """No 5xx, and every answer is as the description says: status, content type and shape."""
    troubles: list[str] = []
    asked = 0
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {quiet_house.token}"
        for result in schema.get_all_operations():
            operation = result.ok()
            if operation.path not in ASIDE:
                asked += 1
                troubles += attempt(quiet_house, session, operation, mode)
    assert asked > 80
    assert not troubles, "\n\n".join(troubles[:10])


def ask(house: House, session: requests.Session, case: Case) -> None:
    response = case.call(base_url=house.url, session=session)
    case.validate_response(response, checks=CHECKS)


def attempt(house: House, session: requests.Session, operation: Any, mode: GenerationMode) -> list[str]:
    names = [parameter.name for parameter in operation.path_parameters]
    known = {name: KNOWN.get(name, "a") for name in names}
    found: list[str] = []

    def test(case: Case) -> None:
        case.headers = {name: value for name, value in (case.headers or {}).items() if name != "Authorization"}
        ask(house, session, case)
        if known:
            # The same once more about something that is there, and on no condition.
            case.path_parameters = known
            case.headers = {"If-Match": "*"} if case.method == "PATCH" else {}
            ask(house, session, case)

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


def test_ten_thousand_hostile_strings(quiet_house: House) -> None:
    """In paths, queries, headers, words and values: each is answered, none is a fault of ours, none is run."""
    random = Random(11)
    words = [
        "when",
        "prompt",
        "timezone",
        "overlap",
        "payload",
        "ends",
        "do",
        "target",
        "max_cost",
        "pre_check",
        "work",
    ]
    statuses: set[int] = set()
    with closing(http.client.HTTPConnection("127.0.0.1", quiet_house.port, timeout=90)) as connection:
        for _ in range(1_250):
            query = urlencode({"agent": hostile(random)})
            body = {hostile(random) if n == 3 else random.choice(words): hostile(random) for n in range(4)}
            path = f"/v1/schedules/{quote(hostile(random), safe='')}/preview?{query}"
            statuses.add(send(quiet_house, connection, path, body, quote(hostile(random))[:300]))
            made = {"name": hostile(random), "when": YEARLY, "do": "work", random.choice(words): hostile(random)}
            statuses.add(send(quiet_house, connection, "/v1/schedules", made))
    assert statuses <= {200, 201, 404, 409, 422}
    assert {201, 404, 422} <= statuses
    assert quiet_house.client.audit()["faults"] == []


ODD: list[Any] = [None, True, 0, -1, 5.5, 1e308, 10**30, "", "x", "5m", [], [[]], ["x", 5], {}, {"a": {"b": []}}]
BODIES = {
    "add": {"name": "odd", "when": YEARLY, "do": "work"},
    "edit": {},
    "preview_change": {},
    "set_agent": {"runner": "demo"},
    "set_budget": {"money": "$5", "per": "day"},
    "set_quiet_hours": {"windows": ["22:00-07:00"]},
    "set_price": {"input": "$1", "output": "$1"},
    "set_agent_rules": {},
    "set_work_source": {"kind": "github", "repo": "a/b"},
}


def test_every_word_with_every_kind_of_value(quiet_house: House) -> None:
    """The service checks its words itself, so whatever JSON can say must be refused in words or taken."""
    troubles: list[str] = []
    with closing(http.client.HTTPConnection("127.0.0.1", quiet_house.port, timeout=90)) as connection:
        for route in ROUTES:
            inputs = Inputs(route)
            for word in inputs.body.model_fields if inputs.body is not None and route.use_case != "backup" else ():
                for odd in ODD:
                    path = re.sub(r"{(\w+)(?::path)?}", lambda match: KNOWN.get(match[1], "a"), route.path)
                    body = {**BODIES.get(route.use_case, {}), word: odd}
                    status = send(quiet_house, connection, path, body, method=route.method)
                    if status >= 500:
                        troubles.append(f"{route.use_case} {word}={odd!r}: {status}")
    assert not troubles, "\n".join(troubles)


def send(
    house: House,
    connection: http.client.HTTPConnection,
    path: str,
    body: Any,
    key: str | None = None,
    method: str = "POST",
) -> int:
    headers = {"Authorization": f"Bearer {house.token}", "Content-Type": "application/json"}
    headers |= {} if key is None else {"Idempotency-Key": key}
    headers |= {"If-Match": "*"} if method == "PATCH" else {}
    connection.request(method, path, json.dumps(body), headers)
    response = connection.getresponse()
    response.read()
    return response.status
