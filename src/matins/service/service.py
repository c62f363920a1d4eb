"""The service: every use case by name, behind one call that checks rights and arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from matins.api.arguments import read_arguments
from matins.api.use_case import UseCase
from matins.errors import InvalidFile
from matins.executors.registry import JobRegistry
from matins.model.access import Principal
from matins.model.clock import Clock
from matins.service.additions import Additions
from matins.service.approvals import Approvals
from matins.service.attention import Attention
from matins.service.audit import Audit
from matins.service.calls import Calls
from matins.service.catch_ups import CatchUps
from matins.service.core import Core
from matins.service.doctor import Doctor
from matins.service.events import Events
from matins.service.explanations import Explanations
from matins.service.file.apply import File
from matins.service.file.write_back import FileWriter
from matins.service.inbound import Inbound
from matins.service.incidents import Destinations, Incidents
from matins.service.jobs import KnownJobs
from matins.service.listing import RunLists, ScheduleLists
from matins.service.missions import Missions
from matins.service.new_agents import NewAgents
from matins.service.output import Outputs
from matins.service.past_days import Calendars, History
from matins.service.pauses import Pauses
from matins.service.permissions import check_right
from matins.service.previews import Previews
from matins.service.proposals import Proposals
from matins.service.record_changes import RecordChanges
from matins.service.records import Records
from matins.service.replies import Replies
from matins.service.run_facts import Facts
from matins.service.runs import Runs
from matins.service.schedule_changes import ScheduleChanges
from matins.service.schedules import Schedules
from matins.service.sessions import Sessions
from matins.service.speaking_runs import SpeakingRuns
from matins.service.storable import check_storable
from matins.service.subscriptions import Subscriptions, Webhooks
from matins.service.system import System
from matins.service.threads import Threads
from matins.service.timeline import Timelines
from matins.service.tokens import Tokens
from matins.service.transcripts import Transcripts
from matins.service.visibility import Visibility
from matins.store import Store

_OF_CORE: Mapping[str, tuple[Callable[[Core], Any], ...]] = {
    "schedules": (Explanations, Timelines, Facts, ScheduleLists, Calendars, CatchUps),
    "runs": (Facts, RunLists, SpeakingRuns),
    "events": (Events,),
    "subscriptions": (Subscriptions,),
    "audit": (Audit,),
    "incidents": (Incidents,),
    "destinations": (Destinations,),
    "threads": (Threads,),
    "tokens": (Tokens,),
    "sessions": (Sessions,),
    "system": (Attention, SpeakingRuns, History),
}
"""Parts of the service that need nothing but the core, by noun."""


class Service:
    """All use cases. `notify` is called after a change, to wake the loops."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        notify: Callable[[], None] = lambda: None,
        workdir: str | None = None,
        jobs: JobRegistry | None = None,
    ) -> None:
        self.core = core = Core(store, clock, notify, workdir, KnownJobs(store, jobs or JobRegistry()))
        self.local = core.local
        self._visibility = Visibility(core)
        proposals, records = Proposals(core), RecordChanges(core)
        changes, additions = ScheduleChanges(core, proposals), Additions(proposals, NewAgents(core, records))
        file = File(core, changes, records)
        writer = FileWriter(core, file)
        generic = Records(core, records, writer)
        schedules = Schedules(core, proposals, changes, additions, writer)
        runs, outputs, calls = Runs(core), Outputs(core), Calls(core)
        self._parts: Mapping[str, tuple[Any, ...]] = {
            "schedules": (schedules, runs, Previews(core, proposals, additions), Pauses(core, changes)),
            "missions": (Missions(core, schedules),),
            "runs": (runs, outputs, Transcripts(outputs)),
            "approvals": (Approvals(core, proposals),),
            "webhooks": (Webhooks(core, generic),),
            "calls": (calls,),
            "inbound": (Inbound(core, calls),),
            "threads": (Replies(core, runs),),
            "file": (file,),
            "system": (System(core, Doctor(core, file)),),
        }
        self._records = generic.methods()
        self._methods: dict[str, Callable[..., Any]] = {}

    def call(self, principal: Principal, use_case: UseCase, arguments: Mapping[str, Any]) -> Any:
        """The result of a use case. Rights and arguments are checked only here."""
        check_right(principal, use_case)
        check_storable(arguments)
        values = read_arguments(use_case, arguments)
        self._visibility.check(principal, use_case, values)
        try:
            result = self.method(use_case)(principal, **values)
        except InvalidFile as error:
            raise self._visibility.shown_error(principal, error) from None
        return self._visibility.shown(principal, use_case, result)

    def method(self, use_case: UseCase) -> Callable[..., Any]:
        """The method of a use case: of a part, or of the records of its kind."""
        found = self._methods.get(use_case.name)
        if found is None:
            noun, verb = use_case.noun, use_case.verb
            parts = [*self._parts.get(noun, ()), *(part(self.core) for part in _OF_CORE.get(noun, ()))]
            own = [getattr(part, verb) for part in parts if hasattr(part, verb)]
            found = self._methods[use_case.name] = own[0] if own else self._records[use_case.name]
        return found
