"""Where calls go: a service in this process, the owner of a SQLite file, or a daemon over HTTP."""
