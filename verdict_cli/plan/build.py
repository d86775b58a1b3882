"""Build a plan from a pipeline: units, links, ids, and every check that needs no row. From a document, with the
errors of both its structure and its names at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import Problem, SpecError, UsageError
from verdict_cli.language.document.corrections import correct_mistakes
from verdict_cli.language.document.overrides import parts_of
from verdict_cli.language.document.source_positions import Document, DocumentPath, format_path
from verdict_cli.language.evaluations import Evaluations, evaluator_of
from verdict_cli.language.expressions.entry_lists import ENTRY_LISTS
from verdict_cli.language.expressions.paths import ExpressionPath, ExpressionPaths
from verdict_cli.language.fields.types import (
    INTEGER,
    TRUTH,
    Fields,
    FieldType,
    ListType,
    TextListType,
    TranscriptType,
    UnknownType,
    without_null,
)
from verdict_cli.language.gate_rules import Ends, idle_limits
from verdict_cli.language.load import InvalidFile, Spec, UnitTypes, sort_problems, validate_document
from verdict_cli.language.namespace import Namespace
from verdict_cli.language.package_files import is_shipped
from verdict_cli.language.prompts.prompt import PlaceholderPrompt
from verdict_cli.language.units.base import ENTRY, MOST_ENTRIES, OPTIONS_HINT, LLMUnit
from verdict_cli.model import EndpointKey
from verdict_cli.plan.check_evaluations import (
    CheckedEvaluations,
    check_evaluations,
    load_published,
    rows_shown,
    shown_labels,
)
from verdict_cli.plan.compile import compile_node
from verdict_cli.plan.early_stopping import compile_early_stopping
from verdict_cli.plan.expand import Expander, InvalidUnit, RowStep, UnitInstance, expand_steps
from verdict_cli.plan.fingerprint import check_calibrations, judge_digest, with_fingerprints
from verdict_cli.plan.levels import ITEM_COLUMN, Condition, EachGroup, below, spread
from verdict_cli.plan.link import Edge, LinkedBlock, WiringError, inner_edges, outputs
from verdict_cli.plan.node import CompiledNodes, LiteralBrace, LLMNode, Node, Plan, UsedColumn
from verdict_cli.plan.option_places import check_option_places
from verdict_cli.plan.place import InstancePath, Place
from verdict_cli.plan.resolve import resolve_pipeline
from verdict_cli.plan.row_types import row_expression, row_types
from verdict_cli.plan.scope import NodeScope, Upstream, expand_panel
from verdict_cli.plan.shared_prefix import with_marks, with_row_tags
from verdict_cli.storage.path_policy import PathPolicy
from verdict_cli.storage.tables.run_columns import RESULT_COLUMNS

_ROW_STEP_ROOTS = ("source", "previous", "input")


class RowSteps:
    """The `each` steps and conditions of a pipeline, compiled as their first unit is reached."""

    def __init__(self, expanded: Expander, columns: Fields) -> None:
        self._expanded, self._columns = expanded, columns
        self.groups: list[EachGroup | None] = [None] * len(expanded.groups)
        self.conditions: list[Condition | None] = [None] * len(expanded.conditions)
        self.scopes: list[NodeScope] = []

    def entries(self, groups: Sequence[int]) -> Fields:
        """The names that units inside these `each` steps see, with their types."""
        names: Fields = {}
        for number in groups:
            group = self.groups[number]
            name = self._expanded.groups[number].keys.entry_name or ENTRY
            names[name] = UnknownType() if group is None else group.entry
        return {**names, "index": INTEGER} if names else names

    def begin(
        self, index: int, upstream: Sequence[Upstream], parents: Sequence[Sequence[int]]
    ) -> None:
        """Compile the steps whose first unit has this place, the outer ones first."""
        for step in self._expanded.row_steps:
            if step.first != index:
                continue
            outside = {parent for unit in step.inside for parent in parents[unit]}
            scope = NodeScope(
                step.place,
                upstream,
                tuple(sorted(outside.difference(step.inside))),
                self._columns,
                groups=step.around.groups,
                entries=self.entries(step.around.groups),
            )
            self.scopes.append(scope)
            if step.is_each:
                self.groups[step.number] = _compile_each(step, scope)
            else:
                self.conditions[step.number] = _compile_condition(step, scope)

    def finish(
        self, nodes: tuple[Node, ...]
    ) -> tuple[tuple[Node, ...], tuple[EachGroup, ...], tuple[Condition, ...]]:
        """The nodes with what depends on all of them, the `each` steps and the conditions; all are valid."""
        groups = tuple(group for group in self.groups if group is not None)
        conditions = tuple(condition for condition in self.conditions if condition is not None)
        steps = self._expanded.groups
        for step, group in zip(steps, groups, strict=True):
            _check_per_call(step, nodes[group.head])
        if groups:
            nodes = tuple(_finished(node, nodes, steps) for node in nodes)
        groups = tuple(
            _with_shown_paths(number, group, nodes) for number, group in enumerate(groups)
        )
        return nodes, groups, conditions


def _compile_each(step: RowStep, scope: NodeScope) -> EachGroup | None:
    roots = (*_ROW_STEP_ROOTS, *ENTRY_LISTS)
    entries = scope.expression(step.keys.each or "", roots, "each")
    if entries is None:
        return None
    kind = without_null(entries.type)
    entry: FieldType = UnknownType()
    if isinstance(kind, TextListType | ListType):
        entry = kind.item
    elif not isinstance(kind, TranscriptType | UnknownType):
        message = f"`each: {entries.text}` is of type {kind.type_name()}, not a list"
        hint = "name a list, such as `source.claims` of type `list[str]`"
        step.place.problem("bad-each", message, hint, "each")
        return None
    return EachGroup(
        name=step.keys.entry_name or ENTRY,
        entries=entries,
        most=MOST_ENTRIES if step.keys.most is None else step.keys.most,
        around=step.around.groups,
        checked=step.around.checked,
        nodes=tuple(step.inside),
        waits=tuple(sorted(scope.uses.units)),
        needs=scope.uses.needed,
        entry=entry,
    )


def _compile_condition(step: RowStep, scope: NodeScope) -> Condition | None:
    holds = scope.expression(step.keys.condition or "", _ROW_STEP_ROOTS, "when")
    if holds is None:
        return None
    kind = without_null(holds.type)
    if not isinstance(kind, UnknownType) and kind.json_schema() != TRUTH.json_schema():
        message = f"`when: {holds.text}` is of type {kind.type_name()}, not true or false"
        step.place.problem("bad-when", message, "compare: `previous.triage.score > 3`", "when")
        return None
    return Condition(holds, tuple(sorted(scope.uses.units)), scope.uses.needed)


def _check_per_call(step: RowStep, head: Node) -> None:
    """Report `per_call` around a unit that asks no decision model."""
    if step.keys.per_call is not None and not head.asks_decisions:
        message = "`per_call` bounds the questions that one request to a decision model has"
        hint = "leave `per_call` out: a chat model is asked about each entry by a call of its own"
        step.place.problem("bad-each", message, hint, "per_call")


def _finished(node: Node, nodes: Sequence[Node], steps: Sequence[RowStep]) -> Node:
    """The node with what depends on the others: its number in an entry, how its parents' outputs are spread, and the most
    questions of a request to a decision model."""
    alike = [other for other in nodes if other.name == node.name]
    is_numbered = len(node.groups) == 1 and all(other.groups == node.groups for other in alike)
    parents = [(parent, below(nodes[parent].groups, node.groups)) for parent in node.parents]
    is_spread = any(groups for _, groups in parents)
    asks_together = bool(node.groups) and node.asks_decisions
    return replace(
        node,
        copies=(alike.index(node), len(alike)) if is_numbered else None,
        spread=spread(parents) if is_spread else None,
        most_questions=(steps[node.groups[-1]].keys.per_call or 0) if asks_together else 0,
    )


def _with_shown_paths(number: int, group: EachGroup, nodes: Sequence[Node]) -> EachGroup:
    """The `each` with the paths into an entry that the prompt of a unit that runs for every entry shows."""
    paths: set[ExpressionPath] = set()
    for node in nodes:
        is_certain = node.groups[-1:] == (number,) and not node.checked and not group.checked
        if is_certain and isinstance(node.work, LLMNode):
            prompt = node.work.prompt
            slots = prompt.slots if isinstance(prompt, PlaceholderPrompt) else ()
            paths |= {slot.paths[0] for slot in slots if slot.paths[0][0] == group.name}
    return replace(group, shown=tuple(sorted(paths, key=str)))


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
        name = instance.name
        node_ids.append(name if total[name] == 1 else f"{name}[{numbered[name]}]")
        numbered[name] += 1
        if isinstance(instance, UnitInstance):
            _check_name(instance, first.setdefault(name, instance))
    return node_ids


def _check_name(instance: UnitInstance, first: UnitInstance) -> None:
    name, kind, other = instance.name, instance.unit.type_name, first.unit.type_name
    if name in RESERVED:
        message = f"a unit cannot be named {name!r}: result columns begin with it"
        instance.place.problem("reserved-name", message, "choose another `name`", "name")
    elif kind != other:
        message = f"the name {name!r} is used for a {kind} and for a {other}"
        hint = (
            "give one of them another `name`; only units of one type share a name and are numbered"
        )
        instance.place.problem("name-used-twice", message, hint, "name")


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
        self.names = Namespace(spec, self.tell, self.warn)
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

    def warn(self, problem: Problem) -> None:
        """Collects a warning; copies of a repeated unit give it once."""
        if problem not in self.warnings:
            self.warnings.append(problem)

    def run(self) -> Built:
        """Everything in turn; stops early only where nothing more can be said."""
        self.names.check()
        types = row_types(self.names)
        columns = types.fields if types else {}
        where, trace, span = (
            row_expression(Place(self.names, ("dataset",)), key, columns, self._use_column)
            for key in _ROW_EXPRESSIONS
        )
        expanded, block = expand_steps(self.names)
        row_steps = RowSteps(expanded, columns)
        compiled = self._nodes(expanded.instances, self._edges(block), columns, row_steps)
        nodes = tuple(node for node in compiled if node is not None)
        output_nodes = outputs(block)
        checked = CheckedEvaluations(set(), {}, {})
        if len(nodes) == len(compiled):
            checked = check_evaluations(
                self.names, nodes, output_nodes, self._use_column, row_steps.entries
            )
            self.used |= {*output_nodes, *checked.used}
        stops = [compile_early_stopping(layer, compiled, self.uses) for layer in expanded.stopping]
        early = tuple(stop for stop in stops if stop is not None)
        tables = load_published(self.names)
        self._raise()  # from here on every unit has a node
        instances = [item for item in expanded.instances if isinstance(item, UnitInstance)]
        nodes, groups, conditions = row_steps.finish(nodes)
        nodes = judge_digest(instances, nodes)
        check_calibrations(instances, nodes)
        self.problems += self.names.unused_problems()
        self._raise()
        self._warn_unused(nodes, instances)
        _warn_same_prompts(nodes, instances)
        idle_gates = self._idle_gates(checked.ends)
        self.warnings += idle_gates
        measured = self.spec.file.evaluate
        studies = {name: item for name, item in measured.items() if evaluator_of(item) is not None}
        evaluations = {
            name: expand_panel(item, nodes)
            for name, item in measured.items()
            if name not in studies
        }
        _warn_shown_labels(nodes, instances, evaluations, checked.targets)
        fingerprint, nodes = with_fingerprints(
            self.names, instances, nodes, output_nodes, early, groups, conditions
        )
        # Tags and marks come after the fingerprints: they are made from all prompts, and change none of what is asked.
        request_columns = tuple(sorted(used.column for used in self.columns.values() if used.asked))
        nodes = with_marks(with_row_tags(nodes, None if self.whole_row else request_columns), early)
        prompt_columns = {column for node in nodes for column in _shown_columns(node)}
        plan = Plan(
            name=self.spec.file.name,
            nodes=nodes,
            outputs=output_nodes,
            columns=tuple(
                replace(used, is_shown=used.column in prompt_columns)
                for used in self.columns.values()
            ),
            row_types=types,
            where=where,
            trace=trace,
            span=span,
            evaluations=evaluations,
            gates=self.spec.file.gates,
            scales=checked.ends,
            idle_gates=tuple(problem.message for problem in idle_gates),
            published=tables,
            resolved=resolve_pipeline(self.names),
            fingerprint=fingerprint,
            interval_level=self.spec.file.level,
            early=early,
            fence=self.spec.fence,
            braces=tuple(self.braces),
            evaluation_locations={
                name: self.spec.document.problem("", "", "", ("evaluate", name))
                for name in measured
            },
            studies=studies,
            groups=groups,
            conditions=conditions,
            is_shipped=is_shipped(Path(self.spec.document.file)),
        )
        return Built(plan, tuple(sort_problems(self.warnings)))

    def _raise(self) -> None:
        if self.problems:
            raise SpecError(sort_problems(self.problems))

    def _edges(self, block: LinkedBlock) -> set[Edge]:
        try:
            edges = set(islice(inner_edges(block), MOST_LINKS + 1))
        except WiringError as error:
            error.place.problem("unequal-sizes", error.message, error.hint)
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
        columns: Fields,
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
            groups = instance.flow.groups
            row_steps.begin(index, upstream, parents)
            valid = instance if isinstance(instance, UnitInstance) else None
            unit = Upstream(
                index,
                node_id,
                instance.name,
                tuple(parents[index]),
                groups=groups,
                pinned=instance.pinned,
            )
            scope = NodeScope(
                instance.place,
                upstream,
                unit.parents,
                columns,
                groups=groups,
                entries=row_steps.entries(groups),
                entries_of=row_steps.entries,
            )
            node, output = None, None
            if valid is not None and unknown.isdisjoint(unit.parents):
                node, output = compile_node(valid, unit, tuple(children[index]), scope)
            if output is None:
                unknown.add(index)
            nodes.append(node)
            upstream.append(unit if output is None else replace(unit, output=output))
            self.uses.append(frozenset(scope.uses.units))
            self._note_uses(scope, _letters(instance))
            if unit.pinned:
                _check_pinned_uses(scope, nodes)
            if node is not None and valid is not None:
                self._warn_of_repetition(node, valid)
                self._note_braces(node, instance.place)
                _check_item_column(node, instance.place)
                check_option_places(node, instance.place, nodes)
        for scope in row_steps.scopes:
            self._note_uses(scope)
        return nodes

    def _note_uses(self, scope: NodeScope, letters: Sequence[str] = ()) -> None:
        """Notes the units and columns that something uses; ``letters`` are columns that `options` could give."""
        self.used |= scope.uses.units
        self.whole_row |= scope.uses.whole_row
        for column in sorted(scope.uses.columns):
            self._use_column(column, scope.place, OPTIONS_HINT if column in letters else "")

    def _note_braces(self, node: Node, place: Place) -> None:
        """The prompt's brace texts that are a mistake where the data has the column that they name."""
        for brace in node.work.prompt.braces if isinstance(node.work, LLMNode) else ():
            for column in brace.columns:
                message = f"{brace.written} is literal text, but {column!r} is a column of the data"
                suggestion = brace.suggestion(column)
                hint = f"write {{{suggestion}}}; \\{brace.written} prints it literally"
                problem = place.located("literal-column", message, hint, "prompt")
                if LiteralBrace(column, problem) not in self.braces:
                    self.braces.append(LiteralBrace(column, problem))

    def _warn_of_repetition(self, node: Node, instance: UnitInstance) -> None:
        """Warn of a decision model that is asked the same several times: it nearly always answers the same."""
        models = tuple(model.endpoint_key for model in instance.models or ())
        key = (instance.place.path, models)
        if key in self._asked and node.asks_decisions:
            message = "repeats of a decision model give the same answer"
            instance.place.warn(message, "vary the wording, the order or the model")
        self._asked.add(key)

    def _use_column(self, column: str, place: Place, hint: str = "") -> None:
        path = place.path
        is_asked = path[0] not in _BESIDE
        key = path[2] if path[0] == "evaluate" else ""
        is_needed = is_asked or key != "by"
        used = self.columns.get(column) or UsedColumn(
            column, _location_of(column, place), asked=False, is_needed=False, is_label=True
        )
        self.columns[column] = replace(
            used,
            asked=used.asked or is_asked,
            is_needed=used.is_needed or is_needed,
            is_label=used.is_label and key in ("target", "gold"),
            hint=used.hint or hint,
        )

    def _idle_gates(self, scales: Mapping[str, Ends]) -> list[Problem]:
        """A warning for each limit that any value meets."""
        hint = "give a limit that a bad run fails"
        return [
            self.spec.document.problem("idle-gate", message, hint, ("gates", index, "min"))
            for index, message in idle_limits(self.spec.file.gates, scales)
        ]

    def _warn_unused(self, nodes: Sequence[Node], instances: Sequence[UnitInstance]) -> None:
        """Warns of each unit of the file whose output nobody uses, its copies together."""
        unused: dict[tuple[int, InstancePath], list[Node]] = {}
        for node, instance in zip(nodes, instances, strict=True):
            if node.index not in self.used:
                key = (id(instance.place.names), instance.place.path)
                unused.setdefault(key, []).append(node)
        for copies in unused.values():
            more = ", …" if len(copies) > 4 else ""
            ids = ", ".join(repr(node.id) for node in copies[:4]) + more
            message = f"the output of {ids} is never used"
            hint = "name it in a later prompt, or take the unit out"
            instances[copies[0].index].place.warn(message, hint, code="unused")


def _letters(instance: UnitInstance | InvalidUnit) -> Sequence[str]:
    """The letters of the options that a unit chooses among."""
    unit = instance.unit if isinstance(instance, UnitInstance) else None
    return unit.letters() if isinstance(unit, LLMUnit) else ()


def _check_item_column(node: Node, place: Place) -> None:
    """Report a unit inside `each` with a field that has the name of the column of entries."""
    if node.groups and ITEM_COLUMN in node.output.fields:
        message = f"a unit inside `each` cannot give a field {ITEM_COLUMN!r}: that column of the results has the entries"
        place.problem("reserved-name", message, "rename it with `propagate`")


def _check_pinned_uses(scope: NodeScope, nodes: CompiledNodes) -> None:
    """Report a pinned unit that uses the row, or a unit that runs for every row."""
    uses, place = scope.uses, scope.place
    if uses.columns or uses.whole_row:
        source = f"source.{min(uses.columns)}" if uses.columns else "source"
        message = f"a pinned unit runs once, but this one uses `{source}`"
        hint = "take the row out of it, or leave `pin` out"
        place.problem("pinned-uses-row", message, hint)
    for index in sorted(uses.units):
        before = nodes[index]
        if before is not None and not before.pinned:
            message = f"a pinned unit runs once, but this one uses {before.id!r}, which runs for every row"
            place.problem("pinned-uses-row", message, f"pin {before.id!r} too, or leave `pin` out")


def _warn_shown_labels(
    nodes: Sequence[Node],
    instances: Sequence[UnitInstance],
    evaluations: Evaluations,
    targets: Mapping[str, ExpressionPaths],
) -> None:
    """Warn of each prompt that shows the label which its judge is measured by."""
    for index, label, name in shown_labels(nodes, evaluations, targets):
        message = f"the prompt shows `{label}`, which is the target of `evaluate.{name}`"
        hint = "take the label out of the prompt, unless the judge is to see it"
        instances[index].place.warn(message, hint, "prompt", code="label-in-prompt")


def _warn_same_prompts(nodes: Sequence[Node], instances: Sequence[UnitInstance]) -> None:
    """Warn where no prompt shows anything of the row."""
    llm_nodes = [node for node in nodes if isinstance(node.work, LLMNode) and not node.pinned]
    if llm_nodes and not rows_shown(nodes):
        message = (
            "no prompt of the pipeline shows anything of the row: all rows get the same prompt"
        )
        hint = "show a column with {source.NAME}"
        instances[llm_nodes[0].index].place.warn(message, hint, "prompt", code="same-prompt")


def load_plan(
    document: Document,
    folder: Path,
    fence: PathPolicy | None = None,
    unit_types: UnitTypes | None = None,
) -> Built:
    """The plan of a document. SpecError with every mistake at once: those behind another one are found in a copy in which
    that one is corrected as its hint says. ``fence`` and ``unit_types`` as in `validate_document`.
    """
    problems: dict[str, Problem] = {}
    removed: list[DocumentPath] = []
    repaired_plan: Plan | None = None
    for _ in range(_MOST_ROUNDS):
        try:
            built = build_plan(validate_document(document, folder, None, fence, unit_types))
        except SpecError as error:
            _add(problems, error.problems, removed)
            repaired = correct_mistakes(document, _correctable(error))
            if repaired.document.data == document.data:
                break
            document, removed = repaired.document, [*removed, *repaired.removed]
        else:
            if not problems:
                return built
            repaired_plan = built.plan
            break
    raise SpecError(sort_problems(list(problems.values())), repaired_plan)


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
        "reduce",
        "response",
        "scale",
        "unit",
    )
)
"""Keys without which other parts of a unit cannot be judged."""


def _location_of(column: str, place: Place) -> Problem:
    """Where the text is that names the column, within a part of the file."""
    part: Any = place.names.spec.document.data
    try:
        for key in place.path:
            part = part[key]
    except (LookupError, TypeError):
        part = None  # a text that the file does not have, such as a default
    naming = ((keys, text) for keys, text in _texts(part, ()) if column in text)
    keys, text = next(naming, ((), ""))
    location = place.located("", "", "", *keys)
    above = text[: text.find(column)].count("\n")
    is_block = above > 0 or text.endswith("\n") or "\n" in text.rstrip("\n")
    return replace(location, line=location.line + 1 + above, column=0) if is_block else location


def _texts(part: Any, path: InstancePath) -> Iterator[tuple[InstancePath, str]]:
    """The texts of a part of a file, with their paths."""
    if isinstance(part, str):
        yield path, part
    elif isinstance(part, dict | list):
        for key, value in part.items() if isinstance(part, dict) else enumerate(part):
            yield from _texts(value, (*path, key))


def _shown_columns(node: Node) -> Iterator[str]:
    """The columns whose values a node's prompt shows without a default."""
    if not isinstance(node.work, LLMNode):
        return
    prompt = node.work.prompt
    if isinstance(prompt, PlaceholderPrompt):
        slots = [slot for slot in prompt.slots if "default" not in dict(slot.filters)]
        paths = [slot.written for slot in slots]
    else:
        paths = [path for path in prompt.paths if path not in prompt.tested]
    paths += node.work.option_paths
    paths += [cast.path for cast in node.casts if cast.path and cast.field in node.work.letters]
    for path in paths:
        if path[0] == "source" and len(path) == 2:
            yield str(path[1])


_UNKNOWN_NAMES = frozenset(("unknown-unit", "unknown-scale", "unknown-extractor"))
"""Problems whose hint has the name to write."""


_MOST_ROUNDS = 6
"""Mistakes behind mistakes that are looked for."""


def _add(
    problems: dict[str, Problem], further: Sequence[Problem], removed: Sequence[DocumentPath]
) -> None:
    """Add the problems that are no consequence of a value that was taken out of the same mapping, unit or evaluation."""
    spoiled = {format_path(path[:2]) for path in removed if path[-1] in _NEEDED_BY_OTHERS}
    taken_out = {format_path(path) for path in removed}
    incomplete = {format_path(path[:-1]) for path in removed}
    for problem in further:
        is_about_rest = problem.path in incomplete and problem.code != "missing-key"
        lacks_value = problem.path in taken_out or is_about_rest
        is_spoiled = any(f"{problem.path}.".startswith(f"{part}.") for part in spoiled)
        if not lacks_value and (not is_spoiled or problem.code in _NAME_PROBLEMS):
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
