"""docs/gates.md names every gate that `why` explains."""

from gate_table import PAGE, rendered

from matins.engine.gates import GATES


def test_the_page_says_what_the_gates_say() -> None:
    """B2"""
    page = PAGE.read_text(encoding="utf-8")
    assert page == rendered(page), "run make pages"


def test_every_gate_is_on_the_page() -> None:
    """B2"""
    page = PAGE.read_text(encoding="utf-8")
    assert not [gate.name for gate in GATES if gate.explained and f"| {gate.name} | {gate.settings} |" not in page]
