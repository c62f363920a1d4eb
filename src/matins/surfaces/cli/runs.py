"""`matins run`, `runs`, `cancel`, `resolve`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import click

from matins.surfaces.cli import errors
from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import CliContext, Document, json_text
from matins.surfaces.cli.framework import (
    Command,
    NounGroup,
    agent_option,
    complete_keys,
    name_argument,
    number_argument,
    pass_context,
    root_command,
)
from matins.surfaces.cli.instants import ANY, SECONDS
from matins.surfaces.cli.logs import logs
from matins.surfaces.cli.paging import Page, page_options
from matins.surfaces.cli.states import moment, run_state, state_text
from matins.surfaces.cli.steps import cost_text, costs_of, step_tree
from matins.surfaces.cli.tables import Cell, Column
from matins.surfaces.cli.terminal_text import block, one_line, plain
from matins.surfaces.cli.times import duration_text, relative_time
from matins.surfaces.cli.wait import Waited, wait_for

_COLUMNS = (
    Column("RUN", "id"),
    Column("SCHEDULE", "schedule", 16, middle=True),
    Column("SLOT", lambda run, now: _slot(run, now)),
    Column("STATE", lambda run, now: run_state(run), 14),
    Column("DURATION", lambda run, now: "–" if run["duration_ms"] is None else duration_text(run["duration_ms"])),
    Column("REASON", lambda run, now: _reason(run), 10),
)
_EXECUTED = "executed"
"""The first field of an agent's report. Results of jobs do not have it."""
_EXIT_CODES = {
    "succeeded": errors.OK,
    "skipped": errors.FAILED,
    "missed": errors.FAILED,
    "cancelled": errors.CANCELLED,
    "interrupted": errors.CANCELLED,
    "expired": errors.CANCELLED,
    "over_budget": errors.OVER_BUDGET,
    "denied": errors.NOT_ALLOWED,
    "blocked": errors.NOT_ALLOWED,
}
_run_argument = number_argument("run_id", "RUN", "a run", "matins runs", parts=True)


_key_option = click.option("--key", metavar="TEXT", help="Key of the request: the same key gives the run that exists.")


@root_command("run")
@name_argument
@agent_option()
@_key_option
@click.option("--wait", "-w", is_flag=True, help="Wait until the run ends; the exit code is its outcome.")
@click.option("--timeout", type=SECONDS, metavar="DURATION", help="Longest time to wait with --wait: 90s, 5m.")
@click.pass_context
def run(ctx: click.Context, name: str, agent: str | None, key: str | None, wait: bool, timeout: float | None) -> None:
    """With --wait, the exit code is 0 when the run succeeded, 5 when it failed, 3 when it was cancelled or timed out,
    4 when it was denied or blocked, 6 when it was over budget, 8 when it needs approval, and 1 when it did not run.
    """
    if timeout is not None and not wait:
        message = f"--timeout needs --wait. The timeout of runs: matins edit {name} --timeout 5m"
        raise click.UsageError(message, ctx)
    context = ctx.ensure_object(CliContext)
    started = context.call("schedules.run", name=name, agent=agent, key=key)
    running = not started["live"] or context.call("system.stats")["running"]
    if not running:
        context.note("No engine is running. The run starts when one does: matins up")
    waited = wait_for(context, started, timeout) if wait and running else Waited(started)
    context.show(waited.run, lambda: [run_line(context, waited.run), *_answer(waited.run)])
    ctx.exit(_exit_code(context, waited, wait=wait))


def run_once(context: CliContext, schedule: Document) -> None:
    """Start a run, wait for its end and print the answer. The command ends with the code of the run."""
    started = context.call("schedules.run", name=schedule["name"], agent=schedule["agent"] or None)
    waited = wait_for(context, started, None)
    context.note(one_line(run_line(context, waited.run)))
    for line in _answer(waited.run):
        context.note(line)
    code = _exit_code(context, waited, wait=True)
    if code != errors.OK:
        raise click.exceptions.Exit(code)


def _exit_code(context: CliContext, waited: Waited, *, wait: bool) -> int:
    found = waited.run
    if waited.approval is not None:
        context.note(f"The run needs approval: matins approve {waited.approval}")
        return errors.WAITS
    if waited.timed_out:
        context.note(f"The run has not ended; it continues. Show it: matins runs show {found['id']}")
        return errors.CANCELLED
    if found["state"] == "held":
        context.note(f"The outcome is unknown. Set it: matins resolve {found['id']} succeeded, failed or retry")
        return errors.FAILED
    if found["live"]:
        return errors.FAILED if wait else errors.OK
    if found["state"] == "failed":
        _note_error(context, found)
    elif found["started_at"] is None and found["state"] != "cancelled":
        context.note(f"To see why: matins why {shlex.quote(found['schedule'])}")
    if found["reason"] == "timed_out":
        return errors.CANCELLED
    return _EXIT_CODES.get(found["state"], errors.RUN_FAILED)


def _note_error(context: CliContext, found: Document) -> None:
    if error := error_of(found):
        context.note(error)
    context.note(f"More: matins runs show {found['id']}, matins logs {found['id']}")


def error_of(found: Document) -> str:
    """The last line of the error: in a traceback, the exception."""
    outcome: Document = found["outcome"] or {}
    return str(outcome.get("error") or "").strip().rpartition("\n")[2]


def _answer(found: Document) -> list[str]:
    answer = block(answer_of(found["outcome"]).rstrip())
    return ["", answer] if answer else []


def run_line(context: CliContext, found: Document) -> str:
    """For example: Run 12 of nightly: ✓ succeeded in 4.1s."""
    length = "" if found["duration_ms"] is None else f" in {duration_text(found['duration_ms'])}"
    reason = found["reason"] if found["state"] not in ("waiting", found["reason"]) else None
    evidence: Document = found["evidence"] or {}
    note = evidence.get("note") if found["state"] == "cancelled" else None
    shown = one_line(str(note)) if note else state_text(reason) if reason else ""
    why = f" ({shown})" if shown else ""
    head = one_line(f"Run {found['id']} of {found['schedule']}: ")
    return f"{head} {context.painted(run_state(found))}{length}{why}"


@click.command("list", cls=Command)
@click.argument("name", required=False, shell_complete=complete_keys("schedules"))
@agent_option()
@click.option("--state", "-s", metavar="STATE", help="State of the runs: failed, running.")
@click.option("--reason", metavar="REASON", help="Reason of the runs: quiet_hours, already_running.")
@click.option("--since", type=ANY, help="Only runs that were planned from then on.")
@click.option("--until", type=ANY, help="Only runs that were planned before.")
@page_options("--before", default=20)
@pass_context
def list_runs(
    context: CliContext, name: str | None, agent: str | None, before: str | None, limit: int, **only: str | None
) -> None:
    """List runs of all schedules, or of one. The newest is first."""
    chosen = {"schedule": name, "agent": agent, "before": before, **only}
    page = Page.of(limit, lambda count: context.call("runs.list", **chosen, limit=count))
    filtered = bool(any(only.values()) or before or (agent and not name))
    context.show(page.items, lambda: _listed(context, page.items, name, filtered=filtered))
    page.note_more(context, f"matins runs {name} --before" if name else "matins runs --before", page.last_id)


def _listed(context: CliContext, items: list[Document], name: str | None, *, filtered: bool) -> Iterable[str]:
    if not items and filtered:
        return ["No run matches."]
    if not items:
        return ["No runs. Start one: matins run " + (one_line(name) if name else "NAME")]
    return context.table(_COLUMNS, items)


def _slot(found: Document, now: datetime) -> str | Cell:
    return moment(found["slot"], now) if found["slot"] else f"manual {relative_time(found['planned_at'], now)}"


def _reason(found: Document) -> str:
    """The reason; for a failure, its error."""
    if found["state"] == "waiting" or not found["reason"]:
        return ""
    error = error_of(found) if found["reason"] == "failed" else ""
    return error or state_text(found["reason"])


@click.command("show", cls=Command)
@_run_argument
@pass_context
def show_run(context: CliContext, run_id: str) -> None:
    """Show a run: state, times, outcome."""
    found = context.call("runs.get", run_id=run_id)
    context.show(found, lambda: _shown(context, found))


def _shown(context: CliContext, found: Document) -> list[str]:
    evidence: Document = found["evidence"] or {}
    lines = context.fields(
        ("run", found["id"]),
        ("step of", found["parent"] and f"{found['parent']}/{found['step']}"),
        ("retry of", found["retry_of"]),
        ("schedule", f"{found['schedule']}, revision {found['rev']}"),
        ("state", run_state(found).text),
        ("reason", found["reason"] and state_text(found["reason"])),
        ("slot", context.when(found["slot"]) if found["slot"] else "manual"),
        ("slots", found["slots"] if found["slots"] > 1 else None),
        ("attempt", found["attempt"] or None),
        ("started", found["started_at"] and context.when(found["started_at"])),
        ("ended", found["ended_at"] and context.when(found["ended_at"])),
        ("duration", None if found["duration_ms"] is None else duration_text(found["duration_ms"])),
        ("continues", context.when(found["not_before"]) if found["live"] and found["not_before"] else None),
        *((state_text(name), _evidence(context, name, value)) for name, value in evidence.items() if name != "who"),
    )
    if found["steps"]:
        lines += ["", *step_tree(context, found["steps"])]
    return [*lines, *_outcome(context, found["outcome"] or {}, costs_of(found["steps"]))]


_INSTANTS = frozenset(["until", "ends_at", "resets_at", "again", "first", "last"])
"""What is an instant, in milliseconds, in the evidence of a run."""


def _evidence(context: CliContext, name: str, value: Any) -> str:
    if name in _INSTANTS and isinstance(value, int):
        return context.when(datetime.fromtimestamp(value / 1000, UTC).isoformat())
    return plain(_readable(value))


def _readable(value: Any) -> Any:
    """The name of a principal. Its kind and id are for programs."""
    if not isinstance(value, dict):
        return value
    return {name: one for name, one in cast("Document", value).items() if name != "who"}


def _outcome(context: CliContext, outcome: Document, costs: Sequence[Document] = ()) -> list[str]:
    """The result and the error, as lines. The cost of a run with steps is that of all of them."""
    result = outcome.get("result")
    report = cast("Document", result) if isinstance(result, dict) and _EXECUTED in result else {}
    if costs:
        estimated = any(cost["estimated"] for cost in costs)
        report = report | {"money": {"micro_dollars": sum(cost["micro_dollars"] for cost in costs),
                                     "estimated": estimated}}  # fmt: skip
    lines = context.fields(
        *((state_text(name), _reported(name, value)) for name, value in report.items() if name != "text")
    )
    texts = {"error": outcome.get("error"), "answer" if report else "result": answer_of(outcome)}
    for title, text in texts.items():
        if text:
            lines += ["", f"{title}:", *(f"  {line}" for line in block(text.rstrip()).split("\n"))]
    return ["", *lines] if lines and lines[0] else lines


def _reported(name: str, value: Any) -> str:
    if name == "money":
        return cost_text(value)
    if name == "isolated" and value is not None:
        return "yes" if value else "no: the run was not isolated"
    return plain(value) if value not in (None, "", [], {}) else ""


def answer_of(outcome: Document | None) -> str:
    """The final text of an agent, or the result of a job."""
    result = (outcome or {}).get("result")
    if isinstance(result, dict) and _EXECUTED in result:
        return str(cast("Document", result).get("text") or "")
    return "" if result is None else result if isinstance(result, str) else json_text(result)


@root_command("cancel")
@_run_argument
@click.option("--reason", metavar="TEXT", help="Reason for the cancellation.")
@pass_context
def cancel(context: CliContext, run_id: str, reason: str | None) -> None:
    """A run that has started ends as soon as its worker has stopped it."""
    found = context.call("runs.cancel", run_id=run_id, reason=reason)
    context.show(found, lambda: run_line(context, found))
    if found["live"]:
        context.note(f"The run is being stopped. Show it: matins runs show {found['id']}")


@root_command("retry")
@_run_argument
@click.option("--from", "from_step", metavar="STEP", help="Title or number of the step to start from.")
@_key_option
@pass_context
def retry(context: CliContext, run_id: str, from_step: str | None, key: str | None) -> None:
    """A new run repeats an ended one, with the settings of then. Of a run with steps, those that succeeded are kept."""
    found = context.call("runs.retry", run_id=run_id, from_step=from_step, key=key)
    context.show(found, lambda: run_line(context, found))
    context.note_if_not_running()


@root_command("resolve")
@_run_argument
@click.argument("outcome", type=click.Choice(["succeeded", "failed", "unknown", "retry"]))
@pass_context
def resolve(context: CliContext, run_id: str, outcome: str) -> None:
    """A run is held when its outcome is unknown. `retry` starts it again."""
    found = context.call("runs.resolve", run_id=run_id, outcome=outcome)
    context.show(found, lambda: run_line(context, found))


runs = NounGroup("runs", help_of("runs"))
runs.takes(list=list_runs, show=show_run, logs=logs, cancel=cancel, retry=retry, resolve=resolve)
