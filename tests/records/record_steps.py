"""What the tests of records share: an instant, a zone and rates by which settings are understood."""

from __future__ import annotations

from typing import Any

import orjson

from matins.records.kind import RecordContext, RecordKind
from matins.testing import instant

NOW = instant("2026-03-27T08:00:00Z")
RATES = {"USD": 1.0, "EUR": 1.1}
CONTEXT = RecordContext(NOW, "Asia/Tokyo", RATES)


def kept(kind: RecordKind[Any], key: str, value: Any) -> Any:
    """What the store gives back of a record, through JSON."""
    return kind.load(key, orjson.loads(orjson.dumps(kind.dump(value))))
