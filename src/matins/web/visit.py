"""One request for a page: who asks, in which zone, and the use cases as that principal.

Addresses: of views, of calls, of files. All of them lie below the root at which the application is mounted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import cached_property, lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from matins.api.results import AttentionItem, Stats
from matins.api.schedules import Api
from matins.api.use_case import USE_CASES, Caller
from matins.errors import MatinsError
from matins.model.access import Principal
from matins.service.permissions import check_right
from matins.surfaces.http.authentication import header
from matins.surfaces.http.problem_json import HttpError
from matins.surfaces.transports.in_process import InProcess


def full_name(record: Any) -> str:
    """A schedule's name with its agent's, which is unique."""
    return f"{record.agent}/{record.name}" if record.agent else record.name


def address(root: str, start: str, /, *parts: str | None, **query: object) -> str:
    """`start` with further parts of the path and a query. Parts and values are quoted; empty ones are left out."""
    path = "".join([root, start, *[_segment(part) for part in parts if part]])
    given = {name: value for name, value in query.items() if value} if query else None
    return f"{path}?{urlencode(given)}" if given else path


@lru_cache(4096)
def _segment(part: str) -> str:
    """A page names the same schedules and agents again and again."""
    return f"/{quote(part, safe='')}"


ZONE_COOKIE = "matins_zone"
THEME_COOKIE = "matins_theme"
BOUNCED = "b"
"""The parameter of an address that the page requested again by itself."""
_THEMES = ("light", "dark")
_MAX_QUERY = 100


@dataclass(frozen=True)
class Visit:
    """What a view gets."""

    root: str
    """Where the application is mounted: "" or, for example, "/matins"."""
    path: str
    params: Mapping[str, str]
    query: Mapping[str, str]
    principal: Principal
    caller: Caller
    now: datetime
    zone: tzinfo
    zone_name: str
    theme: str | None
    form: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def api(self) -> Api:
        """The use cases, with the rights of the principal."""
        return Api(InProcess(self.caller, self.principal))

    @cached_property
    def stats(self) -> Stats:
        """Read once for all parts of a page."""
        return self.api.system.stats()

    @cached_property
    def attention(self) -> list[AttentionItem]:
        return self.api.system.attention()

    def can(self, name: str) -> bool:
        """Whether the principal has the right to a use case."""
        try:
            check_right(self.principal, USE_CASES[name])
        except MatinsError:
            return False
        return True

    def address(self, start: str, /, *parts: str | None, **query: object) -> str:
        """The address of a view, a call or a file, as the browser asks for it."""
        return address(self.root, start, *parts, **query)

    def link(self, **changed: str | None) -> str:
        """This address, with other values in its query; None removes one."""
        return self.address(self.path, **{**self.query, **changed, BOUNCED: None})


class Page(NamedTuple):
    """What a view gives: a template and its values. `names` are the records whose changes concern the page."""

    template: str
    title: str
    values: Mapping[str, Any]
    names: tuple[str, ...] = ("*",)
    status: int = 200


View = Callable[[Visit], Page]


def query_of(scope: Any) -> dict[str, str]:
    """The query of an address. The first value of a name counts."""
    if scope["query_string"].count(b"&") >= _MAX_QUERY:
        message = f"The address has more than {_MAX_QUERY} fields."
        raise HttpError(400, "invalid", message, field="query", hint="Open the page again from the menu.")
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), errors="replace")
    return dict(reversed(pairs))


def cookies_of(scope: Any) -> dict[str, str]:
    parts = (part.strip().partition("=") for part in (header(scope, b"cookie") or "").split(";"))
    return {name: value for name, _, value in parts if name}


def zone_of(name: str | None, local: str) -> tuple[tzinfo, str]:
    """The zone that the browser named, and its name; otherwise the machine's own."""
    for each in ((name or "").replace("%2F", "/"), local):
        try:
            if each:
                return ZoneInfo(each), each
        except (ZoneInfoNotFoundError, ValueError, OSError):
            continue
    return UTC, "UTC"


def theme_of(name: str | None) -> str | None:
    return name if name in _THEMES else None
