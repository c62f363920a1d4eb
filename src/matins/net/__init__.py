"""The way out: HTTP to addresses that may be reached, and the signatures on what is sent."""
