"""Text files that people write: YAML that knows its places, and files that are read and replaced whole."""
