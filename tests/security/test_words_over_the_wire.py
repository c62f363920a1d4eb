"""An agent with a token of its own or of its run reads no words of others: by any address, page, tool or resource."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path

import pytest
from live_words import LISTENER, LIVE_WORDS, Farm
from planted_words import OPTIONS, WORDS, found_in, known_values, plant
from security_cast import Open, Watched
from surface_walk import NO_WORDS, STREAMS, Surfaces, Values, api_answers, mcp_answers, page_answers, pages_of

from executors.office import Office
from matins import Matins
from matins.surfaces.http.openapi import openapi
from matins.web.views import FRAGMENTS, VIEWS
from standin_path import standin_path

pytestmark = pytest.mark.timeout(1_500)  # some thousand requests, beside whatever else runs on the machine


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Farm]:
    """Words that real processes, files and deliveries brought. An agent behind walls does not see the folder of the
    store, so its tool and its files lie in another."""
    folder, store = tmp_path / "farm", tmp_path / "store"
    folder.mkdir()
    store.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{standin_path()}")
    monkeypatch.setenv("PRS", "delivered")
    office = Office(f"sqlite:///{store}/matins.db")
    with (
        closing(office.matins),
        office.matins,
        closing(Surfaces(office.matins)) as surfaces,
        closing(Farm(office, surfaces, folder)) as made,
    ):
        made.plant()
        yield made


def values_of(matins: Matins) -> Values:
    """What there is, and the choices of queries."""
    known = known_values(matins)
    queries = {f"?{name}": list(options) for name, options in OPTIONS.items()}
    return {
        **known,
        **queries,
        "name": [*known["name"], LISTENER],
        "?agent": ["rover"],
        "?stream": ["err"],
        "?q": ["rover"],
    }


def gives_away(surfaces: Surfaces, words: Sequence[str], agents: Sequence[str]) -> dict[str, object]:
    """What the agents with these tokens read of the words. Fails unless the owner reads each of them."""
    values, owner = values_of(surfaces.matins), surfaces.matins.tokens.create("owner").token
    pages = pages_of(surfaces, owner, values)
    of_owner = chain(
        pages.items(), api_answers(surfaces, owner, values), mcp_answers(surfaces, owner, values, only_read=True)
    )
    assert set(words) - set(found_in(of_owner, words)) == set(), "planted nowhere"
    found: dict[str, object] = {}
    for token in agents:
        found |= found_in(api_answers(surfaces, token, values), words)
        found |= found_in(page_answers(surfaces, token, pages), words)
        found |= found_in(mcp_answers(surfaces, token, values, only_read=False), words)
    return found


def test_b7_every_address_of_the_server_is_walked(memory: Watched) -> None:
    """B7: a new route is asked too; files of the installation and the sign-in hold no words"""
    surfaces = Surfaces(memory)
    try:
        served = {re.sub(r":path\}", "}", route.path) for route in surfaces.app.routes if route.method == "GET"}
    finally:
        surfaces.close()
    pages = {re.sub(r":path\}", "}", path) for path in (*VIEWS, *FRAGMENTS, "/events/export", "/ui/stream")}
    api = {path for path, item in openapi()["paths"].items() if "get" in item}
    assert served - pages - api == NO_WORDS - {"/login"}


def test_b7_an_agent_follows_no_events(memory: Watched) -> None:
    """B7: those that happen meanwhile are read once for all who listen; the owner sees what is in them"""
    plant(memory)
    agent, owner = memory.tokens.create("scout", role="agent").token, memory.tokens.create("owner").token
    surfaces = Surfaces(memory)
    try:
        for path in STREAMS:
            told, text = surfaces.ask(agent, path)
            assert (told, "Agents cannot follow events." in text) == (f"GET {path}: 403", True)
        assert found_in(iter([surfaces.ask(owner, "/v1/events/stream?after=0")]))
    finally:
        surfaces.close()


@pytest.mark.long
def test_b7_no_surface_gives_an_agent_what_others_made_on_this_machine(farm: Farm) -> None:
    """B7 B16: output, transcripts, work items, deliveries; with its own token, and with that of its run"""
    agents = [farm.m.tokens.create("scout", role="agent").token, farm.run_token_of("scout")]
    assert gives_away(farm.surfaces, LIVE_WORDS, agents) == {}


@pytest.mark.long
def test_b7_no_surface_gives_an_agent_what_the_store_holds_of_others(open_bench: Open, tmp_path: Path) -> None:
    """B7 B16: prompts, notes, errors, approvals, proposals, checks, conversations, calls"""
    bench = open_bench(f"sqlite:///{tmp_path}/matins.db")
    plant(bench)
    surfaces = Surfaces(bench)
    try:
        assert gives_away(surfaces, WORDS, [bench.tokens.create("scout", role="agent").token]) == {}
    finally:
        surfaces.close()
