"""What runs a run: one file for each kind."""
