"""Telegram: a bot, by long polling."""
