"""Chat: a dialogue without I/O, and an adapter for each service."""
