"""The HTTP API: a route for every use case, errors as problem documents, and a stream of events."""
