"""Whatever is given: it is used, or refused with what is wrong with it; nothing else happens. Row B7."""

from __future__ import annotations

import random
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pytest
from hostile import LINES, ODD, TARGETS, strings
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from security_cast import ADA, OWNER, SCOUT, Watched
from security_rows import everything
from test_rights_matrix import arguments_of, build

from matins import Matins
from matins.api import codec
from matins.api.results import Snapshot
from matins.api.use_case import USE_CASES
from matins.engine.schedules import SETTINGS
from matins.errors import InvalidInput
from matins.model.access import Principal

STRINGS = 10_000
COMMANDS = ("pre_check", "before_run", "after_run", "command")
FIELDS = ("name", "agent", "when", *(word for word in SETTINGS if word not in COMMANDS))
"""Commands are read by a shell, which takes its time: they get fewer."""
GOOD = {"when": "5 * * * *", "job": "work"}
WAYS = ((OWNER, "add"), (SCOUT, "add"), (ADA, "add"), (OWNER, "edit"), (ADA, "edit"))


def attempt(bench: Watched, principal: Principal, use_case: str, field: str, value: Any) -> bool:
    """Whether it was taken. Every other error than a refusal is ours, and ends the test."""
    words = {"name": "t", **GOOD, field: value} if use_case == "add" else {"name": "s", field: value}
    if field in ("command", "stdin") and use_case == "add":
        words = {"command": "sort", **{name: word for name, word in words.items() if name != "job"}}
    try:
        made = bench.invoke(principal, USE_CASES[f"schedules.{use_case}"], words)
    except InvalidInput as error:
        return not error.message
    if use_case == "add":
        found = bench.invoke(principal, USE_CASES["schedules.get"], {"name": made.name, "agent": made.agent})
        assert found == structs.replace(made, notes=[])
        bench.delete(made.name, agent=made.agent)
    return True


def test_ten_thousand_strings(memory: Watched) -> None:
    """B7: in every field of a schedule, by everybody who can make or edit one."""
    memory.add("s", **GOOD)
    chance = random.Random(4)
    taken = 0
    for text in islice(strings(4), STRINGS):
        taken += attempt(memory, *chance.choice(WAYS), chance.choice(FIELDS), text)
    assert STRINGS // 50 < taken < STRINGS // 2, "some are good, most are not"
    memory.run_until(memory.clock.now_ms() + 7_200_000)
    assert memory.audit.verify().problems == []


@pytest.mark.parametrize("word", COMMANDS)
def test_strings_that_a_shell_must_read(memory: Watched, word: str, tmp_path: Path) -> None:
    """B7: read, and not run."""
    memory.add("s", **GOOD)
    for text in islice(strings(5), 60):
        attempt(memory, OWNER, "edit", word, f"{text} > {tmp_path}/canary")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("field", [*FIELDS, *COMMANDS])
def test_values_of_any_kind(memory: Watched, field: str) -> None:
    """B7: numbers, lists, objects, infinities, where a text was meant, and the other way round."""
    memory.add("s", **GOOD)
    for value in ODD:
        for principal, use_case in WAYS:
            if not (use_case == "edit" and field == "name"):
                attempt(memory, principal, use_case, field, value)
    assert memory.audit.verify().problems == []


def test_targets_of_any_kind(memory: Watched) -> None:
    """B7: a target is words within words."""
    memory.add("s", **GOOD)
    for value in TARGETS:
        for principal, use_case in WAYS:
            attempt(memory, principal, use_case, "target", value)


def test_words_that_are_no_words(memory: Watched) -> None:
    """B7: many at once, and one of them is not even a mapping, or has names that are no texts."""
    before = everything(memory)
    for item in ("s", 5, None, ["name"], [], {1: 2}, {}, {"name": "t"}, {"name": "t", **GOOD, 5: 6}):
        with pytest.raises(InvalidInput):
            memory.acting_as(OWNER).add_many([{"name": "good", **GOOD}, item])
    assert everything(memory) == before


@pytest.mark.parametrize("text", LINES, ids=ascii)
def test_hostile_texts_in_every_use_case(bench: Watched, text: str) -> None:
    """B7: what no store can hold is refused as input, wherever a text is taken, on every store alike."""
    world = build(bench)
    thing = world.own["owner"]
    for name, use_case in USE_CASES.items():
        arguments = arguments_of(name, thing)
        texts = {word for word, parameter in use_case.parameters.items() if "str" in parameter.annotation}
        for word in texts | {word for word, value in arguments.items() if isinstance(value, str)}:
            with suppress(InvalidInput):
                bench.invoke(OWNER, use_case, {**arguments, word: text})
    assert bench.audit.verify().problems == []


@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1, 1 << 200])
def test_numbers_that_no_store_can_hold(bench: Watched, number: int) -> None:
    """B7: of runs, questions and events, how many, and since when."""
    for use_case in USE_CASES.values():
        for name, parameter in use_case.parameters.items():
            if parameter.annotation.startswith(("Id", "int", "Limit", "Count", "Instant")):
                with pytest.raises(InvalidInput) as caught:
                    bench.invoke(OWNER, use_case, {name: number})
                assert caught.value.field == name


# -- through the owner's socket, and over HTTP


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 53), 1 << 53) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "$matins", "items", "a"]), inner, max_size=3)
    ),
    max_leaves=8,
)
TAGS = ("schedule", "run", "trigger", "quiet_hours", "plain", "Approval", "Vote", "AgentRules", "Budget", "no such tag")


@given(JSON)
def test_no_value_is_taken_for_one_of_ours(value: Any) -> None:
    """B7: what somebody else said comes out as it went in, whatever marks it bears."""
    result = Snapshot("1", "1", "s", "", 1, "work", None, value, value, {"payload": value})
    use_case = USE_CASES["runs.snapshot"]
    assert codec.convert(use_case, orjson.loads(codec.encode(result))) == result
    assert codec.convert(use_case, codec.to_document(result)) == result


def test_payloads_that_look_like_our_own_values(tmp_path: Path) -> None:
    """B7: from another process, through the socket of the engine that owns the file."""
    url = f"sqlite:///{tmp_path}/matins.db"
    with closing(Matins(url)) as owner, closing(Matins(url)) as other:
        owner.job("work")(lambda run: None)
        owner.start()
        for tag in TAGS:
            payload = {"$matins": tag, "items": {"type": tag}, "more": [{"$matins": tag, "type": tag}]}
            made = other.add(tag, when="every 1h", job="work", payload=payload)
            assert made.settings["payload"] == payload
            assert owner.get(tag).settings["payload"] == payload
        with pytest.raises(InvalidInput):
            other.edit("plain", payload="\ud800")
        with pytest.raises(InvalidInput):
            other.add_many(["plain"])  # type: ignore[list-item]
        assert other.get("plain").rev == 1, "and the owner still answers"
