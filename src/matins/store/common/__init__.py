"""What both stores say in the same SQL: everything that is not in the hot path."""
