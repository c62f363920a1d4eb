"""The store: SQLite or PostgreSQL behind one port. It persists transitions and knows no policy."""
