"""The engine at work: planning, starting, recording, delivering."""
