"""Random cron expressions that are valid by the published rules, for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st
from walk import MONTHS, WEEKDAYS

Text = st.SearchStrategy[str]


def _item(low: int, high: int) -> Text:
    value = st.integers(low, high)
    span = st.tuples(value, value).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.integers(1, high)
    return st.one_of(value.map(str), span, st.builds("{}/{}".format, span, step))


def _plain(low: int, high: int) -> Text:
    """Numbers, ranges, steps and lists of them."""
    return st.lists(_item(low, high), min_size=1, max_size=3).map(",".join)


def _starred(high: int) -> Text:
    return st.one_of(st.just("*"), st.integers(1, high).map("*/{}".format))


def _field(low: int, high: int) -> Text:
    return st.one_of(_plain(low, high), _plain(low, high), _starred(high))


def _list_of(*items: Text) -> Text:
    return st.lists(st.one_of(*items), min_size=1, max_size=2).map(",".join)


_day_name = st.sampled_from(sorted(WEEKDAYS)) | st.sampled_from(["mon", "Fri"]) | st.integers(0, 7).map(str)
_name_range = st.sampled_from(["MON-FRI", "SUN-TUE", "TUE-SAT/2", "mon-wed"])
_month_name = st.sampled_from(sorted(MONTHS)) | st.sampled_from(["JAN-MAR", "feb-dec/2", "MAR,OCT,NOV"])

minutes = st.one_of(st.sampled_from(["0", "30", "0,30", "15,45", "59"]), _field(0, 59))
hours = st.one_of(st.sampled_from(["0", "1", "2", "3", "0-3", "23,0,1", "2,3"]), _field(0, 23))
seconds = st.one_of(st.sampled_from(["0", "30", "*/15", "*/20", "59"]), _plain(0, 59), st.just("*"))
months = st.one_of(st.just("*"), st.just("*"), st.just("*"), _month_name, _field(1, 12))
days_of_month = st.one_of(
    st.sampled_from(["*", "*", "*", "?", "L", "LW"]),
    _field(1, 31),
    _list_of(st.integers(1, 31).map("{}W".format), st.just("L"), st.just("LW"), _item(1, 31)),
)
days_of_week = st.one_of(
    st.sampled_from(["*", "*", "*", "?"]),
    _field(0, 6),
    _plain(0, 7),
    _list_of(_day_name, _name_range),
    _list_of(st.builds("{}#{}".format, _day_name, st.integers(1, 5)), _day_name.map("{}L".format)),
)

# Half of them on every day, so that many fall on the day on which the clocks change.
_any_days = st.tuples(days_of_month, months, days_of_week).map(" ".join) | st.just("* * *")

five_fields: Text = st.tuples(minutes, hours, _any_days).map(" ".join)
# Sparse minutes keep the walk short where every second fires.
six_fields: Text = st.tuples(seconds, st.sampled_from(["0", "30", "*/20", "59"]), hours, _any_days).map(" ".join)
