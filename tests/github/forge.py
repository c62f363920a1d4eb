"""A GitHub with stars, forks, repositories and pull requests, on this machine."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from github_server import Answer, GitHub

_PULL = re.compile(r"/repos/(octo-org/\w+)/pulls(?:/(\d+))?(/reviews)?")
DIFF = "diff --git a/gate.py b/gate.py\n+shut = True\n"


@dataclass
class Forge(GitHub):
    repos: dict[str, dict[str, Any]] = field(default_factory=dict)
    pulls: list[dict[str, Any]] = field(default_factory=list)
    reviews: list[dict[str, Any]] = field(default_factory=list)
    login: str = "matins-bot"

    def host(self, repo: str, folder: Path) -> Path:
        """A repository with one commit, bare, in a folder of its own."""
        bare = folder / "hosted" / f"{repo}.git"
        git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(bare))
        seed = folder / "seed" / repo
        git(folder, "clone", "--quiet", str(bare), str(seed))
        (seed / "gate.py").write_text("shut = False\n")
        git(seed, "add", "--all")
        git(seed, "commit", "--quiet", "--message", "The gate")
        git(seed, "push", "--quiet", "origin", "HEAD:main")
        self.repos[repo] = {"full_name": repo, "default_branch": "main", "clone_url": str(bare), "description": "Gates"}
        return bare

    def pull(self, repo: str, number: int, sha: str, **more: Any) -> None:
        self.pulls.append(
            {
                "repo": repo, "number": number, "title": f"Change {number}", "body": "Shuts it.", "state": "open",
                "head": {"sha": sha, "ref": f"change-{number}"}, "html_url": f"https://github.com/{repo}/pull/{number}",
                "draft": False, **more,
            }
        )  # fmt: skip

    def _routed(self, method: str, path: str, asked: dict[str, str], body: Any) -> Answer:
        if path == "/user":
            return 200, {}, {"login": self.login}
        if method == "PUT" and path.startswith("/user/starred/octo-org/"):
            return 204, {}, None
        if method == "POST" and path == "/repos/octo-org/garden/forks":
            return 202, {}, {"full_name": "me/garden"}
        if found := _PULL.fullmatch(path):
            return self._pulled(method, found[1], int(found[2] or 0), bool(found[3]), asked, body)
        if path.removeprefix("/repos/") in self.repos:
            return 200, {}, self.repos[path.removeprefix("/repos/")]
        if path.endswith("/issues") and self.repos:
            return 200, {}, list(self.issues.values())
        return super()._routed(method, path, asked, body)

    def _pulled(self, method: str, repo: str, number: int, reviews: bool, asked: dict[str, str], body: Any) -> Answer:
        match method, bool(number), reviews:
            case "GET", True, True:
                return 200, {}, [one for one in self.reviews if (one["repo"], one["number"]) == (repo, number)]
            case "POST", True, True:
                assert body["event"] == "COMMENT"
                self.reviews.append({"repo": repo, "number": number, "user": {"login": self.login}, **body})
                return 200, {}, {"id": len(self.reviews)}
            case "GET", True, False:
                (pull,) = [one for one in self.pulls if (one["repo"], one["number"]) == (repo, number)]
                if self.accepts.endswith(".diff"):
                    return (406, {}, {"message": "too large"}) if pull.get("large") else (200, {}, DIFF.encode())
                return 200, {}, pull
            case "GET", False, False:
                head = asked.get("head", "").partition(":")[2]
                found = [one for one in self.pulls if one["repo"] == repo and head in ("", one["head"]["ref"])]
                return 200, {}, [one for one in found if asked["state"] in ("all", one["state"])]
            case _:
                assert self._has_branch(repo, body["head"]), "no such branch was pushed"
                self.pull(
                    repo, len(self.pulls) + 1, "0" * 40, **body | {"head": {"sha": "0" * 40, "ref": body["head"]}}
                )
                return 201, {}, self.pulls[-1]

    def _has_branch(self, repo: str, branch: str) -> bool:
        return bool(git(Path(self.repos[repo]["clone_url"]), "branch", "--list", branch))


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()
