"""From a spec to a plan: seats, links, names, nodes, and every check that needs no row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from verdict_cli.errors import Problem, SpecError
from verdict_cli.expressions import Expression
from verdict_cli.fields import FieldType, Record
from verdict_cli.plan.compile import compile_node, compiled
from verdict_cli.plan.measured import check_evaluations
from verdict_cli.plan.node import Node, Plan, Used
from verdict_cli.plan.resolved import fingerprint, resolved
from verdict_cli.plan.scope import Scope, Upstream
from verdict_cli.plan.seats import Seat, seat
from verdict_cli.plan.wiring import Block, Edge, WiringError, inner_edges, outputs
from verdict_cli.spec import Namespace, Spec
from verdict_cli.spec.load import in_order
from verdict_cli.spec.namespace import UnknownNameError


@dataclass(frozen=True)
class Built:
    """A plan, what its author is warned of, and each cast input field: (node, field, where it comes from)."""

    plan: Plan
    warnings: tuple[Problem, ...]


def build(spec: Spec) -> Built:
    """The plan of a pipeline. SpecError with every problem that can be found."""
    return _Build(spec).run()


class _Build:
    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.names = Namespace(spec, self.tell)
        self.columns: dict[str, Used] = {}

    def tell(self, problem: Problem) -> None:
        """Collects a problem; copies of a repeated unit tell it once."""
        if problem not in self.problems:
            self.problems.append(problem)

    def run(self) -> Built:
        """Everything in turn; stops early only where nothing more can be said."""
        self.names.check()
        row_types = self._row_types()
        seated = seat(self.names)
        if seated is None:
            raise SpecError(in_order(self.problems))
        seats, block = seated
        edges = self._edges(block)
        ids = self._ids(seats)
        last = outputs(block)
        nodes, used = self._nodes(seats, ids, edges, row_types.fields if row_types else {})
        where = self._where(row_types)
        seen = check_evaluations(self.names, nodes, last, self._use_column) if nodes is not None else set()
        if self.problems or nodes is None:
            raise SpecError(in_order(self.problems))
        self._warn_unused(nodes, used | set(last) | seen)
        spec = resolved(self.names)
        plan = Plan(
            name=self.spec.file.name,
            nodes=nodes,
            outputs=last,
            columns=tuple(self.columns.values()),
            row_types=row_types,
            where=where,
            evaluations=self.spec.file.evaluate,
            gates=self.spec.file.gates,
            published=spec.published,
            resolved=spec.data,
            fingerprint=fingerprint(spec.data),
        )
        if self.problems:
            raise SpecError(in_order(self.problems))
        return Built(plan, tuple(in_order(self.warnings)))

    def _edges(self, block: Block) -> set[Edge]:
        try:
            return set(inner_edges(block))
        except WiringError as error:
            names, path = error.at  # type: ignore[misc]
            names.problem("unequal-sizes", error.message, error.hint, path)
            return set()

    def _ids(self, seats: Sequence[Seat]) -> list[str]:
        """`judge` where the name is unique, else `judge[0]`, `judge[1]` … in order of definition."""
        total = Counter(one.name for one in seats)
        types: dict[str, Seat] = {}
        given: Counter[str] = Counter()
        ids = []
        for one in seats:
            first = types.setdefault(one.name, one)
            if first.unit.type_name != one.unit.type_name:
                one.names.problem(
                    "name-used-twice",
                    f"the name {one.name!r} is used for a {one.unit.type_name} and for a {first.unit.type_name}",
                    "give one of them another `name`; only units of one type share a name and are numbered",
                    (*one.path, "name"),
                )
            ids.append(one.name if total[one.name] == 1 else f"{one.name}[{given[one.name]}]")
            given[one.name] += 1
        return ids

    def _nodes(
        self, seats: Sequence[Seat], ids: Sequence[str], edges: set[Edge], columns: dict[str, FieldType]
    ) -> tuple[tuple[Node, ...] | None, set[int]]:
        parents: list[list[int]] = [[] for _ in seats]
        children: list[list[int]] = [[] for _ in seats]
        for before, after in sorted(edges):
            parents[after].append(before)
            children[before].append(after)
        upstream: list[Upstream] = []
        nodes: list[Node | None] = []
        used: set[int] = set()
        for index, one in enumerate(seats):
            place = Upstream(index, ids[index], one.name, tuple(parents[index]), Record({}))
            if any(nodes[parent] is None for parent in place.parents):
                nodes.append(None)
                upstream.append(place)
                continue
            scope = Scope(upstream, place.parents, columns)
            node = compile_node(one, place, tuple(children[index]), scope, self._warner(one))
            nodes.append(node)
            upstream.append(place if node is None else replace(place, output=node.output))
            used |= scope.used_units
            for column in sorted(scope.used_columns):
                self._use_column(column, one.names, one.path)
            if node is not None and node.pinned:
                self._check_pinned_uses(one, scope, nodes)
        whole = [node for node in nodes if node is not None]
        return (tuple(whole) if len(whole) == len(nodes) else None), used

    def _check_pinned_uses(self, one: Seat, scope: Scope, nodes: Sequence[Node | None]) -> None:
        for index in sorted(scope.used_units):
            before = nodes[index]
            if before is not None and not before.pinned:
                one.names.problem(
                    "pinned-uses-row",
                    f"a pinned unit runs once, but this one uses {before.id!r}, which runs for every row",
                    f"pin {before.id!r} too, or leave `pin` out",
                    one.path,
                )

    def _warner(self, one: Seat):  # type: ignore[no-untyped-def]
        def warn(message: str, hint: str, path: tuple[str | int, ...]) -> None:
            found = one.names.spec.problem("suspicious", message, hint, path)
            if found not in self.warnings:
                self.warnings.append(found)

        return warn

    def _use_column(self, column: str, names: Namespace, path: tuple[str | int, ...]) -> None:
        if column not in self.columns:
            at = names.spec.problem("", "", "", path)
            self.columns[column] = Used(column, f"{at.file}:{at.line}:{at.column}: {at.path}")

    def _row_types(self) -> Record | None:
        from verdict_cli.fields import field_type

        declared = self.spec.file.dataset.types
        if declared is None:
            return None
        types = {}
        for name, key in declared.items():
            try:
                types[name] = field_type(key, self.names.scale_named)
            except UnknownNameError as error:
                self.names.problem(
                    "unknown-type",
                    error.message.replace("scale", "type or scale", 1),
                    error.hint,
                    ("dataset", "schema", name),
                )
        return Record(types)

    def _where(self, row_types: Record | None) -> Expression | None:
        text = self.spec.file.dataset.where
        if text is None:
            return None
        path = ("dataset", "where")
        scope = Scope((), (), row_types.fields if row_types else {})
        where = compiled(
            text,
            ("source",),
            scope.resolve,
            lambda message, hint: self.names.problem("bad-expression", message, hint, path),
        )
        for column in sorted(scope.used_columns):
            self._use_column(column, self.names, path)
        return where

    def _warn_unused(self, nodes: tuple[Node, ...], used: set[int]) -> None:
        for node in nodes:
            if node.index not in used:
                found = self.spec.problem(
                    "unused",
                    f"nobody uses the output of {node.id!r}",
                    "name it in a later prompt, or take the unit out",
                    ("pipeline",),
                )
                self.warnings.append(found)
