"""The views: what each address shows. A view calls use cases and names a template."""

from collections.abc import Mapping

from matins.surfaces.web.views import (
    agents,
    approvals,
    events,
    incidents,
    missions,
    now,
    palette,
    runs,
    schedules,
    spend,
    system,
)
from matins.surfaces.web.visit import View

VIEWS: Mapping[str, View] = {
    "/": now.now,
    "/welcome": now.welcome,
    "/schedules": schedules.index,
    "/schedules/new": schedules.new,
    "/schedules/{name:path}/edit": schedules.edit,
    "/schedules/{name:path}": schedules.show,
    "/runs": runs.index,
    "/runs/{run_id}": runs.show,
    "/approvals": approvals.approvals,
    "/approvals/{approval_id}": approvals.show,
    "/missions": missions.missions,
    "/missions/{name:path}": missions.show_mission,
    "/agents": agents.agents,
    "/agents/{name}": agents.show_agent,
    "/events": events.events,
    "/incidents": incidents.incidents,
    "/spend": spend.spend,
    "/catch-up": spend.catch_up,
    "/settings": system.settings,
    "/inbound": system.inbound,
    "/inbound/{call_id}": system.call,
    "/more": system.more,
}
FRAGMENTS: Mapping[str, View] = {
    "/ui/reads": schedules.reads,
    "/ui/palette": palette.palette,
    "/ui/output/{run_id}": runs.more_output,
}
"""Parts of pages that scripts ask for."""
