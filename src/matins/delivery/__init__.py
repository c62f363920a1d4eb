"""Kinds of destinations, one file each: how a message reaches people. A new kind is a new file and an entry point."""
