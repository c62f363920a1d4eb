"""SQL that both stores share: everything outside the hot path."""
