"""Build a plan from a pipeline: units, links, ids, and every check that needs no row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from verdict_cli.errors import Problem, SpecError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.expressions.paths import format_expression_path
from verdict_cli.language.fields.types import FieldType
from verdict_cli.language.load import Spec, in_order
from verdict_cli.language.namespace import Namespace
from verdict_cli.plan.check_evaluations import check_evaluations, load_published
from verdict_cli.plan.compile import compile_node
from verdict_cli.plan.expand import InstancePath, InvalidUnit, Stopping, UnitInstance, expand_steps
from verdict_cli.plan.fingerprint import fingerprints
from verdict_cli.plan.judge_digest import check_calibrations, judge_digest
from verdict_cli.plan.link import Edge, LinkedBlock, WiringError, inner_edges, outputs
from verdict_cli.plan.node import Brace, Early, LLMNode, Node, Plan, Used
from verdict_cli.plan.possible_predictions import shown_labels
from verdict_cli.plan.resolve import resolve_pipeline
from verdict_cli.plan.result_scope import spread
from verdict_cli.plan.row_types import row_types, where
from verdict_cli.plan.scope import NodeScope, Upstream

RESERVED = frozenset({"source", "output", "failure", "row", "id", "status", "calls", "cost_usd"})
"""Heads of the result columns that no unit brings."""


def ids(seats: Sequence[UnitInstance | InvalidUnit]) -> list[str]:
    """Each seat's id, numbered in order of definition; tells of a name that units of two types share."""
    total = Counter(one.name for one in seats)
    given: Counter[str] = Counter()
    first: dict[str, UnitInstance] = {}
    made = []
    for one in seats:
        made.append(one.name if total[one.name] == 1 else f"{one.name}[{given[one.name]}]")
        given[one.name] += 1
        if isinstance(one, UnitInstance):
            _check(one, first.setdefault(one.name, one))
    return made


def _check(one: UnitInstance, first: UnitInstance) -> None:
    path = (*one.path, "name")
    if one.name in RESERVED:
        one.names.problem(
            "reserved-name",
            f"a unit cannot be named {one.name!r}: result columns begin with it",
            "choose another `name`",
            path,
        )
    elif one.unit.type_name != first.unit.type_name:
        one.names.problem(
            "name-used-twice",
            f"the name {one.name!r} is used for a {one.unit.type_name} and for a {first.unit.type_name}",
            "give one of them another `name`; only units of one type share a name and are numbered",
            path,
        )


MOST_LINKS = 1_000_000
"""The most links that a pipeline may have."""
_BESIDE = frozenset({"dataset", "evaluate", "gates"})
"""Sections whose columns no unit needs."""


@dataclass(frozen=True)
class Built:
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
        self.columns: dict[str, Used] = {}
        self.braces: list[Brace] = []
        self.used: set[int] = set()
        self.uses: list[frozenset[int]] = []

    def tell(self, problem: Problem) -> None:
        """Collects a problem; copies of a repeated unit tell it once."""
        if problem not in self.problems:
            self.problems.append(problem)

    def run(self) -> Built:
        """Everything in turn; stops early only where nothing more can be said."""
        self.names.check()
        types = row_types(self.names)
        selected = where(self.names, types, self._use_column)
        seats, block, stopping = expand_steps(self.names)
        made = self._nodes(seats, self._edges(block), types.fields if types else {})
        nodes = tuple(node for node in made if node is not None)
        last = outputs(block)
        if len(nodes) == len(seats):
            self.used |= set(last) | check_evaluations(self.names, nodes, last, self._use_column)
        early = self._stops(stopping, made)
        tables = load_published(self.names)
        self._raise()
        placed = [one for one in seats if isinstance(one, UnitInstance)]
        nodes = judge_digest(placed, nodes)
        check_calibrations(placed, nodes)
        self._raise()
        self._warn_unused(nodes, seats)
        data = resolve_pipeline(self.names)
        named = [node.id for node in nodes]
        evaluations = {name: spread(one, named) for name, one in self.spec.file.evaluate.items()}
        self._warn_shown(nodes, placed, evaluations)
        whole, each = fingerprints(self.names, placed, nodes, last, early)
        plan = Plan(
            name=self.spec.file.name,
            nodes=tuple(replace(node, fingerprint=one) for node, one in zip(nodes, each, strict=True)),
            outputs=last,
            columns=tuple(self.columns.values()),
            row_types=types,
            where=selected,
            evaluations=evaluations,
            gates=self.spec.file.gates,
            published=tables,
            resolved=data,
            fingerprint=whole,
            early=early,
            fence=self.spec.fence,
            braces=tuple(self.braces),
            places={name: self.spec.problem("", "", "", ("evaluate", name)) for name in evaluations},
        )
        return Built(plan, tuple(in_order(self.warnings)))

    def _stops(self, stopping: Sequence[Stopping], made: Sequence[Node | None]) -> tuple[Early, ...]:
        if not stopping:
            return ()
        from verdict_cli.plan.early_stopping import compile_early_stopping  # here, because few layers stop early

        return tuple(filter(None, (compile_early_stopping(one, made, self.uses) for one in stopping)))

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
        self, seats: Sequence[UnitInstance | InvalidUnit], edges: set[Edge], columns: Mapping[str, FieldType]
    ) -> list[Node | None]:
        """A node for each seat; None, and told, where something is wrong with it."""
        parents: list[list[int]] = [[] for _ in seats]
        children: list[list[int]] = [[] for _ in seats]
        for before, after in sorted(edges):
            parents[after].append(before)
            children[before].append(after)
        upstream: list[Upstream] = []
        nodes: list[Node | None] = []
        unknown: set[int] = set()
        for index, (one, name) in enumerate(zip(seats, ids(seats), strict=True)):
            place = Upstream(index, name, one.name, tuple(parents[index]))
            scope = NodeScope(upstream, place.parents, columns)
            node, output = None, None
            if isinstance(one, UnitInstance) and unknown.isdisjoint(place.parents):
                node, output = compile_node(one, place, tuple(children[index]), scope, self._warner(one))
            if output is None:
                unknown.add(index)
            nodes.append(node)
            upstream.append(place if output is None else replace(place, output=output))
            self.used |= scope.uses.units
            self.uses.append(frozenset(scope.uses.units))
            for column in sorted(scope.uses.columns):
                self._use_column(column, one.names, one.path)
            if node is not None and isinstance(one, UnitInstance):
                self._note_braces(node, one)
            if node is not None and node.pinned:
                self._check_pinned_uses(one, scope, nodes)
        return nodes

    def _note_braces(self, node: Node, one: UnitInstance) -> None:
        """The prompt's braces around a bare name, which are a mistake where the data has that column."""
        for written, name in node.work.prompt.bare if isinstance(node.work, LLMNode) else ():
            path = format_expression_path(("source", name))
            message = f"{written} is literal text, but {name!r} is a column of the data"
            hint = f"write {{{path}}}; \\{written} prints it literally"
            problem = one.names.spec.problem("literal-column", message, hint, (*one.path, "prompt"))
            if Brace(name, problem) not in self.braces:
                self.braces.append(Brace(name, problem))

    def _check_pinned_uses(
        self, one: UnitInstance | InvalidUnit, scope: NodeScope, nodes: Sequence[Node | None]
    ) -> None:
        for index in sorted(scope.uses.units):
            before = nodes[index]
            if before is not None and not before.pinned:
                one.names.problem(
                    "pinned-uses-row",
                    f"a pinned unit runs once, but this one uses {before.id!r}, which runs for every row",
                    f"pin {before.id!r} too, or leave `pin` out",
                    one.path,
                )

    def _warner(self, one: UnitInstance) -> Callable[[str, str, InstancePath], None]:
        def warn(message: str, hint: str, path: InstancePath) -> None:
            self._warn(one.names.spec.problem("suspicious", message, hint, path))

        return warn

    def _warn(self, found: Problem) -> None:
        if found not in self.warnings:
            self.warnings.append(found)

    def _use_column(self, column: str, names: Namespace, path: InstancePath) -> None:
        asked = path[0] not in _BESIDE
        known = self.columns.get(column)
        if known is None:
            at = names.spec.problem("", "", "", path)
            self.columns[column] = Used(column, str(at), asked)
        elif asked and not known.asked:
            self.columns[column] = replace(known, asked=True)

    def _warn_shown(
        self, nodes: Sequence[Node], seats: Sequence[UnitInstance], evaluations: Mapping[str, Evaluation]
    ) -> None:
        """Warns of each prompt that shows the label which its judge is measured by."""
        for index, label, name in shown_labels(nodes, evaluations):
            one = seats[index]
            message = f"the prompt shows `{label}`, which is the target of `evaluate.{name}`"
            hint = "take the label out of the prompt, unless the judge is to see it"
            path = (*one.path, "prompt")
            self._warn(one.names.spec.problem("label-in-prompt", message, hint, path))

    def _warn_unused(self, nodes: Sequence[Node], seats: Sequence[UnitInstance | InvalidUnit]) -> None:
        """Warns of each unit of the file whose output nobody uses, its copies together."""
        copies: dict[tuple[int, InstancePath], list[tuple[str, Namespace]]] = {}
        for node, one in zip(nodes, seats, strict=True):
            if node.index not in self.used:
                copies.setdefault((id(one.names), one.path), []).append((node.id, one.names))
        for (_, path), unused in copies.items():
            said = ", ".join(repr(name) for name, _ in unused[:4]) + (", …" if len(unused) > 4 else "")
            hint = "name it in a later prompt, or take the unit out"
            names = unused[0][1]
            self._warn(names.spec.problem("unused", f"nobody uses the output of {said}", hint, path))
