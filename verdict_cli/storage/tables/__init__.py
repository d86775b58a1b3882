"""Tables of results and calls as Parquet files: written while a run goes, read back with the types they were written with."""
