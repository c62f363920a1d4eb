"""The composition root: the only place that wires the parts together."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from matins.engine.when.triggers import Trigger
    from matins.library import Matins
    from matins.model.principal import Principal
    from matins.model.trigger import Anchor, DstGap, DstOverlap, First
    from matins.runtime.clock import SystemClock
    from matins.surfaces.door import Door


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
) -> Trigger:
    """The trigger that a text stands for: cron, an alias, a duration, English, an ISO instant, or an RRULE.

    `now` is what relative phrases count from, the clock by default. `timezone` is an IANA name, "local" for the
    machine's own, or None for UTC (or the zone that a DTSTART names).
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
    )


@cache
def _parser() -> tuple[Callable[..., Trigger], Callable[[datetime], int], SystemClock]:
    # Loaded on first use, and once: import statements cost more than parsing does.
    from matins.engine.when.parse import parse_trigger as parse
    from matins.engine.when.triggers import to_ms
    from matins.runtime.clock import SystemClock

    return parse, to_ms, SystemClock()


def trigger_from_dict(data: Mapping[str, Any]) -> Trigger:
    """The trigger that `Trigger.to_dict` wrote."""
    from matins.engine.when.definitions import from_dict
    from matins.engine.when.triggers import compile_trigger

    return compile_trigger(from_dict(data))


_OF_FILE = ("plan", "apply")


class App:
    """What the command line is given: the way to whoever answers, and the daemon itself."""

    def door(
        self,
        store: str | None = None,
        url: str | None = None,
        token: str | None = None,
        home: str | Path | None = None,
        file: str | Path | None = None,
    ) -> Door:
        """The daemon that is named or runs here; else the store itself, opened when it is first needed."""
        from matins.surfaces.home import Home, shown, whole

        at = Home(home)
        running = at.running()
        if url is None and running is not None and (store is None or whole(store) == running.store):
            url = running.url
        if url is not None:
            from matins.surfaces.client import Client

            here = running is not None and url.rstrip("/") == running.url
            return Client(url, token or (at.token() if here else None))
        from matins.surfaces.door import OwnDoor

        own = _OwnStore(whole(store or at.store), file or at.file, named=store is not None)
        return OwnDoor(own, f"the store {shown(own.url)}")

    def up(
        self,
        store: str | None = None,
        file: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int | None = None,
        home: str | Path | None = None,
        log: str = "plain",
        demo: bool = False,
    ) -> None:
        """Be the daemon, until SIGTERM or SIGINT."""
        from matins.daemon import Daemon

        Daemon(store=store, file=file, host=host, port=port, home=home, log=log, demo=demo).run()

    def systemd_unit(
        self, store: str | None = None, file: str | Path | None = None, home: str | Path | None = None
    ) -> str:
        """A unit for systemd that keeps the daemon running, as a text."""
        from matins.daemon.unit import systemd_unit

        return systemd_unit(store=store, file=file, home=home)


class _OwnStore:
    """`Matins` on a store of one's own. A look makes no store where there is none."""

    def __init__(self, url: str, file: str | Path, *, named: bool) -> None:
        from pathlib import Path

        self.url = url
        self._file = Path(file)
        self._named = named
        self._opened: Matins | None = None
        self._nothing: Matins | None = None
        """Stands in for a store that is not there, until something is to be kept."""

    def call_as(self, principal: Principal, use_case: str, /, *arguments: Any, **options: Any) -> Any:
        return self._matins(use_case).call_as(principal, use_case, *arguments, **options)

    def _matins(self, use_case: str) -> Matins:
        from matins.service import READS

        if self._opened is None or (self._opened is self._nothing and use_case not in READS):
            import atexit

            self._opened = self._open(use_case)
            atexit.register(self._opened.close)
        return self._opened

    def _open(self, use_case: str) -> Matins:
        from matins.errors import NotFound
        from matins.library import Matins
        from matins.service import READS
        from matins.surfaces.home import path_of, private_files

        path = path_of(self.url)
        if path is not None and not path.exists() and use_case in READS:
            if self._named:
                hint = "sqlite:////full/path/to/file.db"
                raise NotFound(f"There is no store {path}", value=self.url, field="store", hint=hint)
            matins = self._nothing = Matins()
        else:
            with private_files():
                matins = Matins(self.url)
        if use_case in _OF_FILE or self._file.exists():
            matins.follow_file(self._file)
        return matins


def main() -> None:
    """The `matins` command."""
    from matins.surfaces.cli import cli

    cli(obj=App())
