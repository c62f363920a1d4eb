"""`matins logs`: the output of a run."""

from __future__ import annotations

from collections.abc import Iterator

import click

from matins.errors import NotFound
from matins.surfaces.cli.context import CliContext, Document
from matins.surfaces.cli.framework import agent_option, complete_keys, pass_context, root_command
from matins.surfaces.cli.terminal_text import without_codes
from matins.surfaces.transcript_text import TranscriptText

_CHUNK_BYTES = 65_536
_POLL_S = 0.3


@root_command("logs")
@click.argument("what", metavar="RUN|NAME", shell_complete=complete_keys("schedules"))
@agent_option()
@click.option("--follow", "-f", is_flag=True, help="Keep printing new entries.")
@click.option("--stderr", is_flag=True, help="Output on stderr instead of stdout.")
@click.option("--raw", is_flag=True, help="Every byte as it was printed, with JSON, colours and codes.")
@pass_context
def logs(context: CliContext, what: str, agent: str | None, follow: bool, stderr: bool, raw: bool) -> None:
    """RUN is the number of a run, or of a step: 12/2. NAME is a schedule, for its last run. JSON that an agent's tool
    prints is shown as what the agent said, the tools that it called, and the first lines of what they answered; --raw
    shows it as it was printed. With --json, documents have it as it was printed too, with --follow one on each line.
    """
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
