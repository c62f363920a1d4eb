"""Writes the methods of a transaction from the headers of the store's `.sql` files: `python tools/generate_rows.py`.

`store/_rows.py` has a class for each file of `store/sql`, with the statements that have a text for each dialect in
`store/sqlite/sql` and `store/postgres/sql`. A feature with a `rows.sql` of its own has a `_rows.py` beside it.

| in the header | means |
| --- | --- |
| `-> list[Row]`, `Row | None`, `Row` | all rows; the first or none; the first |
| `-> list[int]`, `int | None`, `int`, another plain type | the same of the first column |
| `-> list[tuple[int, str]]`, and so on | the same of all columns |
| `-> bool` | whether there is a row |
| `-> None` | nothing |
| an argument that is a row | those of its fields that the statement names |
| an argument `Iterable[int]`, `Iterable[str]` | one value of the statement |
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from matins.store.queries import load_queries, statements_of

SOURCE = Path(__file__).parents[1] / "src" / "matins"
DIALECTS = ("sqlite", "postgres")
_SIGNATURE = re.compile(r"(\(.*\) -> [^:]+): (.+)")
_PARAMETER = re.compile(r"(?<!:):(\w+)|%\((\w+)\)")
_LISTS = {"Iterable[int]": "_integers", "Iterable[str]": "_texts"}
_PLAIN = frozenset({"int", "str", "bytes"})
_TYPES = _PLAIN | {"bool", "float", "None", "list", "tuple", "Iterable"}


class HeaderError(Exception):
    """A header that no method can be made of."""


class ModelType(NamedTuple):
    """A type of the model: the module that has it, and the fields of a row."""

    module: str
    fields: tuple[str, ...] | None


class Method(NamedTuple):
    """A typed header, of a statement that names these parameters."""

    where: str
    name: str
    signature: ast.FunctionDef
    purpose: str
    parameters: frozenset[str]

    @property
    def header(self) -> str:
        return f"{ast.unparse(self.signature)} {self.purpose}"


def main(source: Path = SOURCE) -> None:
    try:
        texts = rows_texts(source)
    except HeaderError as error:
        sys.exit(str(error))
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")


def rows_texts(source: Path) -> dict[Path, str]:
    """The texts of the modules that are made from headers, by their paths."""
    store, model = source / "store", _types_of(source, sorted((source / "model").glob("*.py")))
    first, second = ([*_methods([store / "sql", store / dialect / "sql"])] for dialect in DIALECTS)
    _check_equal(first, second)
    groups: dict[str, dict[str, Method]] = {}
    for method in first:
        groups.setdefault(method.where.removesuffix(".sql"), {})[method.name] = method
    summaries = {file.stem: _summary(file) for file in (store / "sql").glob("*.sql")}
    texts = {store / "_rows.py": _module(groups, summaries, model, "Statements")}
    for file in sorted(source.rglob("rows.sql")):
        types = model | _types_of(source, [file.with_name("rows.py")])
        methods = {method.name: method for method in _methods([file.parent])}
        noun = file.parent.name
        texts[file.with_name("_rows.py")] = _module({noun: methods}, {noun: _summary(file)}, types, "SliceStatements")
    return texts


def _check_equal(first: list[Method], second: list[Method]) -> None:
    """Raise HeaderError unless both dialects have the same methods."""
    headers = [{method.name: method.header for method in methods} for methods in (first, second)]
    for method in (*first, *second):
        for dialect, known in zip(DIALECTS, headers, strict=True):
            if method.name not in known:
                raise HeaderError(f"{method.where}: {dialect} has no {method.name}.")
        if len({known[method.name] for known in headers}) == 2:
            raise HeaderError(f"{method.where}: {method.name} has different headers in {' and '.join(DIALECTS)}.")


def _types_of(source: Path, files: Iterable[Path]) -> dict[str, ModelType]:
    """The classes and aliases of modules, by name."""
    found: dict[str, ModelType] = {}
    for file in files:
        module = ".".join(("matins", *file.relative_to(source).with_suffix("").parts))
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                is_row = any(ast.unparse(base) == "NamedTuple" for base in node.bases)
                fields = tuple(ast.unparse(line.target) for line in node.body if isinstance(line, ast.AnnAssign))
                found[node.name] = ModelType(module, fields if is_row else None)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found[node.targets[0].id] = ModelType(module, None)
    return found


def _methods(folders: list[Path]) -> Iterator[Method]:
    """The typed headers of folders, whose statements are complete together."""
    texts = load_queries(*folders)
    for file in (file for folder in folders for file in sorted(folder.glob("*.sql"))):
        for name, header, _ in statements_of(file.read_text(encoding="utf-8")):
            if header.startswith("("):
                parameters = {one or other for one, other in _PARAMETER.findall(texts[name])}
                yield Method(file.name, name, *_parsed(file.name, name, header), frozenset(parameters))


def _parsed(where: str, name: str, header: str) -> tuple[ast.FunctionDef, str]:
    found = _SIGNATURE.fullmatch(header)
    try:
        (signature,) = ast.parse(f"def {name}{found[1]}: ...").body if found else (None,)
    except SyntaxError:
        signature = None
    typed = isinstance(signature, ast.FunctionDef) and all(each.annotation for each in _arguments(signature))
    if found is None or not isinstance(signature, ast.FunctionDef) or not typed:
        raise HeaderError(f"{where}: the header of {name} is not `name(argument: type) -> result: purpose`.")
    return signature, found[2]


def _summary(file: Path) -> str:
    """The first line of a file, which says what its statements are about."""
    first = file.read_text(encoding="utf-8").partition("\n")[0]
    if not re.match(r"-- [A-Z].*\.$", first):
        raise HeaderError(f"{file.name} must begin with a sentence: `-- Incidents, and the messages about them.`")
    return first.removeprefix("-- ")


def _module(
    groups: Mapping[str, Mapping[str, Method]],
    summaries: Mapping[str, str],
    model: Mapping[str, ModelType],
    base: str,
) -> str:
    """The text of a module with a class for each group that has methods."""
    used: set[str] = set()
    classes: list[str] = []
    for noun, methods in sorted(groups.items()):
        parts = [_method(method, model, used) for method in methods.values()]
        if parts:
            classes.append(
                "\n\n".join([f"class {_class_name(noun)}({base}):\n{_docstring(summaries[noun], 4)}", *parts])
            )
    imports = {"matins.store.queries": {base}}
    for name in used & model.keys():
        imports.setdefault(model[name].module, set()).add(name)
    lines = [
        f"from {module} import {', '.join(sorted(names, key=str.lower))}" for module, names in sorted(imports.items())
    ]
    if "Iterable" in used:
        lines = ["from collections.abc import Iterable", "", *lines]
    head = '"""Methods made from the headers of the `.sql` files by `make pages`. Do not edit."""'
    return (
        "\n\n".join([head, "from __future__ import annotations", "\n".join(lines)])
        + "\n\n\n"
        + "\n\n\n".join(classes)
        + "\n"
    )


def _class_name(noun: str) -> str:
    """`policies` → PolicyRows."""
    if noun.endswith("ies"):
        noun = f"{noun.removesuffix('ies')}y"
    elif noun.endswith("s") and not noun.endswith("ss"):
        noun = noun.removesuffix("s")
    return "".join(word.capitalize() for word in noun.split("_")) + "Rows"


def _method(method: Method, model: Mapping[str, ModelType], used: set[str]) -> str:
    where, name = method.where, method.name
    signature = method.signature
    for annotation in (each.annotation for each in _arguments(signature)):
        assert annotation is not None
        used |= _names(annotation, where, name, "takes", model)
    assert signature.returns is not None
    result = ast.unparse(signature.returns)
    used |= _names(signature.returns, where, name, "returns", model)
    call = ", ".join([f'"{name}"', *_values(method, model)])
    arguments = ast.unparse(signature.args)
    head = f"    def {name}(self{', ' if arguments else ''}{arguments}) -> {result}:"
    return f"{head}\n{_docstring(method.purpose, 8)}\n        {_body(method, result, call, model)}"


def _arguments(signature: ast.FunctionDef) -> list[ast.arg]:
    return [*signature.args.args, *signature.args.kwonlyargs]


def _names(annotation: ast.expr, where: str, name: str, verb: str, model: Mapping[str, ModelType]) -> set[str]:
    """The names in a type."""
    names = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
    for unknown in sorted(names - _TYPES - model.keys()):
        raise HeaderError(f'{where}: {name} {verb} "{unknown}", which the model does not have.')
    return names


def _values(method: Method, model: Mapping[str, ModelType]) -> list[str]:
    """The values of a statement, from the arguments of its method."""
    values: dict[str, str] = {}
    for argument in _arguments(method.signature):
        assert argument.annotation is not None
        name, kind = argument.arg, ast.unparse(argument.annotation)
        fields = model[kind].fields if kind in model else None
        if fields is not None:
            given = {field: f"{name}.{field}" for field in fields if field in method.parameters}
        elif kind in _LISTS:
            given = {name: f"self.{_LISTS[kind]}({name})"}
        else:
            given = {name: name}
        for twice in sorted(given.keys() & values.keys()):
            raise HeaderError(f'{method.where}: two arguments of {method.name} give "{twice}".')
        if not given.keys() & method.parameters:
            raise HeaderError(f'{method.where}: {method.name} takes "{name}", which its statement does not name.')
        values |= given
    for missing in sorted(method.parameters - values.keys()):
        raise HeaderError(f'{method.where}: {method.name} takes no "{missing}".')
    return [f"{name}={value}" for name, value in values.items()]


def _body(method: Method, result: str, call: str, model: Mapping[str, ModelType]) -> str:
    """The line that runs the statement and reads its rows."""
    if result == "None":
        return f"self._all({call})"
    if result == "bool":
        return f"return bool(self._all({call}))"
    one = result.removesuffix(" | None")
    each = result[len("list[") : -1] if result.startswith("list[") else None
    kind = one if each is None else each
    if kind in model and model[kind].fields is not None:
        if each is None and one != result:
            return f"return self._row({kind}, {call})"
        return f"return self._rows({kind}, {call})" + ("" if each else "[0]")
    if kind.startswith("tuple["):
        if each is None and one != result:
            return f"return next(iter(self._all({call})), None)"
        return f"return self._all({call})" + ("" if each else "[0]")
    if kind in _PLAIN or kind in model:
        return f"return self.{'_column' if each else '_value'}({call})"
    raise HeaderError(f'{method.where}: {method.name} returns "{result}", which no statement gives.')


def _docstring(text: str, indent: int) -> str:
    text = f'"""{text[0].upper()}{text[1:]}{"" if text.endswith(".") else "."}"""'
    margin = " " * indent
    return "\n".join(textwrap.wrap(text, 120, initial_indent=margin, subsequent_indent=margin, break_on_hyphens=False))


if __name__ == "__main__":
    main()
