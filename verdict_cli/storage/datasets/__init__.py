"""Datasets in JSONL, JSON, CSV, TSV and Parquet.

`files.find_files` finds the files, `read.scan` checks them once before any call, `read.stream_rows` streams the rows.
"""
