"""What a text means, and when it would fire."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from matins.engine.english.describe import explain
from matins.engine.when.instants import FireEffect
from matins.engine.when.parse import parse_trigger
from matins.engine.when.triggers import EPOCH, Trigger, to_ms
from matins.errors import InstantError, InvalidInput
from matins.model.trigger import DstGap, DstOverlap
from matins.ports import Clock

MOST_FIRES = 1000


@dataclass(frozen=True, slots=True)
class Fire:
    local: datetime
    utc: datetime
    away: timedelta
    """How far from the instant that was asked about."""
    dst: FireEffect | None
    """What a change of the clocks did to it."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What a text means, and when it would fire."""

    text: str
    kind: str
    description: str
    timezone: str
    fires: tuple[Fire, ...]
    notes: tuple[str, ...]
    """What was said rather than guessed in silence."""
    clock_changes: tuple[str, ...]
    """What the clock changes between the first and the last fire do."""


class Previews:
    _clock: Clock

    def next_fires(
        self,
        text: str,
        *,
        timezone: str | None = None,
        after: str | None = None,
        count: int = 5,
        dst_gap: DstGap = "after",
        dst_overlap: DstOverlap = "first",
        strict: bool = False,
    ) -> Preview:
        """What `text` means and its next `count` fires after an ISO instant, or after now."""
        if not 1 <= count <= MOST_FIRES:
            raise InvalidInput(f"count must be 1 to {MOST_FIRES}, got {count}", value=count, field="count")
        start = self._clock.now_ms() if after is None else _instant(after)
        trigger = parse_trigger(
            text,
            now_ms=start,
            timezone=self._clock.local_zone() if timezone == "local" else timezone,
            dst_gap=dst_gap,
            dst_overlap=dst_overlap,
            strict=strict,
        )
        instants = _following(trigger, start, count)
        return Preview(
            text=text,
            kind=trigger.kind,
            description=trigger.describe(),
            timezone=trigger.timezone,
            fires=tuple(_fire(trigger, at, start) for at in instants),
            notes=trigger.notes,
            clock_changes=_clock_changes(trigger, start, instants),
        )


def _instant(text: str) -> int:
    hint = "give an offset: 2026-03-27T00:00:00Z"
    try:
        return to_ms(datetime.fromisoformat(text))
    except InstantError as error:
        raise InstantError(error.message, value=text, field="after", hint=hint) from None
    except ValueError as error:
        raise InstantError(f'"{text}" is not an ISO instant: {error}', value=text, field="after", hint=hint) from None


def _following(trigger: Trigger, start: int, count: int) -> list[int]:
    instants: list[int] = []
    at = trigger.next_ms(start)
    while at is not None and len(instants) < count:
        instants.append(at)
        at = trigger.next_ms(at)
    return instants


def _fire(trigger: Trigger, at: int, start: int) -> Fire:
    utc = EPOCH + timedelta(milliseconds=at)
    return Fire(trigger.local(at), utc.astimezone(UTC), timedelta(milliseconds=at - start), trigger.dst_effect(at))


def _clock_changes(trigger: Trigger, start: int, instants: list[int]) -> tuple[str, ...]:
    if not instants:
        return ()
    surprises = trigger.surprises(trigger.local(start), trigger.local(instants[-1] + 1))
    return tuple(explain(surprise, trigger.zone) for surprise in surprises)
