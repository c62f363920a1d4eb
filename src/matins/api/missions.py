"""Use cases on missions, declared. A mission is a schedule with steps: all that schedules can do works for it too."""

# pyright: reportReturnType=false
from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from matins.api.use_case import Noun, use_case

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    from matins.api._types import ScheduleSettings
    from matins.api.arguments import Id, Limit, When
    from matins.api.results import Mission
    from matins.model.schedule import MissionStatus

_MISSION = "/v1/missions/{name:path}"
_AGENT = ("agent",)


class Missions(Noun, noun="missions"):
    @use_case("change", "POST /v1/missions", status=201, location="/v1/missions/{agent}/{name}", settings="schedule")
    def make(
        self,
        name: str | None = None,
        *,
        when: When | None = None,
        agent: str = "",
        create_agent: bool = False,
        context: Mapping[str, Any] | None = None,
        **settings: Unpack[ScheduleSettings],
    ) -> Mission:
        """Make a mission from its `steps`. Without `when` it is a draft, which a person starts.

        The arguments are those of `add`. A name that is taken is refused.
        """

    @use_case("read", "GET /v1/missions", page=("after", "id"))
    def list(
        self,
        *,
        agent: str | None = None,
        status: MissionStatus | None = None,
        after: Id | None = None,
        limit: Limit = 100,
    ) -> builtins.list[Mission]:
        """List missions with their status, next and last run, the oldest first."""

    @use_case("read", f"GET {_MISSION}")
    def get(self, name: str, *, agent: str | None = None) -> Mission:
        """Get a mission: its status, its steps, its last run."""

    @use_case("change", f"POST {_MISSION}/draft", query=_AGENT)
    def draft(self, name: str, *, agent: str | None = None) -> Mission:
        """Take the time of a mission away, with its end. Running runs continue."""

    @use_case("change", f"POST {_MISSION}/abort", query=_AGENT)
    def abort(self, name: str, *, agent: str | None = None) -> Mission:
        """Take the time of a mission away, and cancel its runs."""

    @use_case("change", f"DELETE {_MISSION}", status=204)
    def delete(self, name: str, *, agent: str | None = None) -> bool:
        """Delete a mission. Its history is kept. False when there is none."""
