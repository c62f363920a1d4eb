"""What every runner needs, and the runners that are no coding tool: shell, message, http, openai, python."""
