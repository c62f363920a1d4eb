"""The benches for the loops."""

from benches import bench, lines, reopen, theatre

__all__ = ["bench", "lines", "reopen", "theatre"]
