"""Every use case, and the only way in for the surfaces: they translate, call one of these, and translate back."""

from __future__ import annotations

from matins.service.service import Service

__all__ = ["Service"]
