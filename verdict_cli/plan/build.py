"""Build a plan from a pipeline: units, links, ids, and every check that needs no row. From a document, with the
errors of both its structure and its names at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct, structs
from msgspec.structs import replace

from verdict_cli.errors import Problem, SpecError, UsageError
from verdict_cli.language.document.corrections import corrected
from verdict_cli.language.document.overrides import parts_of
from verdict_cli.language.document.source_positions import Document, DocumentPath, format_path
from verdict_cli.language.evaluations import Evaluation, evaluator_of
from verdict_cli.language.expressions.entry_lists import ENTRY_LISTS
from verdict_cli.language.expressions.expression import Expression
from verdict_cli.language.expressions.paths import ExpressionPath
from verdict_cli.language.fields.types import (
    INTEGER,
    TRUTH,
    FieldType,
    ListType,
    TextListType,
    TranscriptType,
    UnknownType,
    without_null,
)
from verdict_cli.language.gate_rules import idle_limits
from verdict_cli.language.load import InvalidFile, Spec, UnitTypes, in_order, validated
from verdict_cli.language.namespace import Namespace
from verdict_cli.language.package_files import is_shipped
from verdict_cli.language.prompts.prompt import PlaceholderPrompt
from verdict_cli.language.units.base import ENTRY, MOST_ENTRIES
from verdict_cli.language.units.choice import OPTIONS_HINT, ChoiceUnit
from verdict_cli.model import EndpointKey
from verdict_cli.plan.check_evaluations import (
    check_evaluations,
    load_published,
    rows_shown,
    scale_ends,
    shown_labels,
)
from verdict_cli.plan.compile import compile_node
from verdict_cli.plan.early_stopping import EarlyStop, compile_early_stopping
from verdict_cli.plan.expand import (
    Expander,
    InstancePath,
    InvalidUnit,
    RowStep,
    Stopping,
    UnitInstance,
    expand_steps,
)
from verdict_cli.plan.fingerprint import check_calibrations, fingerprints, judge_digest
from verdict_cli.plan.levels import ITEM_COLUMN, Condition, EachGroup, below, spread
from verdict_cli.plan.link import Edge, LinkedBlock, WiringError, inner_edges, outputs
from verdict_cli.plan.node import LiteralBrace, LLMNode, Node, Plan, UsedColumn
from verdict_cli.plan.option_places import check_option_places
from verdict_cli.plan.resolve import resolve_pipeline
from verdict_cli.plan.row_types import row_expression, row_types
from verdict_cli.plan.scope import NodeScope, Upstream, expand_panel
from verdict_cli.plan.shared_prefix import with_marks, with_row_tags
from verdict_cli.storage.path_policy import PathPolicy
from verdict_cli.storage.tables.run_columns import RESULT_COLUMNS

_ROW_STEP_ROOTS = ("source", "previous", "input")


class RowSteps:
    """The `each` steps and conditions of a pipeline, compiled as their first unit is reached."""

    def __init__(self, expanded: Expander, columns: Mapping[str, FieldType]) -> None:
        self._expanded, self._columns = expanded, columns
        self.groups: list[EachGroup | None] = [None] * len(expanded.groups)
        self.conditions: list[Condition | None] = [None] * len(expanded.conditions)
        self.scopes: list[tuple[RowStep, NodeScope]] = []

    def entries(self, groups: Sequence[int]) -> dict[str, FieldType]:
        """The names that units inside these `each` steps see, with their types."""
        names: dict[str, FieldType] = {}
        for group in groups:
            compiled = self.groups[group]
            names[self._expanded.groups[group].keys.entry_name or ENTRY] = (
                UnknownType() if compiled is None else compiled.entry
            )
        return {**names, "index": INTEGER} if names else names

    def begin(
        self, index: int, upstream: Sequence[Upstream], parents: Sequence[Sequence[int]]
    ) -> None:
        """Compile the steps whose first unit has this place: conditions around an `each` before it, those on it after."""
        begun = [
            (step, number, True)
            for number, step in enumerate(self._expanded.groups)
            if step.first == index
        ]
        begun += [
            (step, number, False)
            for number, step in enumerate(self._expanded.conditions)
            if step.first == index
        ]
        for step, number, is_each in sorted(
            begun, key=lambda item: (len(item[0].around.groups), item[2])
        ):
            outside = {parent for unit in step.inside for parent in parents[unit]} - set(
                step.inside
            )
            names = self.entries(step.around.groups)
            scope = NodeScope(
                upstream,
                tuple(sorted(outside)),
                self._columns,
                groups=step.around.groups,
                entries=names,
            )
            self.scopes.append((step, scope))
            if is_each:
                self.groups[number] = _compile_each(step, scope)
            else:
                self.conditions[number] = _compile_condition(step, scope)

    def finish(
        self, nodes: Sequence[Node]
    ) -> tuple[tuple[Node, ...], tuple[EachGroup, ...], tuple[Condition, ...]]:
        """The nodes with what depends on all of them, the `each` steps and the conditions; all are valid."""
        groups = [group for group in self.groups if group is not None]
        for step, group in zip(self._expanded.groups, groups, strict=True):
            _check_per_call(step, nodes[group.head])
        nodes = [_with_most_questions(node, self._expanded.groups) for node in nodes]
        conditions = tuple(condition for condition in self.conditions if condition is not None)
        return (*_finish_nodes(nodes, groups), conditions)


def _compile_each(step: RowStep, scope: NodeScope) -> EachGroup | None:
    path = (*step.path, "each")
    entries = _expression(
        step, step.keys.each or "", (*_ROW_STEP_ROOTS, *ENTRY_LISTS), scope, "each"
    )
    if entries is None:
        return None
    kind = without_null(entries.type)
    if isinstance(kind, TextListType | ListType):
        entry: FieldType = kind.item
    elif isinstance(kind, TranscriptType | UnknownType):
        entry = UnknownType()
    else:
        message = f"`each: {entries.text}` is of type {kind.type_name()}, not a list"
        step.names.problem(
            "bad-each", message, "name a list, such as `source.claims` of type `list[str]`", path
        )
        return None
    most = MOST_ENTRIES if step.keys.most is None else step.keys.most
    return EachGroup(
        name=step.keys.entry_name or ENTRY,
        entries=entries,
        most=most,
        around=step.around.groups,
        checked=step.around.checked,
        nodes=tuple(step.inside),
        waits=tuple(sorted(scope.uses.units)),
        needs=frozenset(scope.uses.needs - scope.uses.tested),
        entry=entry,
    )


def _compile_condition(step: RowStep, scope: NodeScope) -> Condition | None:
    holds = _expression(step, step.keys.condition or "", _ROW_STEP_ROOTS, scope, "when")
    if holds is None:
        return None
    kind = without_null(holds.type)
    if not isinstance(kind, UnknownType) and kind.json_schema() != TRUTH.json_schema():
        message = f"`when: {holds.text}` is of type {kind.type_name()}, not true or false"
        step.names.problem(
            "bad-when", message, "compare: `previous.triage.score > 3`", (*step.path, "when")
        )
        return None
    needs = frozenset(scope.uses.needs - scope.uses.tested)
    return Condition(holds, tuple(sorted(scope.uses.units)), needs)


def _expression(
    step: RowStep, text: str, roots: tuple[str, ...], scope: NodeScope, key: str
) -> Expression | None:
    path = (*step.path, key)
    return scope.expression(
        text, roots, lambda message, hint: step.names.problem("bad-expression", message, hint, path)
    )


def _check_per_call(step: RowStep, head: Node) -> None:
    """Report `per_call` around a unit that asks no decision model."""
    if step.keys.per_call is not None and not _asks_decisions(head):
        message = "`per_call` bounds the questions that one request to a decision model has"
        hint = "leave `per_call` out: a chat model is asked about each entry by a call of its own"
        step.names.problem("bad-each", message, hint, (*step.path, "per_call"))


def _asks_decisions(node: Node) -> bool:
    return isinstance(node.work, LLMNode) and node.work.state_prompt is not None


def _with_most_questions(node: Node, steps: Sequence[RowStep]) -> Node:
    """The node with the `per_call` around it as the most questions of one request, where it asks a decision model."""
    limit = steps[node.groups[-1]].keys.per_call if node.groups else None
    return replace(node, most_questions=limit) if limit and _asks_decisions(node) else node


def _finish_nodes(
    nodes: Sequence[Node], groups: Sequence[EachGroup]
) -> tuple[tuple[Node, ...], tuple[EachGroup, ...]]:
    """The nodes with what depends on all of them, and the `each` steps with the paths that every entry must have."""
    if not groups:
        return tuple(nodes), ()
    total = Counter(node.name for node in nodes)
    finished = []
    for node in nodes:
        alike = [
            other for other in nodes if other.name == node.name and other.groups == node.groups
        ]
        numbered = len(node.groups) == 1 and len(alike) == total[node.name]
        parents = [(parent, below(nodes[parent].groups, node.groups)) for parent in node.parents]
        finished.append(
            replace(
                node,
                copies=(alike.index(node), len(alike)) if numbered else None,
                spread=spread(parents) if any(groups for _, groups in parents) else None,
            )
        )
    shown: list[set[ExpressionPath]] = [set() for _ in groups]
    for node in finished:
        if node.groups and not node.checked and not groups[node.groups[-1]].checked:
            group = groups[node.groups[-1]]
            prompt = node.work.prompt if isinstance(node.work, LLMNode) else None
            slots = prompt.slots if isinstance(prompt, PlaceholderPrompt) else ()
            shown[node.groups[-1]] |= {
                slot.paths[0] for slot in slots if slot.paths[0][0] == group.name
            }
    return tuple(finished), tuple(
        structs.replace(group, shown=tuple(sorted(paths, key=str)))
        for group, paths in zip(groups, shown, strict=True)
    )


def check_item_column(node: Node, instance: UnitInstance) -> None:
    """Report a unit inside `each` with a field that has the name of the column of entries."""
    if node.groups and ITEM_COLUMN in node.output.fields:
        message = f"a unit inside `each` cannot give a field {ITEM_COLUMN!r}: that column of the results has the entries"
        instance.names.problem(
            "reserved-name", message, "rename it with `propagate`", instance.path
        )


def check_pinned_uses(
    instance: UnitInstance | InvalidUnit, scope: NodeScope, nodes: Sequence[Node | None]
) -> None:
    """Report a pinned unit that uses one that runs for every row."""
    for index in sorted(scope.uses.units):
        before = nodes[index]
        if before is not None and not before.pinned:
            instance.names.problem(
                "pinned-uses-row",
                f"a pinned unit runs once, but this one uses {before.id!r}, which runs for every row",
                f"pin {before.id!r} too, or leave `pin` out",
                instance.path,
            )


RESERVED = frozenset({"source", "output"}).union(
    column.name.partition(".")[0]
    for column in RESULT_COLUMNS
    if not column.only and not column.since
)
"""Heads of the result columns that no unit brings. A later column reserves none: a pipeline of before may have the name."""


def ids(instances: Sequence[UnitInstance | InvalidUnit]) -> list[str]:
    """The id of each unit, numbered in order of definition; reports a name that units of two types share."""
    total = Counter(instance.name for instance in instances)
    numbered: Counter[str] = Counter()
    first: dict[str, UnitInstance] = {}
    node_ids = []
    for instance in instances:
        node_ids.append(
            instance.name
            if total[instance.name] == 1
            else f"{instance.name}[{numbered[instance.name]}]"
        )
        numbered[instance.name] += 1
        if isinstance(instance, UnitInstance):
            _check_name(instance, first.setdefault(instance.name, instance))
    return node_ids


def _options_hint(instance: UnitInstance | InvalidUnit, column: str) -> str:
    """The hint where a unit that chooses among options uses the column of a letter."""
    unit = instance.unit if isinstance(instance, UnitInstance) else None
    return OPTIONS_HINT if isinstance(unit, ChoiceUnit) and column in unit.letters() else ""


def _check_name(instance: UnitInstance, first: UnitInstance) -> None:
    path = (*instance.path, "name")
    if instance.name in RESERVED:
        instance.names.problem(
            "reserved-name",
            f"a unit cannot be named {instance.name!r}: result columns begin with it",
            "choose another `name`",
            path,
        )
    elif instance.unit.type_name != first.unit.type_name:
        instance.names.problem(
            "name-used-twice",
            f"the name {instance.name!r} is used for a {instance.unit.type_name} and for a {first.unit.type_name}",
            "give one of them another `name`; only units of one type share a name and are numbered",
            path,
        )


MOST_LINKS = 1_000_000
"""The most links that a pipeline may have."""
_ROW_EXPRESSIONS = ("where", "trace", "span")
"""Keys of `dataset` that are expressions over a row."""
_BESIDE = frozenset({"dataset", "evaluate", "gates"})
"""Sections whose columns no unit needs."""


class Built(Struct, frozen=True):
    """A plan, and what its author is warned of."""

    plan: Plan
    warnings: tuple[Problem, ...]


def build_plan(spec: Spec) -> Built:
    """The plan of a pipeline. SpecError with every problem that can be found."""
    return _Build(spec).run()


class _Build:
    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.names = Namespace(spec, self.tell)
        self.columns: dict[str, UsedColumn] = {}
        self.braces: list[LiteralBrace] = []
        self._asked: set[tuple[InstancePath, tuple[EndpointKey, ...]]] = set()
        self.used: set[int] = set()
        self.uses: list[frozenset[int]] = []
        self.whole_row = False

    def tell(self, problem: Problem) -> None:
        """Collects a problem; copies of a repeated unit tell it once."""
        if problem not in self.problems:
            self.problems.append(problem)

    def run(self) -> Built:
        """Everything in turn; stops early only where nothing more can be said."""
        self.names.check()
        types = row_types(self.names)
        where, trace, span = (
            row_expression(self.names, key, types, self._use_column) for key in _ROW_EXPRESSIONS
        )
        expanded, block = expand_steps(self.names)
        instances, columns = expanded.instances, types.fields if types else {}
        compiled = self._nodes(
            instances, self._edges(block), columns, row_steps := RowSteps(expanded, columns)
        )
        nodes = tuple(node for node in compiled if node is not None)
        output_nodes = outputs(block)
        if len(nodes) == len(instances):
            named = check_evaluations(
                self.names, nodes, output_nodes, self._use_column, row_steps.entries
            )
            self.used |= {*output_nodes, *named}
        early = self._stops(expanded.stopping, compiled)
        tables = load_published(self.names)
        self._raise()  # from here on every unit has a node
        valid = [item for item in instances if isinstance(item, UnitInstance)]
        nodes, groups, conditions = row_steps.finish(nodes)
        nodes = judge_digest(valid, nodes)
        check_calibrations(valid, nodes)
        self.problems += self.names.unused_problems()
        self._raise()
        self._warn_unused(nodes, instances)
        self._warn_same_prompts(nodes, valid)
        idle_gates = self._idle_gates(nodes, output_nodes)
        self.warnings += idle_gates
        resolved = resolve_pipeline(self.names)
        everything = self.spec.file.evaluate
        studies = {
            name: item for name, item in everything.items() if evaluator_of(item) is not None
        }
        evaluations = {
            name: expand_panel(item, nodes)
            for name, item in everything.items()
            if name not in studies
        }
        self._warn_shown(nodes, valid, evaluations)
        fingerprint, node_fingerprints = fingerprints(
            self.names, valid, nodes, output_nodes, early, groups, conditions
        )
        # Tags and marks come after the fingerprints: they are made from all prompts, and change none of what is asked.
        shown = (
            None
            if self.whole_row
            else tuple(sorted(used.column for used in self.columns.values() if used.asked))
        )
        nodes = with_marks(with_row_tags(nodes, shown), early)
        plan = Plan(
            name=self.spec.file.name,
            nodes=tuple(
                replace(node, fingerprint=item)
                for node, item in zip(nodes, node_fingerprints, strict=True)
            ),
            outputs=output_nodes,
            columns=_with_shown(self.columns.values(), nodes),
            row_types=types,
            where=where,
            trace=trace,
            span=span,
            evaluations=evaluations,
            gates=self.spec.file.gates,
            idle_gates=tuple(problem.message for problem in idle_gates),
            published=tables,
            resolved=resolved,
            fingerprint=fingerprint,
            interval_level=self.spec.file.level,
            early=early,
            fence=self.spec.fence,
            braces=tuple(self.braces),
            evaluation_locations={
                name: self.spec.problem("", "", "", ("evaluate", name)) for name in everything
            },
            studies=studies,
            groups=groups,
            conditions=conditions,
            is_shipped=is_shipped(Path(self.spec.document.file)),
        )
        return Built(plan, tuple(in_order(self.warnings)))

    def _stops(
        self, stopping: Sequence[Stopping], nodes: Sequence[Node | None]
    ) -> tuple[EarlyStop, ...]:
        return tuple(
            filter(
                None,
                (compile_early_stopping(layer, nodes, self.uses, self._warn) for layer in stopping),
            )
        )

    def _raise(self) -> None:
        if self.problems:
            raise SpecError(in_order(self.problems))

    def _edges(self, block: LinkedBlock) -> set[Edge]:
        try:
            edges = set(islice(inner_edges(block), MOST_LINKS + 1))
        except WiringError as error:
            names, path = error.at
            names.problem("unequal-sizes", error.message, error.hint, path)
            return set()
        if len(edges) > MOST_LINKS:
            message = f"the pipeline has more than {MOST_LINKS:,} links"
            self.names.problem("too-many-links", message, "lower `repeat`", ("pipeline",))
            return set()
        return edges

    def _nodes(
        self,
        instances: Sequence[UnitInstance | InvalidUnit],
        edges: set[Edge],
        columns: Mapping[str, FieldType],
        row_steps: RowSteps,
    ) -> list[Node | None]:
        """A node for each unit; None, with its error reported, for an invalid one."""
        parents: list[list[int]] = [[] for _ in instances]
        children: list[list[int]] = [[] for _ in instances]
        for before, after in sorted(edges):
            parents[after].append(before)
            children[before].append(after)
        upstream: list[Upstream] = []
        nodes: list[Node | None] = []
        unknown: set[int] = set()
        for index, (instance, node_id) in enumerate(zip(instances, ids(instances), strict=True)):
            flow = instance.flow
            row_steps.begin(index, upstream, parents)
            unit = Upstream(
                index,
                node_id,
                instance.name,
                tuple(parents[index]),
                groups=flow.groups,
                pinned=isinstance(instance, UnitInstance) and instance.pinned,
            )
            scope = NodeScope(
                upstream,
                unit.parents,
                columns,
                groups=flow.groups,
                entries=row_steps.entries(flow.groups),
                entries_of=row_steps.entries,
            )
            node, output = None, None
            if isinstance(instance, UnitInstance) and unknown.isdisjoint(unit.parents):
                node, output = compile_node(
                    instance, unit, tuple(children[index]), scope, self._warner(instance)
                )
            if output is None:
                unknown.add(index)
            nodes.append(node)
            upstream.append(unit if output is None else structs.replace(unit, output=output))
            self.used |= scope.uses.units
            self.uses.append(frozenset(scope.uses.units))
            self.whole_row |= scope.uses.whole_row
            for column in sorted(scope.uses.columns):
                self._use_column(
                    column, instance.names, instance.path, _options_hint(instance, column)
                )
            if node is not None and isinstance(instance, UnitInstance):
                self._warn_of_repetition(node, instance)
                self._note_braces(node, instance)
                check_item_column(node, instance)
                check_option_places(node, instance, nodes)
            if node is not None and node.pinned:
                check_pinned_uses(instance, scope, nodes)
        for step, scope in row_steps.scopes:
            self.used |= scope.uses.units
            self.whole_row |= scope.uses.whole_row
            for column in sorted(scope.uses.columns):
                self._use_column(column, step.names, step.path)
        return nodes

    def _note_braces(self, node: Node, instance: UnitInstance) -> None:
        """The prompt's brace texts that are a mistake where the data has the column that they name."""
        for brace in node.work.prompt.braces if isinstance(node.work, LLMNode) else ():
            for column in brace.columns:
                message = f"{brace.written} is literal text, but {column!r} is a column of the data"
                hint = (
                    f"write {{{brace.suggestion(column)}}}; \\{brace.written} prints it literally"
                )
                problem = instance.names.spec.problem(
                    "literal-column", message, hint, (*instance.path, "prompt")
                )
                if LiteralBrace(column, problem) not in self.braces:
                    self.braces.append(LiteralBrace(column, problem))

    def _warn_of_repetition(self, node: Node, instance: UnitInstance) -> None:
        """Warn of a decision model that is asked the same several times: it nearly always answers the same."""
        key = (instance.path, tuple(model.endpoint_key for model in instance.models or ()))
        if key in self._asked and _asks_decisions(node):
            message = "repeats of a decision model give the same answer"
            self._warner(instance)(
                message, "vary the wording, the order or the model", instance.path
            )
        self._asked.add(key)

    def _warner(self, instance: UnitInstance) -> Callable[[str, str, InstancePath], None]:
        def warn(message: str, hint: str, path: InstancePath) -> None:
            self._warn(instance.names.spec.problem("suspicious", message, hint, path))

        return warn

    def _warn(self, problem: Problem) -> None:
        if problem not in self.warnings:
            self.warnings.append(problem)

    def _use_column(
        self, column: str, names: Namespace, path: InstancePath, hint: str = ""
    ) -> None:
        asked = path[0] not in _BESIDE
        is_needed = asked or path[0] != "evaluate" or path[2] != "by"
        known = self.columns.get(column)
        if known is None:
            at = _place_of(column, names, path)
            self.columns[column] = UsedColumn(column, at, asked, is_needed, hint)
        else:
            self.columns[column] = structs.replace(
                known,
                asked=known.asked or asked,
                is_needed=known.is_needed or is_needed,
                hint=known.hint or hint,
            )

    def _warn_shown(
        self,
        nodes: Sequence[Node],
        instances: Sequence[UnitInstance],
        evaluations: Mapping[str, Evaluation],
    ) -> None:
        """Warns of each prompt that shows the label which its judge is measured by."""
        for index, label, name in shown_labels(nodes, evaluations):
            instance = instances[index]
            message = f"the prompt shows `{label}`, which is the target of `evaluate.{name}`"
            hint, path = (
                "take the label out of the prompt, unless the judge is to see it",
                (*instance.path, "prompt"),
            )
            self._warn(instance.names.spec.problem("label-in-prompt", message, hint, path))

    def _warn_same_prompts(self, nodes: Sequence[Node], instances: Sequence[UnitInstance]) -> None:
        """Warns where no prompt shows anything of the row."""
        asked = [node for node in nodes if isinstance(node.work, LLMNode) and not node.pinned]
        if asked and not rows_shown(nodes):
            instance = instances[asked[0].index]
            message = (
                "no prompt of the pipeline shows anything of the row: all rows get the same prompt"
            )
            hint = "show a column with {source.NAME}"
            self._warn(
                instance.names.spec.problem(
                    "same-prompt", message, hint, (*instance.path, "prompt")
                )
            )

    def _idle_gates(self, nodes: Sequence[Node], outputs: Sequence[int]) -> list[Problem]:
        """A warning for each limit that any value meets."""
        scales = scale_ends(nodes, outputs, self.spec.file.evaluate)
        hint = "give a limit that a bad run fails"
        return [
            self.spec.problem("idle-gate", message, hint, ("gates", index, "min"))
            for index, message in idle_limits(self.spec.file.gates, scales)
        ]

    def _warn_unused(
        self, nodes: Sequence[Node], instances: Sequence[UnitInstance | InvalidUnit]
    ) -> None:
        """Warns of each unit of the file whose output nobody uses, its copies together."""
        copies: dict[tuple[int, InstancePath], list[tuple[str, Namespace]]] = {}
        for node, instance in zip(nodes, instances, strict=True):
            if node.index not in self.used:
                copies.setdefault((id(instance.names), instance.path), []).append(
                    (node.id, instance.names)
                )
        for (_, path), unused in copies.items():
            ids = ", ".join(repr(name) for name, _ in unused[:4]) + (
                ", …" if len(unused) > 4 else ""
            )
            hint = "name it in a later prompt, or take the unit out"
            self._warn(
                unused[0][1].spec.problem(
                    "unused", f"the output of {ids} is never used", hint, path
                )
            )


def load_plan(
    document: Document,
    folder: Path,
    fence: PathPolicy | None = None,
    unit_types: UnitTypes | None = None,
) -> Built:
    """The plan of a document. SpecError with every mistake at once: those behind another one are found in a copy in which
    that one is corrected as its hint says. ``fence`` and ``unit_types`` as in `validated`.
    """
    problems: dict[str, Problem] = {}
    removed: list[DocumentPath] = []
    repaired_plan: Plan | None = None
    for _ in range(_MOST_ROUNDS):
        try:
            built = build_plan(validated(document, folder, None, fence, unit_types))
        except SpecError as error:
            _add(problems, error.problems, removed)
            repaired = corrected(document, _correctable(error))
            if repaired.document.data == document.data:
                break
            document, removed = repaired.document, [*removed, *repaired.removed]
        else:
            if not problems:
                return built
            repaired_plan = built.plan
            break
    raise SpecError(in_order(list(problems.values())), repaired_plan)


def _correctable(error: SpecError) -> Mapping[tuple[str | int, ...], Problem]:
    """The problems whose correction may show further ones, by the paths of what is wrong."""
    if isinstance(error, InvalidFile):
        return error.mistakes
    return {
        _parts(problem.path): problem
        for problem in error.problems
        if problem.code in _UNKNOWN_NAMES
    }


def _parts(path: str) -> tuple[str | int, ...]:
    try:
        return tuple(parts_of(path))
    except UsageError:
        return ()


_NEEDED_BY_OTHERS = frozenset(
    (
        "each",
        "extract",
        "fields",
        "input",
        "layer",
        "name",
        "options",
        "prompt",
        "response",
        "scale",
        "unit",
    )
)
"""Keys without which other parts of a unit cannot be judged."""


def _place_of(column: str, names: Namespace, path: InstancePath) -> Problem:
    """Where the text is that names the column, within the part of the file at the path."""
    document = names.spec.document
    part: Any = document.data
    for key in path:
        try:
            part = part[key]
        except (LookupError, TypeError):
            part = None
    naming = _text_with(column, part, path)
    if naming is None:
        return names.spec.problem("", "", "", path)
    where, text = naming
    place = names.spec.problem("", "", "", where)
    above = text[: text.index(column)].count("\n")
    is_block = "\n" in text.rstrip("\n") or above > 0 or text.endswith("\n")
    return structs.replace(place, line=place.line + 1 + above, column=0) if is_block else place


def _text_with(column: str, part: Any, path: InstancePath) -> tuple[InstancePath, str] | None:
    """The first text of a part of the file that has the column's name, with its path."""
    if isinstance(part, str):
        return (path, part) if column in part else None
    items: Iterable[tuple[str | int, Any]] = ()
    if isinstance(part, dict):
        items = part.items()
    elif isinstance(part, list):
        items = enumerate(part)
    texts = (_text_with(column, value, (*path, key)) for key, value in items)
    return next((text for text in texts if text is not None), None)


def _with_shown(columns: Iterable[UsedColumn], nodes: Sequence[Node]) -> tuple[UsedColumn, ...]:
    """The columns; those that a prompt shows without a default are marked."""
    shown: set[str] = set()
    for node in nodes:
        if isinstance(node.work, LLMNode):
            prompt = node.work.prompt
            if isinstance(prompt, PlaceholderPrompt):
                needed = [
                    slot.written for slot in prompt.slots if "default" not in dict(slot.filters)
                ]
            else:
                needed = [path for path in prompt.paths if path not in prompt.tested]
            paths = [*needed, *(path for _, option in node.work.options for path in option.paths)]
            paths += [
                cast.path
                for cast in node.casts
                if cast.path is not None and cast.field in node.work.letters
            ]
            shown |= {str(path[1]) for path in paths if len(path) == 2 and path[0] == "source"}
    return tuple(structs.replace(used, is_shown=used.column in shown) for used in columns)


_UNKNOWN_NAMES = frozenset(("unknown-unit", "unknown-scale", "unknown-extractor"))
"""Problems whose hint has the name to write."""


_MOST_ROUNDS = 6
"""Mistakes behind mistakes that are looked for."""


def _add(
    problems: dict[str, Problem], further: Sequence[Problem], removed: Sequence[DocumentPath]
) -> None:
    """Add the problems that are no consequence of a value that was taken out of the same unit or evaluation."""
    spoiled = {format_path(path[:2]) for path in removed if path[-1] in _NEEDED_BY_OTHERS}
    without_limit = {format_path(path[:2]) for path in removed if path[0] == "gates"}
    for problem in further:
        is_consequence = problem.path in without_limit or any(
            f"{problem.path}.".startswith(f"{part}.") for part in spoiled
        )
        if not is_consequence or problem.code in _NAME_PROBLEMS:
            problems.setdefault(f"{problem.line}:{problem.column}:{problem.path}", problem)


_NAME_PROBLEMS = frozenset(
    (
        "unknown-unit",
        "unknown-scale",
        "unknown-type",
        "unknown-block",
        "name-used-twice",
        "bad-scale",
        "unset-variable",
        "foreign-host",
        "file-not-found",
        "outside",
    )
)
"""Problems that hold whatever else is wrong in the file."""
