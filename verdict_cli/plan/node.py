"""The plan: a frozen graph of nodes in an order in which every parent comes before its children."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from verdict_cli.errors import Problem, ReplyError, RowError
from verdict_cli.language.calibrations import Fitted
from verdict_cli.language.conversation import ConversationError, number_messages
from verdict_cli.language.evaluations import Evaluations, Published
from verdict_cli.language.expressions.expression import Expression
from verdict_cli.language.expressions.paths import ExpressionPath, RowValues
from verdict_cli.language.extractors.bound_extractor import EXPLANATION, BoundExtractor
from verdict_cli.language.fields.types import FieldType, RecordType, Values
from verdict_cli.language.gate_rules import Ends, Gate
from verdict_cli.language.prompts.few_shot import ExamplePool
from verdict_cli.language.prompts.prompt import CompiledPrompt
from verdict_cli.language.prompts.state_prompt import StatePrompt
from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.questions import QuestionForm, question_form
from verdict_cli.language.units.base import LLMUnit, UnitBase
from verdict_cli.messages import NamedValues
from verdict_cli.model import Models
from verdict_cli.plan.levels import Condition, EachGroup, Level, Spread, listed, plan_level
from verdict_cli.plan.link import Indices
from verdict_cli.plan.resolve import as_yaml
from verdict_cli.regex import regex
from verdict_cli.storage.path_policy import ANYWHERE, PathPolicy

if TYPE_CHECKING:
    from verdict_cli.language.authoring.functions import Function
    from verdict_cli.language.units.pools import MapUnit, Pool
    from verdict_cli.plan.compile_pool import RubricPooling
    from verdict_cli.plan.early_stopping import EarlyStop


class Cast(Struct, frozen=True):
    """Where an input field comes from: a path, or None for the default alone.

    ``from_field`` is the upstream field's name when it was cast, that is found by type and not by name. With
    ``optional``, ``default`` replaces a column that the row does not have.
    """

    field: str
    type: FieldType
    path: ExpressionPath | None
    from_field: str = ""
    optional: bool = False
    default: Any = None


OutputFunction = Callable[[RowValues], Values]
"""What gives an output, called with a row's values: expressions, or a Python function. Raises RowError."""


class CompiledRule(Protocol):
    """What must be true of a response: an expression, or a Python function that may raise ReplyError."""

    @property
    def text(self) -> str:
        """How messages name it."""

    def __call__(self, values: RowValues) -> Any:
        """Whether it holds."""


NamedExpressions = tuple[tuple[str, Expression], ...]
"""Expressions, each with the field or the option that it gives."""


class OutputFields(Struct, frozen=True):
    """Expressions, one for each field of an output."""

    expressions: NamedExpressions

    def __call__(self, values: RowValues) -> Values:
        """The output. RowError when an expression cannot be computed."""
        return {name: expression(values) for name, expression in self.expressions}


CITATIONS = "citations"
"""The output field with the cited numbers, in ascending order."""

_JOINT = r"[ \t]*(?:[,;&]|and|to|[-‐‑–—])[ \t]*"
_CITED = regex(rf"\[[ \t]*(\d{{1,9}}(?:{_JOINT}\d{{1,9}})*)[ \t]*\]")
_RANGE = regex(r"(\d+)[ \t]*(?:to|[-‐‑–—])[ \t]*(\d+)")
_LONGEST_RANGE = 1_000
"""A longer range is cited by its ends: no conversation that a prompt shows has as many turns."""


class Citations(Struct, frozen=True):
    """What an explanation cites: a conversation, or a list such as the contexts of an answer, by an expression."""

    cited: Expression

    def check(self, response: RowValues, values: RowValues) -> None:
        """Raise ReplyError for a citation of a turn or an entry that does not exist, RowError where the expression gives
        neither a conversation nor a list of texts."""
        noun, numbers = self._numbers(self.cited(values))
        unknown = [number for number in _cited(response) if number not in numbers]
        if unknown:
            owner = "conversation" if noun == "turns" else "list"
            has = f"{noun} {numbers[0]} to {numbers[-1]}" if numbers else f"no {noun}"
            raise ReplyError(
                f"the explanation cites [{unknown[0]}], but the {owner} has {has}", kind="invalid"
            )

    def _numbers(self, value: Any) -> tuple[str, Sequence[int]]:
        """What can be cited, and its numbers: those of the turns, or from 1 to the list's length."""
        if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
            return "entries", range(1, len(value) + 1)
        try:
            return "turns", number_messages(value).numbers
        except ConversationError as error:
            raise RowError(f"`cites: {self.cited.text}`: {error}", kind="input") from None

    @staticmethod
    def of(responses: Sequence[NamedValues]) -> list[int]:
        """The numbers of all turns that the explanations cite."""
        return sorted({number for response in responses for number in _cited(response)})


def _cited(response: NamedValues) -> list[int]:
    numbers: list[int] = []
    for cited in _CITED.findall(str(response.get(EXPLANATION, ""))):
        numbers += map(int, re.findall(r"\d+", cited))
        for first, last in _RANGE.findall(cited):
            if 0 <= int(last) - int(first) <= _LONGEST_RANGE:
                numbers += range(int(first), int(last) + 1)
    return numbers


class LLMNode(Struct, frozen=True, dict=True):
    """What a unit that calls a model asks, and how it reads the reply.

    ``models`` are tried in order; ``follow_up`` are those of the extractor's second call. ``scale`` is
    the one whose sentence is added to the last user message, None where there is none. ``process`` makes the output of a unit defined in Python.
    """

    unit: LLMUnit
    prompt: CompiledPrompt
    scale: Scale | None
    response: RecordType
    reading: BoundExtractor
    models: Models
    follow_up: Models
    options: NamedExpressions
    letters: tuple[str, ...]
    kept: tuple[str, ...] | None
    process: OutputFunction | None = None
    cites: Citations | None = None
    examples: ExamplePool | None = None
    state_prompt: StatePrompt | None = None
    judged: Scale | None = None
    """What decision models among the unit's models are asked, and the scale of their answers; None where there is none."""

    @property
    def option_paths(self) -> list[ExpressionPath]:
        """The paths in the expressions of the options."""
        return [path for _, option in self.options for path in option.paths]

    @cached_property
    def fixed_question(self) -> QuestionForm | None:
        """The form of the question to decision models that all rows share; None if it depends on the row."""
        return (
            None if self.judged is None or self.judged.is_shuffled() else question_form(self.judged)
        )

    @cached_property
    def fixed_suffix(self) -> str | None:
        """The suffix that all rows share; None if it depends on the row."""
        return None if self.scale is not None and self.scale.is_shuffled() else self.suffix(0)

    @property
    def option_columns(self) -> list[str | None]:
        """The column of each option; None for an option that is not an unchanged column."""
        paths = [option.path or () for _, option in self.options]
        return [str(path[1]) if len(path) == 2 and path[0] == "source" else None for path in paths]

    def suffix(self, draw: int) -> str:
        """What is added to the last user message; ``draw`` seeds the order of a scale with `shuffle: true`."""
        field = self.unit.scaled_field()
        if self.scale is None or field is None:
            return ""
        scale = self.scale
        if self.reading.json_schema is not None:
            sentence = scale.json_sentence(field, draw)
        else:
            sentence = (
                scale.shuffled_sentence(field, draw)
                if scale.is_shuffled()
                else scale.sentence(field)
            )
        sentences = f"{sentence} {self.reading.instruction}".rstrip()
        described = scale.described()
        return f"{described}\n{sentences}" if described else sentences


class MapNode(Struct, frozen=True):
    """A MapUnit's expressions, or its function."""

    unit: MapUnit
    map: OutputFunction


class PoolNode(Struct, frozen=True):
    """A pool and its fields, each with a function a parent that turns a value into what is pooled; or a ``rubric``."""

    unit: Pool
    fields: tuple[tuple[str, tuple[Callable[[Any], Any], ...]], ...]
    weights: tuple[float, ...] | None
    rubric: RubricPooling | None = None


def pooled_field(output: NamedValues, name: str) -> Any:
    """A field to pool. RowError where it is missing: only a row shows the fields of some Python functions."""
    if name not in output:
        raise RowError(
            f"there is no {name!r} to pool, only {', '.join(output) or 'nothing'}",
            kind="missing-value",
        )
    return output[name]


class Escalation(Struct, frozen=True):
    """While a unit's answer is not certain enough (``when``), the models of each stage are called in turn; ``abstains``: if the
    last answer is not certain either, the unit has none. On ``audit_share`` of the rows, the last stage is called too."""

    when: Callable[[RowValues], Any]
    stages: tuple[Models, ...]
    abstains: bool
    audit_share: float = 0.0


class UsedColumn(Struct, frozen=True):
    """A dataset column that something names."""

    column: str
    location: Problem
    """Where it is named first."""
    asked: bool = True
    """Whether a unit needs it; otherwise only metrics, gates or `where` do, and a row can be judged without it."""
    is_needed: bool = True
    """Whether no run is possible without it; metrics are merely not split by a column that is missing."""
    hint: str = ""
    """What else could be done where the column is missing."""
    is_shown: bool = False
    """Whether a prompt needs its value: a row in which it is blank cannot be judged."""
    is_label: bool = False
    """Whether it is named as a label alone: without it the rows are judged, and compared with nothing."""

    @property
    def evaluation(self) -> str:
        """The evaluation that needs it, where no unit and no key of `dataset` does; else ""."""
        section, _, rest = self.location.path.partition(".")
        is_of_metrics = section == "evaluate" and self.is_needed and not self.asked
        return rest.partition(".")[0] if is_of_metrics else ""


class LiteralBrace(Struct, frozen=True):
    """A literal brace in a prompt that holds a name alone."""

    column: str
    problem: Problem
    """What it is where the data has that column."""


class Node(Struct, frozen=True, dict=True):
    """A unit in a plan."""

    id: str
    """Its name in result columns: `judge[1]`."""
    name: str
    """The name that several units may share: `judge`."""
    index: int
    """Where it is in `Plan.nodes`."""
    unit: UnitBase
    """Its keys in the file."""
    parents: Indices
    """The indices of the units that it depends on."""
    children: Indices
    """The indices of the units that depend on it."""
    work: LLMNode | MapNode | PoolNode
    """What it does at a row."""
    casts: tuple[Cast, ...]
    """Where its input fields come from."""
    settings: NamedValues
    """What prompts and expressions see as `unit`."""
    rules: tuple[CompiledRule, ...]
    """What must be true of a response (`validate`)."""
    propagate: OutputFunction | None
    """What replaces the output, None where nothing does."""
    output: RecordType
    """The fields that it passes on."""
    pinned: bool
    """Whether it runs once for all rows."""
    code: tuple[Function, ...] = ()
    """The Python functions in it."""
    fingerprint: str = ""
    """16 hex digits over everything that affects its calls: the unit and all upstream."""
    escalation: Escalation | None = None
    """Which models are called while the answer is not certain."""
    calibrations: tuple[tuple[ExpressionPath, Fitted], ...] = ()
    """What was fitted to it, each with its key."""
    marks: Mapping[str, str] = {}
    """Digests of the judge's parts, by which a calibration recognises it."""
    groups: Indices = ()
    """The `each` steps around it, outermost first, as indices into `Plan.groups`."""
    checked: Indices = ()
    """The conditions inside the innermost of them, as indices into `Plan.conditions`."""
    needs: frozenset[int] = frozenset()
    """The units without whose output it is skipped."""
    spread: Spread | None = None
    """How the outputs of parents inside an `each` are laid out in one list; None where no parent is inside one."""
    most_questions: int = 0
    """How many questions to a decision model one request may have (`per_call`); 0: as many as the server takes."""
    copies: tuple[int, int] | None = None
    """Its number among the units of its name in an entry, and how many there are."""

    @cached_property
    def result(self) -> RecordType:
        """The output's fields as the row's result has them: lists for a unit inside `each`."""
        return listed(self.output, len(self.groups))

    @cached_property
    def stages(self) -> tuple[Models, ...]:
        """The unit's models, then those of each escalation stage; empty for a unit that calls no model."""
        if not isinstance(self.work, LLMNode):
            return ()
        return (self.work.models, *(self.escalation.stages if self.escalation is not None else ()))

    @property
    def asks_decisions(self) -> bool:
        """Whether it asks a decision model."""
        return isinstance(self.work, LLMNode) and self.work.state_prompt is not None

    @property
    def skips(self) -> bool:
        """Whether a failure leaves the unit without an output instead of failing the row."""
        return self.unit.on_failure == "skip"


CompiledNodes = Sequence[Node | None]
"""The nodes of units by their indices; None for an invalid one."""


class Plan(Struct, frozen=True, dict=True):
    """A pipeline ready to run."""

    name: str
    """The pipeline's name."""
    nodes: tuple[Node, ...]
    """The units, every parent before its children."""
    outputs: Indices
    """The indices of the units that the last step passes on."""
    columns: tuple[UsedColumn, ...]
    """The columns of the data that something names."""
    row_types: RecordType | None
    """The declared types of columns; None where none are declared."""
    where: Expression | None
    """Which rows are read."""
    evaluations: Evaluations
    """The evaluations but for those in `studies`."""
    gates: tuple[Gate, ...]
    """The limits that a run must keep."""
    scales: Mapping[str, Ends]
    """The ends of the scale that the value, or the prediction, of each evaluation is on."""
    idle_gates: tuple[str, ...]
    """What the run's record says of limits that every value passes."""
    published: Mapping[str, Published]
    """The published table of each evaluation that names one."""
    resolved: NamedValues
    """The document as it is run: files inlined, overrides applied."""
    fingerprint: str
    """32 hex digits over everything that affects results."""
    early: tuple[EarlyStop, ...] = ()
    """The layers that stop early."""
    fence: PathPolicy = ANYWHERE
    """Which files the pipeline may read."""
    braces: tuple[LiteralBrace, ...] = ()
    """The braces in prompts that are an error where the data has a column of that name."""
    evaluation_locations: Mapping[str, Problem] = {}
    """Where each evaluation is in the file: a problem without a message."""
    groups: tuple[EachGroup, ...] = ()
    """The `each` steps."""
    conditions: tuple[Condition, ...] = ()
    """The `when` conditions."""
    trace: Expression | None = None
    """The id of the trace that a row judges."""
    span: Expression | None = None
    """The id of the span in it."""
    interval_level: float = 0.95
    """The confidence level of intervals in reports."""
    studies: Evaluations = {}
    """The evaluations of a feature's own kind, such as leaderboards, which its `Evaluator` measures."""
    is_shipped: bool = False
    """Whether the pipeline comes with verdict, for data of any user: their rows may lack the column of `dataset.id`."""

    @cached_property
    def yaml(self) -> str:
        """The document as it is run."""
        return as_yaml(self.resolved)

    @cached_property
    def escalating(self) -> Indices:
        """The indices of the units that escalate or abstain."""
        return tuple(node.index for node in self.nodes if node.escalation is not None)

    @cached_property
    def llm_nodes(self) -> tuple[tuple[Node, LLMNode], ...]:
        """The units that call a model, with what they ask."""
        return tuple((node, node.work) for node in self.nodes if isinstance(node.work, LLMNode))

    @property
    def calibrated(self) -> str:
        """When the oldest calibration that the pipeline uses was fitted; "" where it uses none."""
        return min(
            (fitted.made for node in self.nodes for _, fitted in node.calibrations), default=""
        )

    @cached_property
    def level(self) -> Level:
        """Where every row begins, once the pinned units are done."""
        return plan_level(self, (), pinned=False)

    @cached_property
    def pinned_level(self) -> Level:
        """Where the pinned units begin."""
        return plan_level(self, (), pinned=True)

    @cached_property
    def inner_levels(self) -> tuple[Level, ...]:
        """Where every entry of each `each` begins."""
        return tuple(
            plan_level(self, (*group.around, index), pinned=False)
            for index, group in enumerate(self.groups)
        )

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """Pairs of ids, sorted."""
        return tuple(
            sorted(
                (self.nodes[parent].id, node.id) for node in self.nodes for parent in node.parents
            )
        )

    @property
    def output_node(self) -> Node | None:
        """The one node that the last step passes on, None when there are several."""
        return self.nodes[self.outputs[0]] if len(self.outputs) == 1 else None
