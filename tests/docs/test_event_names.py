"""docs/events.md names every event."""

from event_names import PAGE, rendered

from matins.engine.events import ALIASES, EVENTS


def test_the_page_says_what_the_catalogue_says() -> None:
    """P9"""
    page = PAGE.read_text(encoding="utf-8")
    assert page == rendered(page), "run .venv/bin/python tests/docs/event_names.py"


def test_every_name_is_on_the_page() -> None:
    """P9"""
    page = PAGE.read_text(encoding="utf-8")
    assert not [name for name in [*EVENTS, *ALIASES] if f"| `{name}` |" not in page]
