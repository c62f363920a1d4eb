"""A source of work items. Annotations are settings, see `settings`."""

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from matins.model.settings import Choice, Names, Secret, Setting, Text, Url

WorkSourceKind = Literal["tasks", "github"]
KIND_SETTINGS = {"tasks": ("path",), "github": ("repo", "labels", "priorities", "base_url", "token")}
"""The settings of each kind."""


# fmt: off
@dataclass(frozen=True, slots=True)
class WorkSourceDefinition:
    name: str
    kind: Annotated[WorkSourceKind,
        Setting(Choice(get_args(WorkSourceKind)), "Kind of source: `tasks` for a TASKS.yaml, `github` for issues.",
                "github", required=True)]
    path: Annotated[str,
        Setting(Text(4_096), "Path of the TASKS.yaml, relative to the agent's directory.", "TASKS.yaml")] = "TASKS.yaml"
    repo: Annotated[str | None, Setting(Text(), "GitHub repository, as owner/name.", "octo-org/garden")] = None
    labels: Annotated[tuple[str, ...], Setting(Names(), "Labels that an issue must have.", ["ready"])] = ("ready",)
    priorities: Annotated[tuple[str, ...],
        Setting(Names(), "Labels by priority, the most urgent first.", ["urgent", "soon"])] = ()
    base_url: Annotated[str,
        Setting(Url(), "URL of the API of another GitHub.",
                "https://github.example.com/api/v3")] = "https://api.github.com"
    token: Annotated[str,
        Setting(Secret(), "Where the token is: env:NAME or file:/path.", "env:GITHUB_TOKEN")] = ("env:GITHUB_TOKEN")
