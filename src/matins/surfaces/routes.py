"""Every use case that is reached over HTTP: one table, by which the server answers and the client asks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
_PARAMETER = re.compile(r"{(\w+)(?::path)?}")


class Route(NamedTuple):
    """Parameters that the path names stand in the path; of GET and DELETE the rest is the query, else the body."""

    use_case: str
    method: Method
    path: str
    status: int = 200
    in_query: tuple[str, ...] = ()
    """What stands in the query although there is a body."""

    @property
    def in_path(self) -> tuple[str, ...]:
        return tuple(_PARAMETER.findall(self.path))

    @property
    def has_body(self) -> bool:
        return self.method not in ("GET", "DELETE")


class Page(NamedTuple):
    """How a long collection goes on: with the argument that takes what stands in a field of its last item."""

    argument: str
    field: str


_SCHEDULE = "/v1/schedules/{name:path}"
_AGENT = ("agent",)

ROUTES: tuple[Route, ...] = (
    # What stands behind a schedule's name comes before the name alone, which takes everything.
    Route("pause", "POST", f"{_SCHEDULE}/pause", in_query=_AGENT),
    Route("resume", "POST", f"{_SCHEDULE}/resume", in_query=_AGENT),
    Route("run", "POST", f"{_SCHEDULE}/run", 201, in_query=_AGENT),
    Route("runs", "GET", f"{_SCHEDULE}/runs"),
    Route("why", "GET", f"{_SCHEDULE}/why"),
    Route("preview", "GET", f"{_SCHEDULE}/preview"),
    Route("preview_change", "POST", f"{_SCHEDULE}/preview", in_query=("agent", "count")),
    Route("preview_catch_up", "GET", f"{_SCHEDULE}/catch-up"),
    Route("overview", "GET", "/v1/schedules"),
    Route("add", "POST", "/v1/schedules", 201),
    Route("add_many", "POST", "/v1/schedules/batch", 201),
    Route("look", "GET", _SCHEDULE),
    Route("edit", "PATCH", _SCHEDULE, in_query=_AGENT),
    Route("remove", "DELETE", _SCHEDULE, 204),
    Route("upcoming", "GET", "/v1/upcoming"),
    Route("next_times", "GET", "/v1/next"),
    # runs
    Route("recent", "GET", "/v1/runs"),
    Route("get_run", "GET", "/v1/runs/{run_id}"),
    Route("cancel", "POST", "/v1/runs/{run_id}/cancel"),
    Route("resolve", "POST", "/v1/runs/{run_id}/resolve"),
    Route("resolve_approval", "POST", "/v1/runs/{run_id}/approval"),
    Route("checks", "GET", "/v1/runs/{run_id}/checks"),
    Route("landing", "GET", "/v1/runs/{run_id}/landing"),
    Route("snapshot", "GET", "/v1/runs/{run_id}/snapshot"),
    Route("output", "GET", "/v1/runs/{run_id}/output"),
    # approvals
    Route("approvals", "GET", "/v1/approvals"),
    Route("get_approval", "GET", "/v1/approvals/{approval_id}"),
    Route("approve", "POST", "/v1/approvals/{approval_id}/approve"),
    Route("deny", "POST", "/v1/approvals/{approval_id}/deny"),
    # agents, and where they are spoken to
    Route("agents", "GET", "/v1/agents"),
    Route("get_agent", "GET", "/v1/agents/{name}"),
    Route("set_agent", "PUT", "/v1/agents/{name}"),
    Route("edit_agent", "PATCH", "/v1/agents/{name}"),
    Route("drop_agent", "DELETE", "/v1/agents/{name}", 204),
    Route("agent_rules", "GET", "/v1/agent-rules/{agent}"),
    Route("set_agent_rules", "PUT", "/v1/agent-rules/{agent}"),
    Route("threads", "GET", "/v1/threads"),
    Route("messages", "GET", "/v1/threads/{thread_id}/messages"),
    Route("work_sources", "GET", "/v1/work-sources"),
    Route("set_work_source", "PUT", "/v1/work-sources/{name}"),
    Route("drop_work_source", "DELETE", "/v1/work-sources/{name}", 204),
    # what governs them
    Route("quiet_hours", "GET", "/v1/quiet-hours"),
    Route("set_quiet_hours", "PUT", "/v1/quiet-hours/{name}"),
    Route("drop_quiet_hours", "DELETE", "/v1/quiet-hours/{name}", 204),
    Route("budgets", "GET", "/v1/budgets"),
    Route("set_budget", "PUT", "/v1/budgets/{name}"),
    Route("drop_budget", "DELETE", "/v1/budgets/{name}", 204),
    Route("prices", "GET", "/v1/prices"),
    Route("set_price", "PUT", "/v1/prices/{model:path}"),
    Route("drop_price", "DELETE", "/v1/prices/{model:path}", 204),
    Route("rates", "GET", "/v1/rates"),
    Route("set_rate", "PUT", "/v1/rates/{currency}", 204),
    Route("drop_rate", "DELETE", "/v1/rates/{currency}", 204),
    Route("hooks", "GET", "/v1/hooks"),
    Route("set_hook", "PUT", "/v1/hooks/{event}", 204),
    Route("drop_hook", "DELETE", "/v1/hooks/{event}", 204),
    Route("limits", "GET", "/v1/limits"),
    Route("limit", "PUT", "/v1/limits/{scope}", 204),
    Route("drop_limit", "DELETE", "/v1/limits/{scope}", 204),
    Route("throttles", "GET", "/v1/throttles"),
    Route("throttle", "PUT", "/v1/throttles/{provider}"),
    Route("lift_throttle", "DELETE", "/v1/throttles/{provider}", 204),
    # events, and who hears of them
    Route("events", "GET", "/v1/events"),
    Route("webhooks", "GET", "/v1/webhooks"),
    Route("add_webhook", "POST", "/v1/webhooks", 201),
    Route("pause_webhook", "POST", "/v1/webhooks/{name}/pause"),
    Route("resume_webhook", "POST", "/v1/webhooks/{name}/resume"),
    Route("drop_webhook", "DELETE", "/v1/webhooks/{name}", 204),
    Route("deliveries", "GET", "/v1/subscriptions/{name}/deliveries"),
    Route("redeliver", "POST", "/v1/subscriptions/{name}/redeliver", 204),
    Route("forget_subscription", "DELETE", "/v1/subscriptions/{name}", 204),
    Route("allowed_hosts", "GET", "/v1/allowed-hosts"),
    Route("set_allowed_hosts", "PUT", "/v1/allowed-hosts", 204),
    Route("audit", "GET", "/v1/audit"),
    Route("last_seal", "GET", "/v1/audit/seal"),
    # the whole
    Route("stats", "GET", "/v1/stats"),
    Route("known_jobs", "GET", "/v1/jobs"),
    Route("doctor", "GET", "/v1/doctor"),
    Route("backup", "POST", "/v1/backup"),
    Route("whoami", "GET", "/v1/whoami"),
    Route("tokens", "GET", "/v1/tokens"),
    Route("create_token", "POST", "/v1/tokens", 201),
    Route("revoke_token", "DELETE", "/v1/tokens/{token_id}", 204),
    Route("plan", "GET", "/v1/file/plan"),
    Route("apply", "POST", "/v1/file/apply"),
)
PAGES: Mapping[str, Page] = {
    "overview": Page("after", "id"),
    "recent": Page("before", "id"),
    "runs": Page("before", "id"),
    "approvals": Page("after", "id"),
    "threads": Page("before", "id"),
    "messages": Page("after", "id"),
    "deliveries": Page("after", "event"),
    "events": Page("after", "id"),
}
"""Collections that may be long. All others come whole."""
BY_USE_CASE = {route.use_case: route for route in ROUTES}
NOT_HERE = frozenset({"get", "list", "verify_audit", "open_subscription"})
"""Use cases for programs in one's own process: `look`, `overview` and `audit` say more, a function needs a process."""
