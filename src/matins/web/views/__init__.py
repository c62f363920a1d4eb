"""The views: what each address shows. A view calls use cases and names a template."""

from collections.abc import Mapping

from matins.web.views import backfills, now, records, runs, schedules, system
from matins.web.visit import View

VIEWS: Mapping[str, View] = {
    "/": now.now,
    "/welcome": now.welcome,
    "/schedules": schedules.index,
    "/schedules/new": schedules.new,
    "/schedules/{name:path}/edit": schedules.edit,
    "/schedules/{name:path}": schedules.show,
    "/runs": runs.index,
    "/runs/{run_id}": runs.show,
    "/approvals": now.approvals,
    "/approvals/{approval_id}": now.show,
    "/missions": system.missions,
    "/missions/{name:path}": system.show_mission,
    "/agents": system.agents,
    "/agents/{name}": system.show_agent,
    "/events": system.events,
    "/incidents": now.incidents,
    "/incidents/{incident_id}": now.incident,
    "/spend": system.spend,
    "/backfills": backfills.index,
    "/backfills/new": backfills.new,
    "/backfills/{backfill_id}": backfills.show,
    "/records/{noun}/new": records.new,
    "/records/{noun}/{key}": records.show,
    "/settings": system.settings,
    "/me": system.me,
    "/inbound": system.inbound,
    "/inbound/{call_id}": system.call,
    "/more": system.more,
}
FRAGMENTS: Mapping[str, View] = {
    "/ui/parts/{name}": now.part,
    "/ui/approval/{approval_id}": now.ask,
    "/ui/approval/run/{run_id}": now.ask_run,
    "/ui/reads": schedules.reads,
    "/ui/palette": now.palette,
    "/ui/output/{run_id}": runs.more_output,
}
"""Parts of pages that scripts ask for."""
