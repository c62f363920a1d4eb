"""What can be asked for, declared once: use cases, their results, and what follows from both. Quick to load."""
