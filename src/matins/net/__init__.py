"""Other machines: requests to allowed addresses, signatures of messages in both directions, who is at a socket."""
