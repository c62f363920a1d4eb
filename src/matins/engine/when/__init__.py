"""Triggers: cron, intervals, recurrence rules and instants, in every time zone."""
