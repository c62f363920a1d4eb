"""corvid's own action types.

Most are a prompt: the agent works in its folder with the project's own tools, and its answer is the result of the run.

For `memory_maintenance` Matins finds the notes that are old, and wakes no agent when there are none. The agent decides
what is worth keeping; afterwards Matins counts what it archived.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any

from matins.engine.steps import answer_field
from matins.errors import Conflict, InvalidInput
from matins.jobs import Int, JobContext, JobType, Name, Names, Setting, Text
from matins.model.job import Brief, ErrandPlace
from matins.texts.untrusted_folder import Entry, NoMemory, UntrustedFolder, open_memory


def focused(prompt: str, description: str | None) -> str:
    return f"{prompt}\nLook at this in particular: {description}" if description else prompt


@dataclass(frozen=True)
class CodebaseReview:
    description: Annotated[
        str | None, Setting(Text(10_000, lines=True), "What to look at in particular.", "The parser")
    ] = None


def review_prompt(inputs: CodebaseReview) -> str:
    return focused(
        "Review the code in this folder.\n"
        "1. Run its type checker and its tests, with the commands that the project itself uses.\n"
        "2. Find TODO and FIXME comments that have become due.\n"
        "3. For each problem that is worth a change, add a task to TASKS.yaml in this folder: a title, a body that "
        "says where and why, and a priority (high, medium or low). Do not add a task that is there already.\n"
        "Change nothing else. Report the problems, the worst first.",
        inputs.description,
    )


CODEBASE_REVIEW = JobType(
    "codebase_review", "Check types and tests, find TODOs, and write tasks.", CodebaseReview, prompt=review_prompt
)


VERDICT = "Verdict"


@dataclass(frozen=True, kw_only=True)
class CouncilLaunch:
    council_id: Annotated[str, Setting(Name(), "Name of the council.", "elders", name="councilId", required=True)]
    project_id: Annotated[
        str, Setting(Name(), "Project that the council talks about.", "garden", name="projectId", required=True)
    ]
    description: Annotated[
        str, Setting(Text(20_000, lines=True), "Question to the council.", "Which gate first?", required=True)
    ]
    agents: Annotated[
        tuple[str, ...], Setting(Names(), "Members of the council; default: all other agents.", ["scout", "rover"])
    ] = ()


def launch_council(context: JobContext) -> str:
    """The council is a schedule of steps that runs once: one step for each member, and one that judges."""
    inputs: CouncilLaunch = context.inputs
    known = [agent.name for agent in context.api.agents.list()]
    members = list(inputs.agents) or [name for name in known if name != context.agent]
    if len(members) < 2:
        raise InvalidInput("A council needs two members.", field="agents", hint="Name them: agents.")
    name = f"council-{inputs.council_id}-{context.key}"
    settings: dict[str, Any] = {
        "description": f"{inputs.council_id} on {inputs.project_id}, launched by {context.schedule}",
        "labels": {"council": inputs.council_id, "project": inputs.project_id},
    }
    with suppress(Conflict):  # an earlier attempt of this run has launched it
        context.api.add(name, when="in 1s", agent=context.agent, steps=steps(inputs, members), **settings)
    return f"Launched {name} with {', '.join(members)}"


def steps(inputs: CouncilLaunch, members: list[str]) -> list[dict[str, Any]]:
    """A step for each member, and the verdict after them."""
    question = f"A council on the project {inputs.project_id} is asked:\n\n{inputs.description}"
    asked = [
        {"title": name, "agent": name, "prompt": f"{question}\n\nGive your own answer, with your reasons."}
        for name in members
    ]
    answers = "\n\n".join(f"{name}:\n{{{{{answer_field(name)}}}}}" for name in members)
    judge = f"{question}\n\nThe members answered:\n\n{answers}\n\nDecide, and say why. Name what they disagree about."
    return [*asked, {"title": VERDICT, "after": members, "prompt": judge}]


COUNCIL_LAUNCH = JobType(
    "council_launch", "Ask several agents, and let one judge.", CouncilLaunch, launch_council, destructive=False,
    services=("council",),
)  # fmt: skip


@dataclass(frozen=True)
class DependencyAudit:
    description: Annotated[
        str | None, Setting(Text(10_000, lines=True), "What to look at in particular.", "Only security")
    ] = None


def audit_prompt(inputs: DependencyAudit) -> str:
    return focused(
        "Audit the dependencies of the project in this folder.\n"
        "1. List those that are outdated, with the tool that the project uses (for example npm outdated or pip list "
        "--outdated).\n"
        "2. List those with known vulnerabilities, with the audit command of that tool.\n"
        "3. For each that should change, add a task to TASKS.yaml in this folder, with the versions in its body. "
        "Vulnerabilities have the priority high.\n"
        "Change nothing else. Report what you found, vulnerabilities first.",
        inputs.description,
    )


DEPENDENCY_AUDIT = JobType(
    "dependency_audit",
    "Find outdated and vulnerable dependencies, and write tasks.",
    DependencyAudit,
    prompt=audit_prompt,
)


@dataclass(frozen=True)
class ImprovementLoop:
    max_improvement_tasks: Annotated[
        int, Setting(Int(1, 20), "Maximum number of improvements.", 3, name="maxImprovementTasks")
    ] = 3
    focus_area: Annotated[str | None, Setting(Text(2_000), "Area to improve.", "test coverage", name="focusArea")] = (
        None
    )


def improvement_prompt(inputs: ImprovementLoop) -> str:
    where = f" in this area: {inputs.focus_area}" if inputs.focus_area else ""
    return (
        f"Improve the project in this folder{where}.\n"
        "1. Look at its tests, its open tasks in TASKS.yaml and its history, and list possible improvements.\n"
        f"2. Choose the best, at most {inputs.max_improvement_tasks}. Prefer small changes whose use is certain.\n"
        "3. Make each on a branch of its own, with a test that fails without it. Run all tests before you commit.\n"
        "Leave the main branch as it is. Report each improvement with its branch, and what you decided against."
    )


IMPROVEMENT_LOOP = JobType(
    "improvement_loop", "Find improvements and make the best of them.", ImprovementLoop, prompt=improvement_prompt,
    services=("improvement_loop",),
)  # fmt: skip


_PAGE = 1_000
_GOOD, _BAD = ("succeeded",), ("failed", "denied", "over_budget", "unknown")


@dataclass(frozen=True)
class ReputationAttestation:
    days: Annotated[int, Setting(Int(1, 365), "Days of history that count.", 30)] = 30


def attest_reputation(context: JobContext) -> dict[str, Any]:
    """Compute the score of the schedule's agent, and publish the digest of the attestation."""
    inputs: ReputationAttestation = context.inputs
    counts = count_runs(context, inputs.days)
    attestation = {"agent": context.agent, "days": inputs.days, "run": context.key, **counts, "score": score(counts)}
    digest = sha256(json.dumps(attestation, sort_keys=True).encode()).hexdigest()
    context.emit("reputation.attested", {**attestation, "digest": digest})
    return {**attestation, "digest": digest}


def count_runs(context: JobContext, days: int) -> dict[str, int]:
    """The runs of the agent that ended, by state."""
    since = context.now - days * 86_400_000
    states: Counter[str] = Counter()
    before: str | None = None
    while page := context.api.runs.list(agent=context.agent or None, before=before, limit=_PAGE):
        ended = [run for run in page if run.ended_at is not None and run.ended_at.timestamp() * 1000 >= since]
        states.update(run.state for run in ended if run.state in (*_GOOD, *_BAD))
        before = page[-1].id
        if page[-1].planned_at.timestamp() * 1000 < since:
            break
    return dict(sorted(states.items()))


def score(counts: dict[str, int]) -> int:
    """From 0 to 100: the share of successes, held back while there are few runs (Laplace's rule of succession)."""
    good = sum(counts.get(state, 0) for state in _GOOD)
    bad = sum(counts.get(state, 0) for state in _BAD)
    return round(100 * (good + 1) / (good + bad + 2))


REPUTATION_ATTESTATION = JobType(
    "reputation_attestation",
    "Compute the agent's score from its runs, and publish its digest.",
    ReputationAttestation,
    attest_reputation,
    destructive=False,
    services=("reputation",),
)


ARCHIVE = "archive"
_DAY_MS = 86_400_000
_MAX_NOTES = 500


@dataclass(frozen=True)
class MemoryMaintenance:
    folder: Annotated[str, Setting(Text(4_096), "Folder of the memory.", "memory")] = "memory"
    days: Annotated[int, Setting(Int(1, 3_650), "Days after which a note is old.", 30)] = 30


def maintenance_prompt(inputs: MemoryMaintenance) -> str:
    return (
        f"Maintain your memory in the folder {inputs.folder}.\n"
        f"1. Read the notes that have not changed for {inputs.days} days. Their names are below.\n"
        "2. Summarise what is still of use, by subject, in notes of at most a page. Keep facts, decisions and their "
        "reasons; leave out what is outdated.\n"
        f"3. Move the notes that you summarised to {inputs.folder}/{ARCHIVE}, with the same names. Delete nothing.\n"
        "Report how many notes you summarised, and the summaries that you wrote."
    )


class MaintenanceErrand:
    folder = None

    def __init__(self, inputs: MemoryMaintenance, place: ErrandPlace) -> None:
        self._memory = place.folder, inputs.folder
        self._before = (place.now - inputs.days * _DAY_MS) * 1_000_000

    def begin(self) -> Brief | None:
        try:
            with open_memory(*self._memory) as memory:
                notes = old_notes(memory, self._before)
        except NoMemory:
            return None
        left_out = len(notes) - _MAX_NOTES
        more = [f"and {left_out} more"] if left_out > 0 else []
        return Brief("\n".join([*notes[:_MAX_NOTES], *more])) if notes else None

    def finish(self, answer: str) -> dict[str, Any]:
        with open_memory(*self._memory) as memory:
            return {"left": len(old_notes(memory, self._before)), "archived": sum(map(_is_archived, _notes(memory)))}


def old_notes(memory: UntrustedFolder, before_ns: int) -> list[str]:
    """Notes below the folder, without its archive, that did not change since an instant: the oldest first."""
    found = sorted((entry.changed_ns, entry.name) for entry in _notes(memory) if not _is_archived(entry))
    return [name for changed, name in found if changed < before_ns]


def _notes(memory: UntrustedFolder) -> list[Entry]:
    return [entry for entry in memory.walk() if entry.name.endswith(".md")]


def _is_archived(entry: Entry) -> bool:
    return entry.name.startswith(f"{ARCHIVE}/")


MEMORY_MAINTENANCE = JobType(
    "memory_maintenance", "Summarise and archive old notes.", MemoryMaintenance, prompt=maintenance_prompt,
    errand=MaintenanceErrand, destructive=False,
)  # fmt: skip
