"""Work sources from the settings that people write."""

from collections.abc import Mapping
from typing import Any

from matins.model.policies import WorkSourceDefinition
from matins.records.kind import RecordContext
from matins.records.policies import WORK_SOURCES


def parse_source(name: str, settings: Mapping[str, Any]) -> WorkSourceDefinition:
    return WORK_SOURCES.parse(name, settings, RecordContext(0, "UTC", {"USD": 1.0}))
