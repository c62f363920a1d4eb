"""Outgoing HTTP: requests to allowed addresses, and signatures on messages."""
