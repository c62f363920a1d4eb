"""Declarations and what does them agree; declarations are quick to load."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from inspect import Parameter
from typing import Any

import pytest

from matins import Matins
from matins.api._awaitable import AwaitableApi
from matins.api.arguments import argument_kind
from matins.api.schedules import Api
from matins.api.use_case import NOUNS, USE_CASES, UseCase
from matins.records import record_kinds
from matins.service.permissions import GRANTS

VERBS = {"set", "edit", "get", "list", "delete"}
HEAVY = ("matins.service", "matins.config", "matins.runtime", "matins.store", "matins.engine", "matins.records")
PACKAGES = ("msgspec", "pydantic", "starlette", "fastapi", "uvicorn", "orjson", "apsw", "click", "ruamel")


@pytest.fixture(scope="module")
def matins() -> Any:
    made = Matins()
    yield made
    made.close()


def generic(use_case: UseCase) -> bool:
    return use_case.noun in record_kinds() and use_case.verb in VERBS


def shape(function: Any) -> list[tuple[str, Any, Any]]:
    """Names, kinds and defaults of the parameters, in their order."""
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("use_case", USE_CASES.values(), ids=lambda use_case: use_case.name)
def test_the_service_has_a_method_with_the_declared_signature(matins: Matins, use_case: UseCase) -> None:
    """Names, order, defaults; what is by keyword only; who takes settings."""
    method = matins._service.method(use_case)
    if generic(use_case):
        assert method.func.__self__.__class__.__name__ == "Records"
        assert method.args[0] is record_kinds()[use_case.noun]
        return
    declared, done = shape(use_case.function)[1:], shape(method)
    assert done[0][:2] == ("principal", Parameter.POSITIONAL_OR_KEYWORD)
    assert done[1:] == declared
    assert (declared[-1:] != [] and declared[-1][1] is Parameter.VAR_KEYWORD) == (use_case.settings is not None)


def test_every_kind_of_record_has_every_verb() -> None:
    for kind in record_kinds().values():
        verbs = {use_case.verb for use_case in USE_CASES.values() if use_case.noun == kind.noun}
        assert verbs >= (VERBS - {"list"} if kind.single else VERBS), kind.noun


def test_every_noun_is_an_attribute() -> None:
    assert {use_case.noun for use_case in USE_CASES.values()} == set(NOUNS)
    for noun, kind in NOUNS.items():
        assert (Api if noun == "schedules" else getattr(Api, noun)) is kind


@pytest.mark.parametrize("use_case", USE_CASES.values(), ids=lambda use_case: use_case.name)
def test_a_declaration_is_whole(use_case: UseCase) -> None:
    """Its right exists, its arguments have kinds, its path has its arguments, and its page names a field."""
    assert use_case.right in GRANTS["owner"]
    assert use_case.description.endswith(".")
    assert set(use_case.in_path) <= set(use_case.parameters)
    assert set(use_case.query) <= set(use_case.parameters)
    assert use_case.revision is None or use_case.revision in use_case.parameters
    for parameter in use_case.parameters.values():
        assert argument_kind(parameter.annotation)
    if use_case.page is not None:
        assert use_case.page[0] in use_case.parameters
        assert "limit" in use_case.parameters
    assert (use_case.method == "GET") <= (use_case.right in ("read", "govern"))
    assert (use_case.method == "DELETE") <= (use_case.returns == "bool")


def loaded(code: str) -> set[str]:
    program = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(done.stdout))


def test_declarations_load_nothing_heavy() -> None:
    """Every command begins with them"""
    modules = loaded("import matins.api.schedules")
    assert {name for name in modules if name.startswith(HEAVY) or name.split(".")[0] in PACKAGES} == set()


def test_calls_over_http_load_neither_service_nor_codec() -> None:
    """The command line prints documents as they come"""
    modules = loaded("from matins.surfaces.transports.http_client import Http; Http('http://127.0.0.1:1', 't')")
    heavy = {"matins.service", "matins.config", "matins.runtime", "matins.store", "matins.records", "matins.api.codec"}
    assert modules & {*heavy, "msgspec", "pydantic", "starlette", "uvicorn", "apsw"} == set()


def test_nothing_loads_fastapi_or_pydantic() -> None:
    modules = loaded("import matins.daemon, matins.library, matins.surfaces.http.app, matins.surfaces.http.server")
    assert modules & {"fastapi", "pydantic", "pydantic_core"} == set()


def test_b19_awaitable_calls_are_the_declared_ones() -> None:
    """B19: as methods of their noun, with their signature and description"""
    calls = AwaitableApi(Any)  # type: ignore[arg-type]
    for use_case in USE_CASES.values():
        noun = calls if use_case.noun == Api.noun else getattr(calls, use_case.noun)
        method = getattr(noun, use_case.verb)
        assert inspect.iscoroutinefunction(method), use_case.name
        assert shape(method) == shape(use_case.function)[1:]
        assert method.__doc__ == use_case.function.__doc__
    with pytest.raises(AttributeError):
        getattr(calls, "nothing")  # noqa: B009 - checkers know that there is none
    assert {"add", "runs", "quiet_hours"} <= set(dir(calls))


def test_calls_with_a_connection_take_what_is_declared() -> None:
    """B19: `Matins` adds one argument"""
    for own, declared in ((Matins.add, Api.add), (Matins.run, Api.run)):
        assert [one for one in shape(own) if one[0] != "connection"] == shape(declared)
