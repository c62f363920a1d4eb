"""Sources of work, from the words that people write."""

from pathlib import Path
from typing import Any

import pytest
from work_sources import parse_source

from matins.errors import InvalidInput
from matins.executors.work_items import open_source
from matins.github.issues import GitHubIssues
from matins.model.policies import WorkSourceDefinition
from matins.records.policies import WORK_SOURCES
from matins.seeds.cortex.tasks import TasksFile

GITHUB = {"kind": "github", "repo": "octo-org/garden"}


def test_a_file_of_tasks_needs_no_more_words() -> None:
    """C3: TASKS.yaml"""
    assert parse_source("backlog", {"kind": "tasks"}) == WorkSourceDefinition("backlog", "tasks", path="TASKS.yaml")


def test_what_the_words_say_is_kept() -> None:
    """H9: a work source is configured"""
    words = {
        **GITHUB,
        "labels": ["small"],
        "priorities": ["p0", "p1"],
        "base_url": "https://github.example.com/api/v3/",
        "token": "file:~/.github-token",
    }
    made = parse_source("issues", words)
    assert (made.labels, made.priorities) == (("small",), ("p0", "p1"))
    assert (made.base_url, made.token) == ("https://github.example.com/api/v3", "file:~/.github-token")
    assert parse_source("issues", GITHUB).token == "env:GITHUB_TOKEN"


@pytest.mark.parametrize(
    "words",
    [
        {"kind": "tasks"},
        {"kind": "tasks", "path": "work/TODO.yaml"},
        GITHUB,
        {**GITHUB, "labels": ["a", "b"], "priorities": ["p0"], "base_url": "http://127.0.0.1:99", "token": "env:T"},
    ],
)
def test_a_definition_survives_the_store(words: dict[str, Any]) -> None:
    """H9: as the store keeps it"""
    made = parse_source("one", words)
    kept = WORK_SOURCES.dump(made)
    assert WORK_SOURCES.load("one", kept) == made
    assert WORK_SOURCES.load("one", {**kept, "later": "a setting of a newer version"}) == made
    assert set(kept) <= {"kind", *words}


BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("no kind", {}, "kind", 'A work source needs "kind" ('),
    ("unknown kind", {"kind": "jira"}, "kind", "must be tasks or github, not 'jira'."),
    (
        "a word of the other kind",
        {"kind": "tasks", "repo": "a/b"},
        "repo",
        'A work source of kind tasks has no setting "repo".',
    ),
    ("misspelt", {**GITHUB, "label": "x"}, "label", 'A work source has no setting "label".'),
    ("no repository", {"kind": "github"}, "repo", 'needs "repo"'),
    ("half a repository", {"kind": "github", "repo": "garden"}, "repo", "must be owner/name"),
    ("a repository that climbs", {"kind": "github", "repo": "a/b/../../user"}, "repo", "must be owner/name"),
    ("a path that is none", {"kind": "tasks", "path": 7}, "path", '"path" must be'),
    ("NUL in the path", {"kind": "tasks", "path": "a\0b"}, "path", '"path" must be'),
    ("no label", {**GITHUB, "labels": []}, "labels", '"labels" must be a list of names, not an empty list.'),
    ("a label that is no list", {**GITHUB, "labels": "a"}, "labels", "must be a list of names, not 'a'."),
    ("a label with a comma", {**GITHUB, "labels": ["a,b"]}, "labels", "without a comma"),
    ("a label with a line break", {**GITHUB, "priorities": ["a\nb"]}, "priorities", '"priorities" must be'),
    ("an address that is not encrypted", {**GITHUB, "base_url": "http://github.example.com"}, "base_url", "https://"),
    (
        "an address with a password",
        {**GITHUB, "base_url": "https://me:pw@example.com"},
        "base_url",
        "a user name or a password",
    ),
    ("an address with a query", {**GITHUB, "base_url": "https://example.com/?a"}, "base_url", "https://"),
    ("no address", {**GITHUB, "base_url": "https://[::"}, "base_url", "https://"),
    ("an empty reference", {**GITHUB, "token": "env:"}, "token", "must be a reference to the secret"),
]


@pytest.mark.parametrize(("words", "field", "said"), [bad[1:] for bad in BAD], ids=[bad[0] for bad in BAD])
def test_words_that_cannot_be_used_are_named(words: dict[str, Any], field: str, said: str) -> None:
    """H9: bad input is refused, with the word and how to mend it"""
    with pytest.raises(InvalidInput) as refused:
        parse_source("work", words)
    assert refused.value.field == field
    assert said in refused.value.message
    assert refused.value.hint, "what to type"


@pytest.mark.parametrize("name", ["", "a\nb", 7])
def test_a_name_must_be_printable(name: Any) -> None:
    """H9: bad input"""
    with pytest.raises(InvalidInput, match='"name" must be'):
        parse_source(name, {"kind": "tasks"})


def test_a_token_itself_is_refused_and_not_repeated() -> None:
    """H9: secrets by reference"""
    with pytest.raises(InvalidInput) as refused:
        parse_source("work", {**GITHUB, "token": "ghp_secretsecret"})
    assert refused.value.hint == 'For example: token="env:GITHUB_TOKEN".'
    assert "ghp_" not in f"{refused.value!r} {vars(refused.value)}"


def test_a_source_is_opened_without_touching_anything(tmp_path: Path) -> None:
    """H9: what is missing is told by the first call"""
    tasks = open_source(parse_source("backlog", {"kind": "tasks"}), tmp_path)
    issues = open_source(parse_source("issues", GITHUB), tmp_path)
    assert (type(tasks), tasks.name) == (TasksFile, "backlog")
    assert (type(issues), issues.name) == (GitHubIssues, "issues")
    assert list(tmp_path.iterdir()) == []


def test_the_path_is_relative_to_the_workdir(tmp_path: Path) -> None:
    """C3: TASKS.yaml of the agent's workdir"""
    (tmp_path / "TASKS.yaml").write_text("- title: here\n")
    absolute = parse_source("b", {"kind": "tasks", "path": str(tmp_path / "TASKS.yaml")})
    for definition, workdir in ((parse_source("a", {"kind": "tasks"}), tmp_path), (absolute, "/nowhere")):
        item = open_source(definition, workdir).claim("run 1", 0)
        assert item is not None
        assert item.title == "here"
