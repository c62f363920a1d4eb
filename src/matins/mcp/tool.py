"""A tool: its name, its text, its arguments and its call; and how arguments are checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import orjson

from matins.engine.validation import nearest
from matins.errors import InvalidInput, MatinsError
from matins.mcp.principal_calls import Document, PrincipalCalls, Quoted, cut
from matins.model.access import Right
from matins.surfaces.display import as_data

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


MAX_BYTES = 8_000
MAX_OUTPUT_BYTES = 16_000
MAX_ANSWER_BYTES = 32_000
"""Maximum length of an answer. Lists are made to fit into less, and say how to continue."""
_MAX_TEXT = 2_500
"""A text in an answer, with what says how much of it is cut."""


def fit(answer: Document, key: str) -> Document:
    """The answer with at most so many items that it stays small; it says how many are left out."""
    items: list[Any] = answer[key]
    kept = list(items)
    while kept and len(orjson.dumps({**answer, key: kept}, default=str)) > MAX_BYTES:
        kept.pop()
    if len(kept) == len(items):
        return answer
    return {**answer, key: kept, "left_out": len(items) - len(kept)}


def plain_answer(answer: Document) -> Document:
    """The answer as JSON data that models and people can read."""
    return bounded(orjson.loads(orjson.dumps(readable(answer), default=str)))


def readable(value: Any) -> Any:
    """The value with its texts as models and people can read them: what hides or reorders characters is written out,
    and a long text is cut. Quoted content was treated so before."""
    if isinstance(value, Quoted):
        return value
    if isinstance(value, str):
        return cut(as_data(value), _MAX_TEXT)
    if isinstance(value, dict):
        return {as_data(str(name)): readable(one) for name, one in cast("Document", value).items()}
    if isinstance(value, list | tuple):
        return [readable(one) for one in cast("list[Any]", value)]
    return value


def bounded(answer: Document) -> Document:
    """The answer without its largest parts, where it is too large for a model; it names them."""
    left_out: list[str] = []
    while len(orjson.dumps(answer)) > MAX_ANSWER_BYTES:
        largest = max((name for name in answer if name != "summary"), key=lambda name: len(orjson.dumps(answer[name])))
        left_out.append(largest)
        answer = {name: value for name, value in answer.items() if name != largest}
    return {**answer, "left_out_parts": left_out} if left_out else answer


def error_text(error: MatinsError) -> str:
    """One text that holds everything: clients show models nothing else of an error."""
    parts = [error.message]
    if isinstance(error, InvalidInput) and error.allowed and error.allowed not in (error.hint or ""):
        parts.append(f"Allowed: {error.allowed}.")
    if error.hint:
        parts.append(str(error.hint) if str(error.hint).endswith((".", "?", ")")) else f"{error.hint}.")
    field = getattr(error, "field", None)
    if step := _NEXT.get(error.code, {}).get(field, _NEXT.get(error.code, {}).get(None)):
        parts.append(step if error.hint else step.removeprefix("Or ").capitalize())
    return f"{readable(' '.join(parts))} [{error.code}{f', {readable(str(field))}' if field else ''}]"


_NEXT: dict[str, dict[str | None, str]] = {
    "not_found": {
        "name": "Or call list_schedules.",
        "run": "Or call list_runs.",
        "approval": "Or call list_approvals.",
    },
    "stale": {"digest": "Call list_approvals, then try again.", None: "Call get_schedule, then try again."},
    "not_allowed": {None: "Tell the person what you need."},
}
"""What to call next, by the code of an error and its field; None: for any other field."""
