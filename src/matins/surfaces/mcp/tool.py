"""A tool: its name, its text, its arguments and its call; and how arguments are checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from matins.engine.validation import nearest
from matins.errors import InvalidInput
from matins.model.access import Right
from matins.surfaces.mcp.principal_calls import Document, PrincipalCalls

Call = Callable[[PrincipalCalls, Document], Document]


class Toolset(NamedTuple):
    """The tools of another system, by its names."""

    tools: Mapping[str, Tool]
    everywhere: bool = False
    """Whether they can be called on every path. They are listed on their own path only."""


class Tool(NamedTuple):
    name: str
    description: str
    properties: Mapping[str, Mapping[str, Any]]
    call: Call
    right: Right = "read"
    required: tuple[str, ...] = ()
    destroys: bool = False
    idempotent: bool = False
    in_run: bool = False
    """Whether an agent in a run has it."""
    outside: bool = True
    """Whether a client outside a run has it."""

    @property
    def reads(self) -> bool:
        return self.right == "read"

    @property
    def schema(self) -> Document:
        found: Document = {"type": "object", "properties": dict(self.properties), "additionalProperties": False}
        return {**found, "required": list(self.required)} if self.required else found

    @property
    def annotations(self) -> dict[str, bool]:
        """Always all four: some clients cancel tools that leave one out."""
        return {
            "readOnlyHint": self.reads,
            "destructiveHint": self.destroys,
            "idempotentHint": self.reads or self.idempotent,
            "openWorldHint": False,
        }


class WrongArguments(InvalidInput):
    """Several arguments are wrong; the message names all of them."""

    def __init__(self, errors: list[InvalidInput]) -> None:
        texts = [f"{error.message} {error.hint}" if error.hint else error.message for error in errors]
        super().__init__(" ".join(texts), field=", ".join(str(error.field) for error in errors))


def checked(tool: Tool, given: Any) -> Document:
    """The arguments. Raises one error that names every wrong argument."""
    if given is None:
        given = {}
    errors: list[InvalidInput] = []
    arguments: Document = {name: value for name, value in given.items() if value is not None or name == "endDate"}
    for name in tool.required:
        if name not in arguments:
            text = tool.properties[name].get("description", "")
            errors.append(InvalidInput(f'"{name}" is missing.', field=name, hint=text or None))
    for name, value in arguments.items():
        declared = tool.properties.get(name)
        if declared is None:
            known = ", ".join(tool.properties)
            hint = nearest(name, tool.properties) if tool.properties else "It takes no arguments."
            errors.append(InvalidInput(f'{tool.name} has no argument "{name}".', field=name, allowed=known, hint=hint))
        elif (problem := _problem(declared, value)) is not None:
            errors.append(InvalidInput(f'"{name}" must be {problem}, not {value!r:.60}.', value=value, field=name))
    if errors:
        raise errors[0] if len(errors) == 1 else WrongArguments(errors)
    return arguments


_TYPES: Mapping[str, tuple[type[Any], ...]] = {
    "string": (str,), "integer": (int,), "boolean": (bool,), "object": (dict,), "null": (type(None),),
}  # fmt: skip
_WORDS = {"string": "a string", "integer": "an integer", "boolean": "true or false", "object": "an object"}


DIGITS = "^[0-9]{1,18}$"
"""The pattern of an id that is given as text."""
_DIGITS = re.compile(DIGITS)


def _problem(declared: Mapping[str, Any], value: Any) -> str | None:
    """What a value must be; None when it is that."""
    if "enum" in declared:
        return None if value in declared["enum"] else f"one of {', '.join(declared['enum'])}"
    kinds: list[str] = [declared["type"]] if isinstance(declared.get("type"), str) else list(declared.get("type", ()))
    if kinds and not any(_is(kind, value) for kind in kinds):
        return " or ".join(_WORDS.get(kind, kind) for kind in kinds)
    if isinstance(value, str) and declared.get("pattern") == DIGITS and not _DIGITS.fullmatch(value):
        return "a number"
    low, high = declared.get("minimum"), declared.get("maximum")
    if isinstance(value, int) and ((low is not None and value < low) or (high is not None and value > high)):
        return f"an integer from {low} to {high}"
    return None


def _is(kind: str, value: Any) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
