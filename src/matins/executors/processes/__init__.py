"""Commands as process trees: a keeper, wardens, and a journal for each run. `supervisor.py` is the interface."""
