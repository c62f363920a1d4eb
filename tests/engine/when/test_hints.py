"""What people write that Matins does not read: the hint keeps what they mean."""

from __future__ import annotations

import pytest

from matins import parse_trigger
from matins.errors import TriggerError


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("0 0 1 1 * 2027", "There is no field for the year"),
        ("0 0 0 1 1 * 2027", "There is no field for the year"),
        ("0 0 12 1 1 ? 2027-2030", "There is no field for the year"),
        ("0 0 1 1 * 9", None),
        ("9am", 'Did you mean "every day at 9am"?'),
        ("@every 5m", 'Write the interval alone: "5m".'),
        ("RRULE:FREQ=SECONDLY", 'For seconds, write an interval: "10s".'),
        ("RRULE:FREQ=YEARLY;BYWEEKNO=20", "Known: FREQ"),
    ],
)
def test_a_hint_keeps_the_meaning(text: str, hint: str | None) -> None:
    """C11"""
    with pytest.raises(TriggerError) as caught:
        parse_trigger(text)
    assert str(caught.value.hint or "").startswith(hint or "")
    assert hint is not None or "year" not in str(caught.value.hint)
