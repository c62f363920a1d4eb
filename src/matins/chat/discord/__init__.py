"""Discord: a bot, by the gateway."""
