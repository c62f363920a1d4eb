"""Spans for OpenTelemetry: one for each run, step and attempt, sent when the run has ended.

Their ids follow from the run, so an agent knows its own before there is a span (`matins.runtime.run_context`), and what
is sent twice is the same twice. Where and how they are sent is said by the variables of OpenTelemetry.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from matins._version import __version__
from matins.api.results import Run, RunFacts, RunStep
from matins.api.use_case import USE_CASES, Caller
from matins.engine.events import TERMINAL_EVENTS
from matins.errors import NotFound, StoreUnavailable
from matins.model.access import OWNER
from matins.runtime.run_context import span_id, trace_id

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

log = logging.getLogger("matins")
_SUBSCRIPTION = "opentelemetry"
_TYPES = tuple(sorted(kind for kind in TERMINAL_EVENTS if kind.startswith("run.")))
_EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
_FAILED = frozenset(["failed", "interrupted", "unknown", "over_budget", "retried"])
T = TypeVar("T")
Attributes = dict[str, "str | int | float | bool"]


def are_wanted(environment: Mapping[str, str]) -> bool:
    """Whether spans can be sent to the collector that the environment names: they are not switched off, and the extra
    is installed."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    try:
        installed = find_spec(_EXPORTER) is not None
    except ModuleNotFoundError:
        installed = False
    if not installed:
        log.warning(
            'OTEL_EXPORTER_OTLP_ENDPOINT is set, and no spans are sent. To send them: pip install "matins[otel]"'
        )
    return installed


class _Part(NamedTuple):
    """A span, before OpenTelemetry is loaded."""

    name: str
    id: str
    parent: str | None
    start: datetime
    end: datetime
    state: str | None
    attributes: Attributes


class Traces:
    """Sends the spans of runs. Called with the event that ends a run; what it raises is tried again."""

    def __init__(self, caller: Caller, incarnation: Callable[[], str]) -> None:
        self._caller = caller
        self._incarnation = incarnation
        self._exporter: SpanExporter | None = None

    def follow(self, subscribe: Callable[[Callable[[dict[str, Any]], Any], Iterable[str], str], T]) -> T:
        """Follow the ends of runs under a name, so that of several engines one sends them, and none is left out."""
        return subscribe(self, _TYPES, _SUBSCRIPTION)

    def __call__(self, event: Mapping[str, Any]) -> None:
        try:
            facts = self._ask("runs.facts", run_id=event["runid"])
            parts = list(self._parts(facts))
        except NotFound:  # its history was deleted meanwhile
            return
        if parts:
            self._send(facts.run.id, parts)

    def close(self) -> None:
        if self._exporter is not None:
            self._exporter.shutdown()
            self._exporter = None

    def _ask(self, use_case: str, **arguments: Any) -> Any:
        return self._caller.invoke(OWNER, USE_CASES[use_case], arguments)

    def _parts(self, facts: RunFacts) -> Iterator[_Part]:
        run = facts.run
        if run.ended_at is None or not facts.executed:
            return
        whole = span_id(self._incarnation(), run.id)
        own = self._described(facts)
        if facts.tokens is not None:
            own["matins.tokens"] = facts.tokens
        if facts.cost is not None:
            own["matins.cost"] = facts.cost
        yield _Part(f"run {run.schedule}", whole, None, facts.due_at, run.ended_at, run.state, own)
        if not run.steps:
            yield from self._attempts(facts, whole, facts.agent, run.outcome)
        for step in run.steps:
            if step.run_id is not None and step.started_at is not None:
                yield from self._step(step, whole)

    def _step(self, step: RunStep, parent: str) -> Iterator[_Part]:
        facts: RunFacts = self._ask("runs.facts", run_id=step.run_id)
        own, start = span_id(self._incarnation(), facts.run.id), step.started_at or facts.due_at
        described = {**self._described(facts), "matins.step": step.number, "matins.step.title": step.title}
        yield _Part(f"step {step.title}", own, parent, start, step.ended_at or start, step.state, described)
        yield from self._attempts(facts, own, step.agent, step.outcome)

    def _attempts(self, facts: RunFacts, parent: str, agent: str, outcome: Any) -> Iterator[_Part]:
        """The last attempt has what the outcome tells: what earlier ones spent is in the sum of the run."""
        found = [span for span in facts.spans if span.name == "attempt" and span.end is not None]
        for number, span in enumerate(found, 1):
            own: Attributes = {"matins.run.id": facts.run.id, "matins.attempt": number}
            if agent:
                own |= self._of_agent(agent, facts.run, outcome if number == len(found) else None)
            name = f"invoke_agent {agent}" if agent else f"attempt {number}"
            where = span_id(self._incarnation(), facts.run.id, number)
            yield _Part(name, where, parent, span.start, span.end or span.start, span.state, own)

    def _described(self, facts: RunFacts) -> Attributes:
        run = facts.run
        own: Attributes = {"matins.run.id": run.id, "matins.schedule": run.schedule, "matins.state": run.state}
        if facts.agent:
            own["matins.agent"] = facts.agent
        if run.slot is not None:
            own["matins.slot"] = run.slot.isoformat()
        if run.reason is not None:
            own["matins.reason"] = run.reason
        return own

    def _of_agent(self, name: str, run: Run, outcome: Any) -> Attributes:
        """By OpenTelemetry's conventions for generative AI. They have no name for the cost: this one is Langfuse's and
        OpenLIT's, in dollars."""
        own: Attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
        settings: dict[str, Any] = self._ask("runs.snapshot", run_id=run.id).settings
        agent: Any = None
        try:
            agent = self._ask("agents.get", name=name)
        except NotFound:
            log.debug("the agent %s was deleted before its span was sent", name)
        provider = settings.get("provider") or (agent and (agent.provider or agent.runner))
        model = run.model or settings.get("model") or (agent and agent.model)
        own |= {
            key: text for key, text in [("gen_ai.provider.name", provider), ("gen_ai.request.model", model)] if text
        }
        found: Any = cast("Any", outcome or {}).get("result")
        if not isinstance(found, dict):
            return own
        result = cast("dict[str, Any]", found)
        if session := result.get("session"):
            own["gen_ai.conversation.id"] = session
        if tokens := result.get("tokens"):
            own["gen_ai.usage.input_tokens"] = tokens["in"] + tokens["cached"]
            own["gen_ai.usage.output_tokens"] = tokens["out"]
            own["gen_ai.usage.cache_read.input_tokens"] = tokens["cached"]
        if money := result.get("money"):
            own["gen_ai.usage.cost"] = money["micro_dollars"] / 1_000_000
        return own

    def _send(self, run_id: str, parts: list[_Part]) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # most programs send none
        from opentelemetry.sdk.trace.export import SpanExportResult

        if self._exporter is None:
            self._exporter = OTLPSpanExporter()
        if self._exporter.export(_spans(trace_id(self._incarnation(), run_id), parts)) is not SpanExportResult.SUCCESS:
            raise StoreUnavailable(f"The collector did not take the spans of run {run_id}.", hint="See the log.")


def _spans(trace: str, parts: list[_Part]) -> list[ReadableSpan]:
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    resource = Resource({"service.name": "matins", "service.version": __version__}).merge(
        OTELResourceDetector().detect()
    )
    scope = InstrumentationScope("matins", __version__)

    def context(span: str) -> SpanContext:
        return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    def status(state: str | None) -> Status:
        return Status(StatusCode.ERROR, state) if state in _FAILED else Status(StatusCode.OK)

    return [
        ReadableSpan(
            part.name,
            context(part.id),
            parent=None if part.parent is None else context(part.parent),
            resource=resource,
            attributes=part.attributes | ({"error.type": part.state} if part.state in _FAILED and part.state else {}),
            kind=SpanKind.INTERNAL,
            status=status(part.state),
            start_time=round(part.start.timestamp() * 1e6) * 1000,
            end_time=round(part.end.timestamp() * 1e6) * 1000,
            instrumentation_scope=scope,
        )
        for part in parts
    ]
