"""`Client`: the same calls and results as `Matins`, of a daemon over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

from matins.api.schedules import Api
from matins.api.use_case import USE_CASES
from matins.errors import InvalidInput
from matins.surfaces.transports.http_client import Http


class Client(Api):
    """A client of a daemon: `client.add("morning", when="every weekday at 9am", …)`, as on `Matins`."""

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0) -> None:
        self._http = Http(url, token, timeout=timeout)
        super().__init__(self._http)

    @property
    def url(self) -> str:
        return self._http.url

    def document(self, use_case: str, /, **arguments: Any) -> Any:
        """The result of a use case by name, as JSON data; for a collection, the items of one page."""
        return self._http.document(_named(use_case), arguments)

    def pages(self, use_case: str, /, **arguments: Any) -> Iterator[list[Any]]:
        """A whole collection as JSON data, page by page."""
        return self._http.pages(_named(use_case), arguments)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *why: object) -> None:
        self.close()


def _named(name: str) -> Any:
    found: Mapping[str, Any] = USE_CASES
    if name not in found:
        from matins.engine.validation import nearest

        raise InvalidInput(f'There is no use case "{name}".', value=name, field="use_case", hint=nearest(name, found))
    return found[name]
