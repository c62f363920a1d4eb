"""Agents as records."""

from __future__ import annotations

import pytest
from record_steps import CONTEXT

from matins.errors import InvalidInput
from matins.records.agents import AGENTS


@pytest.mark.parametrize("url", ["https://ann:pw@models.example.com/v1", "https://token@example.com", ""])
def test_no_password_in_a_url(url: str) -> None:
    """B7: whoever may look at agents would see it"""
    with pytest.raises(InvalidInput) as caught:
        AGENTS.parse("scout", {"runner": "openai", "url": url}, CONTEXT)
    assert caught.value.field == "url"
    assert "pw" not in caught.value.message


def test_a_url_with_an_at_in_its_path() -> None:
    url = "https://example.com/@ann?to=a@b"
    assert AGENTS.parse("scout", {"runner": "http", "url": url}, CONTEXT).url == url
