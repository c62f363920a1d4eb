"""`matins run`, `runs`, `logs`, `cancel`, `resolve` and `wait`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from difflib import unified_diff
from typing import Any, NamedTuple, cast

import click

from matins.errors import InvalidInput, NotFound
from matins.model.words import with_command
from matins.surfaces.cli import context as errors
from matins.surfaces.cli import times
from matins.surfaces.cli.command_index import help_of
from matins.surfaces.cli.context import PAST, SECONDS, CliContext, Document, json_text
from matins.surfaces.cli.framework import (
    Command,
    NounGroup,
    Page,
    agent_option,
    chosen_text,
    complete_keys,
    label_option,
    limit_option,
    name_argument,
    number_argument,
    page_options,
    pass_context,
    root_command,
)
from matins.surfaces.cli.steps import cost_text, costs_of, step_tree
from matins.surfaces.cli.tables import Cell, Column, moment, plain, run_state, state_text, waits_for_approval
from matins.surfaces.cli.times import duration_text, full_time, relative_time
from matins.surfaces.display import TranscriptText, block, input_line, one_line, without_codes

_CHUNK_BYTES = 65_536
_POLL_S = 0.3


since_option = click.option("--since", type=PAST, help="Only runs that were planned from then on: 7d, or an instant.")
until_option = click.option("--until", type=PAST, help="Only runs that were planned before.")


@root_command("logs")
@click.argument("what", metavar="[RUN|NAME]", required=False, shell_complete=complete_keys("schedules"))
@agent_option()
@label_option
@click.option("--grep", "text", metavar="TEXT", help="Lines with this text, of the newest runs first; * is any text.")
@since_option
@until_option
@click.option("--follow", "-f", is_flag=True, help="Keep printing new entries.")
@click.option("--stderr", is_flag=True, help="Output on stderr instead of stdout.")
@click.option("--raw", is_flag=True, help="Every byte as it was printed, with JSON, colours and codes.")
@pass_context
def logs(
    context: CliContext, what: str | None, agent: str | None, labels: tuple[str, ...], text: str | None,
    since: str | None, until: str | None, follow: bool, stderr: bool, raw: bool,
) -> None:  # fmt: skip
    """RUN is the number of a run, or of a step: 12/2. NAME is a schedule, for its last run. JSON that an agent's tool
    prints is shown as what the agent said, the tools that it called, and the first lines of what they answered; --raw
    shows it as it was printed. With --json, documents have it as it was printed too, with --follow one on each line.
    --grep looks through the outputs of all runs, or of those of NAME, --agent or --label, and ends after 20 seconds.
    """
    if text is not None:
        _grep(context, text, _chosen(what, labels) | {"agent": agent, "since": since, "until": until})
        return
    if what is None or labels or since or until:
        message = "logs needs RUN, NAME or --grep." if what is None else "--label, --since and --until need --grep."
        raise InvalidInput(
            message, field="grep", hint="For example: matins logs nightly; matins logs --grep quota --since 7d"
        )
    run = _run(context, what, agent)
    total, transcript, as_printed = 0, TranscriptText(), raw or context.as_json
    call = "runs.output" if as_printed else "runs.transcript"
    chunks = _chunks(context, call, run["id"], "stderr" if stderr else "stdout", follow=follow)
    if context.as_json and not follow:
        chunks = iter([_joined(list(chunks))])
    for chunk in chunks:
        total = chunk["total"]
        if context.as_json:
            context.show_line(chunk, str)
        elif raw:
            click.echo(chunk["text"], nl=False, color=True)
        else:
            click.echo(without_codes(transcript.read(chunk["entries"])), nl=False)
    click.echo(without_codes(transcript.rest()), nl=False)
    if not total and (stderr or follow or context.as_json or not _print_stderr(context, run["id"])):
        context.note(f"Run {run['id']} has no output. Show the run: matins runs show {run['id']}")


_GREP_S = 20.0


def _grep(context: CliContext, text: str, chosen: Document) -> None:
    """Print the lines with a text, of the newest runs first. Each call of the service reads a part."""
    begun, runs, before, found = times.now(), 0, None, list[Document]()
    while True:
        part: Document = context.call("runs.grep", text=text, **chosen, before=before, limit=1_000)
        runs, before = runs + part["runs"], part["before"]
        found += part["lines"]
        if not context.as_json:
            for line in part["lines"]:
                click.echo(without_codes(f"{line['run_id']} {line['schedule']}: {line['line']}\n"), nl=False)
            for run_id in part["cut"]:
                context.note(f"More lines of run {run_id} have it: matins logs {run_id}")
        if before is None or (times.now() - begun).total_seconds() >= _GREP_S:
            break
    if context.as_json:
        context.show({**part, "lines": found, "runs": runs}, lambda: "")
    back = "" if part["back_to"] is None else f", back to {full_time(part['back_to'])}"
    if before is not None:
        context.note(
            f"Read {runs} runs{back}. To go on: matins logs --grep {shlex.quote(text)} --until {part['back_to']}"
        )
    elif not found:
        context.note(f"No line of {runs} runs has it{back}.")


def _chosen(name: str | None, labels: tuple[str, ...]) -> Document:
    """The schedule, or the selector of a pattern and labels."""
    names = [name] if name and "*" in name else []
    return {"schedule": None if names else name, "select": chosen_text(names=names, labels=labels)}


def _print_stderr(context: CliContext, run_id: str) -> bool:
    """Print what the run wrote to stderr, where it wrote nothing else. Returns whether there is anything."""
    chunks = list(_chunks(context, "runs.output", run_id, "stderr", follow=False))
    if not chunks[-1]["total"]:
        return False
    context.note(f"Run {run_id} printed nothing on stdout. This is its stderr:")
    click.echo(without_codes("".join(chunk["text"] for chunk in chunks)), nl=False)
    return True


def _chunks(context: CliContext, call: str, run_id: str, stream: str, *, follow: bool) -> Iterator[Document]:
    """All output so far; with `follow`, also later output."""
    at = 0
    while True:
        chunk = context.call(call, run_id=run_id, stream=stream, offset=at, limit=_CHUNK_BYTES)
        if chunk["offset"] > at and "text" in chunk:
            context.note(f"… {chunk['offset'] - at} bytes were not kept …")
        yield chunk
        more, at = chunk["next"] > at, chunk["next"]
        if chunk["over"] or not (more or follow):
            return
        if not more:
            context.wait(_POLL_S)


def _with_output(context: CliContext, run: Document) -> Document:
    """The run; of a run of steps, the step that started last."""
    started = [step for step in run.get("steps", ()) if step["started_at"] and step["run_id"]]
    if not started:
        return run
    last = max(started, key=lambda step: (step["started_at"], step["number"]))
    context.note(f"Step {run['id']}/{last['number']}: {last['title']}")
    return context.call("runs.get", run_id=last["run_id"])


def _joined(chunks: list[Document]) -> Document:
    """The chunks as one document."""
    return {**chunks[-1], "offset": chunks[0]["offset"], "text": "".join(chunk["text"] for chunk in chunks)}


def _run(context: CliContext, what: str, agent: str | None) -> Document:
    """The run with this number, or the last run of a schedule. If its name is a number, agent/name is needed."""
    run, _, step = what.partition("/")
    if run.isascii() and run.isdigit() and (not step or step.isdigit()) and agent is None:
        return _with_output(context, context.call("runs.get", run_id=what))
    found: list[Document] = context.call("runs.list", schedule=what, agent=agent, limit=50)
    started = next((run for run in found if run["started_at"]), None)
    if started is None:
        hint = f"To see why: matins why {what}" if found else f"Start a run: matins run {what}"
        raise NotFound(f'"{what}" has not run yet.', value=what, hint=hint)
    return _with_output(context, context.call("runs.get", run_id=started["id"]))


_FIRST_POLL_S, _MAX_POLL_S = 0.1, 1.0


class Waited(NamedTuple):
    run: Document
    approval: str | None = None
    """The approval that the run waits for."""
    timed_out: bool = False


def wait_for(context: CliContext, run: Document, timeout: float | None) -> Waited:
    """Wait until a run has ended, or needs a person."""
    begun, pause, noted = times.now(), _FIRST_POLL_S, ""
    while run["live"] and run["state"] != "held":
        state = run_state(run).text
        if state != noted:
            context.note(f"Run {run['id']}: {state}")
        noted = state
        if waits_for_approval(run):
            pending = context.call("approvals.list", limit=1000)
            asked = next((approval["id"] for approval in pending if approval["run_id"] == run["id"]), "ID")
            return Waited(run, approval=asked)
        if timeout is not None and (times.now() - begun).total_seconds() >= timeout:
            return Waited(run, timed_out=True)
        context.wait(pause)
        pause = min(pause * 1.5, _MAX_POLL_S)
        run = context.call("runs.get", run_id=run["id"])
    return Waited(run)


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
@click.option(
    "--input",
    "-i",
    "inputs",
    multiple=True,
    metavar="K=V",
    help="Input of the run: days=30 is text, days:=30 JSON, @file.json a file. May be repeated.",
)
@click.option("--model", metavar="NAME", help="Model of this run, by the runner's name for it.")
@click.option("--effort", metavar="NAME", help="How much the model thinks in this run: low, medium, high.")
@click.option("--set", "settings", multiple=True, hidden=True)
@click.option("--slot", metavar="TIME", help="Past slot that the run makes up for: 2026-11-01T09:00.")
@_key_option
@click.option("--wait", "-w", is_flag=True, help="Wait until the run ends; the exit code is its outcome.")
@click.option("--timeout", type=SECONDS, metavar="DURATION", help="Longest time to wait with --wait: 90s, 5m.")
@click.pass_context
def run(
    ctx: click.Context, name: str, agent: str | None, inputs: tuple[str, ...], settings: tuple[str, ...],
    model: str | None, effort: str | None, slot: str | None, key: str | None, wait: bool, timeout: float | None,
) -> None:  # fmt: skip
    """With --wait, the exit code is 0 when the run succeeded, 5 when it failed, 3 when it was cancelled or timed out,
    4 when it was denied or blocked, 6 when it was over budget, 8 when it needs approval, and 1 when it did not run.
    """
    if timeout is not None and not wait:
        message = f"--timeout needs --wait. The timeout of runs: matins edit {name} --timeout 5m"
        raise click.UsageError(message, ctx)
    if settings:
        message = f"--set changes settings. To give something to this run: --input {shlex.quote(settings[0])}"
        raise click.UsageError(message, ctx)
    context = ctx.ensure_object(CliContext)
    given = _read_inputs(inputs) if inputs else None
    chosen = {"input": given, "model": model, "effort": effort, "slot": slot}
    started = context.call("schedules.run", name=name, agent=agent, key=key, **chosen)
    running = not started["live"] or context.call("system.stats")["running"]
    if not running:
        context.note("No engine is running. The run starts when one does: matins up")
    waited = wait_for(context, started, timeout) if wait and running else Waited(started)
    context.show(waited.run, lambda: [run_line(context, waited.run), *_answer(waited.run)])
    ctx.exit(_exit_code(context, waited, wait=wait))


def _read_inputs(words: Sequence[str]) -> Any:
    from matins.surfaces.cli.schedule_settings import file_text  # most runs have no input
    from matins.surfaces.text_values import inputs_from

    return inputs_from(words, lambda path: file_text(path, "input", "Check the path."))


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
        if error := error_of(found):
            context.note(error)
        context.note(f"More: matins runs show {found['id']}, matins logs {found['id']}")
    elif found["started_at"] is None and found["state"] != "cancelled":
        context.note(f"To see why: matins why {shlex.quote(found['schedule'])}")
    if found["reason"] == "timed_out":
        return errors.CANCELLED
    return _EXIT_CODES.get(found["state"], errors.RUN_FAILED)


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
@label_option
@click.option("--state", "-s", metavar="STATE,…", help="States of the runs: failed, or failed,unknown.")
@click.option("--reason", metavar="REASON", help="Reason of the runs: quiet_hours, already_running.")
@click.option("--text", "-q", metavar="TEXT", help="Words of the answer, error or reason.")
@click.option("--min-cost", metavar="MONEY", help="Runs that cost this much, for example $0.50.")
@click.option("--min-duration", metavar="DURATION", help="Runs that took this long, for example 10m.")
@since_option
@until_option
@page_options("--before", default=20)
@pass_context
def list_runs(
    context: CliContext, name: str | None, agent: str | None, labels: tuple[str, ...], before: str | None, limit: int,
    **only: str | None,
) -> None:  # fmt: skip
    """List runs of all schedules, or of one. The newest is first. NAME may be a pattern: 'report-*'."""
    chosen = {**_chosen(name, labels), "agent": agent, "before": before, **only}
    page = Page.of(limit, lambda count: context.call("runs.list", **chosen, limit=count))
    filtered = bool(any(only.values()) or chosen["select"] or before or (agent and not name))
    context.show(page.items, lambda: _listed(context, page.items, name, filtered=filtered))
    page.note_more(context, f"matins runs {name} --before" if name else "matins runs --before", page.last_id)


def _listed(context: CliContext, items: list[Document], name: str | None, *, filtered: bool) -> Iterable[str]:
    if not items and filtered:
        return ["No run matches."]
    if not items:
        return ["No runs. Start one: matins run " + (one_line(name) if name else "NAME")]
    return context.table(_COLUMNS, items)


def _slot(found: Document, now: datetime) -> str | Cell:
    slot = found["slot"] or found["for_slot"]
    return moment(slot, now) if slot else f"manual {relative_time(found['planned_at'], now)}"


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
        ("input", None if found["input"] is None else input_line(found["input"])),
        ("model", found["model"]),
        ("effort", found["effort"]),
        ("attempt", found["attempt"] or None),
        ("started", found["started_at"] and context.when(found["started_at"])),
        ("ended", found["ended_at"] and context.when(found["ended_at"])),
        ("duration", None if found["duration_ms"] is None else duration_text(found["duration_ms"])),
        ("continues", context.when(found["not_before"]) if found["live"] and found["not_before"] else None),
        *((state_text(name), _evidence(context, name, value)) for name, value in evidence.items() if name != "who"),
    )
    if found["steps"]:
        lines += ["", *step_tree(context, found["steps"])]
    lines += context.sentences(
        [with_command(one["sentence"], one["quote"], one["command"]) for one in found["answers"]]
    )
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


def _many(function: Any) -> Any:
    """The numbers of runs, or what they have in common."""
    for option in (
        click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation."),
        click.option("--all", "everything", is_flag=True, help="Runs of all schedules."),
        until_option,
        since_option,
        click.option("--text", "-q", metavar="TEXT", help="Words of the answer, error or reason."),
        click.option("--state", "-s", metavar="STATE,…", help="States of the runs: failed, or failed,unknown."),
        label_option,
        agent_option("Agent of their schedules."),
        click.option("--schedule", metavar="NAME", multiple=True, shell_complete=complete_keys("schedules"),
                     help="Their schedule, or a pattern: 'report-*'; repeatable."),
        number_argument("run_ids", "[RUN]...", "a run", "matins runs", parts=True, many=True),
    ):  # fmt: skip
        function = option(function)
    return function


def _one_run(given: Document) -> str | None:
    """The run, where one is written out."""
    others = [name for name, value in given.items() if value and name not in ("run_ids", "yes")]
    return given["run_ids"][0] if len(given["run_ids"]) == 1 and not others else None


def _act_on_many(context: CliContext, do: str, given: Document, note: str | None = None) -> None:
    """Preview an action on many runs, ask, and do it. Numbers that are written out need no question."""
    chosen = {"names": given["schedule"], "agent": given["agent"], "labels": given["labels"]}
    select = chosen_text(**chosen) or ("all" if given["everything"] else None)
    only = {"select": select, **{name: given[name] for name in ("state", "text", "since", "until")}}
    if given["run_ids"] and any(only.values()):
        raise click.UsageError("The numbers say which runs: give no other choice.")
    if not given["run_ids"] and not any(only.values()):
        raise click.UsageError(
            f"Say which runs: matins {do} RUN, --label team=ops, --state STATE, --since 1h or --all."
        )
    only["runs"] = list(given["run_ids"]) or None
    found = context.call("runs.preview_bulk", do=do, **only)
    context.note(one_line(found["sentence"]))
    what = f"{found['total']} run{'' if found['total'] == 1 else 's'}"
    if found["total"] and not (given["yes"] or given["run_ids"]):
        if not context.is_interactive:
            raise click.UsageError(f"This would {do} {what}. Without a terminal, give --yes.")
        context.confirm(f"{do.capitalize()} {what}?", yes=False)
    result = context.call("runs.bulk", do=do, expect=found["digest"], note=note, **only)
    lines = [f"{'Cancelled' if do == 'cancel' else 'Started'} {result['total']} of {what}."]
    lines += [f"Skipped run {one['run']} of {one['schedule']}: {one['reason']}" for one in result["skipped"]]
    context.show(result, lambda: [one_line(line) for line in lines])
    context.note_if_not_running()


@root_command("cancel")
@_many
@click.option("--reason", metavar="TEXT", help="Reason for the cancellation.")
@pass_context
def cancel(context: CliContext, reason: str | None, **given: Any) -> None:
    """A run that has started ends as soon as its worker has stopped it."""
    run_id = _one_run(given)
    if run_id is None:
        _act_on_many(context, "cancel", given, reason)
        return
    found = context.call("runs.cancel", run_id=run_id, reason=reason)
    context.show(found, lambda: run_line(context, found))
    if found["live"]:
        context.note(f"The run is being stopped. Show it: matins runs show {found['id']}")


@root_command("retry")
@_many
@click.option("--from", "from_step", metavar="STEP", help="Title or number of the step to start from.")
@_key_option
@pass_context
def retry(context: CliContext, from_step: str | None, key: str | None, **given: Any) -> None:
    """A new run repeats an ended one, with the settings of then. Of a run with steps, those that succeeded are kept."""
    run_id = _one_run(given)
    if run_id is None:
        if from_step or key:
            raise click.UsageError("--from and --key are for one run.")
        _act_on_many(context, "retry", given)
        return
    found = context.call("runs.retry", run_id=run_id, from_step=from_step, key=key)
    context.show(found, lambda: run_line(context, found))
    context.note_if_not_running()


@root_command("diff")
@_run_argument
@click.argument("other", metavar="[RUN]", required=False)
@pass_context
def diff(context: CliContext, run_id: str, other: str | None) -> None:
    """Settings, agent, prompt, input, model, steps, answer, cost and times. The second RUN is the earlier one."""
    found = context.call("runs.diff", run_id=run_id, other=other)
    context.show(found, lambda: _differences(context, found))


def _differences(context: CliContext, found: Document) -> list[str]:
    lines = [run_line(context, found["before"]), run_line(context, found["after"])]
    for one in found["differences"]:
        name, texts = state_text(one["setting"]), [one["before"], one["after"]]
        if any(isinstance(text, str) and "\n" in text.strip() for text in texts):
            before, after = (block(str(text or "")).splitlines() for text in texts)
            lines += [f"{name}:", *("  " + line for line in list(unified_diff(before, after, lineterm=""))[2:])]
        else:
            lines.append(one_line(f"{name}: {plain(texts[0])} → {plain(texts[1])}"))
    return lines if found["differences"] else [*lines, "There is no difference."]


@root_command("resolve")
@_run_argument
@click.argument("outcome", type=click.Choice(["succeeded", "failed", "unknown", "retry"]))
@pass_context
def resolve(context: CliContext, run_id: str, outcome: str) -> None:
    """A run is held when its outcome is unknown. `retry` starts it again."""
    found = context.call("runs.resolve", run_id=run_id, outcome=outcome)
    context.show(found, lambda: run_line(context, found))


@click.command("deliver", cls=Command)
@_run_argument
@click.option("--to", metavar="NAME", multiple=True, shell_complete=complete_keys("destinations"),
              help="Destination, or thread: the run's place in chat. Default: those of its schedule.")  # fmt: skip
@pass_context
def deliver(context: CliContext, run_id: str, to: tuple[str, ...]) -> None:
    """Send the answer of a run, also when it was sent before."""
    names = [name for one in to for name in one.split(",")]
    found = context.call("runs.deliver", run_id=run_id, to=names or None)
    sent = [
        with_command(one["sentence"], one["quote"], one["command"])
        for one in found["answers"]
        if one["state"] == "queued"
    ]
    context.show(found, lambda: context.sentences(sent))
    context.note_if_not_running()


@click.command("erase", cls=Command)
@_run_argument
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@pass_context
def erase(context: CliContext, run_id: str, yes: bool) -> None:
    """Erase the words of an ended run: input, answer, error, output, messages. Its record stays."""
    if not yes:
        click.confirm(f"Erase all that run {run_id} was given and wrote? This cannot be undone.", abort=True, err=True)
    found = context.call("runs.erase", run_id=run_id)
    context.show(found, lambda: f"Erased the words of run {run_id}. Its record stays.")
    if found["elsewhere"]:
        context.note(f"Output may be left on {', '.join(found['elsewhere'])}.")


runs = NounGroup("runs", help_of("runs"))
runs.takes(
    list=list_runs,
    show=show_run,
    logs=logs,
    cancel=cancel,
    retry=retry,
    diff=diff,
    resolve=resolve,
    deliver=deliver,
    erase=erase,
)


_FOUND_COLUMNS = (
    Column("KIND", "kind"),
    Column("WHAT", lambda item, now: item["title"], 24, middle=True),
    Column("STATE", "detail"),
    Column("TEXT", lambda item, now: item["excerpt"] or "", 20),
)


@root_command("search")
@click.argument("words", metavar="WORD...", nargs=-1, required=True)
@limit_option(20)
@pass_context
def search(context: CliContext, words: tuple[str, ...], limit: int) -> None:
    """Words match by their beginnings; what is in quotes of its own as it is written: '"quota exceeded"'.
    Runs are found by answer, error, reason and the end of their output; matins logs --grep reads all output.
    """
    text = " ".join(words)
    items: list[Document] = context.call("schedules.search", text=text, limit=limit)
    context.show_list(_FOUND_COLUMNS, items, f"Nothing has {one_line(text)}.")
