"""The `matins` command line."""

from __future__ import annotations

from matins.surfaces.cli.main import cli

__all__ = ["cli"]
