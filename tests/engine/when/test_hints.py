"""What people write that Matins does not read: the hint keeps what they mean."""

from __future__ import annotations

import pytest

from matins import parse_trigger
from matins.errors import TriggerError


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("0 0 1 1 * 2027", "A year is the last of seven fields"),
        ("0 0 0 29 2 * 2027", "29 February is in leap years only."),
        ("0 0 1 1 * 9", None),
        ("9am", 'Did you mean "every day at 9am"?'),
        ("@every 5m", 'Write the interval alone: "5m".'),
        ("RRULE:FREQ=YEARLY;BYEASTER=1", "List the days in a calendar"),
        ("RRULE:FREQ=YEARLY;RSCALE=HEBREW", "Known: FREQ"),
        ("FREQ=DAILY RDATE:20260101", "Add a schedule for these times."),
        ("FREQ=DAILY EXRULE:FREQ=WEEKLY", "Write EXDATE, or a calendar for skip_on."),
        ("FREQ=DAILY EXDATE:soon", "Use 20261231T235959Z or 20261231."),
        ("OnCalendar=Mon..Fri 25:00", "For example: OnCalendar=Mon..Fri *-*-* 09:00"),
    ],
)
def test_a_hint_keeps_the_meaning(text: str, hint: str | None) -> None:
    """C11"""
    with pytest.raises(TriggerError) as caught:
        parse_trigger(text)
    assert str(caught.value.hint or "").startswith(hint or "")
    assert hint is not None or "year" not in str(caught.value.hint)
