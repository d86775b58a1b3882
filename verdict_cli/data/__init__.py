"""Datasets are read here, and tables are written: JSONL, JSON, CSV, TSV and Parquet.

`locate` finds the files, `scan` reads them once before anything is spent, `rows` streams the same rows again.
`ParquetTable` writes, `read_table` reads back, `joined` puts tables behind one another, `export` turns a finished table into CSV or JSONL.
"""

from verdict_cli.data.content import content_key
from verdict_cli.data.dataset import Dataset, Facts, Selection
from verdict_cli.data.export import export
from verdict_cli.data.fetched import fetched
from verdict_cli.data.files import ENDINGS, locate
from verdict_cli.data.join import joined
from verdict_cli.data.read import rows, scan
from verdict_cli.data.spool import spool
from verdict_cli.data.table_kinds import Kind
from verdict_cli.data.table_reader import column_kinds, read_arrow, read_rows, read_table, table_columns
from verdict_cli.data.table_writer import ParquetTable

__all__ = [
    "ENDINGS",
    "Dataset",
    "Facts",
    "Kind",
    "ParquetTable",
    "Selection",
    "column_kinds",
    "content_key",
    "export",
    "fetched",
    "joined",
    "locate",
    "read_arrow",
    "read_rows",
    "read_table",
    "rows",
    "scan",
    "spool",
    "table_columns",
]
