"""What a TASKS.yaml may say, and that a change of one task is a change of nothing else."""

import difflib
import json
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matins.errors import InvalidInput
from matins.executors.work_items import readable
from matins.seeds.cortex.tasks import read_tasks, with_changes
from matins.texts.yaml_nodes import parse, plain

SET = {"status": "claimed", "claimed_by": "run 7", "claimed_at": "2026-03-27T09:00:00Z"}


def test_every_field_is_read_as_it_is_written() -> None:
    """C3: numbers, dates and words such as `no` stay what people wrote"""
    text = """\
tasks:
  - id: 007
    title: no
    body: |
      Oil it.
      Twice.
    priority: high
    created: 2026-03-27
    labels: [home, 1.0]
    url: https://example.org/1
    estimate: {hours: 3}
  - title: "second:  one"
    priority: -3
    created: 2026-03-27T10:00:00+02:00
    labels: door
"""
    first, second = read_tasks(text).tasks
    assert (first.id, first.has_id, first.title, first.body) == ("007", True, "no", "Oil it.\nTwice.\n")
    assert (first.priority, first.labels, first.url) == (10, ("home", "1.0"), "https://example.org/1")
    assert (second.title, second.priority, second.labels) == ("second: one", -3, ("door",))
    assert (second.has_id, second.status, second.created) == (False, "open", 1774598400000)
    assert first.created == 1774569600000
    assert [task.title for task in read_tasks("- title: 'null'\n- title: \"~\"\n").tasks] == ["null", "~"]


@pytest.mark.parametrize("text", ["", "\n# nothing yet\n", "tasks:\n", "tasks: []\n", "[]", "---\n...\n"])
def test_a_file_without_tasks_is_empty(text: str) -> None:
    """H9: no work"""
    assert read_tasks(text).tasks == ()


def test_ids_of_many_equal_tasks_are_made_in_a_moment() -> None:
    """B7: an agent may have written 1 MB of one title. Each went through the ids of all before it"""
    tasks = 8_000
    before = time.thread_time()
    ids = [task.id for task in read_tasks("- title: x\n" * tasks).tasks]
    assert len(set(ids)) == tasks
    assert time.thread_time() - before < 4, "32 million digests"
    assert [task.id for task in read_tasks("- title: x\n" * 3).tasks] == ids[:3]


def test_made_ids_are_stable_and_differ() -> None:
    """C3: a task without an id has the same one at every look, its twin another one"""
    text = "- title: a\n- title: a\n- title: b\n"
    ids = [task.id for task in read_tasks(text).tasks]
    assert len(set(ids)) == 3
    read_tasks.cache_clear()
    assert [task.id for task in read_tasks(text).tasks] == ids
    kept = text.replace("- title: a", f"- id: '{ids[0]}'\n  title: a", 1)
    assert [task.id for task in read_tasks(f"- title: new\n{kept}").tasks][1:] == ids


BAD: list[tuple[str, str, int, int, str]] = [
    ("not YAML", "- title: a\n- title: [b\n", 3, 1, "not YAML"),
    ("a tab", "- title: a\n\tbody: b\n", 2, 1, "not YAML"),
    ("a control character", "- title: a\n- title: \x07\n", 2, 10, "character 0x7"),
    ("an escape beyond Unicode", '- title: "\\UFFFFFFFF"\n', 1, 11, "not YAML"),
    ("a text", "just words\n", 1, 1, "tasks must be a list"),
    ("a mapping without tasks", "todo:\n  - title: a\n", 1, 1, "not 0 times"),
    ("tasks twice", "tasks: []\ntasks: []\n", 1, 1, "not 2 times"),
    ("tasks that are no list", "tasks: none\n", 1, 8, "tasks must be a list"),
    ("a task that is a text", "- title: a\n- mend it\n", 2, 3, "must be a mapping"),
    ("no title", "- id: 1\n", 1, 3, 'needs "title"'),
    ("an empty title", "- id: 1\n  title:\n  body: x\n", 2, 3, '"title" must be'),
    ("a title in a block", "- title: |\n    a\n", 1, 10, '"title" must be a string on one line'),
    ("a title that is a list", "- title: [a]\n", 1, 10, '"title" must be'),
    ("a field twice", "- title: a\n  body: b\n  body: c\n", 3, 3, '"body" is given twice'),
    ("a field without a name", "- title: a\n  ? [x]\n  : y\n", 2, 5, "no name"),
    ("a slip", "- title: a\n  priorty: high\n", 2, 3, 'a task has no "priorty"'),
    ("priority", "- title: a\n  priority: urgent\n", 2, 13, "high, medium, low"),
    ("a fraction", "- title: a\n  priority: 1.5\n", 2, 13, "an integer"),
    ("two signs", "- title: a\n  priority: -+5\n", 2, 13, "an integer"),
    ("a long number", "- title: a\n  priority: 1000000\n", 2, 13, "an integer"),
    ("status", "- title: a\n  status: doing\n", 2, 11, "open or claimed or done or failed"),
    ("created", "- title: a\n  created: yesterday\n", 2, 12, "an instant"),
    ("NUL", '- title: a\n  body: "x\\0y"\n', 2, 9, "without NUL"),
    ("half a character", '- title: "\\ud800"\n', 1, 10, "lone surrogates"),
    ("a label that is a mapping", "- title: a\n  labels: [{b: c}]\n", 2, 12, '"labels" must be'),
    ("the same id", "- id: x\n  title: a\n- id: 'x'\n  title: b\n", 3, 7, 'the id "x" is taken by the task on line 1'),
    ("an id on two lines", '- id: "x\\ny"\n  title: a\n', 1, 7, '"id" must be'),
    ("an alias", "- &a\n  title: a\n- *a\n", 3, 3, "*a repeats another part"),
    ("two documents", "- title: a\n---\n- title: b\n", 2, 1, "second document"),
    ("too deep", "- title: a\n  x: " + "[" * 60 + "]" * 60 + "\n", 2, 55, "deeper than"),
]


@pytest.mark.parametrize(("text", "line", "column", "said"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_a_bad_file_is_refused_with_line_and_column(text: str, line: int, column: int, said: str) -> None:
    """C3: bad input says what, where and how to mend it"""
    with pytest.raises(InvalidInput) as refused:
        read_tasks(text)
    where, _, what = refused.value.message.partition(": ")
    assert said in what
    assert where == f"line {line}, column {column}"


def _differences(before: str, after: str) -> list[str]:
    lines = difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True))
    return [line for line in lines if line[0] in "+-"]


def test_a_change_adds_its_lines_and_leaves_every_other_byte() -> None:
    """C3: comments, order, quotes, indentation and blank lines are kept"""
    text = """\
# Ours, all of it
version:   1
tasks:

    # the door first
    -   title:  'Mend the door'   # it squeaks
        body: >-
            Oil
            it.

    # then the gate
    -   title: "Paint"

later: [~, null, yes]
"""
    tasks = read_tasks(text)
    assert _differences(text, with_changes(tasks, tasks.tasks[0], SET)) == [
        "+         status: claimed\n",
        '+         claimed_by: "run 7"\n',
        "+         claimed_at: 2026-03-27T09:00:00Z\n",
    ]
    assert with_changes(tasks, tasks.tasks[1], {"status": "done"}).replace("        status: done\n", "") == text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("- title: a\n  status:   # not yet\n", "- title: a\n  status: claimed   # not yet\n"),
        ("- title: a\n  status: open # free\n  x: y\n", "- title: a\n  status: claimed # free\n  x: y\n"),
        ("- status: open\n  title: a", "- status: claimed\n  title: a"),
        ("- title: a", "- title: a\n  status: claimed"),
        ("- title: a\n  claimed_at: |\n    x\n", "- title: a\n  status: claimed\n  claimed_at: |\n    x\n"),
        ("- title: a\n  claimed_at: x\n  y: z\n", "- title: a\n  claimed_at: x\n  status: claimed\n  y: z\n"),
        ("- {title: a, claimed_at: , y: z}", '- {title: a, "status": "claimed", claimed_at: , y: z}'),
        ('- title: "a\n    b"\n  x: y\n', '- title: "a\n    b"\n  status: claimed\n  x: y\n'),
        ("- title: a\n  status: >-\n    open\n\n- title: b\n", "- title: a\n  status: claimed\n\n- title: b\n"),
        ("- {title: a, x: y}\n", '- {title: a, "status": "claimed", x: y}\n'),
        ('[{"title": "a"}]', '[{"title": "a", "status": "claimed"}]'),
        ("- {title: a, status: open,}\n", '- {title: a, status: "claimed",}\n'),
        ("- title: a\r\n  x: y\r\n", "- title: a\r\n  status: claimed\r\n  x: y\r\n"),
        ("\ufeff- title: é😀\n", "\ufeff- title: é😀\n  status: claimed\n"),
        ("---\n- title: a\n...\n", "---\n- title: a\n  status: claimed\n...\n"),
    ],
)
def test_a_status_is_set_in_any_style(before: str, after: str) -> None:
    """C3: block and flow style, JSON, CRLF, a byte order mark"""
    tasks = read_tasks(before)
    assert with_changes(tasks, tasks.tasks[0], {"status": "claimed"}) == after


def test_a_file_of_json_stays_one() -> None:
    """C3: JSON is YAML too"""
    text = json.dumps([{"title": "a"}, {"title": "b", "note": None}], indent=1)
    tasks = read_tasks(text)
    note = 'He said "no"\n\tand {{left}} 😀 \\ # – :'
    after = with_changes(tasks, tasks.tasks[1], {"note": note, "claimed_by": None})
    assert json.loads(after) == [{"title": "a"}, {"title": "b", "note": note}]


@pytest.mark.parametrize(
    "text", ["- title: a\n  note:\n  - x\n", "- title: a\n  note:\n    x: y\n", "- ? title\n  : a\n"]
)
def test_what_would_damage_the_file_is_not_written(text: str) -> None:
    """C3: a field of ours that is a list or a mapping by hand, a name in a style of its own"""
    tasks = read_tasks(text)
    with pytest.raises(InvalidInput, match=r"line 1, column 3: the form of task .* cannot be changed safely"):
        with_changes(tasks, tasks.tasks[0], {"note": "new"})


_words = st.text(st.characters(codec="utf-8"), max_size=12).map(lambda text: readable(text, 100))
_scalars = st.one_of(
    _words.map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(["plain words", "'single'", "~", "", "|\n    block\n    text", ">-\n    folded\n\n    text"]),
)
_values = st.one_of(_scalars, st.sampled_from(["[a, {b: c}]", "\n  - a\n  - b: c"]))
_comments = st.sampled_from(["", "", " # a comment", "\n  # on a line of its own", "\n"])


@st.composite
def _tasks(draw: st.DrawFn) -> str:
    others = draw(st.lists(st.sampled_from(["note", "x", "y", "z"]), unique=True))
    lines = []
    for name in draw(st.permutations(["title", *others])):
        value = draw(_scalars if name == "note" else _values) if name != "title" else draw(_words.filter(bool))
        written = json.dumps(value, ensure_ascii=False) if name == "title" else value
        lines.append(f"{name}: {written}" + ("" if "\n" in written else draw(_comments)))
    return "- " + "\n  ".join(lines)


_files = st.tuples(st.lists(_tasks(), min_size=1, max_size=4), st.sampled_from(["", "\n", "\n\n# the end\n"]))


@given(_files, _words, st.data())
def test_any_file_says_the_same_after_a_change(file: tuple[list[str], str], note: str, data: st.DataObject) -> None:
    """C3: one task is changed, as it was said; all lines of the others, and all comments, are kept"""
    tasks = read_tasks("\n".join(file[0]) + file[1])
    at = data.draw(st.integers(0, len(file[0]) - 1))
    after = with_changes(tasks, tasks.tasks[at], {"status": "done", "note": note or None})
    assert dict(plain(read_tasks(after).tasks[at].node))["status"] == "done"
    assert dict(plain(read_tasks(after).tasks[at].node)).get("note") == (note or None)
    others = "\n".join(file[0][:at]), "\n".join(file[0][at + 1 :]) + file[1]
    assert after.startswith(others[0])
    assert after.rstrip("\n").endswith(others[1].rstrip("\n"))
    assert [line for line in after.split("\n") if line.lstrip().startswith("#")] == [
        line for line in tasks.text.split("\n") if line.lstrip().startswith("#")
    ]


def _refusal_of(read: Callable[[str], object], text: str) -> str | None:
    try:
        read(text)
    except InvalidInput as refused:
        return refused.message
    return None


@given(st.text(st.sampled_from("-:{}[]'\"|>&*!%#?,\\~ \n\tatitle0\r\ufeff\x00\ud800"), max_size=40))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    """C3: hostile files"""
    for read in (parse, read_tasks):
        assert (_refusal_of(read, text) or "line 1").startswith("line ")
