"""Where schedules and runs live: SQLite or PostgreSQL behind one port. Persists transitions, knows no policy."""
