"""Plan the probes of an audit, give the reasons for those that do not apply, and make the runs: the baseline and one for each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from verdict_cli.errors import UsageError
from verdict_cli.features.audit.effects import DEGRADE, PLANTED, verdict_rank
from verdict_cli.features.audit.perturbations import attacks, degradations, pad_text, strip_markdown
from verdict_cli.language.fields.types import ScaleType
from verdict_cli.language.units.base import VERDICT_FIELDS
from verdict_cli.messages import Row
from verdict_cli.plan.node import LLMNode, Node, Plan
from verdict_cli.plan.unit_locations import (
    UnitLocation,
    both_orders_settings,
    locate_units,
    renamed_label_settings,
    reversed_scale_settings,
    setting,
)
from verdict_cli.plural import plural
from verdict_cli.report.formatting import money
from verdict_cli.report.report_context import dataset_columns
from verdict_cli.run.estimate import Line, estimate_run, total
from verdict_cli.run.job import RunOptions
from verdict_cli.storage.datasets.read import stream_rows

# fmt: off
JUDGED_COLUMNS = (
    "answer", "response", "output", "completion", "reply", "generation", "summary", "candidate", "text", "claim",
    "prediction",
)
"""Names of columns that hold a judged text, the likeliest first."""
GIVEN_COLUMNS = frozenset({
    "question", "prompt", "query", "instruction", "instructions", "input", "task", "ticket", "topic", "title", "context",
    "contexts", "document", "documents", "passage", "passages", "article", "source", "reference", "expected", "gold",
    "rubric", "criteria", "criterion", "guidelines", "policy",
})
"""Names, or last words of names, of columns that say what the judged text is about or should be like."""
# fmt: on


def choosing_units(plan: Plan) -> list[Node]:
    """The units that choose among options."""
    return [node for node in plan.nodes if isinstance(node.work, LLMNode) and node.work.letters]


def option_columns(node: Node) -> list[str | None]:
    """The column of each option, None for an option that is not an unchanged column."""
    assert isinstance(node.work, LLMNode)
    columns: list[str | None] = []
    for _, option in node.work.options:
        path = option.paths[0] if len(option.paths) == 1 else ()
        whole = len(path) == 2 and option.text.strip() == f"source.{path[1]}"
        columns.append(str(path[1]) if whole else None)
    return columns


def find_judged_columns(plan: Plan, given: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The columns whose text is judged, and why there are none. UsageError for a column that no prompt uses."""
    shown = dataset_columns(plan)
    for column in given:
        if column not in shown:
            raise UsageError(
                f"--text {column}: no prompt uses source.{column}",
                hint=f"prompts use {', '.join(shown) or 'no column'}",
            )
    if given:
        return tuple(given), ""
    for node in choosing_units(plan):
        options = [column for column in option_columns(node) if column is not None]
        if options:
            return tuple(dict.fromkeys(options)), ""
    if len(shown) == 1:
        return tuple(shown), ""
    named = [column for word in JUDGED_COLUMNS for column in shown if column.lower() == word]
    ending = [column for column in shown if _last_word(column) in JUDGED_COLUMNS]
    left = [column for column in shown if _last_word(column) not in GIVEN_COLUMNS]
    likely = next((columns for columns in (named[:1], ending, left) if len(columns) == 1), None)
    if likely is not None:
        return tuple(likely), ""
    return (), f"the judged text is ambiguous: --text COLUMN, one of {', '.join(shown) or 'none'}"


def _last_word(column: str) -> str:
    return column.lower().replace("-", "_").rpartition("_")[2]


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """The options of an audit. `repeats` counts the runs after the baseline; `goal` is the attacker's verdict (None: the best);
    `seed` decides where errors are planted."""

    verdict: str | None = None
    columns: tuple[str, ...] = ()
    repeats: int = 2
    rename: Mapping[str, str] = field(default_factory=dict)
    paraphrases: Sequence[tuple[str, Path]] = ()
    attack: bool = False
    goal: Any = None
    family: str | None = None
    judge_family: str | None = None
    degrade: bool = False
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Probe:
    """One run with one change: settings of the pipeline, the text of a column, or only another sample of the replies.

    `repeat` is the number of the repeat, 0 if the probe is none. `goal` is the verdict that the author of `column` would
    prefer; an `attack` is a text that tries to inject it. `digest` identifies a change that is not the same for every text
    in every audit.
    """

    name: str
    cause: str
    settings: tuple[str, ...] = ()
    column: str = ""
    change: Callable[[str], str] | None = None
    repeat: int = 0
    goal: Any = None
    attack: bool = False
    digest: str = ""

    def changed_row(self, row: Row) -> Row:
        """The row with the changed text."""
        text = row.source.get(self.column)
        if self.change is None or not isinstance(text, str):
            return row
        return msgspec.structs.replace(row, source={**row.source, self.column: self.change(text)})

    def node_renaming(self, plan: Plan) -> Callable[[str], str] | None:
        """A function from a node's id to the id under which a repeat caches and replays its calls."""
        if not self.repeat:
            return None
        copies: dict[str, list[str]] = {}
        for node in plan.nodes:
            copies.setdefault(node.name, []).append(node.id)
        names = {
            node: f"{name}[{index + self.repeat * len(ids)}]"
            for name, ids in copies.items()
            for index, node in enumerate(ids)
        }
        return lambda node: names.get(node, node)


@dataclass(frozen=True, slots=True)
class ProbeVerdict:
    """The verdict of each row: its expression, the field that it reads, and its best value (None: no value is better)."""

    text: str
    field: str
    best: Any = None


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """The probes of an audit, the reason for each that is left out, and the columns whose text is judged."""

    verdict: ProbeVerdict
    probes: tuple[Probe, ...]
    left_out: Mapping[str, str]
    judged: tuple[str, ...] = ()


def plan_audit(plan: Plan, data: Mapping[str, Any], folder: Path, options: AuditOptions) -> AuditPlan:
    """The probes that apply to the pipeline; `data` is the content of its file, `folder` the file's directory.

    UsageError if an option does not apply.
    """
    units = locate_units(data)
    verdict = find_verdict(plan, options.verdict)
    columns, why = find_judged_columns(plan, options.columns)
    probes: list[Probe] = [
        Probe("repeated" if options.repeats == 1 else f"repeated {number}", "repeated", repeat=number)
        for number in range(1, options.repeats + 1)
    ]
    left_out: dict[str, str] = {} if probes else {"repeated": "--repeats is 0"}
    orders = both_orders_settings(units)
    if orders:
        probes.append(Probe("position", "position", settings=orders))
    elif not any(unit.type == "PairwiseJudgeUnit" for unit in units):
        left_out["position"] = "no PairwiseJudgeUnit: there is no order of options to swap"
    for cause, change in (("length", pad_text), ("style", strip_markdown)):
        for column in columns:
            name = cause if len(columns) == 1 else f"{cause} of {column}"
            probes.append(
                Probe(name, cause, column=column, change=change, goal=_preferred_verdict(plan, verdict, column))
            )
        if not columns:
            left_out[cause] = why
    scales = reversed_scale_settings(units, data)
    if scales:
        probes.append(Probe("scale reversed", "scale", settings=scales))
    else:
        left_out["scale"] = "no JudgeUnit with a numeric range that passes its score on unchanged"
    names = renamed_label_settings(units, data, options.rename, folder) if options.rename else ()
    if names:
        probes.append(Probe("labels renamed", "labels", settings=names))
    elif options.rename:
        raise UsageError("--rename: no unit chooses among these labels", hint=_known_labels(units))
    else:
        left_out["labels"] = "no other names given: --rename OLD=NEW"
    if not options.paraphrases:
        left_out["paraphrase"] = "no other instruction given: --paraphrase UNIT=FILE"
    for name, file in options.paraphrases:
        probes.append(_paraphrase(units, name, file))
    if options.family is None or options.judge_family is None:
        left_out["self-preference"] = "families not given: --family EXPR --judge-family NAME"
    if options.attack:
        probes += _attacks(plan, verdict, columns[-1:], options, left_out, why)
    else:
        left_out["attack"] = "not requested: --attack"
    if options.degrade:
        probes += _planted_errors(plan, verdict, columns[-1:], options, left_out, why)
    else:
        left_out[DEGRADE] = "not requested: --degrade"
    return AuditPlan(verdict, tuple(probes), left_out, columns)


def find_verdict(plan: Plan, text: str | None) -> ProbeVerdict:
    """The given expression, else the choice or the score of the last step. UsageError if it has neither."""
    if text is not None:
        name = text.removeprefix("output.")
        return ProbeVerdict(text, name if name.isidentifier() else "verdict", _best(plan, name))
    last = plan.output_node
    fields = [] if last is None else [name for name in last.result.fields if name != "explanation"]
    chosen = next((name for name in VERDICT_FIELDS if name in fields), fields[0] if len(fields) == 1 else None)
    if chosen is None:
        raise UsageError(
            f"the last step gives {', '.join(fields) or 'several units'}, and none of them is the verdict",
            hint="name it with --verdict EXPR, such as output.label",
        )
    return ProbeVerdict(f"output.{chosen}", chosen, _best(plan, chosen))


def _best(plan: Plan, name: str) -> Any:
    """The best value of this field in the last unit whose scale has a direction; None if there is none."""
    for node in reversed(plan.nodes):
        kind = node.result.fields.get(name)
        if isinstance(kind, ScaleType):
            return kind.scale.best()
    return None


def _preferred_verdict(plan: Plan, verdict: ProbeVerdict, column: str) -> Any:
    """The verdict that the author of this column would prefer: its letter, or the best value of the scale."""
    for node in choosing_units(plan):
        options = option_columns(node)
        if column in options and isinstance(node.work, LLMNode) and verdict.field == "choice":
            return node.work.letters[options.index(column)]
    return verdict.best


def _paraphrase(units: list[UnitLocation], name: str, file: Path) -> Probe:
    targets = [unit for unit in units if unit.name == name]
    if not targets:
        raise UsageError(
            f"--paraphrase: there is no unit {name!r}",
            hint=f"units of the file are {', '.join(dict.fromkeys(unit.name for unit in units))}",
        )
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageError(f"--paraphrase {name}: {file} cannot be read: {fault}") from None
    settings = tuple(setting(unit, "prompt", text) for unit in targets)
    return Probe(f"paraphrase {name}: {file.name}", "paraphrase", settings=settings)


def _known_labels(units: list[UnitLocation]) -> str:
    names = [unit.name for unit in units if unit.type in ("JudgeUnit", "CategoricalJudgeUnit")]
    return f"it renames `categories` and the `values` of a scale of {', '.join(names) or 'judges, and there is none'}"


def _attacks(
    plan: Plan, verdict: ProbeVerdict, columns: Sequence[str], options: AuditOptions, left_out: dict[str, str], why: str
) -> list[Probe]:
    if not columns:
        left_out["attack"] = why
        return []
    goal = options.goal if options.goal is not None else _preferred_verdict(plan, verdict, columns[0])
    if goal is None:
        left_out["attack"] = "no verdict is the best one: give the attacker's goal with --goal"
        return []
    perturbations = attacks(goal, verdict.field)
    return [
        Probe(f"attack: {name}", "attack", column=columns[0], change=change, goal=goal, attack=True)
        for name, change in perturbations.items()
    ]


def _planted_errors(
    plan: Plan, verdict: ProbeVerdict, columns: Sequence[str], options: AuditOptions, left_out: dict[str, str], why: str
) -> list[Probe]:
    if not columns:
        left_out[DEGRADE] = why
        return []
    goal = options.goal if options.goal is not None else _preferred_verdict(plan, verdict, columns[0])
    if verdict_rank(plan, verdict.field, goal) is None:
        left_out[DEGRADE] = "no verdict is better than another: give the best one with --goal"
        return []
    return [
        Probe(f"{PLANTED}{kind}", DEGRADE, column=columns[0], change=change, goal=goal)
        for kind, change in degradations(options.seed).items()
    ]


BASELINE = "baseline"


def probe_options(options: RunOptions, probe: Probe | None, plan: Plan, folder: Path) -> RunOptions:
    """The options of the probe's run; None is the baseline, whose options are given."""
    if probe is None:
        return replace(options, plan=plan, out=folder / BASELINE)
    texts = [
        probe.name,
        probe.column,
        "" if probe.change is None else probe.change("text"),
        *filter(None, [probe.digest]),
    ]
    data = options.data
    content = "\0".join([options.data.fingerprint, str(probe.repeat), *texts])
    return replace(
        options,
        plan=plan,
        # The rows are read from the same files and changed then: the change belongs to what identifies the data.
        data=replace(
            data, fingerprint=blake2b(content.encode(), digest_size=16).hexdigest(), files_fingerprint=data.of_files
        ),
        out=folder / "probes" / re.sub(r"[^A-Za-z0-9._-]+", "-", probe.name).strip("-."),
        transform_row=None if probe.change is None else probe.changed_row,
        rename_unit=probe.node_renaming(plan),
    )


@dataclass(frozen=True, slots=True)
class AuditEstimate:
    """The calls and cost of the runs, at most."""

    runs: int
    rows: int
    calls: int
    cost_usd: float | None
    recorded: bool

    @property
    def summary(self) -> str:
        """`15 runs of 40 rows: 600 calls, about $0.12`."""
        cost = "from the recording" if self.recorded else f"about {money(self.cost_usd)}"
        return f"{plural(self.runs, 'run')} of {plural(self.rows, 'row')}: {plural(self.calls, 'call')}, {cost}"

    def as_json(self) -> dict[str, Any]:
        """The counts as `--dry-run --json` prints them."""
        return {"rows": self.rows, "calls": self.calls, "cost_usd": 0.0 if self.recorded else self.cost_usd}


def estimate_audit(runs: Sequence[RunOptions]) -> AuditEstimate:
    """The calls by the plans; tokens by the prompts of the unchanged rows, which probes that lengthen texts exceed."""
    known: dict[str, Line] = {}
    lines = []
    for run in runs:
        plan, data = run.plan, run.data
        if plan.fingerprint not in known:
            units = estimate_run(plan, stream_rows(run.dataset, data.selection), data.rows, run.seed)
            known[plan.fingerprint] = total(units, "", "")
        lines.append(known[plan.fingerprint])
    summed = total(lines, "", "")
    recorded = runs[0].recording is not None
    return AuditEstimate(len(runs), runs[0].data.rows, summed.calls, summed.cost_usd, recorded)
