"""Where whoever speaks is: `current-thread` and its like become places when a schedule is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matins.engine.targets import CURRENT, context_of, define_context, resolve_current
from matins.model.agent import Target
from matins.model.principal import Principal
from matins.ports import Store

CONTEXT = "context"
"""The word for where one speaks from: it is looked at, and not kept."""


def placed(store: Store, principal: Principal, words: Mapping[str, Any]) -> Mapping[str, Any]:
    """With a shorthand as the place that it means. Where an agent's run landed, the server knows; others may say it."""
    target = words.get("target")
    current = isinstance(target, str) and target in CURRENT
    if not current and CONTEXT not in words:
        return words
    here = define_context(words.get(CONTEXT))
    kept = {word: value for word, value in words.items() if word != CONTEXT}
    if current:
        kept["target"] = resolve_current(str(target), _landed(store, principal) or here)
    return kept


def _landed(store: Store, principal: Principal) -> Target | None:
    if principal.run_id is None:
        return None
    with store.reading() as transaction:
        landing = transaction.landing(principal.run_id)
    return None if landing is None else context_of(landing.thread)
