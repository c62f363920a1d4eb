"""The daemon.

The text that `matins up` prints: addresses, and commands to try.

A process whose fires are punctual beside its other threads.
"""

from __future__ import annotations

import gc
import logging
import os
import shlex
import shutil
import signal
import socket
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple

from matins._version import __version__
from matins.daemon import log_format
from matins.daemon.demonstration import REPORTS, QuietLog, agents_text, demo_file
from matins.daemon.systemd import notify, watchdog_interval_s
from matins.engine.reasons import rfc3339
from matins.errors import NotFound, SchedulerShutdownError, StoreError
from matins.executors.processes.walls import close_to_others
from matins.library import Matins, http_settings
from matins.model.access import OWNER
from matins.records.file_settings import HttpServer, InboundListen
from matins.runtime.engine import NodeSettings
from matins.runtime.signals import Signals, engine_running
from matins.service.calls import InboundReceiver
from matins.service.tokens import TokenVerifier
from matins.surfaces.home import Home, RunningDaemon, absolute_url, path_of, private_files, redacted_url, user_data_home
from matins.surfaces.http.app import scheduler_app
from matins.surfaces.http.connections import Connections
from matins.surfaces.http.inbound import InboundApp
from matins.surfaces.http.parts import daemon_parts
from matins.surfaces.http.server import ServedApp, Server, bind, hosts_of, listen, url_of

PORT = 7411


def bind_address(host: str, port: int | None) -> socket.socket:
    """A socket on the given port; without one on the default port, or on any free port."""
    if port is not None:
        return listen(host, port)
    try:
        return bind(host, PORT)
    except OSError:
        return listen(host, 0)


class Banner(NamedTuple):
    running: RunningDaemon
    home: str
    link: str | None
    """Link that logs a browser in, once. None where it would be kept in a log."""
    moved: bool
    """Whether the default port is in use."""
    command: str
    """The command that reaches this daemon."""
    agents: str | None
    """How agents run; None if they are isolated, as they should be."""
    next_step: str
    """A command to try."""
    answers: str | None = None
    """The folder into which the demonstration writes answers."""


def banner_text(at: Banner) -> str:
    daemon = at.running
    port = "  (the default port is in use)" if at.moved else ""
    rows = [
        ("home", at.home),
        ("store", "" if daemon.store == f"sqlite:///{at.home}/matins.db" else daemon.store),
        ("file", "" if daemon.file in (None, f"{at.home}/matins.yaml") else daemon.file),
        ("API", f"{daemon.url}{port}"),
        ("in", f"{daemon.inbound}/in/NAME" if daemon.inbound else ""),
        ("link", f"{at.link}  (works once, for 10 minutes)" if at.link else "printed on a terminal only: matins login"),
        ("agents", at.agents or ""),
        ("answers", at.answers or ""),
    ]
    lines = "\n".join(f"  {name:7} {text}" for name, text in rows if text)
    return f"""\
Matins {__version__} is running (process {daemon.pid}).

{lines}

Ctrl-C stops it. Next, in another terminal:
  {at.command} {at.next_step}"""


SWITCH_S = 0.0005
"""A thread keeps the interpreter for at most this long while another one waits. A fire waits for it several times, and
Python's own value is ten times as long."""


COLLECTED_EVERY = 50_000, 20, 50
"""The thresholds of the garbage collector. Fires make many objects and few cycles: with Python's own, 700 in the first
generation, it takes a sixth of the CPU time of a one-shot."""


def favour_fires() -> None:
    """Call it when everything is loaded: the garbage collector stops the threads no more to look at that. Programs that
    embed the library do the same, see docs/embedding.md."""
    sys.setswitchinterval(SWITCH_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED_EVERY)


log = logging.getLogger("matins")
HEARTBEAT = "MATINS_HEARTBEAT_URL"
PUBLIC = "MATINS_PUBLIC_URL"
"""The URL of a proxy in front of the daemon."""
_STOP_S = 30
_NEXT = 'add "every weekday at 9am" --agent demo "Say what day it is"'
_DEMO_NEXT = "list"


class Daemon:
    """The scheduler, the file and the HTTP API in one process. Its files are in the user's data directory."""

    def __init__(
        self,
        *,
        store: str | None = None,
        file: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int | None = None,
        home: str | Path | None = None,
        log: str = "plain",
        demo: bool = False,
        node: NodeSettings | None = None,
    ) -> None:
        self._home = Home(home or user_data_home().with_name("matins-demo") if demo else home)
        self._demo = demo
        self._store = absolute_url(store) if store else self._home.store
        self._file = Path(file).expanduser().absolute() if file else self._home.file
        self._file_named = file is not None
        self._host = host
        self._port = port
        self._log = log
        self._node: NodeSettings = node or {}
        self._signals: SimpleQueue[int] = SimpleQueue()
        self._ending = False

    def run(self) -> None:
        """Run until SIGTERM or SIGINT. SIGHUP reads the file again. A second SIGTERM or SIGINT exits immediately."""
        log_format.set_up(self._log)
        with ExitStack() as stack:
            stack.enter_context(Signals((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), self._on_signal))
            self._start(stack)
            self._serve()
            notify("STOPPING=1")
            log.info("Stopping. Runs have %s s to finish. Interrupt again to leave them to the next start.", _STOP_S)

    # -- start

    def _start(self, stack: ExitStack) -> None:
        """Start the parts. They are stopped in reverse order, also when a later one cannot start."""
        close_to_others()
        self._matins = matins = self._open_store(stack)
        listener = stack.enter_context(bind_address(self._host, self._port))
        quiet = QuietLog(log_format.log_event) if self._demo else None
        matins.subscribe(quiet or log_format.log_event)
        matins.url = url_of(self._host, listener)
        matins.public_url = _http_settings(matins).public_url
        moved = self._port is None and listener.getsockname()[1] != PORT  # the server takes the listener over
        if self._file_named and not self._file.exists():
            raise NotFound(
                f"There is no file {self._file}.", value=str(self._file), field="file", hint="Create it first."
            )
        folder = self._home.folder if self._file == self._home.file else None
        self._reloader = matins.watch_file(self._file, folder)
        stack.callback(self._reloader.stop)
        self._reloader.start()  # first, so that no run starts with outdated settings
        matins.start()
        stack.callback(_stopped, matins)
        keys = TokenVerifier(matins.store, matins.clock)
        connections = Connections(_http_settings(matins))
        self._parts = daemon_parts(matins, connections.settings.public_url)
        self._inbound = self._listen_inbound(stack, connections)
        hosts = hosts_of(self._host, listener)
        app = scheduler_app(matins, connections.settings, self._parts, hosts=hosts, inbound=self._inbound is None)
        self._start_server(stack, app, listener, connections)
        for part in self._parts:
            part.start()
            stack.callback(part.stop)
        token = self._home.token()
        if token is None or keys.principal_of(token) is None:
            self._home.write_token(matins.tokens.create(OWNER.name).token)
        favour_fires()
        stack.callback(self._home.withdraw)
        self._announce(moved)
        if quiet is not None:
            quiet.release()

    def _open_store(self, stack: ExitStack) -> Matins:
        """The scheduler of this home, which no other daemon has, with its store."""
        with private_files():
            self._home.make()
            self._home.lock()
            if self._demo and not self._home.file.exists():
                self._home.file.write_text(demo_file(self._home.path), encoding="utf-8")
            stack.callback(self._home.unlock)
            matins = Matins(
                self._store,
                home=self._home.path,
                heartbeat_url=os.environ.get(HEARTBEAT),
                state_folder=None if path_of(self._store) else str(self._home.path / "state"),
                **self._node,
            )
        stack.callback(matins.close)
        if not matins.store.acquire(wait=True):
            raise engine_running(matins.store)
        return matins

    def _start_server(
        self, stack: ExitStack, app: ServedApp, listener: socket.socket, connections: Connections
    ) -> None:
        server = Server(app, listener, self._end, connections)
        server.start()
        stack.callback(server.stop)

    def _listen_inbound(self, stack: ExitStack, connections: Connections) -> str | None:
        """Serve inbound endpoints on an address of their own, if there is one, and return its URL."""
        parts = InboundListen(self._matins.inbound_listen.get().address).parts
        if parts is None:
            return None
        host, port = parts
        listener = stack.enter_context(bind_address(host, port))
        url = url_of(host, listener)  # the server takes the listener over
        receiver = InboundReceiver(self._matins, self._matins.store, self._matins.clock)
        self._start_server(stack, InboundApp(receiver, parts=self._parts), listener, connections)
        return url

    def _announce(self, moved: bool) -> None:
        url = self._matins.url or ""
        file = str(self._file) if self._file.exists() else None
        started = rfc3339(self._matins.clock.now_ms())
        running = RunningDaemon(url, os.getpid(), started, redacted_url(self._store), file, self._inbound)
        self._home.announce(running)
        # Logs are read by more programs than the terminal of the owner.
        link = f"{url}{self._matins.sessions.create().path}" if sys.stdout.isatty() else None
        step = _DEMO_NEXT if self._demo or self._matins.list(limit=1) else _NEXT
        agents = agents_text(self._matins.agents.list())
        answers = f"{self._home.path}/{REPORTS}" if self._demo else None
        banner = Banner(running, str(self._home.path), link, moved, self._command(), agents, step, answers)
        sys.stdout.write(banner_text(banner) + "\n")
        sys.stdout.flush()
        notify("READY=1")

    def _command(self) -> str:
        if Path(sys.argv[0]).name == "matins":
            program = "matins" if shutil.which("matins") else sys.argv[0]
        else:
            program = f"{sys.executable} -P -m matins"
        path = self._home.path
        return program if path == user_data_home() else f"{program} --home {shlex.quote(str(path))}"

    # -- life

    def _serve(self) -> None:
        while self._next_signal() == signal.SIGHUP:
            try:
                log.info("Read the file again: %s", self._reloader.check().state)
            except StoreError as error:
                log.error("The file was not applied: %s", error)

    def _next_signal(self) -> int:
        """Wait for the next signal. Meanwhile systemd is notified, as long as the engine makes progress."""
        interval_s = watchdog_interval_s()
        while True:
            if interval_s is not None and self._matins.is_turning():
                notify("WATCHDOG=1")
            try:
                return self._signals.get(timeout=interval_s)
            except Empty:
                continue

    def _end(self) -> None:
        """Stop the daemon because its HTTP server ended; a supervisor such as systemd restarts it."""
        log.error("The HTTP server ended unexpectedly.")
        os.kill(os.getpid(), signal.SIGTERM)

    def _on_signal(self, number: int) -> None:
        if number != signal.SIGHUP:
            if self._ending:
                os._exit(128 + number)  # a second signal: runs continue, and the next start takes them over
            self._ending = True
        self._signals.put(number)


def _http_settings(matins: Matins) -> HttpServer:
    """The settings of the server; the environment's public URL has precedence."""
    settings = http_settings(matins)
    return replace(settings, public_url=os.environ.get(PUBLIC) or settings.public_url)


def _stopped(matins: Matins) -> None:
    try:
        matins.stop(timeout=_STOP_S)
    except SchedulerShutdownError as error:
        log.warning("%s", error)
