"""Every use case. Surfaces translate a request, call a use case, and translate its result."""

from __future__ import annotations

from matins.service.service import Service

__all__ = ["Service"]
