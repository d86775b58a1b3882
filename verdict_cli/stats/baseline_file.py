"""A baseline as a text file that lives in git: what a run's evaluations compare, a row a line, so that a diff shows which
rows changed.

The first line is a JSON object with the run's fingerprints and the names of the columns. Each further line is a JSON list
with the values of one row, by the row's id. Gates read it as they read the directory of a run.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from verdict_cli.errors import DataError, OutputError, Problem, UsageError
from verdict_cli.language.evaluations import Evaluations
from verdict_cli.language.gate_rules import Gate
from verdict_cli.messages import NamedValues
from verdict_cli.run_facts import RunFacts
from verdict_cli.stats.columns.collect import columns_read
from verdict_cli.storage.tables.column_types import DeclaredType
from verdict_cli.storage.tables.reader import declared_types, read_table
from verdict_cli.storage.tables.writer import ParquetTable

VERSION = 1
_FORM = "verdict_baseline"
_LEADING = ("id", "status")
_IDENTITY = (
    "spec_fingerprint",
    "data_fingerprint",
    "started",
    "wall_s",
    "seed",
    "calls",
    "cost_usd",
)
"""Facts of `run.json` that two runs do not share."""
_JSON = orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS


def write_baseline(
    path: Path,
    results: Path,
    facts: RunFacts,
    evaluations: Evaluations,
    gates: Sequence[Gate],
) -> int:
    """Write the columns that the evaluations and the gates read of the run's rows; the number of rows.

    Raises UsageError for rows without ids, by which another run's rows could be found, and for evaluations that read labels
    of people, which are no part of the tables. OutputError where the file cannot be written.
    """
    selections = [text for gate in gates for text in gate.where or {}]
    columns = columns_read(evaluations, results, selections)
    if any(evaluation.gold is not None for evaluation in evaluations.values()):
        raise UsageError(
            "a baseline file cannot hold labels of people, which `gold` compares with",
            hint="keep the directory of the run as the baseline",
        )
    rows: list[Sequence[Any]] = []
    are_numbers = True
    for batch in read_table(results, ["row", *_LEADING, *columns]):
        are_numbers = are_numbers and batch["id"] == batch["row"]
        rows += zip(*(batch[name] for name in (*_LEADING, *columns)), strict=True)
    if are_numbers and not facts.id_column:
        raise UsageError(
            "the rows have no id by which another run's rows could be found",
            hint="name the column that has one: `dataset: {id: COLUMN}`",
        )
    declared = declared_types(results)
    header = {
        _FORM: VERSION,
        "pipeline": facts.spec_fingerprint,
        "data": facts.data_fingerprint,
        "run": run_digest(orjson.loads((results.parent / "run.json").read_bytes())),
        "columns": {name: declared[name].schema if name in declared else None for name in columns},
    }
    lines = [orjson.dumps(header)]
    lines += sorted(orjson.dumps(list(row), option=_JSON) for row in rows)
    try:
        path.write_bytes(b"\n".join(lines) + b"\n")
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}") from None
    return len(rows)


def run_digest(facts: NamedValues) -> str:
    """16 hex digits of `run.json` that tell one run from another, also from a second run of the same pipeline."""
    parts = [facts.get(key) for key in _IDENTITY]
    return hashlib.blake2b(orjson.dumps(parts), digest_size=8).hexdigest()


def read_header(path: Path) -> NamedValues:
    """The first line. DataError for a file that is no baseline."""
    with path.open("rb") as file:
        line = file.readline(1 << 24)
    try:
        header = orjson.loads(line)
    except orjson.JSONDecodeError:
        header = None
    if not isinstance(header, dict) or header.get(_FORM) != VERSION:
        hint = "write one with: verdict gate RUN --bless FILE"
        raise DataError(Problem("bad-baseline", "it is no baseline", hint, str(path), 1))
    if not isinstance(header.get("columns"), dict):
        raise _damaged(path, 1)
    return header


def check_baseline_file(path: Path) -> None:
    """DataError, with its line, for a file that is damaged."""
    for _ in _rows(path):
        pass


@contextmanager
def baseline_results(path: Path) -> Iterator[Path]:
    """The table of results of a baseline, a file or the directory of a run. DataError for a file that is damaged."""
    if path.is_dir():
        yield path / "results.parquet"
        return
    columns = read_header(path)["columns"]
    declared = {name: DeclaredType(schema) for name, schema in columns.items() if schema}
    names = (*_LEADING, *columns)
    with tempfile.TemporaryDirectory(prefix="verdict-baseline-") as folder:
        results = Path(folder) / "results.parquet"
        with ParquetTable(results, {"row": "int", "status": "str"}, declared=declared) as table:
            for row, values in enumerate(_rows(path)):
                table.write({"row": row, **dict(zip(names, values, strict=True))})
        yield results


def _rows(path: Path) -> Iterator[Sequence[Any]]:
    width = len(_LEADING) + len(read_header(path)["columns"])
    with path.open("rb") as file:
        next(file)
        for number, line in enumerate(file, 2):
            try:
                values = orjson.loads(line)
            except orjson.JSONDecodeError:
                raise _damaged(path, number) from None
            if not isinstance(values, list) or len(values) != width:
                raise _damaged(path, number)
            yield values


def _damaged(path: Path, line: int) -> DataError:
    hint = "write the file again: verdict gate RUN --bless FILE"
    message = "the line is not as `--bless` writes it, such as after a merge"
    return DataError(Problem("bad-baseline", message, hint, str(path), line))
