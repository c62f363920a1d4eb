"""Changes written back into the text of `matins.yaml`: comments kept, and nothing else touched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from matins.config.defining import SETTINGS
from matins.config.reading import Block, Draft, Said, Spot, read
from matins.config.splicing import holder, reworded, same, set_value, with_nulls, without_field, without_item
from matins.config.words import NUMBERED, OWN_WORDS
from matins.engine.given import check_words
from matins.errors import Conflict, InvalidInput
from matins.texts.yaml_nodes import Entries, Items, parse

_CHANGED_HERE = ("when", *OWN_WORDS)
"""Words become text as they are; and those that only a file may say, such as preset, decide who is asked."""
_ALONE = (*NUMBERED, "setting")
"""What has one value and no words."""
_REFERENCES = ("env:", "file:")
Things = dict[tuple[str, str, str], Mapping[str, Any]]


def with_words(text: str, spot: Spot, changes: Mapping[str, Any]) -> str:
    """The text with these words of one schedule set; None is written as null, which means the usual."""
    check_words("A schedule", changes, _CHANGED_HERE)
    draft = read(text)
    said = _said(draft, spot)
    others = [word for word in ("type", "interval", "expression") if word in said.block.spots]
    if "when" in changes and others:
        raise _unsafe(spot, f'it is said there with "{others[0]}"')
    words = {**said.block.values, **changes}
    new = _written(spot, lambda: _reworded(text, said, words))
    missing = [word for word, value in changes.items() if value is None and word not in said.block.spots]
    if missing:
        new = _written(spot, lambda: _with_nulls(new, spot, missing))
    _check(draft, new, said, words)
    return new


def saying(text: str, spot: Spot, words: Mapping[str, Any], *, only: bool = True, zone: str | None = None) -> str:
    """The text in which a thing that is no schedule says these words: `only` these, or beside its others; None takes a
    word out. `zone`: its time zone, said where it would else be that of the defaults. Whether all of it means what was
    asked is for the caller to see."""
    draft = read(text)
    said = _said(draft, spot)
    wanted = words if only else {**said.block.values, **words}
    wanted = {word: value for word, value in wanted.items() if value is not None}
    if zone and draft.defaults and draft.defaults.values.get("timezone"):
        wanted.setdefault("timezone", zone)
    _refuse_values(said, wanted)
    new = _written(spot, lambda: _reworded(text, said, wanted))
    _check(draft, new, said)
    return new


def without(text: str, spot: Spot) -> str:
    """The text without one thing: its name and what stands below it; comments of others stay."""
    draft = read(text)
    said = _said(draft, spot)
    new = _written(spot, lambda: _taken_out(text, spot))
    _check(draft, new, said, gone=True)
    return new


def misunderstood(spot: Spot) -> Conflict:
    """For a change that the file would take for something else."""
    return _unsafe(spot, "written there, it would not mean what was asked")


def _written(spot: Spot, write: Callable[[], str]) -> str:
    try:
        return write()
    except InvalidInput as error:
        raise _unsafe(spot, error.message) from None
    except TypeError as error:
        raise _unsafe(spot, f"what is given cannot be written: {error}") from None


def _reworded(text: str, said: Said, words: Mapping[str, Any]) -> str:
    node, before = said.block.spot.node, said.block.values
    if isinstance(node, Entries) and node.entries:
        return reworded(text, node, before, words)
    alone = words["value"] if said.kind in _ALONE else words["command"] if [*words] == ["command"] else dict(words)
    return set_value(text, node, None, alone, flow=False) if not same(words, before) else text


def _taken_out(text: str, spot: Spot) -> str:
    held = holder(parse(text), spot.key.place)
    assert held is not None, spot.path
    mapping, number = held
    if isinstance(mapping, Items):
        return without_item(text, mapping, number)
    return without_field(text, mapping, number, last=number + 1 == len(mapping.entries))


def _with_nulls(text: str, spot: Spot, words: list[str]) -> str:
    """What was not there, and shall be the usual although a default says otherwise, is said too."""
    node = _said(read(text), spot).block.spot.node
    assert isinstance(node, Entries), spot.path
    return with_nulls(text, node, words)


def _said(draft: Draft, spot: Spot) -> Said:
    for said in draft.said:
        if said.block.spot.key.place == spot.key.place:
            return said
    if spot.path in SETTINGS:
        return Said("setting", spot.path, "", Block(spot, {"value": draft.simple[spot.path]}, {"value": spot}))
    raise _unsafe(spot, "it comes with the preset", "say it there, under limits")


def _refuse_values(said: Said, words: Mapping[str, Any]) -> None:
    """Where the file says where a value is, it does not learn what it is."""
    before: Mapping[str, str] = said.block.values.get("environment") or {}
    after: Mapping[str, str] = words.get("environment") or {}
    for name in before.keys() & after.keys():
        if before[name].startswith(_REFERENCES) and not after[name].startswith(_REFERENCES):
            spot = said.block.spots["environment"]
            raise _unsafe(spot, f"it says where {name} is, not what it is", "give env:NAME or file:/path")


def _check(before: Draft, text: str, said: Said, words: Mapping[str, Any] | None = None, *, gone: bool = False) -> None:
    """Read again, all the rest must say what it said, and the thing itself these words, where they are given."""
    draft = read(text)
    old, new, key = _things(before), _things(draft), (said.kind, said.name, said.agent)
    old.pop(key)
    found = new.pop(key, None)
    wrong = words is not None and not same(found, words)
    if draft.problems or wrong or (found is None) != gone or new != old:
        raise _unsafe(said.block.spot, "it is written in a way that cannot be changed safely")


def _things(draft: Draft) -> Things:
    """All that a file says."""
    defaults = {("defaults", "", ""): draft.defaults.values} if draft.defaults else {}
    simple = {("setting", name, ""): {"value": value} for name, value in draft.simple.items()}
    said = {(said.kind, said.name, said.agent): said.block.values for said in draft.said}
    return {**defaults, **simple, **said}


def _unsafe(spot: Spot, why: str, hint: str = "change it in the file") -> Conflict:
    message = f"{spot.path}, line {spot.key.place.line} of the file: {why}"
    return Conflict(message, value=spot.path, field="name", hint=hint)
