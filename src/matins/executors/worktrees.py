"""Git worktrees of runs: a branch and a folder that belong to one run (`Branch`, `RunWorktree`).

Git runs in the process of the agent, not in that of Matins: hooks and filters of a repository have the rights of the
agent, and no more.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from matins.errors import InvalidInput
from matins.model.job import Brief, ErrandPlace
from matins.runtime.agent_folders import git_root
from matins.texts.untrusted_folder import open_folder

_WORKTREES = "worktrees"
_MAX_BYTES = 10_000
GIT_SCRIPT = r"""
set -eu
exec 3<&0 4>&1 0</dev/null 1>&2
name() {
    export GIT_AUTHOR_NAME="$1" GIT_AUTHOR_EMAIL="$1@matins.invalid"
    export GIT_COMMITTER_NAME="$1" GIT_COMMITTER_EMAIL="$1@matins.invalid"
}
save() {
    git add --all
    git diff --cached --quiet || git commit --quiet --message "$1"
}
"""
"""What the scripts share. The agent keeps standard input and output; git's go to the log."""
_KEPT = "kept"
_PER_RUN = f"""{GIT_SCRIPT}
agent=$1 tree=$2 branch=$3 below=$4 changes=$5; shift 5
repo=$PWD
mkdir -p "${{tree%/*}}"
rm -f "$tree.outcome"
git config user.email >/dev/null || name "$agent"
if [ ! -e "$tree/.git" ]; then
    git worktree prune
    git worktree add --quiet -b "$branch" "$tree" HEAD
fi
start=$(git rev-parse HEAD)
cd "$tree/$below"
export PWD="$(pwd -P)"
status=0
"$@" <&3 >&4 3<&- 4>&- || status=$?
cd "$tree"
if [ -n "$(git status --porcelain $changes)" ] || [ "$(git rev-list --count "$start..HEAD")" != 0 ]; then
    echo "The run changed files: its worktree $tree (branch $branch) is kept." >&2
    printf '{_KEPT}\\n' > "$tree.outcome"
else
    cd "$repo"
    git worktree remove --force "$tree"
    git branch --quiet -D "$branch"
fi
exit $status
"""


class Branch(NamedTuple):
    """A branch that belongs to one run, and the folder in which it is made."""

    name: str
    folder: str
    own: str
    """The agent's own folder, which holds it."""

    @classmethod
    def of(cls, place: ErrandPlace) -> Branch:
        return cls(f"matins/{place.key}", str(Path(place.own, _WORKTREES, place.key)), place.own)

    def command(self, script: str, agent: str, *arguments: str) -> tuple[str, ...]:
        return ("/bin/sh", "-c", script, "matins", agent, self.folder, self.name, *arguments)

    def outcome(self) -> list[str] | None:
        """What was pushed, as the script wrote it; None when it did not come so far."""
        try:
            with open_folder(self.own, within=self.own) as folder:
                return (
                    folder.read(f"{_WORKTREES}/{Path(self.folder).name}.outcome", _MAX_BYTES)
                    .decode(errors="replace")
                    .split()
                )
        except OSError:
            return None


class RunWorktree:
    """A worktree of the agent's checkout for one run. It is removed after the run, unless the run changed something."""

    def __init__(self, place: ErrandPlace) -> None:
        self._agent = place.agent
        self._checkout = place.folder
        self._branch = Branch.of(place)
        root = git_root(place.folder)
        self._below = "." if root is None else os.path.relpath(os.path.realpath(place.folder), root)
        self._is_checkout = root is not None
        # A report may be in a folder that git ignores, and be what the answer is about.
        self._changes = "--ignored" if place.attaches else "--untracked-files"
        self.folder = str(Path(self._branch.folder, self._below))

    def begin(self) -> Brief:
        if not self._is_checkout:
            raise InvalidInput(
                f'"worktree: per_run" needs a git checkout, and {self._checkout} is none.',
                value=self._checkout,
                field="worktree",
                hint=f"Run git init there, or: matins agents edit {self._agent} --worktree shared",
            )
        return Brief(command=self._branch.command(_PER_RUN, self._agent, self._below, self._changes))

    def finish(self, answer: str) -> dict[str, Any]:
        if self._branch.outcome() != [_KEPT]:
            return {}
        return {"worktree": self._branch.folder, "branch": self._branch.name}
