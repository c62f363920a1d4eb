"""One entry in the file of another program: every other byte stays."""

from __future__ import annotations

import pytest

from matins.errors import InvalidInput
from matins.texts.foreign_entry import Format, Jsonc, Toml, Yaml, edited, entry_in

ENTRY = {"command": "/bin/matins", "args": ["mcp", "--client=x"]}
AT = ("servers", "matins")
JSONC = {
    "nothing": "",
    "empty": "{}",
    "comment": "// mine\n{\n}\n",
    "no group": '{\n  // mine\n  "theme": "x" // and this\n}\n',
    "empty group": '{\n  "servers": {}\n}\n',
    "one line": '{"servers": {"other": {"command": "//x"}}, "z": 1}',
    "entries": '{\n\t"servers": {\n\t\t"other": {"a": [1, 2]} // keep\n\t\t/* and this */\n\t},\n\t"z": "a, }"\n}\n',
    "last comma": '{\n  "servers": {\n    "other": {"a": 1,}, // keep\n  },\n}\n',
}
YAML = {
    "nothing": "",
    "comment": "# mine\n",
    "no group": "# mine\nmodel: gpt # and this\nlist:\n- a\n- b",
    "null group": "servers: # mine\nmodel: gpt\n",
    "empty group": "servers: {}\nmodel: gpt\n",
    "flow": 'servers: {other: {a: "x"}}\nmodel: gpt\n',
    "entries": "a: 1\nservers:\n  # the other: one\n  other:\n    cmd: x # keep\n\n# about b\nb:\n  t: |\n    long\n",
    "deep": "servers:\n    other:\n        args:\n        - x\n    # end\n",
}
TOML = {
    "nothing": "",
    "comment": "# mine",
    "no group": 'model = "o3" # inline\n',
    "entries": '# top\n[servers.other]\ncommand = "x" # keep\n\n[servers.other.env]\nA = "[servers.matins]"\n',
    "group": "[servers]\n# mine\n\n[tools]\na = [\n  1,\n]\n",
}
TEXTS = [
    *((Jsonc(), text) for text in JSONC.values()),
    *((Yaml(), text) for text in YAML.values()),
    *((Toml(), text) for text in TOML.values()),
]
NAMES = [f"{kind}: {name}" for kind, texts in (("jsonc", JSONC), ("yaml", YAML), ("toml", TOML)) for name in texts]


def without_new_lines(text: str, old: str) -> str:
    """The characters of `old` in their order, if `text` has them all."""
    rest = iter(text)
    return "".join(char for char in old if char in rest)


def without_empty(values: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value}


@pytest.mark.parametrize(("form", "text"), TEXTS, ids=NAMES)
def test_an_entry_is_added_once_and_removed_again(form: Format, text: str) -> None:
    """P4: nothing else is changed, and no character is lost"""
    before = form.load(text)
    added = edited(form, text, AT, ENTRY)
    assert entry_in(form.load(added), AT) == ENTRY
    assert {**form.load(added), "servers": None} == {**before, "servers": None}
    kept = text.replace("servers: {}", "servers:")
    assert without_new_lines(added, kept) == kept
    assert edited(form, added, AT, ENTRY) == added
    removed = edited(form, added, AT, None)
    assert entry_in(form.load(removed), AT) is None
    assert {name: value for name, value in form.load(removed).items() if value} == {
        k: v for k, v in before.items() if v
    }
    assert without_new_lines(removed, text.rstrip()) == text.rstrip()
    assert edited(form, removed, AT, None) == removed


@pytest.mark.parametrize(("form", "text"), TEXTS, ids=NAMES)
def test_an_entry_that_differs_is_replaced_as_a_whole(form: Format, text: str) -> None:
    """B7: an agent could have written the rest of it"""
    older = edited(form, text, AT, {"command": "/old", "timeout": 5, "args": []})
    assert entry_in(form.load(edited(form, older, AT, ENTRY)), AT) == ENTRY


@pytest.mark.parametrize("text", ['{"a": "x', "{} /* open", '{"a": 1} /*/', '{"a": "\\'])
def test_a_text_or_comment_without_an_end_is_an_error(text: str) -> None:
    with pytest.raises((ValueError, InvalidInput)):
        edited(Jsonc(), text, AT, ENTRY)


def test_a_comment_stays_above_its_own_entry() -> None:
    """P4: the new entry does not come between them"""
    added = edited(Yaml(), "servers:\n  # about a\n  a: 1\n", AT, {"x": 1})
    assert added == "servers:\n  matins:\n    x: 1\n  # about a\n  a: 1\n"


def test_an_entry_among_others_goes_alone() -> None:
    """P4: with the entries and comments before and after it"""
    text = '{\n  "servers": {\n    "a": 1, // a\n    "matins": {"x": 1}, // ours\n    "b": 2 // b\n  }\n}\n'
    gone = '{\n  "servers": {\n    "a": 1, // a\n     // ours\n    "b": 2 // b\n  }\n}\n'
    assert edited(Jsonc(), text, AT, None) == gone
    text = "servers:\n  a: 1\n  matins:\n    x: 1\n  # about b\n  b: 2\n"
    assert edited(Yaml(), text, AT, None) == "servers:\n  a: 1\n  # about b\n  b: 2\n"
    text = "[servers.matins]\nx = 1\n[servers.matins.env]\nA = 1\n\n# about b\n[servers.b]\ny = 2\n"
    assert edited(Toml(), text, AT, None) == "\n# about b\n[servers.b]\ny = 2\n"


@pytest.mark.parametrize(
    ("form", "text", "says"),
    [
        (Jsonc(), '{"a": 1', "line 1 column 8"),
        (Jsonc(), "[]", "an object is missing"),
        (Jsonc(), '{"servers": []}', '"servers" has another value'),
        (Jsonc(), '{"servers": null}', '"servers" is null'),
        (Jsonc(), '{"servers": {"matins": true}}', '"matins" has another value'),
        (Yaml(), "a: [1\n", "line 2, column 1"),
        (Yaml(), "- a\n", "names with values are missing"),
        (Yaml(), "servers: ~\n", "cannot be changed safely"),
        (Toml(), "a = \n", "line 1"),
        (Toml(), 'servers = { other = { command = "x" } }\n', "cannot be changed safely"),
    ],
)
def test_a_text_that_cannot_be_changed_is_refused(form: Format, text: str, says: str) -> None:
    """P4 B12: with the reason, and the place where there is one"""
    with pytest.raises(InvalidInput, match=says):
        edited(form, text, AT, ENTRY)
