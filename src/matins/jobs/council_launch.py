"""`council_launch`: several agents are asked side by side, then one judges what they said."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

from matins.engine.steps import answer_field
from matins.errors import Conflict, InvalidInput
from matins.jobs import JobContext, JobType, Name, Names, Setting, Text

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
