"""The recorded sets: each file turns one set into cases, a dataset and a recording of its judge's replies."""

from collections.abc import Callable, Iterable
from pathlib import Path

from recorded import (
    alpacaeval,
    debates,
    factcc,
    judgebench,
    llmbar,
    pandalm,
    realmistake,
    triviaqa,
    unieval,
    wice,
    xstest,
)
from recorded.case import Case

SETS: dict[str, Callable[[Path], Iterable[Case]]] = {
    "xstest": xstest.cases,
    "judgebench": judgebench.cases,
    "llmbar": llmbar.cases,
    "realmistake": realmistake.cases,
    "alpacaeval": alpacaeval.cases,
    "wice": wice.cases,
    "pandalm": pandalm.cases,
    "triviaqa": triviaqa.cases,
    "unieval": unieval.cases,
    "summeval": unieval.summeval,
    "debates": debates.cases,
    "factcc": factcc.cases,
}
"""The registry: a new set is a file in this folder and a line here."""

NOT_POSSIBLE = {
    "expertqa": "labels alone, no judge was recorded: there is no figure to reproduce",
    "halueval_general": "labels of every second line, no judge was recorded: there is no figure to reproduce",
}
"""Sets without a figure, and why."""
