"""The HTTP API: every use case as a route, problems in words, events as they happen."""
