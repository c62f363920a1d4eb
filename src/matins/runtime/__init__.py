"""The loops: planning, dispatching, recording, reaping, timers, housekeeping; and what they share."""
