"""What runs: clocks now, the loops later."""
