"""`message`: the payload is emitted as an event, in the transaction that records the run."""

from matins.engine.jobs import MESSAGE_JOB
from matins.model.job import JobType

JOB = JobType(MESSAGE_JOB, "Emit the payload as an event; its texts may contain placeholders.")
