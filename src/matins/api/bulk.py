"""Use cases on many schedules at once, declared."""

# pyright: reportReturnType=false
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from matins.api.use_case import Noun, use_case

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matins.api.arguments import Instant, Select
    from matins.api.results import BulkPreview, BulkResult

BulkAction = Literal["pause", "resume", "run", "delete", "edit"]


class Bulk(Noun, noun="bulk"):
    @use_case("read", "POST /v1/bulk/preview")
    def preview(self, do: BulkAction, select: Select) -> BulkPreview:
        """Preview what an action would do to the schedules that a selector selects. Nothing is written."""

    @use_case("change", "POST /v1/bulk")
    def apply(
        self,
        do: BulkAction,
        select: Select,
        *,
        expect: str | None = None,
        note: str | None = None,
        until: Instant | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> BulkResult:
        """Pause, resume, run, delete or edit the schedules that a selector selects, with one reason.

        `expect`: only if these are still those of the preview with this digest. `until`: when a pause ends by itself.
        `settings`: those of an edit. The id of a pause is a term of selectors: `pause=4f2a` resumes just those.
        What cannot be changed is skipped, each with its reason. An agent selects only what it made.
        """
