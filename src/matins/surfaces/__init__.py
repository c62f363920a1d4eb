"""Doors for people and programs. Each translates, calls service, and translates back."""
