"""Use cases on the installation, tokens, threads and the file, declared."""

# pyright: reportReturnType=false
from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from matins.api.use_case import Noun, use_case

if TYPE_CHECKING:
    from matins.api._results import Person
    from matins.api.arguments import FilePath, Id, Instant, Limit, Select
    from matins.api.results import (
        Absence,
        AttentionItem,
        Backup,
        BrowserSession,
        CallerContext,
        Departure,
        FilePlace,
        FilePlan,
        Finding,
        Invitation,
        Job,
        Message,
        NewChatLink,
        NewSession,
        NewToken,
        Node,
        Run,
        Spend,
        Stats,
        Status,
        Thread,
        Token,
        Tool,
        Whoami,
    )
    from matins.model.access import LinkedService, PersonRole, Role


class System(Noun, noun="system"):
    @use_case("read", "GET /v1/stats")
    def stats(self) -> Stats:
        """Show counts of runs, queues and spending. Today is in the machine's own time zone."""

    @use_case("read", "GET /v1/status")
    def status(self) -> Status:
        """Show what needs a person, what runs, and what comes next."""

    @use_case("read", "GET /v1/attention")
    def attention(self) -> builtins.list[AttentionItem]:
        """List what needs a person: approvals, held and stuck runs, stopped schedules, a missing engine."""

    @use_case("read", "GET /v1/context")
    def context(self) -> CallerContext:
        """Show where the caller is: schedule, slot, attempt, conversation and limits of the run that it speaks from."""

    @use_case("read", "GET /v1/spend")
    def spend(
        self, *, select: Select | None = None, since: Instant | None = None, until: Instant | None = None
    ) -> Spend:
        """Show what was spent by day, agent and schedule: in the last 30 days, or between two instants."""

    @use_case("read", "GET /v1/absences")
    def absences(self) -> builtins.list[Absence]:
        """List the last times in which no engine was running, and what became of their slots."""

    @use_case("read", "GET /v1/doctor")
    def doctor(self) -> builtins.list[Finding]:
        """Check the installation and suggest fixes."""

    @use_case("read", "GET /v1/tools")
    def tools(self, *, versions: bool = True) -> builtins.list[Tool]:
        """List the tools of agents on the machine of the daemon: where, which version, and how they log in.

        Without `versions`, no tool is started to tell its own; only the owner can have them started.
        """

    @use_case("govern", "POST /v1/backup", fresh=True)
    def backup(self, path: FilePath) -> Backup:
        """Back up the database to a new file on its machine, also while engines run, without the output of runs."""

    @use_case("read", "GET /v1/jobs", engine=True)
    def jobs(self) -> builtins.list[Job]:
        """List the jobs that schedules may name, with their inputs."""

    @use_case("read", "GET /v1/whoami")
    def whoami(self) -> Whoami:
        """Show who the caller is, and which rights it has."""


class Nodes(Noun, noun="nodes"):
    @use_case("read", "GET /v1/nodes")
    def list(self) -> builtins.list[Node]:
        """List the machines with an engine: their state, runs and labels."""

    @use_case("read", "GET /v1/nodes/{name}")
    def get(self, name: str) -> Node:
        """Show a node."""

    @use_case("operate", "POST /v1/nodes/{name}/cordon")
    def cordon(self, name: str, *, note: str | None = None) -> Node:
        """Let a node take no new runs, until it is opened. Its runs go on. It lasts while the node is restarted."""

    @use_case("operate", "POST /v1/nodes/{name}/drain")
    def drain(self, name: str, *, note: str | None = None, within: str | None = None) -> Node:
        """Cordon a node, and interrupt what still runs there after `within`, a duration; None: its runs end by
        themselves."""

    @use_case("operate", "POST /v1/nodes/{name}/open")
    def open(self, name: str) -> Node:
        """Let a node take runs again."""


class Tokens(Noun, noun="tokens"):
    @use_case("govern", "GET /v1/tokens", own=True)
    def list(self, *, own: bool = False) -> builtins.list[Token]:
        """List tokens; the secrets themselves are not kept. Without the right to govern, and with `own`, the caller's
        own."""

    @use_case("govern", "POST /v1/tokens", status=201, secret="token", fresh=True, own=True)
    def create(
        self,
        name: str,
        *,
        role: Role = "owner",
        rights: builtins.list[str] | None = None,
        expires_at: Instant | None = None,
        program: bool = False,
    ) -> NewToken:
        """Create a token with the rights of a role, or with some of them. The token is shown here and never again.

        The token of a person has that person's rights of now, within its own, and ends with the person. The owner makes
        those of programs: with `program`, or as the owner of the store. For an agent, `name` is the agent's.
        """

    @use_case("govern", "DELETE /v1/tokens/{token_id}", status=204, own=True)
    def revoke(self, token_id: str) -> bool:
        """Revoke a token at once: one's own, or any with the right to govern. False when there is none."""


class Sessions(Noun, noun="sessions"):
    @use_case("govern", "GET /v1/sessions", own=True)
    def list(self, *, own: bool = False) -> builtins.list[BrowserSession]:
        """List browsers that are logged in, and links that were not opened yet. Without the right to govern, and with
        `own`, the caller's own."""

    @use_case("govern", "POST /v1/sessions", status=201, secret="path", fresh=True, own=True)
    def create(self, *, token_id: str | None = None, person: str | None = None) -> NewSession:
        """Create a link that logs a browser in, once and within ten minutes.

        It has the caller's rights, or those of a token or a person, as they are at each request. The session ends after
        30 days without use, after 90 days, with the token that it came from, and with its person. Without the right to
        govern, people get a link by chat only.
        """

    @use_case("govern", "DELETE /v1/sessions/{session_id}", status=204, own=True)
    def revoke(self, session_id: str) -> bool:
        """End a browser session, or void its link, at once: one's own, or any with the right to govern. False when
        there is none."""


class PeopleCalls:
    @use_case("govern", "POST /v1/people/{name}/link", status=201, secret="code")
    def link(self, name: str, service: LinkedService) -> NewChatLink:
        """Create a code that links a person to a user of a chat service: who sends it to the bot, once and within ten
        minutes, is the person from then on. An earlier code of the person is void."""

    @use_case("govern", "POST /v1/invitations", status=201, secret="link", fresh=True)
    def invite(self, email: str, *, role: PersonRole = "operator", name: str | None = None) -> Invitation:
        """Invite a person by e-mail: the link works once, within 7 days. Somebody who has the address already is
        invited again. Without a mail server, give them the link yourself."""

    @use_case("govern", "POST /v1/people/{name}/leave", fresh=True)
    def leave(self, name: str, *, give_to: str | None = None) -> Departure:
        """Delete a person with sessions, tokens and open votes. Their schedules go on, and belong to another person, or
        to the owner. Nobody else gets the name."""

    @use_case("govern", "PATCH /v1/me", own=True)
    def edit_me(self, *, timezone: str | None = None) -> Person:
        """Set the caller's own time zone, for messages; None: that of the machine."""

    @use_case("govern", "POST /v1/me/password", status=204, fresh=True, own=True)
    def password(self, password: str) -> bool:
        """Set the caller's own password, to sign in with: at least 12 characters."""


class Threads(Noun, noun="threads"):
    @use_case("read", "GET /v1/threads", page=("before", "id"))
    def list(self, *, before: Id | None = None, limit: Limit = 100) -> builtins.list[Thread]:
        """List conversations with agents, the newest first."""

    @use_case("read", "GET /v1/threads/{thread_id}/messages", page=("after", "id"))
    def messages(self, thread_id: Id, *, after: Id | None = None, limit: Limit = 100) -> builtins.list[Message]:
        """List the messages of a conversation, the oldest first."""

    @use_case("operate", "POST /v1/threads/{thread_id}/replies", status=201, location="/v1/runs/{id}")
    def reply(self, thread_id: Id, text: str, *, key: str | None = None) -> Run:
        """Speak to the agent of a conversation, once per key: the text is the prompt of a run in it.

        The run belongs to the schedule whose run was the last in the conversation, with its limits and its approval. It
        waits while another run of the schedule is active.
        """


class File(Noun, noun="file"):
    @use_case("read", "GET /v1/file/place")
    def place(self, noun: str, name: str) -> FilePlace | None:
        """Say where a file defines a record, for example of `budgets`; None for one that no file defines."""

    @use_case("read", "POST /v1/file/plan")
    def plan(self, *, text: str | None = None, path: str | None = None) -> FilePlan:
        """Preview what the file changes. Nothing is written.

        `text` is that of a file elsewhere, which takes the right to apply it; `path` says where it is.
        """

    @use_case("govern", "POST /v1/file/apply", fresh=True)
    def apply(self, *, digest: str | None = None, text: str | None = None, path: str | None = None) -> FilePlan:
        """Apply the file, all of it or nothing. `digest`: only if it is still the one that `plan` showed.

        `text` is that of a file elsewhere; `path` says where it is.
        """
