"""Schedules in English: phrases to triggers, and triggers to descriptions."""
