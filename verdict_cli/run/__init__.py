"""Run a plan over a dataset: sessions, the local and the Ray engine, one row, its nodes and attempts."""
