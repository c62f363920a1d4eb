"""The mark of content: words that Matins did not write, of tools, checks, people and other systems."""

from typing import Annotated, TypeVar

T = TypeVar("T")


class ContentMark:
    """Marks a field of a result. An agent sees the field only of what is its own; over MCP it stands between marks."""


CONTENT = ContentMark()
Content = Annotated[T, CONTENT]
