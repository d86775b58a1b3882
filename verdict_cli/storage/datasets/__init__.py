"""Datasets are read here, and tables are written: JSONL, JSON, CSV, TSV and Parquet.

`locate` finds the files, `scan` reads them once before anything is spent, `rows` streams the same rows again.
`ParquetTable` writes, `read_table` reads back, `joined` puts tables behind one another, `export` turns a finished table into CSV or JSONL.
"""
