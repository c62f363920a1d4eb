"""Slack: by Socket Mode, or over HTTP."""
