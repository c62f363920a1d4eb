"""How the parts of a transaction run named statements and read their rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matins.model.rows import Row, from_tuple


class Statements:
    """A part of a transaction. A statement has one name in both stores, and one text if the dialects agree."""

    def _all(self, query: str, /, **values: Any) -> list[Any]:
        """The rows of a statement; none when it returns nothing."""
        raise NotImplementedError

    def _integers(self, values: Iterable[int]) -> Any:
        """A list as one value of a statement."""
        raise NotImplementedError

    def _texts(self, values: Iterable[str]) -> Any:
        """A list as one value of a statement."""
        raise NotImplementedError

    def _rows(self, row: type[Row], query: str, /, **values: Any) -> list[Row]:
        return list(map(from_tuple(row), self._all(query, **values)))

    def _row(self, row: type[Row], query: str, /, **values: Any) -> Row | None:
        rows = self._all(query, **values)
        return row(*rows[0]) if rows else None

    def _column(self, query: str, /, **values: Any) -> list[Any]:
        """The first column."""
        return [row[0] for row in self._all(query, **values)]

    def _value(self, query: str, /, **values: Any) -> Any:
        """The first column of the first row; None when there is no row."""
        rows = self._all(query, **values)
        return rows[0][0] if rows else None

    def _delete_runs(self, ids: Any) -> None:
        """Delete ended runs, and what belongs to them."""
        for notes in (
            "delete_attempts",
            "delete_checks",
            "delete_spend",
            "delete_run_usage",
            "delete_approvals",
            "delete_runs",
        ):
            self._all(notes, ids=ids)

    def _raised(self, changed: list[Any]) -> list[Any]:
        """The same rows. If there are any, the revision of the policies is raised first."""
        if changed:
            self._all("increment_policy_rev")
        return changed
