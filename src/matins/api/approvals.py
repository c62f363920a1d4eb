"""Use cases on approvals, declared."""

# pyright: reportReturnType=false
from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from matins.api.use_case import Noun, use_case

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matins.api.arguments import Id, Limit, RunId
    from matins.api.results import Approval, Run
    from matins.model.approval import ApprovalState


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
