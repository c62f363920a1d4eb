"""Finds every regular expression of the package, and the texts that could keep each of them busy."""

from __future__ import annotations

import ast
import importlib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from re import _constants as ops  # pyright: ignore[reportAttributeAccessIssue]
from re import _parser  # pyright: ignore[reportAttributeAccessIssue]
from typing import Any, NamedTuple

import matins

SOURCE = Path(matins.__file__).parent
FUNCTIONS = ("match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer")
UNKNOWN_USE = ("match", "search", "fullmatch")
"""For a pattern that is handed on, so that its callers are not seen."""
_BUILT_BY = "compile"
_PROBES = "aA0_-.,:;/\\\"'“`#@%&=+*?!|~^$(){}[]<> \t\n\r\0\x1bé\u2028\ud800"


class Use(NamedTuple):
    """A pattern, and the methods that its callers use."""

    place: str
    """File and name, `engine/money.py:_MONEY`; without a name, the function that it stands in."""
    pattern: re.Pattern[Any] | None
    """None if it is built when the program runs."""
    methods: tuple[str, ...]


# -- which patterns there are


def uses(source: Path = SOURCE) -> list[Use]:
    files = {path: ast.parse(path.read_text("utf-8")) for path in sorted(source.rglob("*.py"))}
    called = _methods_called(files.values())
    return [use for path, tree in files.items() for use in _uses_in(path, tree, called, source)]


def _methods_called(trees: Any) -> dict[str, set[str]]:
    """The methods of patterns that are called on each name, in any file."""
    found: dict[str, set[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in FUNCTIONS:
                found.setdefault(_last_name(node.value), set()).add(node.attr)
    return found


def _last_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _uses_in(path: Path, tree: ast.Module, called: dict[str, set[str]], source: Path) -> Iterator[Use]:
    where = str(path.relative_to(source))
    names = {"re"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "re":
            raise AssertionError(f"{where}: write `import re`, so that patterns can be found")
        if isinstance(node, ast.Import):
            names |= {alias.asname for alias in node.names if alias.name == "re" and alias.asname}
    here = _methods_called([tree])
    for node, scope, target in _calls(tree):
        function = node.func
        if not isinstance(function, ast.Attribute) or _last_name(function.value) not in names:
            continue
        if function.attr in FUNCTIONS:
            yield Use(
                f"{where}:{scope}", _value(path, node, 2 if "sub" not in function.attr else 4, source), (function.attr,)
            )
        elif function.attr == _BUILT_BY:
            everywhere: set[str] = set() if target.startswith("_") else called.get(target, set())
            methods = (target and here.get(target)) or everywhere or UNKNOWN_USE
            yield Use(f"{where}:{target or scope}", _value(path, node, 1, source), tuple(methods))


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, str, str]]:
    """Every call, with the function or name that it stands in, and the name that gets its value."""

    def walk(node: ast.AST, scope: str, target: str) -> Iterator[tuple[ast.Call, str, str]]:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            scope = node.name
        if isinstance(node, ast.Assign):
            target = _last_name(node.targets[0]) if isinstance(node.value, ast.Call) else ""
            scope = scope or _last_name(node.targets[0])
        elif isinstance(node, ast.AnnAssign):
            target = _last_name(node.target) if isinstance(node.value, ast.Call) else ""
        elif isinstance(node, ast.Call):
            yield node, scope, target
            target = ""
        for child in ast.iter_child_nodes(node):
            yield from walk(child, scope, target)

    return walk(tree, "", "")


def _value(path: Path, call: ast.Call, flags_at: int, source: Path) -> re.Pattern[Any] | None:
    """The pattern of a call, if the names of its module tell it."""
    namespace: dict[str, Any] = {"re": re}
    if source is SOURCE:
        module = ".".join(("matins", *path.relative_to(source).with_suffix("").parts)).removesuffix(".__init__")
        namespace = vars(importlib.import_module(module))
    parts: list[ast.expr | None] = [call.args[0]]
    parts.append(next((keyword.value for keyword in call.keywords if keyword.arg == "flags"), None))
    if parts[1] is None and len(call.args) > flags_at:
        parts[1] = call.args[flags_at]
    values: list[Any] = []
    for part in parts:
        try:
            values.append(0 if part is None else eval(compile(ast.Expression(part), str(path), "eval"), namespace))
        except NameError:
            return None
    return re.compile(*values)


# -- texts that could keep a pattern busy


def texts(pattern: re.Pattern[Any]) -> list[tuple[str, str, str]]:
    """Beginnings, pieces to repeat, and ends after which the whole does not match."""
    kind = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    parsed = _parser.parse(kind, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags)
    found: dict[tuple[str, str, str], None] = {}
    starts, pieces = _pieces(parsed)
    for start in ["", *starts]:
        for piece in pieces:
            for end in ("\0", "\n!"):
                found[start, piece, end] = None
    return list(found)


def _pieces(parsed: Any) -> tuple[list[str], list[str]]:
    """The beginnings of the pattern, and everything worth repeating: its parts, and single characters of them."""
    starts: dict[str, None] = {}
    pieces: dict[str, None] = {}

    def visit(sequence: Any, before: str) -> None:
        at = before
        for item in sequence:
            for text in _samples(item):
                if text:
                    pieces[text] = None
                    if at:
                        pieces[(at + text)[-40:]] = None
            for inner in _inner(item):
                visit(inner, at)
            at += next(iter(_samples(item)), "")
            if len(at) < 200:
                starts[at] = None

    visit(parsed, "")
    singles = dict.fromkeys(character for piece in pieces for character in piece)
    spaced = [f"{piece} " for piece in list(pieces)[:12]]
    return list(starts)[:5], list(dict.fromkeys([*singles, *pieces, *spaced]))[:30]


def _inner(item: Any) -> list[Any]:
    code, value = item
    if code in (ops.MAX_REPEAT, ops.MIN_REPEAT, getattr(ops, "POSSESSIVE_REPEAT", None)):
        return [value[2]]
    if code is ops.SUBPATTERN:
        return [value[3]]
    if code is ops.BRANCH:
        return list(value[1])
    if code in (ops.ASSERT, ops.ASSERT_NOT):
        return [value[1]]
    return [value] if code is getattr(ops, "ATOMIC_GROUP", None) else []


def _samples(item: Any, most: int = 6) -> list[str]:
    """A few texts that one part of a pattern matches."""
    code, value = item
    if code is ops.LITERAL:
        return [chr(value)]
    if code in (ops.IN, ops.ANY, ops.NOT_LITERAL, ops.CATEGORY):
        return [c for c in _PROBES if _is_in(code, value, c)][:most] or _members(value)
    if code in (ops.MAX_REPEAT, ops.MIN_REPEAT, getattr(ops, "POSSESSIVE_REPEAT", None)):
        least = max(1, value[0])
        return [text * least for text in _of_sequence(value[2], most)]
    if code is ops.SUBPATTERN:
        return _of_sequence(value[3], most)
    if code is ops.BRANCH:
        return [text for branch in value[1] for text in _of_sequence(branch, 2)][: most * 3]
    return _of_sequence(value, most) if code is getattr(ops, "ATOMIC_GROUP", None) else [""]


def _of_sequence(sequence: Any, most: int) -> list[str]:
    found = [""]
    for item in sequence:
        samples = _samples(item, most) or [""]
        found = (
            [a + b for a in found for b in samples][: most * 2] if len(samples) > 1 else [a + samples[0] for a in found]
        )
    return found[: most * 2]


def _is_in(code: Any, value: Any, character: str) -> bool:
    if code is ops.ANY:
        return True
    if code is ops.NOT_LITERAL:
        return ord(character) != value
    number, negated, inside = ord(character), False, False
    for kind, what in value if code is ops.IN else [(ops.CATEGORY, value)]:
        if kind is ops.NEGATE:
            negated = True
        elif kind is ops.LITERAL:
            inside |= number == what
        elif kind is ops.RANGE:
            inside |= what[0] <= number <= what[1]
        elif kind is ops.CATEGORY:
            inside |= _of_category(str(what), character)
    return inside != negated


def _of_category(name: str, character: str) -> bool:
    kinds: dict[str, Callable[[str], bool]] = {
        "DIGIT": str.isdigit, "SPACE": str.isspace, "WORD": lambda c: c.isalnum() or c == "_",
    }  # fmt: skip
    kind = name.rpartition("_")[2]
    return kinds[kind](character) != ("_NOT_" in name)


def _members(value: Any) -> list[str]:
    firsts = [what if kind is ops.LITERAL else what[0] for kind, what in value if kind in (ops.LITERAL, ops.RANGE)]
    return [chr(number) for number in firsts[:3]]


def text_of(parts: tuple[str, str, str], length: int, pattern: re.Pattern[Any]) -> Any:
    start, piece, end = parts
    text = (start + piece * (length // len(piece) + 1))[: max(1, length - len(end))] + end
    return text if isinstance(pattern.pattern, str) else text.encode("latin-1", "replace")


# -- how long it takes


def run(pattern: re.Pattern[Any], method: str, text: Any) -> None:
    if method in ("sub", "subn"):
        getattr(pattern, method)(lambda _: text[:0], text)
    elif method == "finditer":
        for _ in pattern.finditer(text):
            pass
    else:
        getattr(pattern, method)(text)


def milliseconds(call: Callable[[], object], tries: int = 1) -> float:
    """Processor time of this thread: other work on the machine does not count. The quickest of some tries."""
    least = float("inf")
    for _ in range(tries):
        before = time.thread_time_ns()
        call()
        least = min(least, (time.thread_time_ns() - before) / 1e6)
    return least
