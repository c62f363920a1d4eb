"""Requests for approval: created here, answered through the service, expired by the timers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, NamedTuple

import orjson

from matins.engine.approvals import (
    agent_fingerprint,
    approval_request,
    authors,
    digest,
    needs_approval,
    notable_settings,
    outside_digest,
)
from matins.engine.audit import approval_digest, fingerprint
from matins.engine.jobs import as_scheduled
from matins.engine.policies import HOOK_FILES, Policies
from matins.engine.prompts import MAX_CALL_BYTES, CallContext, WorkItem
from matins.engine.settings import dump_settings
from matins.engine.when.durations import DAY_MS
from matins.model.access import Principal
from matins.model.agent import Agent
from matins.model.policies import Approval, ApprovalKind
from matins.model.rows import NewEvent, RunRow
from matins.runtime.agent_folders import named_files, not_covered, own_folder
from matins.runtime.attempt import stored_run_key
from matins.runtime.catalog import Catalog, CompiledSchedule, call_context
from matins.runtime.command_files import commands_of, files_run_by, in_reach, lines_of
from matins.store.transaction import Transaction

BUDGET_TIMEOUT_MS = 7 * DAY_MS
_MAX_RELEASED = 1_000
_GRANTED = 20
"""How many of the last approvals of a schedule count for its files."""


def request_run_approval(
    transaction: Transaction, compiled: CompiledSchedule, policies: Policies, run_id: int, slot: int | None, now: int,
    item: WorkItem | None = None,
) -> int:  # fmt: skip
    """Request approval of a run from its approvers, or from the owner. Earlier approvals of the run become void."""
    for approval in transaction.approvals_of_run(run_id):
        if approval.kind == "run" and approval.state == "approved":
            _void_approval(transaction, approval, now, "approval is requested again")
    makers = authors_of(transaction, compiled, run_id)
    maker, role = makers[0] if makers else ("owner", "owner")
    definition = compiled.definition
    asks = needs_approval(definition)
    request = approval_request(compiled.agent, compiled.name, definition, slot, compiled.timetable.trigger.describe())
    request["involved"] = makers
    request["unusual"] = notable_settings(definition)
    if compiled.given is not None and compiled.given.input is not None:
        request["input"] = compiled.given.input
    request |= about_agent(compiled, policies, itemless=item is None)
    shown = None if item is None else shown_item(item)
    if shown is not None:
        request["work_item"] = shown
    changed = changed_files(transaction, compiled, policies)
    if changed:
        request["changed"] = changed
    if (call := call_context(transaction, run_id)) is not None:
        request["call"] = _shown_call(call)
    approval = Approval(
        0, "run", compiled.schedule_id, compiled.name, run_id, compiled.rev,
        content_digest(compiled, policies, shown), definition.approval, definition.approvers,
        definition.approvals_required, definition.approval_default, maker, role, now,
        now + definition.approval_timeout_ms, "pending", None, request,
    )  # fmt: skip
    if changed:  # an agent may have written it: a request that expires must not allow it
        approval = approval._replace(default="deny")
    if not asks:  # only because a file has changed: the owner answers, as with the proposal
        approval = approval._replace(policy="owner_approve", approvers=(), needed=1)
    return _insert_request(transaction, approval, now)


def _shown_call(call: CallContext) -> dict[str, Any]:
    """The call that started the run, as a reviewer sees it. Of a large body, the beginning."""
    text = orjson.dumps(call.body, option=orjson.OPT_INDENT_2).decode()
    body = call.body if len(text) <= MAX_CALL_BYTES else f"{text[:MAX_CALL_BYTES]}… ({len(text):,} characters)"
    return {"id": call.id, "source": call.source, "type": call.type, "text": call.text, "body": body}


def request_schedule_approval(
    transaction: Transaction,
    compiled: CompiledSchedule,
    policies: Policies,
    by: str,
    role: str,
    now: int,
    expires_at: int,
    proposal: dict[str, Any],
) -> int:
    """Request approval of a schedule that an agent proposes."""
    request = approval_request(
        compiled.agent, compiled.name, compiled.definition, None, compiled.timetable.trigger.describe()
    )
    request |= proposal | about_agent(compiled, policies)
    digest_now = content_digest(compiled, policies)
    return _request_from_owner(transaction, "schedule", compiled, digest_now, None, by, role, now, expires_at, request)


def renew_schedule_request(
    transaction: Transaction, asked: Approval, compiled: CompiledSchedule, policies: Policies, now: int
) -> int:
    """Request approval again because the agent or a file changed since the request."""
    _void_approval(transaction, asked, now, "its agent or a file that it names has changed")
    request = asked.request | about_agent(compiled, policies)
    digest_now = content_digest(compiled, policies)
    renewed = asked._replace(id=0, digest=digest_now, requested_at=now, state="pending", request=request, votes=())
    return _insert_request(transaction, renewed, now)


def request_budget_approval(
    transaction: Transaction, compiled: CompiledSchedule, run_id: int | None, now: int, request: dict[str, Any]
) -> int:
    """Request approval for a schedule to continue after it spent too much."""
    request = {"schedule": compiled.name, "agent": compiled.agent, **request}
    digest_now, expires_at = settings_digest(compiled), now + BUDGET_TIMEOUT_MS
    return _request_from_owner(
        transaction, "budget", compiled, digest_now, run_id, "matins", "system", now, expires_at, request
    )


def void_approvals(
    transaction: Transaction, schedule_id: int, now: int, why: str, *, money: bool = False, runs: bool = True
) -> list[Approval]:
    """Void the open requests about this schedule (with `money`: about its spending; without `runs`: not those about
    its runs), and return them. A step keeps its request: its run has started, with the settings of then."""
    found = [approval for approval in transaction.open_approvals(schedule_id) if (approval.kind == "budget") == money]
    found = [approval for approval in found if runs or approval.kind != "run"]
    steps = {approval.run_id for approval in found if approval.run_id and transaction.parents_of([approval.run_id])}
    found = [approval for approval in found if approval.run_id is None or approval.run_id not in steps]
    return [approval for approval in found if _void_approval(transaction, approval, now, why)]


def keep_hook_files(
    transaction: Transaction, event: str, files: Mapping[str, str], principal: Principal, now: int
) -> None:
    """Keep the digests of the files that a hook runs, as a person set or approved them."""
    text = orjson.dumps(dict(files)).decode()
    transaction.upsert_policy(HOOK_FILES, event, text, now, principal.who)
    data = {"kind": HOOK_FILES, "name": event, **principal.signed, "definition": dict(files)}
    data["fingerprint"] = fingerprint(text)
    transaction.events.append(NewEvent(now, "policy.set", None, None, data))


def delete_hook_files(transaction: Transaction, event: str, principal: Principal, now: int) -> None:
    """Delete the digests of the files that a deleted hook ran."""
    if transaction.delete_policy(HOOK_FILES, event):
        data = {"kind": HOOK_FILES, "name": event, **principal.signed}
        transaction.events.append(NewEvent(now, "policy.deleted", None, None, data))


def approve_hook_files(
    transaction: Transaction, asked: Approval, policies: Policies, principal: Principal, now: int
) -> None:
    """Take the content of hooks' files that was shown with a run: it counts for every schedule."""
    shown, changed = asked.request.get("files", {}), asked.request.get("changed", ())
    for event, hook in policies.hooks.items():
        run = files_run_by([hook.command], policies.workdir, shown)
        taken = {path: shown[path] for path in changed if path in run and path in shown}
        if taken:
            keep_hook_files(transaction, event, {**policies.hook_files.get(event, {}), **taken}, principal, now)


def release_unchanged(transaction: Transaction, catalog: Catalog, now: int) -> None:
    """Void the requests that were made only for files which count as known by now; their runs go on."""
    policies = catalog.policies(transaction)
    for asked in transaction.approvals_in("pending", 0, _MAX_RELEASED):
        if asked.kind != "run" or asked.run_id is None or not asked.request.get("changed"):
            continue
        if not transaction.try_lock_due([asked.schedule_id]):
            continue  # another process has it; a person can still answer
        compiled = catalog.find(transaction, (asked.schedule_id, asked.rev, 0))
        if not isinstance(compiled, CompiledSchedule) or needs_approval(compiled.definition):
            continue
        if not changed_files(transaction, compiled, policies):
            _void_approval(transaction, asked, now, "its files count as known")
            transaction.wake_run(asked.run_id, "awaiting_approval", now)


def void_run(
    transaction: Transaction, run_id: int, now: int, why: str = "the run has ended",
    states: Collection[str] = ("pending", "approved"),
) -> None:  # fmt: skip
    """Void the requests about a run: the open ones of one that has ended, or those of one whose subject changed."""
    for approval in transaction.approvals_of_run(run_id):
        if approval.kind == "run" and approval.state in states:
            _void_approval(transaction, approval, now, why)


def _void_approval(transaction: Transaction, approval: Approval, now: int, why: str) -> bool:
    voided = transaction.set_approval_state(approval.id, approval.state, "void", now)
    if voided:
        data = {"approval": str(approval.id), "why": why}
        transaction.events.append(NewEvent(now, "approval.voided", approval.schedule_id, approval.run_id, data))
    return voided


def authors_of(transaction: Transaction, compiled: CompiledSchedule, run_id: int) -> list[tuple[str, str]]:
    """(who, role) of everyone involved in a run: who started it manually, changed its settings, or created the
    schedule."""
    found: list[tuple[str, str]] = []
    run = transaction.run(run_id)
    by = orjson.loads(run.evidence).get("by") if run and run.evidence else None
    if by and "role" in by:  # a call has no role: its sender is no principal
        found.append((by["who"], by["role"]))
    for approval in transaction.approvals_of_run(run_id):
        if approval.kind == "run" and approval.rev == compiled.rev:  # asked again: approvers may have edited the run
            found += authors(approval)
    found += transaction.authors(compiled.schedule_id, compiled.rev)
    schedule = transaction.schedule(compiled.schedule_id)
    if schedule is not None:
        found.append((schedule.created_by, schedule.creator_role))
    return list(dict.fromkeys((who, role) for who, role in found))


def settings_digest(compiled: CompiledSchedule) -> str:
    return digest(compiled.signed_agent, compiled.signed, compiled.rev, compiled.definition)


def content_digest(compiled: CompiledSchedule, policies: Policies, item: Mapping[str, Any] | None = None) -> str:
    """The digest of what runs. It includes all settings of the agent, also hidden ones, the files that commands name,
    the work item, and what the run was started with."""
    agent = _agent_of(compiled, policies)
    if agent is not None:  # with the folder in full, which stays when the agent gets another name
        agent = replace(agent, workdir=agent.workdir or own_folder(agent.name))
    more = [] if agent is None else [{"name": compiled.signed_agent, **dump_settings(agent)}]
    files = _files_of(compiled, policies)
    more += [part for part in (files, item) if part]
    if compiled.given is not None:
        more.append(compiled.given._asdict())
    return digest(compiled.signed_agent, compiled.signed, compiled.rev, compiled.definition, *more)


def _files_of(compiled: CompiledSchedule, policies: Policies) -> dict[str, str]:
    """The digests of the files that commands of a schedule and of its steps name, and of those that hooks run."""
    found = named_files(compiled.definition, _agent_of(compiled, policies), policies)
    run = command_files(compiled, policies)
    found |= {path: content for path, content in run.items() if path in found or in_reach(path, policies)}
    for number in range(1, len(compiled.steps) + 1):
        found |= _files_of(compiled.step_of(number), policies)
    return found


def command_files(compiled: CompiledSchedule, policies: Policies) -> dict[str, str]:
    """The digests of the files that run outside the walls: by its own command, by its checks, and by hooks. Those are
    not called for steps."""
    known = known_files(compiled, policies)
    found = own_files(compiled, policies)
    if not compiled.step:
        commands = commands_of(compiled.definition) + [hook.command for hook in policies.hooks.values()]
        found |= files_run_by(commands, policies.workdir, known)
    return found


def own_files(compiled: CompiledSchedule, policies: Policies) -> dict[str, str]:
    """The digests of the scripts that its own command runs; mostly it has none."""
    if compiled.definition.command is None:
        return {}
    (line,) = lines_of(compiled.definition, compiled.agent, policies)
    return line.files(known_files(compiled, policies))


def changed_files(
    transaction: Transaction, compiled: CompiledSchedule, policies: Policies, run: dict[str, str] | None = None
) -> list[str]:
    """The files that differ from what a person set or approved; `run`: the digests of those that commands run."""
    run = command_files(compiled, policies) if run is None else run
    found = changed_commands(transaction, compiled, policies, run) if run else []
    if compiled.creator is not None:
        found += [path for path in _changed_since_approval(transaction, compiled, policies) if path not in found]
    return found


def changed_commands(
    transaction: Transaction, compiled: CompiledSchedule, policies: Policies, run: Mapping[str, str]
) -> list[str]:
    """The files that commands run, that agents can write, and that differ from what a person set or approved."""
    known = known_files(compiled, policies)
    suspect = [path for path, content in run.items() if content not in known.get(path, ()) and in_reach(path, policies)]
    if not suspect:
        return []
    granted = [approval.request.get("files", {}) for approval in _granted(transaction, compiled)]
    return [path for path in suspect if all(files.get(path) != run[path] for files in granted)]


def known_files(compiled: CompiledSchedule, policies: Policies) -> dict[str, set[str]]:
    """The digests that files had when a person set the schedule's commands and the hooks, by path."""
    return _by_path([dict(compiled.definition.files), *policies.hook_files.values()])


def _by_path(known: Iterable[Mapping[str, str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for files in known:
        for path, content in files.items():
            found.setdefault(path, set()).add(content)
    return found


def _changed_since_approval(transaction: Transaction, compiled: CompiledSchedule, policies: Policies) -> list[str]:
    """The files of an agent's schedule that differ from what a person approved: with the proposal, or with one of its
    last runs. Only the owner can name other files afterwards."""
    there, known = _files_of(compiled, policies), known_files(compiled, policies)
    now = {path: content for path, content in there.items() if content not in known.get(path, ())}
    found: list[str] = []
    for approval in _granted(transaction, compiled):
        files = approval.request.get("files", {})
        same = approval.rev == compiled.rev
        others = {} if same else now
        found = [path for path, content in now.items() if files.get(path, others.get(path)) != content]
        found += [path for path in files if path not in there] if same else []
        if not found:
            break
    return found


def allowed_files(
    transaction: Transaction, compiled: CompiledSchedule | None, policies: Policies
) -> dict[str, set[str]]:
    """The digests that a person set or approved for commands after the run, by path."""
    if compiled is None:
        return _by_path(policies.hook_files.values())
    approved = [approval.request.get("files", {}) for approval in _granted(transaction, compiled)]
    return _by_path([dict(compiled.definition.files), *policies.hook_files.values(), *approved])


def _granted(transaction: Transaction, compiled: CompiledSchedule) -> list[Approval]:
    return transaction.granted_approvals(compiled.schedule_id, _GRANTED)


def about_agent(compiled: CompiledSchedule, policies: Policies, *, itemless: bool = True) -> dict[str, Any]:
    """What a request says about the agent, the files that its commands name, and what the digest does not cover."""
    agent = _agent_of(compiled, policies)
    files = _files_of(compiled, policies)
    about: dict[str, Any] = {} if agent is None else {"wakes": agent_fingerprint(agent)}
    if files:
        about["files"] = files
    outside = outside_digest(compiled.definition, agent, not_covered(files), itemless=itemless)
    if outside:
        about["outside"] = outside
    return about


def needs_none(transaction: Transaction, compiled: CompiledSchedule, policies: Policies) -> bool:
    """Whether a run may start without an approval."""
    # Its checks are looked at where they run.
    unchanged = not changed_files(transaction, compiled, policies, own_files(compiled, policies))
    return not needs_approval(compiled.definition) and unchanged


def used_approval(
    transaction: Transaction, compiled: CompiledSchedule, policies: Policies, run_id: int
) -> Approval | None:
    """The approval that a run was claimed with, if it is for the agent's present settings and files."""
    used = [a for a in transaction.approvals_of_run(run_id) if a.state == "used" and a.kind == "run"]
    return next((approval for approval in used if is_for(approval, compiled, policies)), None)


def is_for(approval: Approval, compiled: CompiledSchedule, policies: Policies) -> bool:
    """Whether an approval is for the present settings, agent and files, with the work item that was shown. Whether
    that item is still the same is seen when the run starts."""
    return approval.digest == content_digest(compiled, policies, approval.request.get("work_item"))


def takes_work(compiled: CompiledSchedule) -> bool:
    """Whether runs may claim a work item: a job with a prompt may have a source of its own."""
    return compiled.definition.work_source is not None or compiled.definition.job_prompt is not None


def shown_item(item: WorkItem) -> dict[str, Any]:
    """The item as a reviewer sees it; of a large one, the beginning. Its digest is that of the whole item."""
    whole = item._asdict()
    cut = {name: f"{text[:MAX_CALL_BYTES]}…" for name, text in whole.items() if len(str(text)) > MAX_CALL_BYTES}
    return {**whole, "labels": list(item.labels), **cut, "digest": sha256(orjson.dumps(whole)).hexdigest()}


class UnusedItem(NamedTuple):
    """A work item that a run claimed for its request, and never worked on."""

    run_key: str
    source: str
    id: str
    compiled: CompiledSchedule


def unused_items(transaction: Transaction, catalog: Catalog, run: RunRow) -> list[UnusedItem]:
    """The items that a run that has ended, or its steps, claimed for a request with which they did not start."""
    found: list[UnusedItem] = []
    for row in (run, *transaction.steps_of(run.id)):
        asked = [approval for approval in transaction.approvals_of_run(row.id) if approval.kind == "run"]
        item = asked[0].request.get("work_item") if asked and asked[0].state != "used" else None  # the newest
        compiled = catalog.of_run(transaction, row) if item else None
        if item and isinstance(compiled, CompiledSchedule):
            key = stored_run_key(transaction, compiled, row.id)
            found.append(UnusedItem(key, item["source"], item["id"], compiled))
    return found


def _agent_of(compiled: CompiledSchedule, policies: Policies) -> Agent | None:
    agent = policies.agents.get(compiled.agent) if compiled.wakes_agent else None
    return None if agent is None else as_scheduled(agent, compiled.definition)


def _request_from_owner(
    transaction: Transaction, kind: ApprovalKind, compiled: CompiledSchedule, digest_now: str, run_id: int | None,
    by: str, role: str, now: int, expires_at: int, request: dict[str, Any],
) -> int:  # fmt: skip
    approval = Approval(
        0, kind, compiled.schedule_id, compiled.name, run_id, compiled.rev, digest_now, "owner_approve", (), 1,
        "deny", by, role, now, expires_at, "pending", None, request,
    )  # fmt: skip
    return _insert_request(transaction, approval, now)


def _insert_request(transaction: Transaction, approval: Approval, now: int) -> int:
    number = transaction.insert_approval(approval)
    data = {
        "approval": str(number),
        "kind": approval.kind,
        "policy": approval.policy,
        "digest": approval.digest,
        "expires_at": approval.expires_at,
        "record": approval_digest(approval),
    }
    transaction.events.append(NewEvent(now, "approval.requested", approval.schedule_id, approval.run_id, data))
    return number
