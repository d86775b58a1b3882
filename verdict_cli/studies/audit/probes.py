"""What an audit asks of a judge, and why it leaves the rest out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from verdict_cli.errors import UsageError
from verdict_cli.language.fields.types import ScaleType
from verdict_cli.messages import Row
from verdict_cli.plan.node import LLMNode, Node, Plan
from verdict_cli.studies.audit.perturbations import attacks, pad_text, strip_markdown
from verdict_cli.studies.audit.unit_locations import (
    UnitLocation,
    asks_both_orders,
    locate_units,
    renamed_labels,
    reversed_scales,
    setting,
)

USUAL = ("choice", "score")
JUDGED = ("answer", "response", "output", "completion", "summary", "candidate", "text", "claim", "prediction")


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """The options of an audit. `repeats` counts further askings; `goal` is the attacker's verdict, None: the best."""

    verdict: str | None = None
    columns: tuple[str, ...] = ()
    repeats: int = 2
    rename: Mapping[str, str] = field(default_factory=dict)
    paraphrases: Sequence[tuple[str, Path]] = ()
    attack: bool = False
    goal: Any = None
    family: str | None = None
    judge_family: str | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """One run with one thing changed: settings of the pipeline, the text of a column, or nothing but the sample
    (`again`: how many askings were before). `goal` is the verdict that `column`'s author would like; `attack`: the text
    tries to get it by force."""

    name: str
    cause: str
    settings: tuple[str, ...] = ()
    column: str = ""
    change: Callable[[str], str] | None = None
    again: int = 0
    goal: Any = None
    attack: bool = False

    def changed(self, row: Row) -> Row:
        """The row as it is judged."""
        text = row.source.get(self.column)
        if self.change is None or not isinstance(text, str):
            return row
        return replace(row, source={**row.source, self.column: self.change(text)})

    def renamed(self, plan: Plan) -> Callable[[str], str] | None:
        """Under which names the units are asked."""
        if not self.again:
            return None
        copies: dict[str, list[str]] = {}
        for node in plan.nodes:
            copies.setdefault(node.name, []).append(node.id)
        names = {
            node: f"{name}[{place + self.again * len(ids)}]"
            for name, ids in copies.items()
            for place, node in enumerate(ids)
        }
        return lambda node: names.get(node, node)


@dataclass(frozen=True, slots=True)
class ProbeVerdict:
    """What an audit looks at in each row: an expression, the field it is of, its best value (None: none is better)."""

    text: str
    field: str
    best: Any = None


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """The runs of an audit beside the baseline, and what is left out, with the reason."""

    verdict: ProbeVerdict
    probes: tuple[Probe, ...]
    left_out: Mapping[str, str]


def plan_audit(plan: Plan, data: Mapping[str, Any], folder: Path, wanted: AuditOptions) -> AuditPlan:
    """What fits the pipeline (`data` is its file's content, `folder` where that stands). UsageError where the options do
    not fit it."""
    units = locate_units(data)
    verdict = verdict_of(plan, wanted.verdict)
    columns, why = judged_columns(plan, wanted.columns)
    probes: list[Probe] = [
        Probe("repeated" if wanted.repeats == 1 else f"repeated {again}", "repeated", again=again)
        for again in range(1, wanted.repeats + 1)
    ]
    left: dict[str, str] = {} if probes else {"repeated": "--repeats is 0"}
    orders = asks_both_orders(units)
    if orders:
        probes.append(Probe("position", "position", settings=orders))
    elif not any(unit.type == "PairwiseJudgeUnit" for unit in units):
        left["position"] = "no PairwiseJudgeUnit: there is no order of options to swap"
    for cause, change in (("length", pad_text), ("style", strip_markdown)):
        for column in columns:
            name = cause if len(columns) == 1 else f"{cause} of {column}"
            probes.append(Probe(name, cause, column=column, change=change, goal=_likes(plan, verdict, column)))
        if not columns:
            left[cause] = why
    scales = reversed_scales(units, data)
    if scales:
        probes.append(Probe("scale reversed", "scale", settings=scales))
    else:
        left["scale"] = "no JudgeUnit with a scale from one number to another whose scores are passed on as they are"
    names = renamed_labels(units, data, wanted.rename, folder) if wanted.rename else ()
    if names:
        probes.append(Probe("labels renamed", "labels", settings=names))
    elif wanted.rename:
        raise UsageError("--rename: no unit chooses among these labels", hint=_known_labels(units))
    else:
        left["labels"] = "no other names are given: --rename OLD=NEW"
    if not wanted.paraphrases:
        left["paraphrase"] = "no other instruction is given: --paraphrase UNIT=FILE"
    for name, file in wanted.paraphrases:
        probes.append(_paraphrase(units, name, file))
    if wanted.family is None or wanted.judge_family is None:
        left["self-preference"] = "the families are not given: --family EXPR --judge-family NAME"
    if wanted.attack:
        probes += _attacks(plan, verdict, columns[-1:], wanted, left, why)
    return AuditPlan(verdict, tuple(probes), left)


def verdict_of(plan: Plan, text: str | None) -> ProbeVerdict:
    """The expression given, else the choice or the score of the last step. UsageError where it has neither."""
    if text is not None:
        name = text.removeprefix("output.")
        return ProbeVerdict(text, name if name.isidentifier() else "verdict", _best(plan, name))
    last = plan.output_node
    fields = [] if last is None else [name for name in last.output.fields if name != "explanation"]
    chosen = next((name for name in USUAL if name in fields), fields[0] if len(fields) == 1 else None)
    if chosen is None:
        raise UsageError(
            f"the last step gives {', '.join(fields) or 'several units'}, of which none is the verdict",
            hint="say which with --verdict EXPR, such as output.label",
        )
    return ProbeVerdict(f"output.{chosen}", chosen, _best(plan, chosen))


def _best(plan: Plan, name: str) -> Any:
    """The best value of the last unit that gives this field on a scale with a direction."""
    for node in reversed(plan.nodes):
        kind = node.output.fields.get(name)
        if isinstance(kind, ScaleType):
            return kind.scale.best()
    return None


def choosing(plan: Plan) -> list[Node]:
    """The units that choose among options."""
    return [node for node in plan.nodes if isinstance(node.work, LLMNode) and node.work.letters]


def _options(node: Node) -> list[str | None]:
    """The column behind each option, None where it is no column as it stands."""
    assert isinstance(node.work, LLMNode)
    found: list[str | None] = []
    for _, option in node.work.options:
        path = option.paths[0] if len(option.paths) == 1 else ()
        whole = len(path) == 2 and option.text.strip() == f"source.{path[1]}"
        found.append(str(path[1]) if whole else None)
    return found


def judged_columns(plan: Plan, given: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The columns whose text is judged, and why there are none. UsageError for a column that the pipeline does not use."""
    shown = _shown(plan)
    for column in given:
        if column not in shown:
            raise UsageError(
                f"--text {column}: no unit is shown source.{column}",
                hint=f"they are shown {', '.join(shown) or 'no column'}",
            )
    if given:
        return tuple(given), ""
    for node in choosing(plan):
        options = [column for column in _options(node) if column is not None]
        if options:
            return tuple(dict.fromkeys(options)), ""
    if len(shown) == 1:
        return tuple(shown), ""
    likely = [column for word in JUDGED for column in shown if column.lower() == word]
    if likely:
        return tuple(likely[:1]), ""
    return (), f"it is not clear which text is judged: --text COLUMN, one of {', '.join(shown) or 'none'}"


def _shown(plan: Plan) -> list[str]:
    paths = [
        path
        for node in plan.nodes
        if isinstance(node.work, LLMNode)
        for path in (
            *node.work.prompt.paths,
            *(path for _, option in node.work.options for path in option.paths),
            *(cast.path for cast in node.casts if cast.path),
        )
    ]
    return list(dict.fromkeys(str(path[1]) for path in paths if len(path) > 1 and path[0] == "source"))


def _likes(plan: Plan, verdict: ProbeVerdict, column: str) -> Any:
    """The verdict that this column's author would like: its letter, or the best of the scale."""
    for node in choosing(plan):
        options = _options(node)
        if column in options and isinstance(node.work, LLMNode) and verdict.field == "choice":
            return node.work.letters[options.index(column)]
    return verdict.best


def _paraphrase(units: list[UnitLocation], name: str, file: Path) -> Probe:
    found = [unit for unit in units if unit.name == name]
    if not found:
        raise UsageError(
            f"--paraphrase: there is no unit {name!r}",
            hint=f"units of the file are {', '.join(dict.fromkeys(unit.name for unit in units))}",
        )
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageError(f"--paraphrase {name}: {file} cannot be read: {fault}") from None
    settings = tuple(setting(unit, "prompt", text) for unit in found)
    return Probe(f"paraphrase {name}: {file.name}", "paraphrase", settings=settings)


def _known_labels(units: list[UnitLocation]) -> str:
    kinds = [unit.name for unit in units if unit.type in ("JudgeUnit", "CategoricalJudgeUnit")]
    return (
        f"it renames `categories` and the `values` of a scale of {', '.join(kinds) or 'judges, of which there is none'}"
    )


def _attacks(
    plan: Plan, verdict: ProbeVerdict, columns: Sequence[str], wanted: AuditOptions, left: dict[str, str], why: str
) -> list[Probe]:
    if not columns:
        left["attack"] = why
        return []
    goal = wanted.goal if wanted.goal is not None else _likes(plan, verdict, columns[0])
    if goal is None:
        left["attack"] = "no verdict is the best one: say what the attacker wants with --goal"
        return []
    made = attacks(goal, verdict.field)
    return [
        Probe(f"attack: {name}", "attack", column=columns[0], change=change, goal=goal, attack=True)
        for name, change in made.items()
    ]
