"""Run a plan over a dataset: sessions, the loop of rows, one row, its nodes and attempts."""
