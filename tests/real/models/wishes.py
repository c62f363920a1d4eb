"""What a test wants an endpoint to answer. It stands in the prompt, as the last directive among the user's words:

    [[fake {"say": "Hello", "usage": [1200, 34, 500]}]]

| word | what it does |
| --- | --- |
| say | the final text ("Done."), `{link}` being that of an approval; `big`: so many characters of it instead |
| usage | tokens [in, out, cached] of each answer; `in` is without `cached` |
| tool | "write" (with path, content) or "shell" (with command): asked for first; `turns`: so often (1) |
| calls | with tool "mcp": names and arguments of Matins' tools, asked for one after the other |
| status | answer this HTTP status instead; `times`: only for the first so many requests of this directive |
| retry_after, reset | the wait that a refusal names, in seconds; the limit's reset as UTC seconds |
| kind | of a refusal by OpenAI or Gemini: "rate", "plan", "quota", "day" |
| hang | the answer never begins; `slow`: seconds between pieces; `pieces`: how many |
| cut | the connection ends in the middle of the stream |
| repeat | the same piece, so often: what tools take for a loop |
| id | the name under which a test finds its requests |
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
Said = Iterator[tuple[str, str]]
"""Role (user, assistant, tool, system) and text."""
Tools = Iterator[tuple[str, Json]]
"""Name and JSON schema of the arguments."""
_DIRECTIVE = re.compile(r"\[\[fake (\{.*?\})\]\]", re.DOTALL)
_LINK = re.compile(r"http://[^\s\"\\]+/approvals/[0-9]+")
_USAGE = (1000, 50, 0)


class Asked:
    """A request in one shape for all protocols: who said what, and which tools are offered."""

    def __init__(self, body: Json, said: Said, tools: Tools, *, streamed: bool, model: str) -> None:
        self.body, self.streamed, self.model = body, streamed, model
        self.said = list(said)
        self.tools = dict(tools)
        at = [n for n, (role, text) in enumerate(self.said) if role == "user" and _DIRECTIVE.search(text)]
        self.wish: Json = json.loads(_DIRECTIVE.findall(self.said[at[-1]][1])[-1]) if at else {}
        self.results = sum(1 for role, _ in self.said[at[-1] :] if role == "tool") if at else 0

    @property
    def wants_tool(self) -> bool:
        turns = len(self.wish["calls"]) if "calls" in self.wish else self.wish.get("turns", 1)
        return bool(self.wish.get("tool")) and self.results < turns and bool(self.tools)

    @property
    def text(self) -> str:
        links = (found[0] for role, text in self.said if role == "tool" and (found := _LINK.search(text)))
        return text_of(self.wish).replace("{link}", next(links, "no link"))

    @property
    def usage(self) -> tuple[int, int, int]:
        fresh, out, cached = self.wish.get("usage", _USAGE)
        return fresh, out, cached

    def pieces(self) -> list[str]:
        if "repeat" in self.wish:
            return [self.text] * self.wish["repeat"]
        count = max(1, self.wish.get("pieces", 4))
        size = max(1, -(-len(self.text) // count))
        return [self.text[at : at + size] for at in range(0, len(self.text), size)] or [""]

    def call(self) -> tuple[str, Json]:
        """The tool by which the wish can be had, and its arguments.

        No two commands are the same: tools take the same call over and over for a loop.
        """
        if "calls" in self.wish:
            return _tool_of_matins(self.tools, **self.wish["calls"][self.results])
        command = f"{self.wish['command']} # {self.results}" if "command" in self.wish and self.results else None
        return chosen_tool(self.tools, {**self.wish, "command": command} if command else self.wish)


def text_of(wish: Json) -> str:
    """The final text of a wish."""
    if "big" in wish:
        # No line is like another: tools take a text that repeats itself for a loop.
        lines = (f"Zeile {n * n % 99991} äöü 漢字 🪴 {n:x}\n" for n in range(wish["big"] // 20))
        return "".join(lines)[: wish["big"]]
    return str(wish.get("say", "Done."))


def chosen_tool(tools: dict[str, Json], wish: Json) -> tuple[str, Json]:
    path, content = wish.get("path", "written.txt"), wish.get("content", "written by a tool\n")
    command = wish.get("command") or f"printf %s {json.dumps(content)} > {path}"
    writing = _writer(tools, path, content) if wish["tool"] == "write" else None
    found = writing or _shell(tools, command)
    if found is None:
        raise LookupError(f"none of {sorted(tools)} can do {wish['tool']}")
    return found


def _tool_of_matins(tools: dict[str, Json], wanted: str, arguments: Json) -> tuple[str, Json]:
    """The tool as the client names it: with the name of the server before it, or in a namespace of it."""
    for name, schema in tools.items():
        whole = f"{schema.get('namespace') or ''}__{name}"
        if name.endswith(wanted) and ("matins" in whole or f"__{wanted}" in whole):
            return name, arguments
    return f"mcp__matins__{wanted}", arguments  # a client may offer it, and load it only when it is called


def _writer(tools: dict[str, Json], path: str, content: str) -> tuple[str, Json] | None:
    for name, schema in tools.items():
        words = schema.get("properties", {})
        target = next((word for word in ("file_path", "filePath", "path", "filename") if word in words), None)
        body = next((word for word in ("content", "file_text", "contents", "text") if word in words), None)
        if re.search(r"write|text_editor|create", name, re.IGNORECASE) and target and body:
            extra = {"command": "write"} if "command" in words else {}
            return name, {target: path, body: content, **extra}
    return None


def _shell(tools: dict[str, Json], command: str) -> tuple[str, Json] | None:
    for name, schema in tools.items():
        words = schema.get("properties", {})
        if not re.search(r"bash|shell|exec_command|terminal|run_command", name, re.IGNORECASE):
            continue
        if "cmd" in words:
            return name, {"cmd": command}
        if words.get("command", {}).get("type") == "array":
            return name, {"command": ["bash", "-c", command]}
        extra: Json = {"description": "as asked"} if "description" in words else {}
        return name, {"command": command, **extra}
    return None


def flat(content: Any) -> str:
    """The text of nested content."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(flat(item) for item in content)
    if isinstance(content, dict):
        return flat(content.get("text") or content.get("content") or content.get("output") or "")
    return ""


def example(schema: Json) -> Any:
    """Something that a JSON schema allows, for requests that want structure (titles, routing, who speaks next)."""
    if "enum" in schema:
        return "user" if "user" in schema["enum"] else schema["enum"][0]
    kind = schema.get("type", "object")
    kind = (kind[0] if isinstance(kind, list) else kind).lower()
    if kind == "object":
        return {name: example(inner) for name, inner in schema.get("properties", {}).items()}
    return {"array": [], "string": "fake", "number": 1, "integer": 1, "boolean": False}.get(kind)
