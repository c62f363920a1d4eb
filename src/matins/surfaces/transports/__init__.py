"""Transports of calls: to a service in this process, to the owner of a SQLite file, or to a daemon over HTTP."""
