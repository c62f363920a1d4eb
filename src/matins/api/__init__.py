"""The declarations of use cases and their results. Quick to load."""
