"""A daemon with one real tool: agents whose endpoints are on this machine, runs, and what became of them."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from house import House, Ordinary
from matins.executors.processes.output import read_after
from matins.runtime.tokens import run_token
from real.models.server import ModelServer, Request
from real.models.wishes import text_of
from real.tools import KEY, PRICES, Tool

PATIENCE_S = 240
_RUNNING = ("starting", "running", "ready", "queued")


@dataclass(frozen=True)
class Ran:
    """A run that has ended, or waits for its provider."""

    document: Mapping[str, Any]
    wish: str
    requests: list[Request]
    """What the endpoints were asked for it."""
    output: Callable[[str], bytes]
    counts: Callable[[Request], bool]
    """Whether the tool counts a request: opencode leaves out that for a title."""

    @property
    def state(self) -> str:
        return str(self.document["state"])

    @property
    def reason(self) -> str | None:
        return self.document["reason"]

    @property
    def error(self) -> str:
        return str((self.document["outcome"] or {}).get("error") or "")

    @property
    def result(self) -> Mapping[str, Any]:
        return (self.document["outcome"] or {}).get("result") or {}

    @property
    def text(self) -> str:
        return str(self.result.get("text", ""))

    @property
    def tokens(self) -> tuple[int, int, int]:
        told = self.result.get("tokens") or {"in": 0, "out": 0, "cached": 0}
        return told["in"], told["out"], told["cached"]

    @property
    def money(self) -> float:
        return self.result["money"]["micro_dollars"] / 1_000_000

    def billed(self) -> tuple[int, int, int]:
        """The tokens that the endpoints told for this run."""
        usages = [one.asked.usage for one in self.requests if one.asked and one.refused is None and self.counts(one)]
        return (sum(usage[0] for usage in usages), sum(usage[1] for usage in usages), sum(usage[2] for usage in usages))


class Bench:
    """Of an ordinary account, as people have: only its agents are isolated without further settings."""

    def __init__(self, tool: Tool, programs: Path, folder: Path, user: Ordinary, *, name: str = "bench") -> None:
        self.tool = tool
        self.user = user
        self.server = ModelServer()
        self.folder = folder / tool.name / name
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.home = self.folder / "home"
        """The home of the tool's user."""
        self.home.mkdir(parents=True)
        self.programs = programs
        for path, text in tool.files(self.server.url).items():
            (self.home / path).parent.mkdir(parents=True, exist_ok=True)
            (self.home / path).write_text(text)
        self._give(self.folder)
        self.house = self._up()
        self.house.ask("prices.set", model=tool.model or "fake-model", **PRICES)

    def _up(self) -> House:
        path = f"{self.programs}:{os.environ['PATH']}"
        return House(self.folder / "matins", user=self.user, PATH=path, FAKE_KEY=KEY, SECRET_OF_OURS="hush").up()

    def _give(self, folder: Path) -> None:
        """Give a folder, and all in it, to the account."""
        if self.user.process:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, self.user.uid, self.user.gid)

    def kill_and_restart(self) -> None:
        """The engine dies without a word; another one comes."""
        self.house.kill()
        self.house = self._up()

    def mcp_status(self, token: str) -> int:
        """The HTTP status of a request to the MCP server."""
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
                   "Authorization": f"Bearer {token}"}  # fmt: skip
        request = urllib.request.Request(f"{self.house.url}/mcp/run", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code

    def token_of(self, ran: Ran) -> str:
        """The token that a run had, from the keys of its store."""
        with closing(sqlite3.connect(f"file:{self.house.home}/matins.db?mode=ro", uri=True)) as connection:
            keys = dict(connection.execute("select key, value from meta").fetchall())
        store: Any = SimpleNamespace(**{name: keys[name] for name in ("store_id", "incarnation", "run_key")})
        return run_token(store, int(ran.document["id"]), ran.document["epoch"])

    def close(self) -> None:
        self.house.stop()
        self.server.close()

    # -- agents

    def environment(self) -> dict[str, str]:
        return {"HOME": str(self.home), **self.tool.environment(self.server.url)}

    def workdir(self, case: str) -> Path:
        folder = self.folder / "work" / case
        if not folder.exists():
            folder.mkdir(parents=True)
            self._give(folder.parent)
        return folder

    def write(self, path: Path, text: str) -> None:
        """A file of the account."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self._give(path.parent)

    def agent(
        self, case: str, *, permissive: bool = True, environment: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        """An agent with a provider of its own: a limit of one case does not hold up the others."""
        mode = {"permission_mode": self.tool.permissive} if permissive and self.tool.permissive else {}
        model = {"model": self.tool.model} if self.tool.model else {}
        self.house.ask(
            "agents.set",
            name=case,
            runner=self.tool.name,
            workdir=str(self.workdir(case)),
            environment={**self.environment(), **(environment or {})},
            provider=f"provider-of-{case}",
            **{"timeout": "3m", **model, **mode, **more},
        )

    @property
    def silence(self) -> str:
        return f"{self.tool.silence_s}s"

    # -- runs

    def begin(
        self, case: str, wish: Mapping[str, Any] | None = None, prompt: str = "Water the plants.", **schedule: Any
    ) -> str:
        """Add a schedule of its own for this prompt and start it. The wish gets an id."""
        name = str(schedule.pop("name", case))
        told = f"{prompt} [[fake {json.dumps({'id': name, **(wish or {})})}]]"
        known = {one["name"] for one in self.house.ask("schedules.list", limit=500)}
        if name not in known:
            self.house.ask("schedules.add", name=name, when="every 1000 days", agent=case, prompt=told, **schedule)
        return str(self.house.ask("schedules.run", name=name)["id"])

    def finish(self, run_id: str, wish: str, *, since: int = 0) -> Ran:
        """The run when it is over, or waits for its provider."""
        document = self._settled(run_id)
        return Ran(
            document,
            wish,
            self.server.requests(wish)[since:],
            lambda stream: self.output(document, stream),
            lambda one: self.tool.name != "opencode" or bool(one.asked and one.asked.tools),
        )

    def run(
        self, case: str, wish: Mapping[str, Any] | None = None, prompt: str = "Water the plants.", **schedule: Any
    ) -> Ran:
        name = str(schedule.get("name", case))
        since = len(self.server.requests(name))
        return self.finish(self.begin(case, wish, prompt, **schedule), name, since=since)

    def _settled(self, run_id: str) -> Mapping[str, Any]:
        for _ in range(PATIENCE_S):
            document = self.house.ask("runs.get", run_id=run_id)
            if document["state"] not in _RUNNING or (document["state"] == "ready" and document["outcome"]):
                return document
            self.house.client.runs.wait(run_id, timeout=1)
        raise AssertionError(f"run {run_id} is still {document['state']} after {PATIENCE_S} s")

    def output(self, document: Mapping[str, Any], stream: str) -> bytes:
        store = next(self.folder.glob("matins/*.db.runs"))
        name = f"{document['id']}-{document['epoch']}"
        path = next((path for end in ("", "-*") for path in store.glob(f"**/{name}{end}{stream}")), None)
        return b"" if path is None else _whole(str(path))

    # -- the tool without Matins

    def help(self, *words: str) -> str:
        """What the tool prints about its options."""
        argv = [str(self.programs / self.tool.name), *words, "--help"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        done = subprocess.run(
            argv, capture_output=True, text=True, env=environment, timeout=PATIENCE_S, check=False, **self.user.process
        )
        return done.stdout + done.stderr

    def by_hand(self, case: str, *argv: str, prompt: str) -> str:
        """The tool as a person calls it, with the same home."""
        return self._called(case, [str(self.programs / self.tool.name), *argv], prompt).stdout

    def lists(self, case: str, *argv: str, **variables: str) -> str:
        """What the tool tells about its servers, on both streams."""
        done = self._called(case, [str(self.programs / self.tool.name), *argv], "", **variables)
        return done.stdout + done.stderr

    def matins(self, case: str, *argv: str) -> Any:
        """A command of the person whose tool it is, and its JSON."""
        home = f"--home={self.house.home}"
        return json.loads(self._called(case, [sys.executable, "-m", "matins", home, *argv, "--json"], "").stdout)

    def _called(self, case: str, argv: list[str], prompt: str, **variables: str) -> subprocess.CompletedProcess[str]:
        values = {name: KEY if text == "env:FAKE_KEY" else text for name, text in self.environment().items()}
        done = subprocess.run(
            argv,
            input=prompt,
            capture_output=True,
            text=True,
            cwd=self.workdir(case),
            env={"PATH": f"{self.programs}:{os.environ['PATH']}", **values, **variables},
            timeout=PATIENCE_S,
            check=False,
            **self.user.process,
        )
        assert done.returncode == 0, (argv, done.stdout[-500:], done.stderr[-500:])
        return done


def expected_text(wish: Mapping[str, Any]) -> str:
    return text_of(dict(wish))


def processes_in(folder: Path) -> list[str]:
    """The processes whose working directory is in this folder."""
    found: list[str] = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and (process / "cwd").readlink().is_relative_to(folder):
                found.append((process / "cmdline").read_text().replace("\0", " ")[:200])
        except OSError:  # it has ended, or belongs to another user
            continue
    return found


def _whole(path: str) -> bytes:
    data, at = b"", 0
    while True:
        chunk, begin, _ = read_after(path, at, 1 << 20)
        if not chunk:
            return data
        data, at = data + chunk, begin + len(chunk)
