"""`scheduled-task`: the schedule's own prompt goes to its agent."""

from matins.engine.jobs import AGENT_JOB
from matins.model.job import JobType

JOB = JobType(AGENT_JOB, "Send the schedule's prompt to its agent.")
