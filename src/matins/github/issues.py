"""Work items from GitHub issues. Comments decide who holds an issue: the first claim wins. Labels show it to people."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import quote, unquote

from matins.engine.prompts import WorkItem
from matins.engine.validation import check_name, invalid
from matins.errors import Conflict, Example, InvalidInput
from matins.executors.work_items import SourceKind, not_held, readable
from matins.github import Api, Comment, Issue, check_access, check_base_url, open_api
from matins.model.policies import WorkSourceDefinition

CLAIMED = "matins-claimed"
FAILED = "matins-failed"
# Only at the start: a report, further down, may contain anything.
_REPO = re.compile(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+")
_MARK = re.compile(r"<!-- matins (claim|done|failed|release) (\S+) -->")
_TICKS = re.compile(r"`+")
_MAX_REPORT_LENGTH = 30_000
_COMMENT_TEXTS = {
    "claim": "Claimed by",
    "done": "Done by",
    "failed": f"Remove the label `{FAILED}` to retry. Failed in",
    "release": "Released by",
}


class GitHubIssues:
    """The comment that ends a claim comes last, so an interrupted call can be repeated."""

    def __init__(self, definition: WorkSourceDefinition) -> None:
        self.name = definition.name
        self._definition = definition

    def check(self, now: int) -> None:
        check_access(self._definition)

    def claim(self, run_key: str, now: int) -> WorkItem | None:
        check_name("run_key", run_key)
        with open_api(self._definition, now) as api:
            free: list[Issue] = []
            for issue in filter(self._is_work, api.ready_issues()):
                holder = _claims(api.comments(str(issue.number))).holder if _has(issue, CLAIMED) else None
                if holder == run_key:
                    return self._item(issue)
                if holder is None:
                    free.append(issue)
            taken = (self._take(api, str(issue.number), run_key) for issue in sorted(free, key=self._urgency))
            return next((self._item(issue) for issue in taken if issue is not None), None)

    def held(self, run_key: str, now: int) -> WorkItem | None:
        with open_api(self._definition, now) as api:
            for issue in filter(self._is_work, api.ready_issues()):
                if _has(issue, CLAIMED) and _claims(api.comments(str(issue.number))).holder == run_key:
                    return self._item(issue)
        return None

    def done(self, item: WorkItem, run_key: str, report: str, now: int) -> None:
        with open_api(self._definition, now) as api:
            if _holds(api, item.id, run_key, "done"):
                api.close(item.id)
                api.remove_label(item.id, CLAIMED)
                api.comment(item.id, _comment_text("done", run_key, report))

    def failed(self, item: WorkItem, run_key: str, report: str, now: int) -> None:
        with open_api(self._definition, now) as api:
            if _holds(api, item.id, run_key, "failed"):
                api.add_label(item.id, FAILED)
                api.remove_label(item.id, CLAIMED)
                api.comment(item.id, _comment_text("failed", run_key, report))

    def release(self, item_id: str, run_key: str, now: int) -> None:
        with open_api(self._definition, now) as api:
            if _claims(api.comments(_number(item_id))).holder == run_key:
                api.remove_label(item_id, CLAIMED)
                api.comment(item_id, _comment_text("release", run_key))

    def _take(self, api: Api, number: str, run_key: str) -> Issue | None:
        """Claim the issue. None when another run was first, or when the issue is no longer work."""
        if _claims(api.comments(number)).holder is not None:
            return None
        api.add_label(number, CLAIMED)
        claim = api.comment(number, _comment_text("claim", run_key))
        holder = _claims({*api.comments(number), claim}).holder
        issue = api.issue(number)
        if holder == run_key and self._is_work(issue):
            return issue
        api.withdraw_comment(claim.id)
        if holder in (run_key, None):
            api.remove_label(number, CLAIMED)
        if not claim.trusted:
            repo = self._definition.repo
            message = f"The account of the token is not a collaborator of {repo}, so its claims do not count."
            raise InvalidInput(message, field="token", hint="Invite it to the repository, or use another token.")
        return None

    def _is_work(self, issue: Issue) -> bool:
        ready = all(_has(issue, label) for label in self._definition.labels)
        return ready and issue.is_open and not issue.is_pull_request and not _has(issue, FAILED)

    def _urgency(self, issue: Issue) -> tuple[int, str, int]:
        return -(self._priority(issue) or 0), issue.created, issue.number

    def _priority(self, issue: Issue) -> int | None:
        """The last label has priority 1, the one before it 2, and so on."""
        ranked = enumerate(reversed(self._definition.priorities), start=1)
        return max((rank for rank, label in ranked if _has(issue, label)), default=None)

    def _item(self, issue: Issue) -> WorkItem:
        number, priority = str(issue.number), self._priority(issue)
        return WorkItem(self.name, number, issue.title, issue.body, issue.url, issue.labels, priority)


class _Claims(NamedTuple):
    holder: str | None
    last_actions: dict[str, str]
    """The last action of each run."""


def _claims(comments: Iterable[Comment]) -> _Claims:
    """The holder of an issue: the first run that claimed it and has not ended its claim."""
    active: dict[str, int] = {}
    last_actions: dict[str, str] = {}
    for comment in sorted(comments):
        mark = _MARK.match(comment.body)
        if mark and comment.trusted:
            action, run_key = mark[1], unquote(mark[2])
            last_actions[run_key] = action
            if action == "claim":
                active.setdefault(run_key, comment.id)
            else:
                active.pop(run_key, None)
    return _Claims(next(iter(active), None), last_actions)


def _holds(api: Api, item_id: str, run_key: str, action: str) -> bool:
    """Whether there is a claim to end. False when this run has already ended it the same way."""
    claims = _claims(api.comments(_number(item_id)))
    if claims.holder == run_key:
        return True
    if claims.last_actions.get(run_key) == action:
        return False
    how = f"run {claims.holder} holds it" if claims.holder else "no run holds it"
    raise Conflict(not_held(item_id, run_key, how), value=item_id, field="id", hint="It was changed during the run.")


def _comment_text(action: str, run_key: str, report: str = "") -> str:
    """The comment of a run. The report is fenced: it mentions no user, links nothing and contains no mark."""
    key = quote(run_key, safe="").replace("-", "%2D")  # an HTML comment must not contain two dashes
    text = readable(report, _MAX_REPORT_LENGTH)
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    block = f"\n\n{fence}text\n{text}\n{fence}" if text else ""
    sentence = f"{_COMMENT_TEXTS[action]} run `{run_key.replace('`', chr(39))}`."
    return f"<!-- matins {action} {key} -->\n{sentence}{block}"


def _has(issue: Issue, label: str) -> bool:
    """Whether the issue has the label. GitHub ignores case in labels."""
    return label.casefold() in {name.casefold() for name in issue.labels}


def _number(item_id: str) -> str:
    if item_id.isascii() and item_id.isdecimal():
        return item_id
    raise invalid("id", item_id, "the number of an issue")


def _checked(source: WorkSourceDefinition) -> WorkSourceDefinition:
    hint = Example({"repo": "octo-org/garden"})
    if source.repo is None:
        raise InvalidInput('A work source of kind github needs "repo".', field="repo", hint=hint)
    if not _REPO.fullmatch(source.repo):
        raise invalid("repo", source.repo, "owner/name", hint=hint)
    for name in ("labels", "priorities"):
        for label in getattr(source, name):
            if "," in label:
                raise invalid(name, label, "labels without a comma", hint=Example({name: ["ready", "small"]}))
    return replace(source, base_url=check_base_url(source.base_url))


KIND = SourceKind(lambda definition, workdir: GitHubIssues(definition), _checked)
