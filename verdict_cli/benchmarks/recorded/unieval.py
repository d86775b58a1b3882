"""Sets without a judge to replay: UniEval's scores (Zhong et al., 2022) and SummEval's experts (Fabbri et al., 2021)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from verdict_cli.benchmarks.recorded.case import Case, Figure, Rows, lines

PUBLISHED = {
    "naturalness": (0.443666, 0.513986, 0.373973),
    "coherence": (0.595143, 0.612942, 0.465915),
    "engagingness": (0.55651, 0.604739, 0.455941),
    "groundedness": (0.536209, 0.574954, 0.451533),
    "understandability": (0.380038, 0.467807, 0.360741),
    "overall": (0.632796, 0.662583, 0.487272),
}
EXPERTS = {"coherence": 3.4125, "consistency": 4.660417, "fluency": 4.672917, "relevance": 3.777083}


def cases(data: Path) -> Iterator[Case]:
    """Correlations of UniEval's scores with people's, for each dimension."""

    def inputs() -> tuple[Rows, Rows]:
        return lines(data / "unieval" / "topical_chat.jsonl.gz"), []

    figures = tuple(
        Figure(f"{dimension}: {metric}", f"{dimension}.{metric}", value, 6)
        for dimension, values in PUBLISHED.items()
        for metric, value in zip(("pearson", "spearman", "kendall"), values, strict=True)
    )
    yield Case("unieval/topical-chat", "unieval", inputs, figures)


def summeval(data: Path) -> Iterator[Case]:
    """Means of the experts' scores."""

    def inputs() -> tuple[Rows, Rows]:
        return lines(data / "summeval" / "summaries.jsonl.gz"), []

    figures = tuple(Figure(f"{name}: mean", f"{name}.mean", value, 6) for name, value in EXPERTS.items())
    yield Case("summeval/experts", "summeval", inputs, figures, origin="recomputed")
