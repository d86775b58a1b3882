"""Fit maps, weights and thresholds to a judge on labelled rows: pure functions on arrays."""
