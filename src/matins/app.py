"""The composition root, which connects the parts."""

from __future__ import annotations

import gc
import os
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from matins.api.use_case import Caller, UseCase
    from matins.daemon.service import Service
    from matins.engine.when.triggers import Trigger
    from matins.library import Matins
    from matins.model.access import Principal
    from matins.model.trigger import Anchor, DstGap, DstOverlap, First
    from matins.runtime.clock import SystemClock
    from matins.runtime.engine import NodeSettings
    from matins.service.moving import Move
    from matins.surfaces.transports.http_client import Http
    from matins.surfaces.transports.in_process import InProcess


def parse_trigger(
    text: str,
    *,
    timezone: str | None = None,
    now: datetime | None = None,
    dst_gap: DstGap = "after",
    dst_overlap: DstOverlap = "first",
    strict: bool = False,
    anchor: Anchor = "completion",
    first: First = "after_interval",
    name: str | None = None,
) -> Trigger:
    """Parse a trigger: cron, an alias, a duration, English, an ISO instant, or an RRULE.

    Relative phrases count from `now`; default: the system clock. `timezone` is an IANA name, "local" for the time
    zone of the machine, or None for UTC (or the zone that the text names). `H` in a cron expression follows from the
    `name` of a schedule.
    """
    parse, to_ms, clock = _parser()
    return parse(
        text,
        now_ms=clock.now_ms() if now is None else to_ms(now),
        timezone=clock.local_zone() if timezone == "local" else timezone,
        dst_gap=dst_gap,
        dst_overlap=dst_overlap,
        strict=strict,
        anchor=anchor,
        first=first,
        name=name,
    )


@cache
def _parser() -> tuple[Callable[..., Trigger], Callable[[datetime], int], SystemClock]:
    # Loaded on first use, and once: import statements cost more than parsing does.
    from matins.engine.when.parse import parse_trigger as parse
    from matins.engine.when.triggers import to_ms
    from matins.runtime.clock import SystemClock

    return parse, to_ms, SystemClock()


def trigger_from_dict(data: Mapping[str, Any]) -> Trigger:
    """The trigger from the result of `Trigger.to_dict`."""
    from matins.engine.when.definitions import from_dict
    from matins.engine.when.triggers import compile_trigger

    return compile_trigger(from_dict(data))


_OF_FILE = ("file.plan", "file.apply")


class App:
    """The interface of the command line to Matins: a transport, and the daemon."""

    def transport(
        self,
        store: str | None = None,
        url: str | None = None,
        token: str | None = None,
        home: str | Path | None = None,
        file: str | Path | None = None,
    ) -> Http | InProcess:
        """A transport to the given or running daemon; without one, to the store, which is opened on first use."""
        if os.environ.get("MATINS_IN_RUN"):
            return _transport_of_run(store, url, token, home)
        from matins.surfaces.home import Home, absolute_url, redacted_url

        at = Home(home)
        running = at.running()
        if url is None and running is not None and (store is None or absolute_url(store) == running.store):
            url = running.url
        if url is not None:
            from matins.surfaces.transports.http_client import Http

            if running is None or url.rstrip("/") != running.url:
                return Http(url, token)
            return Http(url, token or at.token(), check=partial(at.check_running, url))
        from matins.surfaces.transports.in_process import InProcess

        own = LazyStore(absolute_url(store or at.store), file or at.file, named=store is not None)
        return InProcess(own, described=f"the store {redacted_url(own.url)}")

    def up(
        self,
        store: str | None = None,
        file: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int | None = None,
        home: str | Path | None = None,
        log: str = "plain",
        node: NodeSettings | None = None,
    ) -> None:
        """Run the daemon until SIGTERM or SIGINT. `node`: the options that describe it, as those of `Matins`."""
        from matins.daemon import Daemon

        Daemon(store=store, file=file, host=host, port=port, home=home, log=log, node=node).run()

    def move(
        self,
        target: str,
        tell: Callable[[str], None],
        store: str | None = None,
        url: str | None = None,
        token: str | None = None,
        home: str | Path | None = None,
    ) -> Move:
        """The move of the store to another one. It has no locks yet."""
        from matins.errors import InvalidInput, NotAllowed
        from matins.runtime.clock import SystemClock
        from matins.service.moving import Move, Place
        from matins.surfaces.home import Home, absolute_url, path_of, redacted_url

        if os.environ.get("MATINS_IN_RUN"):
            raise NotAllowed("A process of a run does not move the store.", field="target", hint="Ask the owner.")
        if url is not None or token is not None:
            hint = "Run it where the store is, with --store or --home."
            raise InvalidInput("A store is moved by a command that reaches it itself.", field="url", hint=hint)
        at = Home(home)
        running = at.running()
        if store is None and running is not None and running.store != at.store:
            hint = f"Name the store: matins --store {running.store} promote …"
            raise InvalidInput("The daemon of this home uses another store than its own.", field="store", hint=hint)
        urls = [absolute_url(one) for one in (store or at.store, target)]
        source, to = (Place(one, redacted_url(one), path_of(one), at.path / "state") for one in urls)
        return Move(source, to, SystemClock(), tell)

    def worker(
        self,
        source: str | None = None,
        home: str | Path | None = None,
        name: str | None = None,
        labels: Sequence[str] = (),
        max_runs: int | None = None,
    ) -> None:
        """Run orders of a source until SIGTERM or SIGINT; without a source, those of stdin until it ends."""
        import sys

        from matins.daemon import log_format
        from matins.errors import InvalidInput
        from matins.executors.outside import outside_kinds
        from matins.executors.worker import Worker, serve_lines
        from matins.surfaces.home import Home, private_files

        log_format.set_up("plain")
        at = Home(home)
        with private_files():
            at.make()
            own = Worker(at.path, name, labels, max_runs)
        try:
            if source is None:
                return serve_lines(own, sys.stdin.buffer)
            kind = outside_kinds().get(source.partition("://")[0])
            if kind is None:
                hint = f"Matins takes orders from: {', '.join(f'{known}://' for known in outside_kinds())}."
                raise InvalidInput("Orders do not come from such a URL.", value=source, field="from", hint=hint)
            return kind.serve(source, own)
        finally:
            own.close()

    def demo(self, home: str | Path | None = None, port: int | None = None) -> None:
        """Run a daemon with the demonstration file, in a directory of its own."""
        from matins.daemon import Daemon

        Daemon(home=home, port=port, demo=True).run()

    def init(
        self, home: str | Path | None, folder: str | None, account: Mapping[str, str], *, examples: bool = False
    ) -> tuple[str, list[str]]:
        """Write a first configuration file into the home. Returns its path, and what was found. `account` has `user` or
        `isolation` of all agents, where Matins is root."""
        from matins.executors.agent_checks import installed_tools
        from matins.service.file.starter import Found, write_starter
        from matins.surfaces.home import Home, private_files

        at = Home(home)
        with private_files():
            at.make()
            found = Found(installed_tools(), self.local_zone(), folder, account)
            return write_starter(at.file, found, examples=examples)

    def serve_mcp(
        self,
        client: str,
        toolset: str | None,
        serve_store: Callable[[Caller, Principal, str], None],
        store: str | None = None,
        url: str | None = None,
        token: str | None = None,
        home: str | Path | None = None,
    ) -> None:
        """Serve MCP on stdin and stdout as an agent: through the daemon, or by `serve_store` where none runs."""
        from matins.surfaces.bridge import run_bridge

        if os.environ.get("MATINS_IN_RUN"):
            own = _transport_of_run(store, url, token, home)
            return run_bridge(own.url, os.environ["MATINS_TOKEN"], toolset or "run")
        transport = self.transport(store, url, None, home)
        address: str | None = getattr(transport, "url", None)
        if address is not None:
            own = token or self.mcp_token(client, transport, home)
            return run_bridge(address, own, toolset, cast("Http", transport).check)
        from matins.model.access import Principal

        return serve_store(cast("InProcess", transport).caller, Principal("agent", client), toolset or "")

    def mcp_token(self, client: str, transport: Http | InProcess, home: str | Path | None) -> str:
        """The token of a client's agent, made on first use. The owner's own token never reaches a model."""
        from matins.surfaces.home import Home

        kept = Home(home).mcp_token(client)
        if kept.read() is None:
            import matins.api.schedules  # noqa: F401  # pyright: ignore[reportUnusedImport] - declares the use cases
            from matins.api.use_case import USE_CASES

            made = transport.document(USE_CASES["tokens.create"], {"name": client, "role": "agent"})
            kept.write(made["token"])
        return kept.read() or ""

    def file_schema(self) -> str:
        """The JSON Schema of the configuration file."""
        import orjson

        from matins.config.schema import schema

        return orjson.dumps(schema(), option=orjson.OPT_INDENT_2).decode()

    def service(
        self, store: str | None = None, file: str | Path | None = None, home: str | Path | None = None
    ) -> Service:
        """The daemon as a service of this machine."""
        from matins.daemon.service import service

        return service(store=store, file=file, home=home)

    def local_zone(self) -> str:
        """The time zone of this machine."""
        return _parser()[2].local_zone()


def _transport_of_run(store: str | None, url: str | None, token: str | None, home: str | Path | None) -> Http:
    """The transport of a process that belongs to a run: by the token of the run, and by nothing else."""
    from matins.errors import NotAllowed
    from matins.surfaces.transports.http_client import Http

    own_url, own_token = os.environ.get("MATINS_URL"), os.environ.get("MATINS_TOKEN")
    if store or home or url not in (None, own_url) or token not in (None, own_token):
        message = "A process of a run reaches Matins by the token of its run only."
        raise NotAllowed(message, field="token", hint="Omit --store, --url, --token and --home.")
    if not own_url or not own_token:
        message = "This process belongs to a run, and has no token of its own (MATINS_URL, MATINS_TOKEN)."
        raise NotAllowed(message, field="token", hint="Run the engine by `matins up`, which has an API for agents.")
    return Http(own_url, own_token)


class LazyStore:
    """`Matins` on a store, opened on first use. Reading does not create a missing store."""

    def __init__(self, url: str, file: str | Path, *, named: bool) -> None:
        from pathlib import Path

        self.url = url
        self._file = Path(file)
        self._named = named
        self._opened: Matins | None = None
        self._nothing: Matins | None = None
        """Used instead of a missing store, until something is written."""

    def invoke(self, principal: Principal, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        return self._matins(use_case).invoke(principal, use_case, arguments)

    def _matins(self, use_case: UseCase) -> Matins:
        if self._opened is None or (self._opened is self._nothing and not use_case.reads):
            import atexit

            self._opened = self._open(use_case)
            atexit.register(self._opened.close)
        return self._opened

    def _open(self, use_case: UseCase) -> Matins:
        from matins.errors import NotFound
        from matins.library import Matins
        from matins.surfaces.home import path_of, private_files

        path = path_of(self.url)
        if path is not None and not path.exists() and use_case.reads:
            if self._named:
                hint = "Check the path. A full path has four slashes: sqlite:////full/path/to/file.db."
                raise NotFound(f"There is no store {path}.", value=self.url, field="store", hint=hint)
            matins = self._nothing = Matins()
        else:
            with private_files():
                matins = Matins(self.url)
        if use_case.name in _OF_FILE or self._file.exists():
            matins.use_file(self._file)
        return matins


_MADE_BY_A_COMMAND = 400_000
"""Objects, nearly all by the modules that it loads: to collect garbage among them would take a seventh of its time."""


def main() -> None:
    """The `matins` command."""
    gc.set_threshold(_MADE_BY_A_COMMAND, *gc.get_threshold()[1:])
    from matins.surfaces.cli import cli

    cli(obj=App())
