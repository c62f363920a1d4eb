"""Agents that change repositories: on a branch, in a folder that is made for the run and removed after it.

Git runs in the process of the agent, not in that of Matins: hooks and filters of a repository have the rights of the
agent, and no more. Only the pull request is opened by Matins, whose token the agent does not see.
"""

from __future__ import annotations

from matins.executors.worktrees import GIT_SCRIPT

NOTHING = "nothing"
WORKTREE = f"""{GIT_SCRIPT}
agent=$1 tree=$2 branch=$3 base=$4 title=$5; shift 5
repo=$PWD
mkdir -p "${{tree%/*}}"
rm -f "$tree.outcome"
git config user.email >/dev/null || name "$agent"
git fetch --quiet origin "$base"
start=$(git rev-parse FETCH_HEAD)
if [ ! -e "$tree/.git" ]; then
    git worktree prune
    if git rev-parse --quiet --verify "refs/heads/$branch" >/dev/null; then git worktree add --quiet "$tree" "$branch"
    else git worktree add --quiet -b "$branch" "$tree" "$start"; fi
fi
cd "$tree"
export PWD="$tree"
status=0
"$@" <&3 >&4 3<&- 4>&- || status=$?
cd "$tree"
if [ $status = 0 ]; then save "$title"; else save "Unfinished: $title"; fi
made=$(git rev-list --count "$start..HEAD")
if [ $status = 0 ] && [ "$made" != 0 ]; then
    git push --quiet --force-with-lease origin "HEAD:refs/heads/$branch"
    outcome=$branch
else outcome={NOTHING}; fi
cd "$repo"
git worktree remove --force "$tree"
if [ "$made" = 0 ]; then git branch --quiet -D "$branch"; fi
printf '%s\\n' "$outcome" > "$tree.outcome"
exit $status
"""
CLONES = f"""{GIT_SCRIPT}
agent=$1 tree=$2 branch=$3 push=$4 title=$5 count=$6; shift 6
rm -rf "$tree" "$tree.outcome"
mkdir -p "$tree"
git config user.email >/dev/null || name "$agent"
repos=
while [ "$count" != 0 ]; do
    git clone --quiet "$2" "$tree/$1"
    git -C "$tree/$1" checkout --quiet -b "$branch"
    repos="$repos $1"
    shift 2
    count=$((count - 1))
done
cd "$tree"
export PWD="$tree"
status=0
"$@" <&3 >&4 3<&- 4>&- || status=$?
: > "$tree.outcome.new"
for repo in $repos; do
    [ "$push" = yes ] && [ $status = 0 ] || break
    cd "$tree/$repo"
    save "$title"
    [ "$(git rev-list --count "origin/HEAD..HEAD")" != 0 ] || continue
    git push --quiet --force origin "HEAD:refs/heads/$branch"
    printf '%s\\n' "$repo" >> "$tree.outcome.new"
done
cd /
rm -rf "$tree"
mv "$tree.outcome.new" "$tree.outcome"
exit $status
"""
"""The names of repositories have no blanks, so that a list of words holds them."""
