"""`matins run`, `runs`, `cancel`, `resolve`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from typing import Any, cast

import click

from matins.surfaces.cli import telling
from matins.surfaces.cli.commands import (
    Command,
    Noun,
    agent_option,
    complete_names,
    name_argument,
    number_argument,
    pass_desk,
)
from matins.surfaces.cli.desk import Desk
from matins.surfaces.cli.logs import logs
from matins.surfaces.cli.paging import Page, page_options
from matins.surfaces.cli.states import in_words, run_state
from matins.surfaces.cli.tables import Column
from matins.surfaces.cli.text import block, one_line, plain
from matins.surfaces.cli.times import took
from matins.surfaces.cli.waiting import Waited, wait_for

_COLUMNS = (Column("RUN"), Column("SCHEDULE", 12), Column("SLOT", 12), Column("STATE", 14), Column("TOOK"),
            Column("WHY", 10))  # fmt: skip
_EXECUTED = "executed"
"""What an agent's report says first, and no job's."""
_ENDS = {
    "succeeded": telling.OK,
    "skipped": telling.FAILED,
    "missed": telling.FAILED,
    "cancelled": telling.CANCELLED,
    "interrupted": telling.CANCELLED,
    "expired": telling.CANCELLED,
    "denied": telling.NOT_ALLOWED,
    "blocked": telling.NOT_ALLOWED,
}


@click.command(cls=Command)
@name_argument
@agent_option
@click.option("--key", metavar="TEXT", help="The same key gives the run that exists.")
@click.option("--wait", "-w", is_flag=True, help="Until it is over; the exit code says how it ended.")
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="With --wait: and no longer.")
@click.pass_context
def run(ctx: click.Context, name: str, agent: str | None, key: str | None, wait: bool, timeout: float | None) -> None:
    """Start it now, by hand.

    With --wait the exit code is 0 when it succeeded, 5 when it failed, 3 when it was cancelled or timed out, 4 when it
    was denied or blocked, 8 when it waits for approval, and 1 when it did not run.
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout is for --wait: say both.", ctx)
    desk = ctx.ensure_object(Desk)
    started = desk.ask("run", name=name, agent=agent, key=key)
    running = not started["live"] or desk.ask("stats")["running"]
    if not running:
        desk.tell("No engine is running: it starts when one does (matins up)")
    waited = wait_for(desk, started, timeout) if wait and running else Waited(started)
    desk.show(waited.run, lambda: [run_line(desk, waited.run), *_said(waited.run)])
    ctx.exit(_exit_code(desk, waited, wait=wait))


def _exit_code(desk: Desk, waited: Waited, *, wait: bool) -> int:
    found = waited.run
    if waited.asked is not None:
        desk.tell(f"It waits for approval: matins approve {waited.asked}")
        return telling.WAITS
    if waited.timed_out:
        desk.tell(f"It is not over yet; it goes on. Look again: matins runs show {found['id']}")
        return telling.CANCELLED
    if found["state"] == "held":
        desk.tell(f"Nobody knows how it ended. Say it: matins resolve {found['id']} succeeded, failed or retry")
        return telling.FAILED
    if found["live"]:
        return telling.FAILED if wait else telling.OK
    if found["state"] == "failed":
        _tell_error(desk, found)
    elif found["started_at"] is None and found["state"] != "cancelled":
        desk.tell(f"Why: matins why {shlex.quote(found['schedule'])}")
    if found["reason"] == "timed_out":
        return telling.CANCELLED
    return _ENDS.get(found["state"], telling.RUN_FAILED)


def _tell_error(desk: Desk, found: dict[str, Any]) -> None:
    if error := _error_of(found):
        desk.tell(error)
    desk.tell(f"More: matins runs show {found['id']}, matins logs {found['id']}")


def _error_of(found: dict[str, Any]) -> str:
    """What it said last: of a trace, the error."""
    outcome: dict[str, Any] = found["outcome"] or {}
    return str(outcome.get("error") or "").strip().rpartition("\n")[2]


def _said(found: dict[str, Any]) -> list[str]:
    answer = block(answer_of(found["outcome"]).rstrip())
    return ["", answer] if answer else []


def run_line(desk: Desk, found: dict[str, Any]) -> str:
    """Run 12 of nightly: ✓ succeeded in 4.1s."""
    length = "" if found["took_ms"] is None else f" in {took(found['took_ms'])}"
    reason = found["reason"] if found["state"] not in ("parked", found["reason"]) else None
    why = f" ({in_words(reason)})" if reason else ""
    return one_line(f"Run {found['id']} of {found['schedule']}: ") + " " + desk.painted(run_state(found)) + length + why


@click.command("list", cls=Command)
@click.argument("name", required=False, shell_complete=complete_names)
@agent_option
@click.option("--state", "-s", metavar="STATE", help="Of all schedules, those that are so: failed, running …")
@page_options("--before", usual=20)
@pass_desk
def list_runs(
    desk: Desk, name: str | None, agent: str | None, state: str | None, before: str | None, limit: int
) -> None:
    """Runs of all schedules, or of one; the newest first."""
    if name is not None and state is not None:
        raise click.UsageError("--state is for the runs of all schedules: leave the name out.")
    if name is None:
        page = Page.of(limit, lambda most: desk.ask("recent", state=state, before=before, limit=most))
    else:
        page = Page.of(limit, lambda most: desk.ask("runs", name=name, agent=agent, before=before, limit=most))
    desk.show(page.items, lambda: _listed(desk, page.items, name, filtered=bool(state or before)))
    page.tell_more(desk, f"matins runs {name} --before" if name else "matins runs --before", page.last_id)


def _listed(desk: Desk, items: list[dict[str, Any]], name: str | None, *, filtered: bool) -> Iterable[str]:
    if not items and filtered:
        return ["No run matches."]
    if not items:
        return ["No runs. Start one: matins run " + (one_line(name) if name else "NAME")]
    return desk.table(_COLUMNS, [_row(desk, found) for found in items])


def _row(desk: Desk, found: dict[str, Any]) -> tuple[Any, ...]:
    slot = desk.when(found["slot"]) if found["slot"] else f"by hand {desk.away(found['planned_at'])}"
    length = "–" if found["took_ms"] is None else took(found["took_ms"])
    return found["id"], found["schedule"], slot, run_state(found), length, _why(found)


def _why(found: dict[str, Any]) -> str:
    """The reason; of a failure, what went wrong."""
    if found["state"] == "parked" or not found["reason"]:
        return ""
    error = _error_of(found) if found["reason"] == "failed" else ""
    return error or in_words(found["reason"])


@click.command("show", cls=Command)
@number_argument("run_id", "RUN", "a run", "matins runs")
@pass_desk
def show_run(desk: Desk, run_id: str) -> None:
    """All that is known of a run."""
    found = desk.ask("get_run", run_id=run_id)
    desk.show(found, lambda: _shown(desk, found))


def _shown(desk: Desk, found: dict[str, Any]) -> list[str]:
    evidence: dict[str, Any] = found["evidence"] or {}
    lines = desk.fields(
        ("run", found["id"]),
        ("schedule", f"{found['schedule']}, revision {found['rev']}"),
        ("state", run_state(found).text),
        ("reason", found["reason"] and in_words(found["reason"])),
        ("slot", desk.when(found["slot"]) if found["slot"] else "by hand"),
        ("covers", f"{found['covered']} slots" if found["covered"] > 1 else None),
        ("attempt", found["attempt"] or None),
        ("started", found["started_at"] and desk.when(found["started_at"])),
        ("ended", found["ended_at"] and desk.when(found["ended_at"])),
        ("took", None if found["took_ms"] is None else took(found["took_ms"])),
        ("goes on", desk.when(found["not_before"]) if found["live"] and found["not_before"] else None),
        *((in_words(word), plain(value)) for word, value in evidence.items()),
    )
    return [*lines, *_outcome(desk, found["outcome"] or {})]


def _outcome(desk: Desk, outcome: dict[str, Any]) -> list[str]:
    """What it gave back, and what went wrong."""
    result = outcome.get("result")
    report = cast("dict[str, Any]", result) if isinstance(result, dict) and _EXECUTED in result else {}
    lines = desk.fields(*((in_words(word), _reported(word, value)) for word, value in report.items() if word != "text"))
    texts = {"error": outcome.get("error"), "said" if report else "result": answer_of(outcome)}
    for word, text in texts.items():
        if text:
            lines += ["", f"{word}:", *(f"  {line}" for line in block(text.rstrip()).split("\n"))]
    return ["", *lines] if lines and lines[0] else lines


def _reported(word: str, value: Any) -> str:
    if word == "money":
        return f"${value['micro_dollars'] / 1_000_000:.2f}" + (" (estimated)" if value["estimated"] else "")
    return plain(value) if value not in (None, "", [], {}) else ""


def answer_of(outcome: dict[str, Any] | None) -> str:
    """What an agent said last, or what a job gave back."""
    result = (outcome or {}).get("result")
    if isinstance(result, dict) and _EXECUTED in result:
        return str(cast("dict[str, Any]", result).get("text") or "")
    return "" if result is None else result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


@click.command(cls=Command)
@number_argument("run_id", "RUN", "a run", "matins runs")
@click.option("--reason", metavar="TEXT", help="Why.")
@pass_desk
def cancel(desk: Desk, run_id: str, reason: str | None) -> None:
    """End a run: at once, or as soon as its worker has ended it."""
    found = desk.ask("cancel", run_id=run_id, reason=reason)
    desk.show(found, lambda: run_line(desk, found))
    if found["live"]:
        desk.tell(f"It is being ended. Look again: matins runs show {found['id']}")


@click.command(cls=Command)
@number_argument("run_id", "RUN", "a run", "matins runs")
@click.argument("end", type=click.Choice(["succeeded", "failed", "unknown", "retry"]))
@pass_desk
def resolve(desk: Desk, run_id: str, end: str) -> None:
    """Say what became of a held run, which nobody knows."""
    found = desk.ask("resolve", run_id=run_id, end=end)
    desk.show(found, lambda: run_line(desk, found))


@click.group(cls=Noun)
def runs() -> None:
    """Runs of all schedules, or of one: matins runs NAME."""


runs.takes(list=list_runs, show=show_run, logs=logs, cancel=cancel, resolve=resolve)
