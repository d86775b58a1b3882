"""Converters from benchmarks' own files to rows for a pipeline, and recorded replies where a file has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from verdict_cli.errors import UsageError
from verdict_cli.features.benchmarks.importers import claims, pairs, responses
from verdict_cli.features.benchmarks.importers.imported import ImportedBenchmark
from verdict_cli.features.benchmarks.importers.responses import xstest
from verdict_cli.features.benchmarks.recorded import selected_sets
from verdict_cli.language.document.error_messages import nearest_spelling

IMPORTERS: dict[str, Callable[[Path], ImportedBenchmark]] = {
    "xstest": xstest,
    "judgebench": pairs.judgebench,
    "llmbar": pairs.llmbar,
    "pandalm": pairs.pandalm,
    "mtbench": pairs.mtbench,
    "rewardbench": pairs.rewardbench,
    "alpacaeval": pairs.alpacaeval,
    "expertqa": claims.expertqa,
    "aggrefact": claims.aggrefact,
    "wice": claims.wice,
    "realmistake": responses.realmistake,
    "halueval": responses.halueval,
    "summeval": responses.import_summeval,
}
"""The registry: a new benchmark is a function and a line here."""


def import_benchmark(name: str, path: Path) -> ImportedBenchmark:
    """The rows of a benchmark's own file, or the rows and recorded replies of a case such as `wice/gpt-4-0613`, for which
    PATH is the folder of recordings. Raises UsageError for any other name.
    """
    importer = IMPORTERS.get(name)
    if importer is not None and not (path / name).is_dir():
        return importer(path)
    cases = selected_sets(name, path)
    if len(cases) > 1:
        raise UsageError(
            f"{name} has {len(cases)} recorded cases", hint=nearest_spelling(name, [case.name for case in cases])
        )
    rows, replies = cases[0].inputs()
    return ImportedBenchmark(lambda: iter(rows), lambda: iter(replies))
