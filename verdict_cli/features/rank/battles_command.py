"""Write the battles of systems (`verdict rank --systems`)."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from verdict_cli.cli.console import print_message
from verdict_cli.errors import UsageError

if TYPE_CHECKING:
    from verdict_cli.plan.node import Plan


def write_battles(
    plan: Plan, files: Sequence[str], battles: int | None, after: Path | None, out: Path | None, seed: int
) -> None:
    """Write one row a battle, ready for `verdict run`. Raises DataError and UsageError."""
    from verdict_cli.cli.open_dataset import open_dataset
    from verdict_cli.features.rank.system_battles import (
        battle_columns,
        battle_row,
        earlier_battles,
        pairings,
        read_outputs,
    )
    from verdict_cli.report.study_files import write_rows
    from verdict_cli.run.load_run import load_run
    from verdict_cli.storage.datasets.read import stream_rows

    columns = battle_columns(plan)
    if len(files) != 1:
        raise UsageError("--systems takes one file of outputs", hint="or one folder, or a quoted glob")
    with tempfile.TemporaryDirectory() as spool:
        from verdict_cli.storage.datasets.dataset import Dataset

        opened = open_dataset(plan, files[0], Path(spool))
        dataset = Dataset(opened.files)
        outputs = read_outputs((row.source for row in stream_rows(dataset)), columns, files[0])
    judged = None
    if after is not None:
        directory, _, earlier = load_run(after)
        known = battle_columns(earlier)
        judged = earlier_battles(known.evaluation, earlier.arenas[known.evaluation], directory.results, outputs.systems)
    chosen = [battle_row(outputs, *each) for each in pairings(outputs, battles, seed, judged)]
    counts = f"{len(chosen):,} battles of {len(outputs.systems)} systems at {len(outputs.rows):,} tasks"
    if battles is not None and len(chosen) < battles:
        counts += f" ({battles:,} were wanted: no other pairs are left)"
    if out is None:
        sys.stdout.buffer.write(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in chosen))
        print_message(counts)
        return
    write_rows(out, chosen)
    print_message(f"{counts}: {out}\nJudge them: verdict run {plan.name} {out}")
