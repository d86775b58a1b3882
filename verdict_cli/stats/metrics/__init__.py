"""The metrics by family. Each family gives its statistics as functions of weights on distinct observations."""
