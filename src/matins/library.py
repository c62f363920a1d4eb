"""The library: `Matins`, a scheduler in your own process."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, Unpack, overload

from matins.api.schedules import Api
from matins.api.use_case import UseCase
from matins.config.file import ConfigFile
from matins.delivery.answers import ThreadChannel
from matins.delivery.outbox import Outbox, Senders
from matins.delivery.subscribers import Callback
from matins.delivery.webhooks import senders
from matins.engine.events import canonical_types
from matins.engine.validation import check_names_known
from matins.errors import Conflict, StoreError
from matins.executors.agent_checks import ToolVersions
from matins.executors.check_executor import CheckExecutor, Guard, OnBlocked
from matins.executors.commands import Commands
from matins.executors.factory import ExecutorFactory
from matins.executors.isolation import Isolation, Places, own_folders
from matins.executors.processes.recovery import evidence_in, is_gone
from matins.executors.processes.supervisor import SharedSupervisor, Supervisor
from matins.executors.processes.walls import probe_here
from matins.executors.python import Job
from matins.executors.registry import JobRegistry, as_job, as_task, help_of
from matins.model.access import Principal
from matins.model.clock import Clock
from matins.model.job import JobType
from matins.runtime.catalog import Catalog
from matins.runtime.clock import SystemClock
from matins.runtime.engine import Engine, EngineOptions
from matins.runtime.heartbeat import ExternalHeartbeat
from matins.runtime.kept_output import object_storage
from matins.runtime.loop import Loop
from matins.runtime.maintenance import Lineage
from matins.runtime.run_context import ContextLoader
from matins.runtime.signals import Signals, Standby, engine_running
from matins.service import Service
from matins.service.file.reload import Reloader
from matins.service.output import Outputs, state_folder
from matins.service.tokens import principal_of
from matins.store import Store, open_store
from matins.surfaces.program import Task, TransactionApi
from matins.surfaces.transports.in_process import InProcess
from matins.surfaces.transports.socket import OwnerSocketServer, answers, call_owner
from matins.texts.untrusted_folder import OwnFolders

if TYPE_CHECKING:
    import asyncio

    from matins.api._awaitable import AwaitableApi
    from matins.api._types import ScheduleSettings
    from matins.api.arguments import When
    from matins.records.file_settings import HttpServer
    from matins.runtime.engine import EngineSettings
    from matins.service.traces import Traces
    from matins.surfaces.http.app import Mounted, Who
    from matins.surfaces.http.server import Served, Server


log = logging.getLogger("matins")
_COLLECTOR = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")


class Matins(TransactionApi):
    """`url` is `sqlite:///file.db`, `sqlite://` for memory, or `postgresql://…`.

    `guard` is called before every run. A true result blocks the run; then `on_blocked` is called. `home` is a directory
    that belongs to Matins alone; isolated agents do not see it.
    """

    def __init__(
        self,
        url: str = "sqlite://",
        *,
        clock: Clock | None = None,
        guard: Guard | None = None,
        on_blocked: OnBlocked | None = None,
        home: str | Path | None = None,
        **settings: Unpack[EngineSettings],
    ) -> None:
        check_names_known("Matins", settings, [field.name for field in fields(EngineOptions)])
        self.settings = EngineOptions(**settings)
        self.node = self.settings.node
        """This node among the engines of the store."""
        if self.settings.output_url is not None:
            object_storage(self.settings.output_url)  # before anything is opened
        self._deadman = ExternalHeartbeat(self.settings)
        self.jobs = JobRegistry()
        """The jobs of this process; `jobs[name] = function` sets or replaces one."""
        self._store, self.clock = _opened(url, clock)
        self._home = None if home is None else Path(home).absolute()
        folder = self._home if self._store.path is None else self._store.path.parent
        self._workdir = None if folder is None else str(folder)
        isolation = Isolation(self.places, probe_here)
        self._catalog = Catalog(workdir=self._workdir, out_of_reach=isolation.out_of_reach)
        own = self.settings
        self._traces: Traces | None = None
        if any(os.environ.get(name) for name in _COLLECTOR):
            from matins.service.traces import Traces, are_wanted  # most programs send none

            self._traces = Traces(self, lambda: self._store.incarnation) if are_wanted(os.environ) else None
        traced = self._traces is not None
        self._loader = ContextLoader(
            self._store, self._catalog, self.clock, own.lease_ms, own.run_lease_ms, own.output_url, traced=traced
        )
        self._service = Service(self._store, self.clock, self._wake, self._workdir, self.jobs)
        self._service.local.state_folder = self.settings.state_folder
        self._service.local.isolation = isolation
        self._service.local.url = lambda: self.public_url or self.url
        self.url: str | None = None
        """The address of the API that serves this scheduler; its agents get it. None without a server."""
        self.public_url: str | None = None
        """The address under which people reach the page, for links in messages; default: `url`."""
        self._supervisor = SharedSupervisor(self._new_supervisor)
        self._service.local.versions = ToolVersions(isolation, Commands(self._supervisor), self._workdir)
        self._untrace: Callable[[], None] = lambda: None
        self._executors = ExecutorFactory(
            self._store,
            self,
            self.jobs,
            self.clock,
            self._loader,
            self._supervisor,
            self.places,
            self._workdir,
            guard,
            on_blocked,
        )
        self.outbox = Outbox(self._store, self.clock, self._catalog, self._senders())
        self._loop: Loop | None = None
        self._program_loop: asyncio.AbstractEventLoop | None = None
        """The event loop on which async jobs run; None: one of Matins."""
        self._standby: Standby | None = None
        self._pid = os.getpid()
        self._owning = threading.Lock()
        self._calls = 0
        """Calls that own the file while they run, because this process has no engine."""
        self._control: OwnerSocketServer | None = None
        self._servers: list[Server] = []
        self._own_folders = OwnFolders(lambda: own_folders(self.places()))
        super().__init__(InProcess(self))

    @property
    def store(self) -> Store:
        return self._store

    @property
    def _state_folder(self) -> Path:
        return state_folder(self._store, self.settings.state_folder)

    # -- jobs

    def job(
        self,
        name: str,
        *,
        help: str = "",  # noqa: A002 - the name of the field
        inputs: type[Any] | None = None,
        destructive: bool | None = None,
        owner_only: bool = False,
        services: Iterable[str] = (),
    ) -> Callable[[Job], Job]:
        """Register a function, sync or async, as a job that schedules can start. It wins over an installed type.

        `inputs` is a dataclass whose annotations are settings; payloads are checked against it. A job is destructive
        unless it, or the installed type that it replaces, says otherwise.
        """

        def register(function: Job) -> Job:
            text, needed = help or help_of(function), tuple(services)
            asks = self.jobs.is_destructive(name) if destructive is None else destructive
            self.jobs.register(
                JobType(name, text, inputs, function, destructive=asks, owner_only=owner_only, services=needed)
            )
            return function

        return register

    def schedule(
        self, when: When, *, name: str | None = None, agent: str = "", **settings: Unpack[ScheduleSettings]
    ) -> Callable[[F], F]:
        """Register a function as a job, and start it at `when`: `@m.schedule("every day at 9am", timezone="local")`.

        The job and its schedule have the name of the function, or `name`. A function without parameters is called
        without the run. A program that starts again changes nothing; another `when` or setting changes the schedule.
        """
        given: dict[str, Any] = {**settings}

        def register(function: F) -> F:
            known = name or function.__name__
            self.job(known)(as_job(function))
            self.add(known, when=when, agent=agent, job=known, replace=True, **given)
            return function

        return register

    @overload
    def task(self, function: Callable[P, Any], /) -> Task[P]: ...

    @overload
    def task(
        self, /, *, name: str | None = None, **settings: Unpack[ScheduleSettings]
    ) -> Callable[[Callable[P, Any]], Task[P]]: ...

    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        **settings: Unpack[ScheduleSettings],
    ) -> Any:
        """Register a function as a task: `send_mail.delay("ada", text="Hi")` runs it in the engine, here or in another
        process, with a record, retries and limits as any run. `settings` are those of a schedule.
        """

        def register(function: Callable[..., Any]) -> Task[Any]:
            known = name or function.__name__
            self.job(known)(as_task(function))
            given: dict[str, Any] = {"when": "never", "overlap": "allow", **settings}
            self.add(known, job=known, replace=True, **given)
            return Task(self, self.clock, known, function)

        return register if function is None else register(function)

    @cached_property
    def awaitable(self) -> AwaitableApi:
        """The same calls for programs with an event loop: `await m.awaitable.runs.wait(…)`."""
        from matins.api._awaitable import AwaitableApi  # most programs have no loop
        from matins.surfaces.async_client import InThreads

        return AwaitableApi(InThreads(self._transport))

    @property
    def services(self) -> dict[str, Any]:
        """Services that jobs need, by name. None says that one is not available: runs that need it fail."""
        return self.jobs.services

    # -- events

    def subscribe(
        self, callback: Callback, types: str | Iterable[str] | None = None, name: str | None = None
    ) -> Callable[[], None]:
        """Call `callback` for every event, or for those of `types`, in a thread of Matins, while this process runs.

        With a `name`, the callback also gets the events since its last call in an earlier process. Returns a function
        that ends the subscription.
        """
        wanted = canonical_types(types)
        if name is not None:
            self.subscriptions.open(name, types=wanted or None)
        return self.outbox.subscribe(callback, wanted, name)

    def holds(self, name: str) -> bool:
        """Whether this process calls the function that was subscribed under a name: of several processes, one does."""
        return self.outbox.holds(name, self.clock.now_ms())

    def post_answers(self, service: str, channel: ThreadChannel) -> Callable[[], None]:
        """Let a chat service post the answers of runs into their threads, while this process runs. Returns a function
        that ends it."""
        return self.outbox.post_answers(service, channel)

    # -- the page

    def asgi(self, *, who: Who | None = None, url: str | None = None) -> Mounted:
        """The page, the API and the tools of agents, for a program that mounts them: `app.mount("/matins", m.asgi())`.

        `who(request)` returns the name of the person whom the program has signed in, one of `m.people`; with None,
        the page asks for a sign-in of its own. `url` is the address at which it is mounted: for links in messages, and
        for agents, which get it from the next start on.
        """
        from matins.surfaces.http.app import Mounted, scheduler_app  # here and below: most programs have no page
        from matins.surfaces.http.parts import daemon_parts

        self.url = url or self.url
        settings = http_settings(self)
        return Mounted(scheduler_app(self, settings, daemon_parts(self, url), who=self._finder(who)))

    def serve(self, port: int = 8731, *, host: str = "127.0.0.1", who: Who | None = None) -> Served:
        """Serve the page, the API and the tools of agents at a port, in threads of this process, until `close`.

        Port 0 takes a free one. The result has the `url`, and `link()` signs a browser in. `who` as for `asgi`. Serve
        before `start`, for agents that use the tools.
        """
        from matins.surfaces.http.app import Mounted, scheduler_app
        from matins.surfaces.http.connections import Connections
        from matins.surfaces.http.parts import daemon_parts
        from matins.surfaces.http.server import Served, Server, hosts_of, listen, url_of

        settings = http_settings(self)
        listener = listen(host, port)
        hosts, self.url = hosts_of(host, listener), url_of(host, listener)
        parts = daemon_parts(self, settings.public_url)
        app = Mounted(scheduler_app(self, settings, parts, hosts=hosts, who=self._finder(who)))
        server = Server(app, listener, connections=Connections(settings))
        server.start()
        self._servers.append(server)
        return Served(self.url, server, lambda: self.sessions.create().path)

    def _finder(self, who: Who | None) -> Callable[[Any], Principal | None] | None:
        from matins.surfaces.http.app import person_finder

        def find(name: str) -> Principal | None:
            with self._store.reading() as transaction:
                person = self._catalog.policies(transaction).people.get(name)
            return None if person is None else principal_of(person)

        return None if who is None else person_finder(who, find)

    # -- use cases

    def _within(self, connection: Any) -> AbstractContextManager[None]:
        """Take part in the caller's transaction, if there is one."""
        if connection is None:
            return nullcontext()
        if self._service.local.file is not None:
            message = "A process that applies a file cannot join a transaction: a rollback leaves the file as it is."
            raise Conflict(message, field="connection", hint="Use a Matins without watch_file.")
        return self._store.within(connection, self.clock.now_ms())

    def acting_as(self, principal: Principal) -> Api:
        """The same use cases, called as another principal: an operator, a viewer, an agent."""
        return Api(InProcess(self, principal))

    def invoke(self, principal: Principal, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        """Call a use case. Only the owner of a SQLite file writes to it: a change is sent to the engine that owns the
        file, or is made while this process owns it."""
        self._check_process()
        if callable(job := arguments.get("job")):
            arguments = {**arguments, "job": self.jobs.name_of(job)}
        if steps := arguments.get("steps"):
            arguments = {**arguments, "steps": self.jobs.with_names(steps)}
        store = self._store
        if store.shared or self._loop is not None or use_case.reads:
            return self._service.invoke(principal, use_case, arguments)
        with self._owning:
            owns = self._loop is not None or self._calls > 0 or store.acquire(wait=True)
            self._calls += owns
        if not owns:
            return call_owner(store.owner_socket(), principal, use_case, arguments)
        try:
            return self._service.invoke(principal, use_case, arguments)
        finally:
            with self._owning:
                self._calls -= 1
                self._release_if_unused()

    def _release_if_unused(self) -> None:
        """Let another engine have the store: the last call that owns it releases it, or the end of the loop."""
        if self._loop is None and not self._calls:
            self._store.release()

    def watch_file(self, path: str | Path, folder: int | None = None) -> Reloader:
        """Use this file for `file.plan` and `file.apply`. The result, once started, applies it when it changes.

        `folder` is a descriptor of its directory: a directory that is put in its place is then not read.
        """
        file = self.use_file(path, folder)
        file.node = self.node.name
        return Reloader(self, file, self._store, self.clock)

    def use_file(self, path: str | Path, folder: int | None = None) -> ConfigFile:
        """Use this file for `file.plan` and `file.apply`."""
        file = self._service.local.file = ConfigFile(path, folder, shared=self._store.shared)
        return file

    # -- lifecycle

    def start(self, *, strict: bool = False) -> Self:
        """Start the engine in threads of this process. A second start does nothing; with `strict` it raises StoreBusy.

        A SQLite file has one engine. While another process has it, this one stands by: its calls go to that engine,
        and it takes over when that ends. With `strict`, StoreBusy is raised instead.
        """
        self._check_process()
        if self._loop is not None or self._standby is not None:
            if strict:
                raise engine_running(self._store)
            return self
        if not self._start_engine():
            if strict:
                raise engine_running(self._store)
            log.info("Another engine is running on this store. This one stands by, and takes over when that ends.")
            self._standby = Standby(self._start_engine)
        return self

    def _start_engine(self) -> bool:
        """Start the engine. False when another one is running."""
        engine = self._engine()
        engine.wrote_events = self.outbox.wake
        with self._owning:
            if not self._store.acquire(wait=True):
                return False
            path = self._store.socket_path()
            if path is not None and answers(path):  # its lock was deleted
                self._release_if_unused()
                return False
            self._loop = loop = Loop(engine)
        try:
            self._begin(loop, engine)
        except BaseException:  # another start may succeed
            self._deadman.stop()
            with suppress(Exception):  # the first error is reported
                loop.abandon()
            self._release()
            raise
        return True

    def _begin(self, loop: Loop, engine: Engine) -> None:
        path = self._store.socket_path()
        executor = self._executors.router(loop.wake, self.settings.threads, self.url, self._program_loop)
        evidence = evidence_in(self._state_folder)
        if self._traces is not None:
            self._untrace = self._traces.follow(self.subscribe)
        loop.start(executor, self._executors.checks(CheckExecutor, loop.wake), evidence, partial(is_gone, evidence))
        self.outbox.start()
        self._deadman.watch(self._store, self.clock, lambda: engine.turned_at, self._loader.policies).start()
        if path is not None:
            self._control = OwnerSocketServer(path, self._service)
            self._store.announce(path)

    def _release(self) -> None:
        """Stop what runs beside the loop, then let another engine have the store."""
        self._untrace()
        self.outbox.stop()
        if self._traces is not None:
            self._traces.close()
        self._supervisor.close()
        with self._owning:
            self._loop = None
            self._release_if_unused()

    def is_turning(self) -> bool:
        """Whether the engine of this process does its turns; True without one."""
        return self._loop is None or self._loop.is_turning()

    def stop(self, *, wait: bool = True, timeout: float = 30, leave: bool = False) -> None:
        """Start no new runs, and wait up to `timeout` seconds for running ones. Then stop agents that still run; with
        `leave` they continue, and the next start takes them over."""
        if self._is_elsewhere:
            return
        if self._standby is not None:
            self._standby.stop()
            self._standby = None
        loop = self._loop
        if loop is None:
            return
        self._deadman.stop()
        if self._control is not None:
            self._control.close()
            self._control = None
        try:
            loop.stop(wait=wait, timeout_ms=round(timeout * 1000), leave=leave)
        finally:
            self._release()

    def close(self) -> None:
        if not self._is_elsewhere:
            for server in self._servers:
                server.stop()
            self.stop()
            self._supervisor.close()
            self._store.close()
            self._own_folders.close()

    @property
    def _is_elsewhere(self) -> bool:
        """Whether this process is a forked child of the one in which the engine was started."""
        return self._pid != os.getpid() and (self._loop is not None or self._standby is not None)

    def _check_process(self) -> None:
        if self._is_elsewhere:
            message = f"This Matins was started in process {self._pid}, and its threads are not in this child of it."
            raise StoreError(message, hint="Create a Matins in the child, or start it after the fork.")
        if self._pid != os.getpid():
            self._pid, self._owning, self._calls = os.getpid(), threading.Lock(), 0

    def run_forever(self) -> None:
        """Run until SIGINT or SIGTERM."""
        done = threading.Event()
        with Signals((signal.SIGINT, signal.SIGTERM), lambda number: done.set()), self:
            done.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *why: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        import asyncio  # here and below: programs without it need not load it

        self._program_loop = asyncio.get_running_loop()
        try:
            return await asyncio.to_thread(self.start)
        except BaseException:
            self._program_loop = None
            raise

    async def __aexit__(self, *why: object) -> None:
        import asyncio

        try:
            await asyncio.to_thread(self.stop)
        finally:
            self._program_loop = None

    def _engine(self) -> Engine:
        lineage = Lineage(self._store, self._state_folder if self._store.path or self._store.shared else None)
        return Engine(self._store, self.clock, self._catalog, self.settings, lineage)

    def _senders(self) -> Senders:
        tail = Outputs(self._service.core).tail
        url = self._service.local.url
        return senders(self._store, self.clock, self._executors.commands(), self._workdir, tail, url, self.jobs)

    def _new_supervisor(self) -> Supervisor:
        loop = self._loop
        wake = loop.wake if loop is not None else lambda: None
        return Supervisor(self._state_folder, wake, incarnation=lambda: self._store.incarnation)

    def places(self) -> Places:
        """Where Matins keeps its files."""
        store, file = self._store, self._service.local.file
        config = None if file is None else file.path
        return Places(self._state_folder, self._home, store.path, store.socket_path(), config)

    def _wake(self) -> None:
        if self._loop is not None:
            self._loop.changed()
            self.outbox.wake()


def http_settings(matins: Matins) -> HttpServer:
    """The settings of the server, as they are in the store."""
    from matins.records.file_settings import HTTP_SERVER, HttpServer

    with matins.store.reading() as transaction:
        held = HTTP_SERVER.storage.read(HTTP_SERVER, transaction, Catalog(cache=False).policies(transaction))
    return held.get(HTTP_SERVER.noun, HttpServer())


def _opened(url: str, clock: Clock | None) -> tuple[Store, Clock]:
    """The store, and the given clock or that of the store."""
    store = open_store(url, clock or SystemClock())
    try:
        return store, clock or store.clock(SystemClock())
    except BaseException:
        store.close()
        raise
