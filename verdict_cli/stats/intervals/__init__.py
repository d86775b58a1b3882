"""Confidence intervals, one method a file."""
