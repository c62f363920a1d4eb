"""Model providers on this machine, for real tools that have no network: one file for each wire protocol."""
