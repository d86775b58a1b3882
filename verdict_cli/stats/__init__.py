"""Metrics of a run, their intervals, the gates that compare them with a limit, and the comparison of two runs."""
