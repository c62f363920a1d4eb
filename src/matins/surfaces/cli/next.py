"""`matins next`: what a text means, and when it fires."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from matins.service import Fire, Preview, Service

_DST_WORDS = {
    "moved": "moved: the clocks jump over its time",
    "shifted": "shifted by the clock change",
    "first": "first of two: the clocks go back",
    "second": "second of two: the clocks go back",
}


@click.command("next")
@click.argument("text", nargs=-1, required=True)
@click.option("--timezone", "-z", metavar="ZONE", help='IANA name, or "local". UTC by default.')
@click.option("--after", metavar="INSTANT", help="Fires after this ISO instant; now by default.")
@click.option("--count", "-n", default=5, show_default=True, help="How many fires, up to 1000.")
@click.option("--dst-gap", type=click.Choice(["after", "skip", "shift"]), default="after", show_default=True)
@click.option("--dst-overlap", type=click.Choice(["first", "both"]), default="first", show_default=True)
@click.option("--strict", is_flag=True, help="Refuse cron beyond numbers, *, ranges, steps and lists.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_obj
def next_command(build_service: Callable[[], Service], text: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Say what TEXT means and when it fires next.

    TEXT is English ("every weekday at 9am"), cron ("0 9 * * 1-5", @daily), a duration (5m), an ISO instant, or an
    RRULE.
    """
    preview = build_service().next_fires(" ".join(text), **options)
    click.echo(json.dumps(_as_dict(preview), ensure_ascii=False) if as_json else _as_text(preview))


def _as_dict(preview: Preview) -> dict[str, Any]:
    return {
        "text": preview.text,
        "kind": preview.kind,
        "description": preview.description,
        "timezone": preview.timezone,
        "fires": [
            {
                "local": fire.local.isoformat(),
                "utc": _utc(fire.utc),
                "in_seconds": _seconds(fire.away),
                "dst": fire.dst,
            }
            for fire in preview.fires
        ],
        "notes": list(preview.notes),
        "clock_changes": list(preview.clock_changes),
    }


def _utc(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _seconds(away: timedelta) -> int | float:
    seconds = away.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds


def _as_text(preview: Preview) -> str:
    lines = [preview.description, f"time zone: {preview.timezone}"]
    lines += [f"note: {note}" for note in preview.notes]
    lines += [f"clock change: {change}" for change in preview.clock_changes]
    lines.append("")
    lines += _table(preview.fires) if preview.fires else ["It does not fire any more."]
    return "\n".join(lines)


def _table(fires: tuple[Fire, ...]) -> list[str]:
    rows = [("LOCAL", "UTC", "IN", "")] + [_row(fire) for fire in fires]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _row(fire: Fire) -> tuple[str, str, str, str]:
    local = f"{fire.local:%a %Y-%m-%d} {_clock(fire.local)} {fire.local:%Z}"
    return local, f"{fire.utc:%Y-%m-%d} {_clock(fire.utc)}", _away(fire.away), _DST_WORDS.get(fire.dst or "", "")


def _clock(moment: datetime) -> str:
    return f"{moment:%H:%M:%S}" if moment.second or moment.microsecond else f"{moment:%H:%M}"


def _away(away: timedelta) -> str:
    """The two largest units: `3d 8h`, `45s`."""
    seconds = round(away.total_seconds())
    parts: list[str] = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")):
        amount, seconds = divmod(seconds, size)
        if amount:
            parts.append(f"{amount}{unit}")
    return " ".join(parts[:2]) or "now"
