"""Calls to agents behind an endpoint: one thread for each call, and a connection that can be cut.

Results without secrets. The stored output has none, but pieces of a text may join to one.
"""

from __future__ import annotations

import logging
import socket
import threading
import traceback
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, cast

from matins.errors import MatinsError, StoreUnavailable
from matins.executors.processes.launch import EndedBy, Limits, ProcessOutcome
from matins.executors.processes.output import Output, Redactor
from matins.executors.runners.protocol import EndpointRunner, RunnerRequest, RunnerResult
from matins.model.clock import Clock
from matins.model.run import Usage
from matins.net.outbound import HttpClient, StreamedResponse
from matins.runtime.attempt import Mark
from matins.runtime.spending import SpendingLimit


def without_secrets(result: RunnerResult, secrets: Collection[str]) -> RunnerResult:
    """The result without secrets, also those split between chunks."""
    if not secrets:
        return result
    texts = {
        name: redacted_text(text, secrets)
        for name in ("text", "error", "reason", "session", "complaint")
        if isinstance(text := getattr(result, name), str)
    }
    limit = result.limit and result.limit._replace(reason=redacted_text(result.limit.reason, secrets))
    denials = tuple(redacted_text(denial, secrets) for denial in result.denials)
    return replace(
        result, **texts, limit=limit, denials=denials, structured=_without_secrets(result.structured, secrets)
    )


def redacted(data: bytes, secrets: Collection[str]) -> bytes:
    if not secrets:
        return data
    redactor = Redactor([secret.encode() for secret in secrets])
    return redactor.feed(data) + redactor.finish()


def redacted_text(text: str, secrets: Collection[str]) -> str:
    return redacted(text.encode(errors="replace"), secrets).decode(errors="replace")


def _without_secrets(value: Any, secrets: Collection[str]) -> Any:
    if isinstance(value, str):
        return redacted_text(value, secrets)
    if isinstance(value, list):
        return [_without_secrets(item, secrets) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return {redacted_text(key, secrets): _without_secrets(item, secrets) for key, item in pairs}
    return value


log = logging.getLogger("matins")
_NO_LIMIT_S = 86_400.0
_REREAD_MS = 250
_UNRESPONSIVE_MS = 5_000
"""A call that continues this long after its time limit cannot be ended."""


class SpendingAllowance:
    """What a call may spend. Other runs spend too, so the limits are read again during the call."""

    def __init__(
        self, clock: Clock, bounds: Callable[[], Sequence[SpendingLimit]], usage: Callable[[RunnerResult], Usage]
    ) -> None:
        self._clock = clock
        self._read = bounds
        self._usage = usage
        self._bounds = bounds()
        self._read_at = clock.boot_ms()

    def exceeded(self, result: RunnerResult) -> str | None:
        if not self._bounds:
            return None
        if self._clock.boot_ms() - self._read_at >= _REREAD_MS:
            with suppress(StoreUnavailable):  # the limits that were read last hold until the store is back
                self._bounds, self._read_at = self._read(), self._clock.boot_ms()
        usage = self._usage(result)
        return next((reason for bound in self._bounds if (reason := bound.passed(usage))), None)


class EndpointCall:
    """One call: its time limits, its spending limits and its connection."""

    def __init__(
        self,
        clock: Clock,
        client: HttpClient,
        limits: Limits,
        allowance: SpendingAllowance,
        secrets: tuple[str, ...],
        output: Output,
    ) -> None:
        self._clock = clock
        self._client = client
        self._limits = limits
        self._allowance = allowance
        self._secrets = secrets
        self._output = output
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self._begun = clock.boot_ms()
        self._waiting_limit: EndedBy | None = None
        self.ended_by: EndedBy | None = None
        self.reason: str | None = None
        """Why the spending limit ended the call."""

    # -- for the runner

    @property
    def closed(self) -> bool:
        return self.ended_by is not None

    def now_s(self) -> int:
        return self._clock.now_ms() // 1000

    @contextmanager
    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Generator[StreamedResponse]:
        with self._client.open("POST", url, self, body=body, headers=headers, clean=self.redacted) as reply:
            yield reply

    def log(self, text: str) -> None:
        self._output.write(text.encode(errors="replace"))

    def over_budget(self, so_far: RunnerResult) -> bool:
        self.reason = self._allowance.exceeded(so_far)
        if self.reason is not None:
            self.end("budget")
        return self.reason is not None

    # -- for the HTTP client

    def left(self) -> float:
        """Seconds to wait for the next bytes: the idle timeout, within the time limit of the call."""
        wall, idle = self._limits.timeout_ms, self._limits.idle_timeout_ms
        waits: list[tuple[float, EndedBy | None]] = [(_NO_LIMIT_S, None)]
        if wall is not None:
            waits.append(((self._begun + wall - self._clock.boot_ms()) / 1000, "timeout"))
        if idle is not None:
            waits.append((idle / 1000, "idle_timeout"))
        seconds, self._waiting_limit = min(waits, key=lambda wait: wait[0])
        if seconds <= 0:
            self.expired()
        if self.closed:
            raise TimeoutError
        return seconds

    def expired(self) -> None:
        self.ended_by = self.ended_by or self._waiting_limit

    def attach(self, sock: socket.socket) -> None:
        with self._lock:
            self._sock = sock
            if self.closed:
                _shut(sock)

    # -- for the executor

    def close(self) -> None:
        self._output.close()

    def end(self, ended_by: EndedBy) -> None:
        with self._lock:
            self.ended_by = self.ended_by or ended_by
            if self._sock is not None:
                _shut(self._sock)

    def unresponsive(self) -> bool:
        wall = self._limits.timeout_ms
        return wall is not None and self._clock.boot_ms() > self._begun + wall + _UNRESPONSIVE_MS

    def redacted(self, data: bytes) -> bytes:
        return redacted(data, self._secrets)

    def redacted_text(self, text: str) -> str:
        return redacted_text(text, self._secrets)


class EndpointRequests:
    """The running calls. `done` gets the outcome of each, in the thread of the call."""

    def __init__(self, clock: Clock, done: Callable[[Mark, RunnerResult, ProcessOutcome, str | None], None]) -> None:
        self._clock = clock
        self._done = done
        self._connections: dict[Mark, EndpointCall] = {}
        self._unresponsive: set[Mark] = set()

    def begin(self, mark: Mark, runner: EndpointRunner, call: RunnerRequest, connection: EndpointCall) -> None:
        self._connections[mark] = connection
        name = f"matins-call-{mark[0]}"
        threading.Thread(target=self._run, args=(mark, runner, call, connection), name=name, daemon=True).start()

    def end(self, mark: Mark) -> bool:
        """End the call. False when there is no such call."""
        connection = self._connections.get(mark)
        if connection is not None:
            connection.end("cancelled")
        return connection is not None

    def end_all(self) -> None:
        for mark in list(self._connections):
            self.end(mark)

    def unresponsive(self) -> list[Mark]:
        """Calls newly past their time limit, although their connection is cut."""
        late = [
            mark
            for mark, connection in list(self._connections.items())
            if connection.unresponsive() and mark not in self._unresponsive
        ]
        self._unresponsive.update(late)
        return late

    def _run(self, mark: Mark, runner: EndpointRunner, call: RunnerRequest, connection: EndpointCall) -> None:
        began = self._clock.now_ms()
        result = without_secrets(_call_runner(runner, call, connection), call.secrets)
        # A success was complete before the connection was cut.
        ended_by = None if result.succeeded else connection.ended_by
        process = ProcessOutcome("finished", ended_by=ended_by, started_at=began, ended_at=self._clock.now_ms())
        self._connections.pop(mark, None)
        connection.close()
        self._unresponsive.discard(mark)
        self._done(mark, result, process, connection.reason)


def _call_runner(runner: EndpointRunner, call: RunnerRequest, connection: EndpointCall) -> RunnerResult:
    try:
        return runner.call(call, connection)
    except MatinsError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return RunnerResult(False, False, error=f"{error.message}{hint}")
    except Exception as error:  # a runner of a plug-in may raise anything
        log.error("the runner %s raised: %s", runner.name, connection.redacted_text(traceback.format_exc()))
        return RunnerResult(False, False, error=f"{type(error).__name__}: {error}")


def _shut(sock: socket.socket) -> None:
    with suppress(OSError):  # the socket is closed already
        socket.socket.shutdown(sock, socket.SHUT_RDWR)  # below TLS too: no closing handshake
