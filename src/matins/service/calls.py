"""Use cases on calls: fire, list, fire again.

`InboundReceiver`: verifies a webhook, then fires it like any other call.
"""

from __future__ import annotations

import builtins
import logging
import secrets
import threading
import uuid
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import parse_qsl

import orjson

from matins.api.results import Call, CallRun, InboundTest, PingAddress, Run, TestedSchedule
from matins.api.use_case import USE_CASES, Caller
from matins.engine.calls import Match, listening, mapping_of, match_call
from matins.engine.gates.checks import ping_until
from matins.engine.jobs import PING_JOB, full_prompt
from matins.engine.prompts import CallContext, PromptContext, build_prompt
from matins.engine.transitions import DEFER, MARK_READY
from matins.engine.validation import check_name
from matins.engine.when.triggers import to_datetime
from matins.errors import Conflict, InvalidInput, NotFound
from matins.executors.secrets import resolve
from matins.model import call as model
from matins.model.access import Principal
from matins.model.call import InboundEndpoint
from matins.model.clock import Clock
from matins.model.rows import NewEvent, WaitingRun
from matins.model.run import RunState
from matins.model.schedule import ScheduleRecord
from matins.net.inbound import SCHEMES, Delivery, Headers, delivery_type, verify
from matins.runtime.calls import fire
from matins.runtime.catalog import Catalog, CompiledSchedule
from matins.runtime.run_changes import RunChange, apply
from matins.service.core import MAX_ID, Core
from matins.service.permissions import rights_of
from matins.service.run_views import run_result
from matins.service.runs import Runs
from matins.store import Store
from matins.store.transaction import Transaction

MAX_BODY_BYTES = 8 << 20
_MAX_KEY_LENGTH = 150


@dataclass(frozen=True)
class Calls:
    core: Core

    def fire(
        self,
        principal: Principal,
        source: model.CallSource,
        name: str,
        key: str,
        *,
        body: Any = None,
        type: str | None = None,  # noqa: A002 - the name that senders use
        text: str | None = None,
        sender: str | None = None,
        signed: str | None = None,
    ) -> Call:
        _check_source(source)
        key, signed = _checked_key("key", key), None if signed is None else _checked_key("signed", signed)
        name, body = check_name("name", name), _checked_body(body)
        call = model.Call(source, name, key, body, type, text, sender, signed=signed)
        return self._fire(principal, call)

    def list(
        self,
        principal: Principal,
        *,
        source: model.CallSource | None = None,
        name: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> builtins.list[Call]:
        with self.core.store.reading() as transaction:
            rows = transaction.calls(MAX_ID if before is None else before, limit, source or "", name or "")
            return call_results(transaction, rows)

    def get(self, principal: Principal, call_id: int) -> Call:
        with self.core.store.reading() as transaction:
            whole = "operate" in rights_of(principal)
            return _result(self._row(transaction, call_id), transaction.runs_of_calls([call_id]), whole=whole)

    def replay(self, principal: Principal, call_id: int) -> Call:
        with self.core.store.reading() as transaction:
            row = self._row(transaction, call_id)
        if row.body is None:
            message = f"The body of call {call_id} is no longer kept."
            raise Conflict(message, value=call_id, field="call", hint="Ask the sender to deliver it again.")
        key = f"replay:{call_id}:{uuid.uuid4()}"
        call = model.Call(row.source, row.name, key, orjson.loads(row.body), row.type, row.text, row.sender, row.hops)  # type: ignore[arg-type]
        return self._fire(principal, call)

    def _fire(self, principal: Principal, call: model.Call) -> Call:
        now, core = self.core.clock.now_ms(), self.core
        with core.store.transaction(now) as transaction:
            fired = fire(transaction, core.catalog, call, now, principal.who, self._ignored(transaction, call))
            row, runs = self._row(transaction, fired.call_id), transaction.runs_of_calls([fired.call_id])
            result = _result(row, runs, duplicate=fired.duplicate)
        core.notify()
        return result

    def _ignored(self, transaction: Transaction, call: model.Call) -> str | None:
        """Why the inbound endpoint takes no notice of the call."""
        if call.source != "webhook":
            return None
        endpoint = self.core.catalog.policies(transaction).inbound.get(call.name)
        if endpoint is None:
            raise NotFound(f'There is no inbound endpoint "{call.name}".', value=call.name, field="name")
        if endpoint.events and call.type not in endpoint.events:
            return f"The type {call.type or 'is not given, and'} is not among the endpoint's events."
        if endpoint.kind == "github" and call.type == "ping":
            return "This is GitHub's ping."
        return None

    def _row(self, transaction: Transaction, call_id: int) -> model.CallRow:
        row = transaction.call(call_id)
        if row is None:
            hint = "Calls are kept for 30 days: matins calls."
            raise NotFound(f"There is no call {call_id}.", value=call_id, field="call", hint=hint)
        return row


def call_results(transaction: Transaction, rows: Sequence[model.CallRow]) -> list[Call]:
    """The calls without their bodies."""
    runs: dict[int, list[model.CalledRun]] = {row.id: [] for row in rows}
    for run in transaction.runs_of_calls(runs):
        runs[run.call_id].append(run)
    return [_result(row, runs[row.id], whole=False) for row in rows]


def _result(
    row: model.CallRow, runs: Sequence[model.CalledRun], *, duplicate: bool = False, whole: bool = True
) -> Call:
    return Call(
        id=str(row.id),
        source=row.source,  # type: ignore[arg-type]
        name=row.name.removeprefix("/"),
        key=row.key,
        type=row.type,
        sender=row.sender,
        hops=row.hops,
        at=to_datetime(row.at),
        outcome=row.outcome,  # type: ignore[arg-type]
        reason=row.reason,
        duplicate=duplicate,
        runs=[CallRun(str(run.id), run.schedule, RunState(run.state).displayed, run.reason) for run in runs],  # type: ignore[arg-type]
        text=row.text if whole else None,
        body=None if row.body is None or not whole else orjson.loads(row.body),
    )


def _check_source(source: str) -> None:
    if source == "schedule":
        hint = "Run the schedule that it follows."
        raise InvalidInput("Only the end of a run makes a call of a schedule.", value=source, field="source", hint=hint)


def _checked_key(field: str, key: str) -> str:
    if not key or len(key) > _MAX_KEY_LENGTH or not key.isprintable():
        message = f'"{field}" must be text of 1 to {_MAX_KEY_LENGTH} printable characters.'
        raise InvalidInput(message, value=key[:60], field=field, hint="Shorten it.")
    return key


def _checked_body(body: Any) -> Any:
    try:
        size = len(orjson.dumps(body))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f'"body" must be a JSON value ({error}).', field="body") from None
    if size > MAX_BODY_BYTES:
        raise InvalidInput(f'"body" must be at most {MAX_BODY_BYTES} bytes as JSON, not {size}.', field="body")
    return body


log = logging.getLogger("matins")
MAX_DEPTH = 64
PING_PATH = "/in/p/"
MAX_PING_TEXT = 100_000
_SIGNALS = {"success": 0, "fail": 1, "start": None}
_FORM = "application/x-www-form-urlencoded"
_MAX_FIELDS = 1_000
_MINUTE_MS = 60_000
_MAX_ENDPOINT_LENGTH = 100

Refusal = Literal["unknown", "unauthorized", "unreadable", "unsupported", "too_many", "misconfigured"]


class DeliveryRefusedError(Exception):
    """A delivery that fires nothing."""

    def __init__(self, refusal: Refusal, detail: str, retry_after_s: int | None = None) -> None:
        super().__init__(detail)
        self.refusal: Refusal = refusal
        self.retry_after_s = retry_after_s


class Received(NamedTuple):
    """The effect of a delivery."""

    call: Call | None
    challenge: str | None = None
    """Slack's question whether the endpoint is ours, to be answered with itself."""


class InboundReceiver:
    """Receives deliveries to inbound endpoints. A sender is known by its signature alone."""

    def __init__(self, caller: Caller, store: Store, clock: Clock) -> None:
        self._caller = caller
        self._store = store
        self._clock = clock
        self._catalog = Catalog(cache=False)
        self._lock = threading.Lock()
        self._accepted: dict[str, deque[int]] = {}
        self._refused: dict[str, tuple[int, int]] = {}
        """Refusals since the last event, and when the next event may be written, by endpoint."""

    def max_bytes(self, name: str) -> int:
        return self._endpoint(name).max_bytes

    def receive(self, name: str, headers: Headers, body: bytes) -> Received:
        """Fire the delivery. Raises DeliveryRefusedError unless it is signed, readable, and one of not too many."""
        endpoint, now = self._endpoint(name), self._clock.now_ms()
        delivery = Delivery(headers, body)
        if not verify(endpoint, secrets_of(endpoint), delivery, now // 1000):
            self._count_refusal(name, now)
            raise DeliveryRefusedError("unauthorized", "The delivery is not signed as it should be.")
        document = parse_body(delivery)
        asked = mapping_of(document)
        if endpoint.kind == "slack" and asked.get("type") == "url_verification":
            return Received(None, str(asked.get("challenge", ""))[:1_000])
        self._check_rate(endpoint)
        call = call_of(endpoint, delivery, document, now)
        principal = Principal("operator", name, rights=frozenset({"operate"}), kind="webhook")
        given = {name: value for name, value in call._asdict().items() if name != "hops" and value is not None}
        return Received(self._caller.invoke(principal, USE_CASES["calls.fire"], given))

    def ping(self, token: str, signal: str, body: bytes) -> None:
        """Report what work elsewhere says. Raises DeliveryRefusedError if no schedule has this address."""
        with self._store.reading() as transaction:
            found = transaction.pinged_schedule(token)
        if found is None:
            raise DeliveryRefusedError("unknown", "There is no such address.")
        principal = Principal("operator", "ping", rights=frozenset({"operate"}), kind="webhook")
        text = body[:MAX_PING_TEXT].decode(errors="replace").replace("\0", "\ufffd").strip()
        given = {"name": found[0], "agent": found[1], "signal": signal, "text": text or None}
        self._caller.invoke(principal, USE_CASES["pings.send"], given)

    def _endpoint(self, name: str) -> InboundEndpoint:
        with self._store.reading() as transaction:
            endpoint = self._catalog.policies(transaction).inbound.get(name)
        if endpoint is None:
            raise DeliveryRefusedError("unknown", "There is no such endpoint.")
        return endpoint

    def _check_rate(self, endpoint: InboundEndpoint) -> None:
        now = self._clock.boot_ms()
        with self._lock:
            times = self._accepted.setdefault(endpoint.name, deque())
            while times and times[0] <= now - _MINUTE_MS:
                times.popleft()
            if len(times) >= endpoint.max_per_minute:
                wait_s = (times[0] + _MINUTE_MS - now) // 1000 + 1
                detail = f"At most {endpoint.max_per_minute} deliveries a minute are accepted."
                raise DeliveryRefusedError("too_many", detail, wait_s)
            times.append(now)

    def _count_refusal(self, name: str, now: int) -> None:
        """Count a refusal. Its event is written at most once a minute, so that strangers cannot fill the disk."""
        with self._lock:
            count, next_at = self._refused.get(name, (0, 0))
            count += 1
            due = self._clock.boot_ms() >= next_at
            self._refused[name] = (0, self._clock.boot_ms() + _MINUTE_MS) if due else (count, next_at)
        if due:
            log.warning("%s deliveries to the inbound endpoint %s were not signed as they should be.", count, name)
            with self._store.transaction(now) as transaction:
                data = {"source": "webhook", "name": name, "count": count}
                transaction.events.append(NewEvent(now, "call.refused", None, None, data))


def secrets_of(endpoint: InboundEndpoint) -> list[str]:
    """The secret, and the former one while it is replaced."""
    try:
        references = [endpoint.secret, *([endpoint.previous_secret] if endpoint.previous_secret else [])]
        return [resolve(reference, f'The secret of the inbound endpoint "{endpoint.name}"') for reference in references]
    except InvalidInput as error:
        log.error("%s", error.message)
        raise DeliveryRefusedError("misconfigured", "The endpoint cannot be used at present.", 60) from None


def parse_body(delivery: Delivery) -> Any:
    """The body as JSON: itself, the `payload` of a form, or the fields of a form."""
    media = delivery.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    text: bytes | str = delivery.body
    if media == _FORM:
        if delivery.body.count(b"&") >= _MAX_FIELDS:
            raise DeliveryRefusedError("unreadable", f"The form has more than {_MAX_FIELDS:,} fields.")
        fields = dict(parse_qsl(delivery.body.decode("utf-8", "replace")))
        if "payload" not in fields:
            return fields
        text = fields["payload"]
    elif media != "application/json" and not (media.startswith("application/") and media.endswith("+json")):
        raise DeliveryRefusedError("unsupported", "The body must be JSON, or a form.")
    try:
        document: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise DeliveryRefusedError("unreadable", "The body is not JSON.") from None
    if _deeper_than(document, MAX_DEPTH):
        raise DeliveryRefusedError("unreadable", f"The body is nested deeper than {MAX_DEPTH} levels.")
    return document


def _deeper_than(document: Any, depth: int) -> bool:
    level: list[Any] = [document]
    for _ in range(depth):
        level = [child for item in level for child in _children(item)]
    return any(isinstance(item, (dict, list)) for item in level)


def _children(item: Any) -> Iterable[Any]:
    if isinstance(item, dict):
        return cast("dict[str, Any]", item).values()
    return cast("list[Any]", item) if isinstance(item, list) else ()


def call_of(endpoint: InboundEndpoint, delivery: Delivery, document: Any, now: int) -> model.Call:
    """The call of a verified delivery. One without an id is known by its body."""
    scheme = SCHEMES[endpoint.kind]
    given, signed = scheme.id(endpoint, delivery.headers, document), scheme.signed(endpoint, delivery)
    if given is None or given == "":
        signed = delivery.body
        key = f"sha256:{sha256(signed).hexdigest()}:{now}"
    else:
        key = str(given)
        fits = len(key) <= _MAX_ENDPOINT_LENGTH and key.isprintable()
        key = key if fits else f"sha256:{sha256(key.encode(errors='replace')).hexdigest()}"
    kind = delivery_type(endpoint, delivery.headers, document)
    kind = kind[:_MAX_ENDPOINT_LENGTH] if kind and kind.isprintable() else None
    digest = None if signed is None else sha256(signed).hexdigest()
    return model.Call("webhook", endpoint.name, key, document, kind, signed=digest)


@dataclass(frozen=True)
class Pings:
    """Use cases of schedules whose work happens elsewhere."""

    core: Core
    runs: Runs

    def url(self, principal: Principal, name: str, *, agent: str | None = None) -> PingAddress:
        return self._address(principal, name, agent, again=False)

    def rotate(self, principal: Principal, name: str, *, agent: str | None = None) -> PingAddress:
        return self._address(principal, name, agent, again=True)

    def send(
        self, principal: Principal, name: str, *, signal: str = "success", text: str | None = None,
        agent: str | None = None,
    ) -> Run | None:  # fmt: skip
        code, core, now = _exit_code(signal), self.core, self.core.clock.now_ms()
        given = orjson.dumps({"input": {"ping": {"code": code, "text": (text or "")[:MAX_PING_TEXT]}}}).decode()
        with core.store.transaction(now) as transaction:
            schedule = self._schedule(transaction, principal, name, agent)
            row = transaction.awaiting_ping(schedule.id)
            made = None if row is None else self._report(transaction, row, given, code, now)
            if made is None and code is not None:
                item, key = core.compiled(transaction, schedule), str(uuid.uuid4())
                made = self.runs.start(transaction, principal, schedule, item, key, now, given)
            result = None if made is None else run_result(core.run(transaction, made))
        core.notify()
        return result

    def _report(self, transaction: Transaction, row: WaitingRun, given: str, code: int | None, now: int) -> int | None:
        """Let the run that waits go on, with what the ping says; at a start it waits longer."""
        item = self.core.catalog.find(transaction, row.key)
        if not isinstance(item, CompiledSchedule):
            return None
        change = RunChange(row.id, row.epoch, row.slot, item, MARK_READY, now, now)
        if code is None:
            until = now + (item.definition.timeout_ms or ping_until(item.definition, now) - now)
            until = max(until, ping_until(item.definition, row.slot or now))
            waits = change._replace(transition=DEFER, not_before=until, reason="awaiting_ping")
            change = waits._replace(evidence={"until": until})
        else:
            transaction.set_given(row.id, given)
        apply(transaction, [change], now)
        return row.id

    def _address(self, principal: Principal, name: str, agent: str | None, *, again: bool) -> PingAddress:
        now = self.core.clock.now_ms()
        with self.core.store.transaction(now) as transaction:
            schedule = self._schedule(transaction, principal, name, agent)
            token = None if again else transaction.ping_token(schedule.id)
            if token is None:
                token = secrets.token_urlsafe(16)
                transaction.set_ping_token(schedule.id, token)
                data = {**principal.signed}
                transaction.events.append(NewEvent(now, "schedule.ping_address", schedule.id, None, data))
        return PingAddress(str(schedule.id), schedule.name, schedule.agent, f"{PING_PATH}{token}")

    def _schedule(self, transaction: Transaction, principal: Principal, name: str, agent: str | None) -> ScheduleRecord:
        schedule = self.core.schedule_for(transaction, principal, name, agent)
        if schedule.definition.job != PING_JOB:
            message = f'"{schedule.name}" waits for no ping: its job is {schedule.definition.job}.'
            hint = f'For example: matins add "every day at 3am" backup --job {PING_JOB} --grace 30m'
            raise Conflict(message, value=schedule.name, field="name", hint=hint)
        return schedule


def _exit_code(signal: str) -> int | None:
    """The exit code that a signal stands for; None for a start."""
    if signal.isascii() and signal.isdigit() and int(signal) <= 255:
        return int(signal)
    if signal not in _SIGNALS:
        hint = "Use success, fail, start, or an exit code from 0 to 255."
        raise InvalidInput(f'"{signal}" is no signal of a ping.', value=signal, field="signal", hint=hint)
    return _SIGNALS[signal]


@dataclass(frozen=True)
class Inbound:
    """Use cases of inbound endpoints beyond those of every record."""

    core: Core
    calls: Calls

    def test(
        self,
        principal: Principal,
        name: str,
        *,
        body: Any = None,
        type: str | None = None,  # noqa: A002 - the name that senders use
        dry_run: bool = False,
    ) -> InboundTest:
        now = self.core.clock.now_ms()
        with self.core.store.reading() as transaction:
            policies = self.core.catalog.policies(transaction)
            endpoint = policies.inbound.get(name)
            if endpoint is None:
                raise NotFound(f'There is no inbound endpoint "{name}".', value=name, field="name")
            delivery = self._signed(endpoint, {} if body is None else body, type, now)
            document = parse_body(delivery)
            call = call_of(endpoint, delivery, document, now)
            schedules = self._schedules(transaction, call)
        fired = None if dry_run else self._fire(principal, call)
        reason = None if fired is None else fired.reason
        outcome = "dry_run" if fired is None else "duplicate" if fired.duplicate else fired.outcome
        return InboundTest(name, True, call.key, call.type, outcome, reason, schedules, fired.runs if fired else [])

    def _signed(self, endpoint: InboundEndpoint, body: Any, kind: str | None, now: int) -> Delivery:
        """A delivery as the sender would sign it. Raises unless it can be verified."""
        scheme, raw = SCHEMES[endpoint.kind], orjson.dumps(body)
        try:
            known = secrets_of(endpoint)
            headers = scheme.sign(endpoint, known[0], raw, f"test-{uuid.uuid4()}", now // 1000)
        except DeliveryRefusedError as refused:
            hint = "Set the variable, or the file, that the endpoint's secret names."
            raise InvalidInput(str(refused), value=endpoint.secret, field="secret", hint=hint) from None
        headers |= {scheme.type_header: kind} if scheme.type_header and kind else {}
        delivery = Delivery(headers, raw)
        if not verify(endpoint, known, delivery, now // 1000):
            raise InvalidInput("The secret is empty.", field="secret", hint="Give it a value.")
        return delivery

    def _fire(self, principal: Principal, call: model.Call) -> Call:
        """Fire the call of a test. A delivery with the same body is another call."""
        return self.calls.fire(principal, call.source, call.name, call.key, body=call.body, type=call.type)

    def _schedules(self, transaction: Transaction, call: model.Call) -> list[TestedSchedule]:
        ids = transaction.listeners(call.source, call.name, "")
        schedules = [self.core.schedule(transaction, number) for number in ids]
        return [self._tested(schedule, call) for schedule in schedules]

    def _tested(self, schedule: ScheduleRecord, call: model.Call) -> TestedSchedule:
        triggers = [one for one in schedule.definition.on if listening(one) == (call.source, call.name)]
        matches = [match_call(trigger, call) for trigger in triggers]
        reason = next((match for match in matches if not isinstance(match, Match)), None)
        if reason is not None:
            return TestedSchedule(schedule.name, False, reason, None)
        prompt = full_prompt(schedule.definition)
        return TestedSchedule(schedule.name, True, None, None if prompt is None else _prompt(schedule, prompt, call))


def _prompt(schedule: ScheduleRecord, prompt: str, call: model.Call) -> str:
    context = CallContext(call.key, call.source, call.type, call.text, call.body)
    return build_prompt(prompt, PromptContext(schedule.name, schedule.agent, 0, 1, None, 0, 1, None, None, context))
