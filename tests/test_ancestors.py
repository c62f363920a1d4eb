"""No class has more than three ancestors of ours: what a reader must know to read one stays small."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module
from typing import Any

import matins

MOST = 3
GROUPS = "matins.store"
"""The query groups that make up a store's transaction do not count, nor do protocols."""


def test_no_class_has_many_ancestors() -> None:
    assert [f"{kind.__module__}.{kind.__qualname__}" for kind in _classes() if len(_ancestors(kind)) > MOST] == []


def _classes() -> set[type[Any]]:
    names = [module.name for module in pkgutil.walk_packages(matins.__path__, "matins.")]
    modules = [import_module(name) for name in names if not name.endswith("__main__")]
    found = [kind for module in modules for _, kind in inspect.getmembers(module, inspect.isclass)]
    return {kind for kind in found if kind.__module__.startswith("matins.")}


def _ancestors(kind: type[Any]) -> list[type[Any]]:
    return [
        base
        for base in kind.__mro__[1:]
        if base.__module__.startswith("matins.")
        and not base.__module__.startswith(GROUPS)
        and not getattr(base, "_is_protocol", False)
    ]
