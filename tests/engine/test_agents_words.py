"""What an agent may not say."""

from __future__ import annotations

import pytest

from matins.engine.agents import define_agent
from matins.errors import InvalidInput


@pytest.mark.parametrize("url", ["https://ann:pw@models.example.com/v1", "https://token@example.com", ""])
def test_no_password_in_an_address(url: str) -> None:
    """B7: whoever may look at agents would see it"""
    with pytest.raises(InvalidInput) as caught:
        define_agent("scout", {"runner": "openai", "url": url}, {})
    assert caught.value.field == "url"
    assert "pw" not in caught.value.message


def test_an_address_with_an_at_in_its_path() -> None:
    url = "https://example.com/@ann?to=a@b"
    assert define_agent("scout", {"runner": "http", "url": url}, {}).url == url
