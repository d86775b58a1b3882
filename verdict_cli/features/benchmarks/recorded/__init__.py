"""The recorded sets: each file turns one set into cases, a dataset and a recording of its judge's replies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from verdict_cli.errors import UsageError
from verdict_cli.features.benchmarks.recorded import claim_judges, pairs_judges, response_judges
from verdict_cli.features.benchmarks.recorded.case import Case
from verdict_cli.language.document.error_messages import nearest_spelling

SETS: dict[str, Callable[[Path], Iterable[Case]]] = {
    "xstest": claim_judges.xstest_cases,
    "judgebench": pairs_judges.judgebench_cases,
    "llmbar": pairs_judges.llmbar_cases,
    "realmistake": response_judges.realmistake_cases,
    "alpacaeval": pairs_judges.alpacaeval_cases,
    "wice": claim_judges.wice_cases,
    "pandalm": pairs_judges.pandalm_cases,
    "triviaqa": claim_judges.triviaqa_cases,
    "unieval": response_judges.unieval_cases,
    "summeval": response_judges.summeval_cases,
    "debates": response_judges.debates_cases,
    "factcc": claim_judges.factcc_cases,
    "paperbench": claim_judges.paperbench_cases,
}
"""The registry: a new set is a file in this folder and a line here."""

FOLDERS = {
    "alpacaeval": "alpacaeval_logprobs",
    "debates": "debates_quality",
    "factcc": "factcc_explanations",
    "triviaqa": "triviaqa_judges",
}
"""The folders of sets whose recordings are not in a folder of the set's name."""

NOT_POSSIBLE = {
    "alpacaeval, length-controlled win rates": "they come from a regression over all models and instructions, which the "
    "recordings do not hold",
    "llmbar, kappa": "the authors' code takes kappa of labels that it codes differently on the two sides",
    "expertqa": "labels alone, no judge was recorded: there is no value to reproduce",
    "halueval_general": "labels of every second line, no judge was recorded: there is no value to reproduce",
}
"""Published values that are not reproduced, and why."""


def selected_sets(name: str, recordings: Path) -> list[Case]:
    """The cases of that name or below it (`llmbar/GPT-4`); for `all`, those of every set in the folder.

    Raises UsageError if there is none.
    """
    family = name.partition("/")[0]
    sets = _available(recordings) if name == "all" else [family]
    if not set(sets) <= SETS.keys():
        raise UsageError(f"no judge of {family!r} was recorded", hint=nearest_spelling(family, [*SETS, "all"]))
    if not sets or not set(sets) <= set(_available(recordings)):
        raise UsageError(
            f"{recordings} holds no recordings of {name}",
            hint=f"give the folder that has {', '.join(FOLDERS.get(set_name, set_name) for set_name in sets or SETS)}",
        )
    cases = [case for set_name in sets for case in SETS[set_name](recordings)]
    found = cases if name == "all" else [case for case in cases if f"{case.name}/".startswith(f"{name}/")]
    if not found:
        raise UsageError(
            f"no recorded case is called {name!r}", hint=nearest_spelling(name, [case.name for case in cases])
        )
    return found


def _available(recordings: Path) -> Sequence[str]:
    return [set_name for set_name in SETS if (recordings / FOLDERS.get(set_name, set_name)).is_dir()]
