"""Use cases on approvals, declared.

Kinds of records as nouns: five verbs each, the same for all.
"""

# pyright: reportReturnType=false
from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from matins.api.use_case import Noun, use_case
from matins.model.access import Right

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matins.api.arguments import Id, Limit, RunId
    from matins.api.results import Approval, Run
    from matins.model.policies import ApprovalState


class Approvals(Noun, noun="approvals"):
    @use_case("read", "GET /v1/approvals", page=("after", "id"))
    def list(
        self,
        *,
        state: ApprovalState = "pending",
        newest: bool = False,
        after: Id | None = None,
        limit: Limit = 100,
    ) -> builtins.list[Approval]:
        """List approvals, the oldest first; default: pending ones. `newest`: the last ones, the newest first."""

    @use_case("read", "GET /v1/approvals/{approval_id}")
    def get(self, approval_id: Id) -> Approval:
        """Get an approval: exactly what would run, and who asked."""

    @use_case("approve", "POST /v1/approvals/{approval_id}/approve")
    def approve(
        self,
        approval_id: Id,
        *,
        note: str | None = None,
        digest: str | None = None,
        edits: Mapping[str, Any] | None = None,
    ) -> Approval:
        """Approve a request, or what it becomes with `edits`: then others are asked, unless the owner answers.

        `digest`: approve only if the request is unchanged.
        """

    @use_case("approve", "POST /v1/approvals/{approval_id}/deny")
    def deny(self, approval_id: Id, *, note: str | None = None, digest: str | None = None) -> Approval:
        """Deny a request."""

    @use_case("approve", "POST /v1/runs/{run_id}/approval")
    def answer(self, run_id: RunId, approved: bool, *, digest: str | None = None) -> Run | None:
        """Approve or deny the pending request about a run; None when there is none."""


F = TypeVar("F", bound=Callable[..., Any])


class RecordNoun(Noun):
    """Its subclasses are generated from the kinds of records, with types; see `tools/generate_types.py`."""


def set_record(
    noun: str, key: str, *, path: bool = False, right: Right = "govern", fresh: bool = False
) -> Callable[[F], F]:
    return use_case(right, f"PUT {record_path(noun, key, path=path)}", settings=noun, fresh=fresh)


def edit_record(
    noun: str, key: str, *, path: bool = False, right: Right = "govern", fresh: bool = False
) -> Callable[[F], F]:
    return use_case(right, f"PATCH {record_path(noun, key, path=path)}", settings=noun, fresh=fresh)


def get_record(noun: str, key: str, *, path: bool = False) -> Callable[[F], F]:
    return use_case("read", f"GET {record_path(noun, key, path=path)}")


def list_records(noun: str) -> Callable[[F], F]:
    return use_case("read", f"GET {record_path(noun, '')}")


def delete_record(
    noun: str, key: str, *, path: bool = False, right: Right = "govern", fresh: bool = False
) -> Callable[[F], F]:
    return use_case(right, f"DELETE {record_path(noun, key, path=path)}", status=204, fresh=fresh)


def record_path(noun: str, key: str, *, path: bool = False) -> str:
    """Where records of a kind are: `/v1/quiet-hours/{name}`. `path`: their keys may hold slashes."""
    collection = f"/v1/{noun.replace('_', '-')}"
    return f"{collection}/{{{key}{':path' if path else ''}}}" if key else collection
