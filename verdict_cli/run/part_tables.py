"""The tables of parts: their digests in the part's mark, and the same columns in all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from verdict_cli.run.digests import file_digest
from verdict_cli.run.job import RunJob
from verdict_cli.run.part_layout import PART_TABLES, PartLayout
from verdict_cli.run.part_mark import Columns, PartMark
from verdict_cli.run.result_columns import declared_columns
from verdict_cli.storage.journal.journal import sync_directory
from verdict_cli.storage.tables.column_types import ColumnKind, wider
from verdict_cli.storage.tables.reader import concatenate_tables


def seal_part(layout: PartLayout, number: int, mark: PartMark) -> PartMark:
    """Write the mark with the digests of the part's files, once their names are on the disk."""
    files = layout.file_names(number)
    for folder in {path.parent for path in files.values()}:
        sync_directory(folder)
    sealed = replace(mark, digests={name: file_digest(path) for name, path in files.items()})
    sealed.write(layout.mark(number))
    return sealed


def unify_tables(job: RunJob, layout: PartLayout, parts: Mapping[int, Mapping[str, Columns]]) -> None:
    """Rewrite the tables whose columns are narrower than those of all parts: other programs read a folder of tables by the
    columns of one of them.

    A part's mark is removed meanwhile: if this is interrupted, the part is made again from its journal.
    """
    declared = {PART_TABLES[0]: declared_columns(job.plan), PART_TABLES[1]: None}
    widest = {name: _widest(parts[number][name] for number in sorted(parts)) for name in PART_TABLES}
    for number in sorted(parts):
        narrow = [name for name in PART_TABLES if _kinds(parts[number][name]) != _kinds(widest[name])]
        if not narrow:
            continue
        mark = PartMark.read(layout.mark(number))
        layout.mark(number).unlink(missing_ok=True)
        for name in narrow:
            path = layout.tables(number)[name]
            columns: dict[str, ColumnKind] = dict(_kinds(widest[name]))
            concatenate_tables([path], path, columns, declared[name])
        if mark is not None:
            seal_part(layout, number, replace(mark, columns={name: dict(widest[name]) for name in PART_TABLES}))


def _kinds(columns: Columns) -> list[tuple[str, ColumnKind]]:
    return [(name, kind) for name, (kind, _) in columns.items()]


def _widest(tables: Iterable[Columns]) -> Columns:
    """The columns of all tables, in the order of their first appearance."""
    found: dict[str, tuple[ColumnKind, bool]] = {}
    for columns in tables:
        for name, (kind, exact) in columns.items():
            known, known_exact = found.get(name, ("null", True))
            both = exact and known_exact
            found[name] = wider(known, kind, exact=both), both
    return found
