"""Frozen values that every layer shares. Imports nothing of ours."""
