"""Figures of a run, their intervals, the gates that hold them to a limit, and what differs between two runs."""
