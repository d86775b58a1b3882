"""The comparison of runs as its page shows it: the document of `verdict compare`, and pages of rows with the outputs of both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from starlette.exceptions import HTTPException

from verdict_cli.features.viewer.labelling import check_shown
from verdict_cli.features.viewer.run_view import PER_PAGE, RunView
from verdict_cli.features.viewer.runs import RunEntry
from verdict_cli.report.comparison import compare_finished, has_own_unit
from verdict_cli.report.conclusions import short_names
from verdict_cli.run.load_run import load_run
from verdict_cli.stats.columns.row_identities import row_identities
from verdict_cli.stats.row_scores import Cell, PairedOutcomes

if TYPE_CHECKING:
    from starlette.requests import Request

    from verdict_cli.features.viewer.run_registry import RunRegistry
    from verdict_cli.stats.compare import RunComparison

MOST_COMPARED = 12
EXPLANATIONS = (".explanation", ".thinking")
"""Fields of units that say why a verdict is as it is."""
MOST_OUTPUTS = 4
"""Columns of a run's outputs, and of the dataset, that a row of the page shows."""


@dataclass(frozen=True, slots=True)
class RunsCompared:
    """The document of a comparison; of two runs also the outcomes of each row, and its position in each run by key."""

    document: Mapping[str, Any]
    comparison: RunComparison | None = None
    positions: tuple[Mapping[str, int], ...] = ()


def compare_entries(entries: Sequence[RunEntry]) -> RunsCompared:
    """Compare two runs or more, with the same numbers as `verdict compare`. UsageError if they share no evaluation."""
    runs = [load_run(entry.directory.path) for entry in entries]
    names = [entry.name for entry in entries]
    document, comparison = compare_finished(runs, names=names)
    if len(runs) > 2:
        return RunsCompared(document.as_json())
    keys = row_identities([run.directory.results for run in runs]).keys
    positions = tuple({key: place for place, key in enumerate(each)} for each in keys)
    return RunsCompared(document.as_json(), comparison, positions)


def comparison_page(request: Request, registry: RunRegistry) -> dict[str, Any]:
    """The content of the page: of two runs (`a` and `b`, or `run` twice) with a page of rows, of more runs without."""
    params = request.query_params
    names = params.getlist("run") or [params.get("a", ""), params.get("b", "")]
    if not 2 <= len(dict.fromkeys(names)) == len(names) <= MOST_COMPARED:
        raise HTTPException(422, f"give two to {MOST_COMPARED} different runs to compare")
    entries = [registry.run(name) for name in names]
    views = [registry.view(entry) for entry in entries if not entry.live]
    for view in views:
        check_shown(view)
    done, compared = registry.compare(entries)
    if not done:
        return {"ready": False}
    document = dict(compared.document)
    evaluations = document.pop("evaluations")
    name = params.get("evaluation", "") or next(iter(evaluations))
    if name not in evaluations:
        raise HTTPException(404, "the runs do not share this evaluation")
    evaluation = {key: value for key, value in evaluations[name].items() if key != "flipped"}
    content = {
        "ready": True,
        "runs": names,
        "short": short_names(names),
        **document,
        "names": list(evaluations),
        "evaluation": name,
    }
    content |= {"compared": evaluation, "own_units": [*filter(has_own_unit, evaluation["figures"])]}
    if compared.comparison is None:
        return content
    outcomes = compared.comparison.evaluations[name].outcomes
    if outcomes is None:
        return {**content, "counts": None, "total": 0, "per": PER_PAGE, "rows": []}
    which = params.get("which", "")
    cell = next((each for each in get_args(Cell) if each == which), None)
    indices = outcomes.indices(cell)
    page = whole_number(params.get("page", "0"))
    start = min(page, max(0, len(indices) - 1) // PER_PAGE) * PER_PAGE
    shown = indices[start : start + PER_PAGE]
    rows = _rows(outcomes, shown.tolist(), compared.positions, views)
    return {**content, "counts": outcomes.counts, "total": len(indices), "per": PER_PAGE, "rows": rows}


def whole_number(text: str) -> int:
    """A number of a URL. HTTPException 422 for another text."""
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise HTTPException(422, "not a whole number")
    return int(text)


def _rows(
    outcomes: PairedOutcomes, indices: Sequence[int], positions: Sequence[Mapping[str, int]], views: Sequence[RunView]
) -> list[dict[str, Any]]:
    """Each pair with its predictions, its target, its position in each run, and the texts that a reader compares."""
    import numpy as np

    flips = outcomes.flips(np.array(indices, dtype=np.int64))
    keys = [outcomes.pairs.key(index) for index in indices]
    at = [[_position(key, places) for key in keys] for places in positions]
    outputs = [_texts(view, places, _compared_outputs(view.kinds)) for view, places in zip(views, at, strict=True)]
    sources = _texts(views[1], at[1], views[1].prompt_columns()[:MOST_OUTPUTS])
    return [
        {
            "id": flip.id,
            "a": flip.first,
            "b": flip.second,
            "target": flip.target,
            "gain": flip.gain,
            "at": [places[place] for places in at],
            "outputs": [texts[place] for texts in outputs],
            "source": sources[place],
        }
        for place, flip in enumerate(flips)
    ]


def _compared_outputs(columns: Iterable[str]) -> list[str]:
    """The output's columns; where it has no text that explains it, also the explanations of the units."""
    outputs = [name for name in columns if name.startswith("output.")]
    if not any(name.endswith(EXPLANATIONS) for name in outputs):
        outputs += [name for name in columns if name.endswith(EXPLANATIONS) and not name.startswith("source.")]
    return outputs[:MOST_OUTPUTS]


def _position(key: str, positions: Mapping[str, int]) -> int | None:
    """The row of a pair; of an entry under `items`, that of its list. None for a pair of groups."""
    return positions.get(key, positions.get(key.rpartition("[")[0]))


def _texts(view: RunView, places: Sequence[int | None], columns: Sequence[str]) -> list[dict[str, Any]]:
    """The cells of the rows at these positions, in this order."""
    known = list(dict.fromkeys(place for place in places if place is not None))
    cells = {row["position"]: row["cells"] for row in view.cells(known, columns)}
    return [{} if place is None else cells[place] for place in places]
