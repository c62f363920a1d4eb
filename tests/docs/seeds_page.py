"""The tables of docs/seeds.md, from the modules of the five systems. Run it to renew the page."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "seeds.md"
_TABLE = re.compile(r"(\| call of `(matins\.seeds\.\w+)` \| what it does \|\n\| --- \| --- \|\n)(?:\|.*\n)*")


def rendered(page: str) -> str:
    return _TABLE.sub(lambda match: match[1] + "".join(_rows(import_module(match[2]))), page)


def calls(module: ModuleType) -> dict[str, Any]:
    """The functions of a module, and the classes that have methods to call."""
    found = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    own = {name: getattr(module, name) for name in found}
    functions = {name: value for name, value in own.items() if inspect.isfunction(value) and _is_own(module, value)}
    services = {name: own[name] for name in ("Scheduler", "SchedulerService") if name in own}
    return functions | services


def _rows(module: ModuleType) -> list[str]:
    rows: list[str] = []
    for name, value in calls(module).items():
        rows.append(_row(f"{name}({_arguments(value)})", value))
        for method, function in vars(value).items() if inspect.isclass(value) else ():
            if inspect.isfunction(function) and not method.startswith("_"):
                rows.append(_row(f"{name}.{method}({_arguments(function, 1)})", function))
    return rows


def _row(call: str, value: object) -> str:
    first = (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")
    return f"| `{call}` | {first.replace('|', chr(92) + '|')} |\n"


def _arguments(value: Any, skipped: int = 0) -> str:
    given = [each for each in inspect.signature(value).parameters.values() if each.kind is not each.VAR_KEYWORD]
    return ", ".join(f"{each.name}=…" if each.default is not each.empty else each.name for each in given[skipped:])


def _is_own(module: ModuleType, value: Any) -> bool:
    """Not what it uses of others, nor what its importer reads with."""
    return value.__module__.startswith(module.__name__) and value.__name__ != "read"


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
