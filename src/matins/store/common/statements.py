"""How the parts of a transaction run named statements and read their rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, Self, TypeVar


class _Row(Protocol):
    """A named tuple: its fields are the columns of its statements."""

    @classmethod
    def _make(cls, iterable: Iterable[Any], /) -> Self: ...


R = TypeVar("R", bound=_Row)


class Statements:
    """Part of a transaction. A statement has one name in both stores, and one text where their dialects agree."""

    def _all(self, query: str, /, **values: Any) -> list[Any]:
        """The rows of a statement; none when it returns nothing."""
        raise NotImplementedError

    def _integers(self, values: Iterable[int]) -> Any:
        """A list as one value of a statement."""
        raise NotImplementedError

    def _texts(self, values: Iterable[str]) -> Any:
        """A list as one value of a statement."""
        raise NotImplementedError

    def _rows(self, row: type[R], query: str, /, **values: Any) -> list[R]:
        return list(map(row._make, self._all(query, **values)))  # pyright: ignore[reportPrivateUsage]

    def _row(self, row: type[R], query: str, /, **values: Any) -> R | None:
        return next(iter(self._rows(row, query, **values)), None)

    def _column(self, query: str, /, **values: Any) -> list[Any]:
        """The first column."""
        return [row[0] for row in self._all(query, **values)]

    def _value(self, query: str, /, **values: Any) -> Any:
        """The first column of the first row; None when there is no row."""
        return next(iter(self._column(query, **values)), None)

    def _raised(self, changed: list[Any]) -> list[Any]:
        """The same rows, after the revision of the policies is raised if there are any."""
        if changed:
            self._all("raise_policy_rev")
        return changed
