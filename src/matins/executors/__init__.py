"""Executors: one file for each kind of run."""
