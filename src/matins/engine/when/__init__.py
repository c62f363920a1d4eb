"""When something is due: cron, intervals, rules and instants, in every time zone."""
