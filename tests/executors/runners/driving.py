"""Drives a runner with the program that stands in for its tool."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from matins.coding_tools.claude import Claude
from matins.coding_tools.codex import Codex
from matins.coding_tools.gemini import Gemini, Qwen
from matins.coding_tools.goose import Goose
from matins.coding_tools.opencode import Opencode
from matins.executors.runners.protocol import Answer, Ask, Command, Reader, Runner, RunnerRequest, RunnerResult
from standin_path import standin_path

PATIENCE = 240
RUNNERS: tuple[Runner, ...] = (Claude(), Codex(), Gemini(), Goose(), Opencode(), Qwen())
TOOLS: dict[str, Runner] = {runner.name: runner for runner in RUNNERS}
NESTED = {"CLAUDECODE": "1", "CODEX_THREAD_ID": "t", "GEMINI_CLI": "1", "AGENT": "goose", "OPENCODE": "1"}


def ask_here(environment: Mapping[str, str]) -> Ask:
    """Starts commands as they are, without walls and limits."""

    def ask(argv: tuple[str, ...], *, timeout_ms: int = 1000 * PATIENCE, memory_bytes: int | None = None) -> Answer:
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        return Answer(done.returncode, done.stdout, done.stderr)

    return ask


class Driven(NamedTuple):
    told: RunnerResult
    lines: list[bytes]
    exit_code: int
    errors: str


class Driver:
    """Starts stand-ins whose sessions are in one folder, in an environment that looks as if an agent had started us."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.workdir = folder / "work dir"
        self.home.mkdir()
        self.workdir.mkdir()

    def call(self, prompt: str, **words: Any) -> RunnerRequest:
        return RunnerRequest(prompt=prompt, workdir=str(self.workdir), **words)

    def run(self, runner: Runner, prompt: str = "Water the plants", *, fault: str = "", **words: Any) -> Driven:
        call = self.call(prompt, **words)
        runner.check(call)
        command = runner.command(call)
        ended = subprocess.run(
            command.argv,
            input=command.stdin,
            capture_output=True,
            cwd=self.workdir,
            env=self.environment(command, fault),
            timeout=PATIENCE,
            check=False,
        )
        lines = ended.stdout.splitlines(keepends=True)
        result = read(runner.reader(), lines, ended.returncode)
        return Driven(result, lines, ended.returncode, ended.stderr.decode("utf-8", "replace"))

    @contextmanager
    def running(self, runner: Runner, prompt: str, fault: str) -> Iterator[subprocess.Popen[bytes]]:
        """One that does not end by itself."""
        command = runner.command(self.call(prompt))
        with subprocess.Popen(
            command.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.workdir,
            env=self.environment(command, fault),
        ) as process:
            assert process.stdin is not None
            process.stdin.write(command.stdin)
            process.stdin.close()
            try:
                yield process
            finally:
                process.kill()

    def environment(self, command: Command, fault: str) -> dict[str, str]:
        mine = {
            "PATH": standin_path(),
            "STANDIN_HOME": str(self.home),
            "STANDIN_FAULT": fault,
            "STANDIN_FLOOD": "2000000",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PWD": str(self.home),
            **NESTED,
        }
        kept = {name: value for name, value in mine.items() if name not in command.env_remove}
        return {**kept, **command.env_add}


def read(reader: Reader, lines: list[bytes], exit_code: int | None) -> RunnerResult:
    for line in lines:
        reader.feed(line)
    return reader.close(exit_code)


def tell(runner: Runner, *events: dict[str, Any], exit_code: int | None = 0) -> RunnerResult:
    """What a reader makes of these events."""
    return read(runner.reader(), [json.dumps(event).encode() for event in events], exit_code)
