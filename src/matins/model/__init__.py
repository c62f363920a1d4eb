"""Frozen values that every layer shares. Imports no other part of Matins."""
