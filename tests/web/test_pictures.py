"""The pictures of the README and the docs show the page as it is."""

from __future__ import annotations

import json

import pictures


def test_no_picture_is_older_than_its_view() -> None:
    """A template, the style or the seeded store changed since: `make pictures` renews them."""
    made = json.loads(pictures.MADE_FROM.read_text("utf-8"))
    missing = [name for name in made["pictures"] if not (pictures.FOLDER / f"{name}.png").exists()]
    assert not missing
    assert made["digest"] == pictures.digest(), "The pictures are older than the page: make pictures"
