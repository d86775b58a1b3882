"""`run.db`: the calls, the finished rows and the batches of a run in one SQLite file."""
