"""What runs an attempt: Python jobs, agents, checks, and the processes behind them."""
