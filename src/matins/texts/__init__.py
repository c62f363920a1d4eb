"""Text files that people write: YAML with positions, and files that are read and replaced atomically."""
