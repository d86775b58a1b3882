"""The judges of a panel: `judge.score` stands for that field of every unit called `judge`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from verdict_cli.spec.evaluate import Evaluation

_NAMED = re.compile(r"([A-Za-z_][\w-]*)\.([A-Za-z_]\w*)")


def spread(evaluation: Evaluation, ids: Sequence[str]) -> Evaluation:
    """The evaluation with an expression for each judge of its panel; `ids` are those of all nodes, in order."""
    if not isinstance(evaluation.panel, str):
        return evaluation
    return evaluation.model_copy(update={"panel": judges(evaluation.panel, ids)})


def judges(panel: str, ids: Sequence[str]) -> tuple[str, ...]:
    """The expressions that `judge.score` stands for; none where no two units bear the name, or it is none."""
    named = _NAMED.fullmatch(panel)
    if named is None:
        return ()
    name, field = named.groups()
    of = [node for node in ids if node == name or re.fullmatch(re.escape(name) + r"\[\d+\]", node)]
    return tuple(f"nodes[{node!r}].{field}" for node in of) if len(of) > 1 else ()
