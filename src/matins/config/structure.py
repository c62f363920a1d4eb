"""Problems in the structure of any YAML text, whatever its content."""

from __future__ import annotations

from collections.abc import Iterator

from matins.config.problems import Problem
from matins.engine.validation import UNSTORABLE
from matins.texts.yaml_nodes import MappingNode, Node, Position, Scalar, SequenceNode


def structure_problems(node: Node, path: str = "") -> Iterator[Problem]:
    """Values that a store cannot hold, and entries without a name."""
    match node:
        case Scalar(value=str(text)) if UNSTORABLE.search(text):
            yield Problem(node.position, path, "this contains a NUL or half a character", hint="Remove it.")
        case MappingNode():
            for key, _ in node.entries:
                if not isinstance(key, Scalar) or key.value is None:
                    yield Problem(key.position, path, "this has no name", hint="Write name: value.")
                else:
                    yield from structure_problems(key, path)
        case _:
            pass
    for inner, below in _below(node, path):
        yield from structure_problems(inner, below)


def duplicate_keys(node: Node, path: str = "") -> Iterator[Problem]:
    """Names that occur twice in one mapping: one of them would be lost."""
    seen: dict[str | None, Position] = {}
    for key, _ in node.entries if isinstance(node, MappingNode) else ():
        name = key.value if isinstance(key, Scalar) else None
        if name in seen:
            what = f"is there twice, first on line {seen[name].line}"
            yield Problem(key.position, _joined(path, key), what, name, hint="Remove one of them.")
        seen[name] = key.position
    for inner, below in _below(node, path):
        yield from duplicate_keys(inner, below)


def parts(node: Node, path: str = "") -> Iterator[tuple[Node, str]]:
    """All values below a node, with their paths."""
    for inner, below in _below(node, path):
        yield inner, below
        yield from parts(inner, below)


def _below(node: Node, path: str) -> Iterator[tuple[Node, str]]:
    match node:
        case SequenceNode():
            yield from ((item, f"{path}[{number}]") for number, item in enumerate(node.items))
        case MappingNode():
            yield from ((value, _joined(path, key)) for key, value in node.entries)
        case _:
            pass


def _joined(path: str, key: Node) -> str:
    name = key.value if isinstance(key, Scalar) else "?"
    return f"{path}.{name}" if path else str(name)
