"""The labelled rows of `verdict align` in three files."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from verdict_cli.cli.console import print_error
from verdict_cli.errors import RowError, UsageError

if TYPE_CHECKING:
    from verdict_cli.features.align.selection import PartName
    from verdict_cli.plan.node import Plan


def labelled_parts(
    plan: Plan, labelled: str, target: str, cluster: str | None, folder: Path, seed: int
) -> tuple[dict[PartName, Path], dict[PartName, int], str]:
    """The labelled rows in three files, as they are in the dataset; their numbers; the digest of all. UsageError for too few."""
    import numpy as np

    from verdict_cli.cli.open_dataset import open_dataset
    from verdict_cli.features.align.selection import LEAST_LABELS, split_rows
    from verdict_cli.language.expressions.expression import compile_expression
    from verdict_cli.stats.columns.column import key_text
    from verdict_cli.storage.datasets.dataset import Dataset
    from verdict_cli.storage.datasets.read import stream_rows

    right = compile_expression(target, ("source",))
    group = compile_expression(cluster, ("source",)) if cluster is not None else None
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to:
        dataset = open_dataset(plan, labelled, Path(spool_to))
        keys: dict[int, str] = {}
        for row in stream_rows(dataset):
            try:
                if right({"source": row.source}) is not None:
                    keys[row.index] = key_text(group({"source": row.source})) if group is not None else str(row.index)
            except RowError as error:
                raise UsageError(
                    f"row {row.index}: {error.message}", hint="--target and --cluster are expressions over `source`"
                ) from None
        raw = {row.index: dict(row.source) for row in stream_rows(Dataset(dataset.files)) if row.index in keys}
    if len(keys) < LEAST_LABELS:
        raise UsageError(
            f"{len(keys)} rows have a label; an alignment needs {LEAST_LABELS} or more",
            hint="label more rows: verdict queue RUN",
        )
    places = list(keys)
    clusters = np.unique([keys[place] for place in places], return_inverse=True)[1]
    digest = hashlib.sha256()
    folder.mkdir(parents=True, exist_ok=True)
    parts: dict[PartName, Path] = {}
    sizes: dict[PartName, int] = {}
    for name, rows in split_rows(clusters, seed).items():
        text = "".join(json.dumps(raw[places[row]], ensure_ascii=False, default=str) + "\n" for row in rows.tolist())
        digest.update(text.encode())
        parts[name], sizes[name] = folder / f"{name}.jsonl", len(rows)
        parts[name].write_text(text, encoding="utf-8")
    if min(sizes.values()) < 2:
        print_error("warning: one cluster holds most rows, so that the parts are very unequal")
        raise UsageError("the clusters cannot be split into three parts", hint="give another --cluster, or more rows")
    return parts, sizes, digest.hexdigest()
