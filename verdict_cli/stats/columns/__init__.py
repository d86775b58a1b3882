"""Columns of observations: collected from a run's results, reduced to groups, sampled."""
