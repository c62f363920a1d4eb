"""`matins.yaml`: what people write in a file, where it is written, and what it would change."""
