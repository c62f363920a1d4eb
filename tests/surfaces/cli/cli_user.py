"""Somebody who types commands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from click.testing import CliRunner, Result

from matins.api.use_case import Transport, UseCase
from matins.app import App
from matins.daemon.service import Service
from matins.model.access import OWNER, Principal
from matins.surfaces.cli import cli
from matins.surfaces.transports.in_process import InProcess
from matins.testing import Sandbox


class OwnApp:
    """The composition root, on a store that is open already."""

    def __init__(self, bench: Sandbox, principal: Principal = OWNER) -> None:
        self.bench = bench
        self.principal = principal
        self.asked: list[dict[str, Any]] = []
        self.zone = "UTC"
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def transport(self, **location: str | None) -> Transport:
        self.asked.append(location)
        own, calls = InProcess(self.bench, self.principal), self.calls

        class Noted:
            def document(self, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
                calls.append((use_case.name, dict(arguments)))
                return own.document(use_case, arguments)

        return Noted()

    def up(self, **options: Any) -> None:
        self.asked.append(options)

    def demo(self, **options: Any) -> None:
        self.asked.append(options)

    def init(
        self, home: str | None, folder: str | None, account: Mapping[str, str], *, examples: bool
    ) -> tuple[str, list[str]]:
        return App().init(home, folder, account, examples=examples)

    def file_schema(self) -> str:
        return App().file_schema()

    def service(self, **options: Any) -> Service:
        self.asked.append(options)
        return App().service(**options)

    def local_zone(self) -> str:
        return self.zone


class User:
    def __init__(self, bench: Sandbox, principal: Principal = OWNER) -> None:
        self.bench = bench
        self.app = OwnApp(bench, principal)

    def types(self, *words: str, code: int | None = 0, typed: str | None = None, columns: int | None = 80) -> Result:
        """One command; `code` is the exit code that it must give."""
        environment = {"COLUMNS": "" if columns is None else str(columns), "NO_COLOR": None, "MATINS_DEBUG": None}
        result = CliRunner().invoke(cli, list(words), obj=self.app, input=typed, env=environment)
        assert "Traceback" not in result.stderr
        if code is not None:
            assert result.exit_code == code, (words, result.exit_code, result.output)
        return result

    def says(self, *words: str, code: int = 0) -> str:
        """What it prints as its answer."""
        return self.types(*words, code=code).stdout

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.says(*words, "--json", code=code))

    def complains(self, *words: str, code: int = 2) -> str:
        """What is told beside the answer when it cannot be done; the answer is empty."""
        result = self.types(*words, code=code)
        assert result.stdout == ""
        assert "Hint: " in result.stderr or "--help" in result.stderr, result.stderr
        return result.stderr
