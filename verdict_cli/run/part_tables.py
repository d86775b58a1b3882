"""The tables of parts: their digests in the part's mark, and the same columns in all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from verdict_cli.run.digests import file_digest
from verdict_cli.run.job import RunJob
from verdict_cli.run.part_layout import PART_TABLES, PartLayout
from verdict_cli.run.part_mark import Columns, PartCounts, PartMark, RowRange
from verdict_cli.run.progress import RunStats
from verdict_cli.run.result_columns import CALL_TYPES, column_types
from verdict_cli.run.run_metadata import changed_dataset
from verdict_cli.storage.datasets.fingerprint import file_stamps
from verdict_cli.storage.journal.journal import sync_directory
from verdict_cli.storage.tables.column_types import ColumnKind, wider
from verdict_cli.storage.tables.reader import concatenate_tables

PartColumns = Mapping[str, Columns]
"""The columns of a part's tables, by the tables' names."""


def finish_part(
    job: RunJob, layout: PartLayout, number: int, rows: RowRange, stats: RunStats, columns: PartColumns
) -> PartMark:
    """Write the mark of a part, whose files are closed. DataError where the dataset was rewritten meanwhile, OutputError
    when the disk or the store refuses."""
    if file_stamps(job.dataset) != job.data.stamps and (error := changed_dataset(job)):
        raise error
    span = layout.span(number)
    stats.rows = len(span)
    mark = PartMark(
        span.start,
        PartCounts.of(stats),
        job.start.spec_fingerprint,
        job.start.data_fingerprint,
        rows.digest,
        rows.encoded_keys(),
        {name: dict(columns[name]) for name in PART_TABLES},
        {},
    )
    return seal_part(layout, number, mark)


def seal_part(layout: PartLayout, number: int, mark: PartMark) -> PartMark:
    """Write the mark with the digests of the part's files, once their names are on the disk, or they are in the store."""
    files = layout.file_names(number)
    for folder in {path.parent for path in files.values()}:
        sync_directory(folder)
    # A journal that is in the store only is as it was when the mark was first written.
    digests = {name: file_digest(path) for name, path in files.items() if name not in mark.digests or path.exists()}
    sealed = replace(mark, digests={**mark.digests, **digests})
    layout.deliver(number)
    layout.write_mark(number, sealed)
    return sealed


def publish_parts(job: RunJob, layout: PartLayout, parts: Mapping[int, PartColumns], unfinished: Iterable[int]) -> None:
    """Give the parts' tables the same columns, and move them to where readers look for them.

    ``unfinished`` are the parts whose tables have only the rows that are done.
    """
    for number in set(layout.existing()) - parts.keys():
        layout.reopen(number)  # of an earlier process, which did other rows before it was stopped
    _unify_tables(job, layout, parts)
    for number in unfinished:
        layout.deliver_tables(number)
    layout.publish()


def _unify_tables(job: RunJob, layout: PartLayout, parts: Mapping[int, PartColumns]) -> None:
    """Rewrite the tables whose columns are narrower than those of all parts: other programs read a folder of tables by the
    columns of one of them.

    A part's mark is removed meanwhile: if this is interrupted, the part is made again from its journal.
    """
    declared = {PART_TABLES[0]: column_types(job.plan, job.dataset), PART_TABLES[1]: CALL_TYPES}
    widest = {name: widest_columns(parts[number][name] for number in sorted(parts)) for name in PART_TABLES}
    for number in sorted(parts):
        narrow = [name for name in PART_TABLES if _kinds(parts[number][name]) != _kinds(widest[name])]
        if not narrow:
            continue
        mark = PartMark.read(layout.mark(number))
        layout.fetch_tables(number)
        layout.remove_mark(number)
        for name in narrow:
            path = layout.tables(number)[name]
            columns: dict[str, ColumnKind] = dict(_kinds(widest[name]))
            concatenate_tables([path], path, columns, declared[name])
        if mark is not None:
            seal_part(layout, number, replace(mark, columns={name: dict(widest[name]) for name in PART_TABLES}))


def _kinds(columns: Columns) -> list[tuple[str, ColumnKind]]:
    return [(name, kind) for name, (kind, _) in columns.items()]


def widest_columns(tables: Iterable[Columns]) -> Columns:
    """The columns of all tables, in the order of their first appearance."""
    found: dict[str, tuple[ColumnKind, bool]] = {}
    for columns in tables:
        for name, (kind, exact) in columns.items():
            known, known_exact = found.get(name, ("null", True))
            both = exact and known_exact
            found[name] = wider(known, kind, exact=both), both
    return found
