"""The job types of the core, and the names that a module of your own needs."""

from matins.executors.job_context import JobContext
from matins.model.job import JobType
from matins.model.settings import Arguments, Choice, Duration, Flag, Int, Json, Name, Names, Secret, Setting, Text, Url

__all__ = [
    "Arguments", "Choice", "Duration", "Flag", "Int", "JobContext", "JobType", "Json", "Name", "Names", "Secret",
    "Setting", "Text", "Url",
]  # fmt: skip
