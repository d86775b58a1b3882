"""What a path means at a node: `previous`, `input`, `source`, `unit`, `response`, and its type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from verdict_cli.language.document.error_messages import nearest_spelling
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.expressions.expression import Expression
from verdict_cli.language.expressions.paths import (
    ExpressionError,
    ExpressionPath,
    Resolved,
    RowValues,
    format_expression_path,
)
from verdict_cli.language.fields.types import (
    INTEGER,
    NUMBER,
    DistributionType,
    Fields,
    FieldType,
    ItemsType,
    ListType,
    PlainType,
    RecordType,
    ScaleType,
    TextListType,
    UnknownType,
    list_of,
    without_null,
)
from verdict_cli.plan.levels import below, listed
from verdict_cli.plan.link import Indices
from verdict_cli.plan.node import Node
from verdict_cli.plan.place import Place
from verdict_cli.regex import regex


def type_at_path(
    kind: FieldType, tail: ExpressionPath, where: str
) -> tuple[ExpressionPath, FieldType]:
    """The rest of a path as it is followed at run time, and the type found there. ExpressionError when there is none."""
    if not tail:
        return (), kind
    part, more = tail[0], tail[1:]
    kind = without_null(kind)
    if isinstance(kind, RecordType):
        inner = kind.kind_of(part)
        if inner is None:
            close = nearest_spelling(str(part), kind.fields, most=0)
            hint = close or f"its fields are {', '.join(kind.fields) or 'none'}"
            raise ExpressionError(f"{where} has no field {part!r}", hint)
        deeper, type_found = type_at_path(inner, more, f"{where}.{part}")
        return (part, *deeper), type_found
    if isinstance(kind, DistributionType):
        value = next(
            (value for token, value in kind.scale.tokens() if value == part or token == str(part)),
            None,
        )
        if value is None or more:
            raise ExpressionError(
                f"{where} has no value {part!r}", f"the scale's values are {kind.scale.display()}"
            )
        return (value,), NUMBER
    if isinstance(kind, TextListType | ListType) and isinstance(part, int):
        deeper, type_found = type_at_path(kind.item, more, f"{where}[{part}]")
        return (part, *deeper), type_found
    if isinstance(kind, ScaleType | PlainType | TextListType | ListType):
        raise ExpressionError(f"{where} is of type {kind.type_name()} and has no part {part!r}", "")
    return tail, UnknownType()


def resolved_below(
    base: ExpressionPath,
    kind: FieldType,
    tail: ExpressionPath,
    where: str,
    *,
    trusted: bool = False,
) -> Resolved:
    """What a path below a value of this type means. ExpressionError where there is nothing."""
    followed, type_found = type_at_path(kind, tail, where)
    return Resolved(((*base, *followed),), type_found, trusted=trusted)


EntriesOf = Callable[[Sequence[int]], Fields]
"""Gives the names that units inside these `each` steps see, with their types."""

SAY_FIELDS = "say which fields it gives: `fields=['score']`"
"""What to do about a Python function that raises on made-up values."""


class Upstream(Struct, frozen=True):
    """An earlier unit: its index in the plan, its id, name, parents and output, the `each` steps around it, and whether it
    is pinned."""

    index: int
    id: str
    name: str
    parents: Indices
    output: RecordType = field(default_factory=lambda: RecordType({}))
    groups: Indices = ()
    pinned: bool = False


class Uses(Struct):
    """What the paths of one node name: columns of the row, the whole row, input fields, the whole input, indices of
    units; the units whose output it reads, and those of which it tests whether they have one."""

    columns: set[str] = set()
    whole_row: bool = False
    inputs: set[str] = set()
    whole_input: bool = False
    units: set[int] = set()
    needs: set[int] = set()
    tested: set[int] = set()

    def need(self, unit: Upstream) -> None:
        """Note that the output of a unit is read."""
        self.units.add(unit.index)
        self.needs.add(unit.index)

    @property
    def needed(self) -> frozenset[int]:
        """The units without whose output the node is skipped."""
        return frozenset(self.needs - self.tested)


class NodeScope(Struct):
    """Resolves the paths of one node, or step, at its ``place``, and remembers in ``uses`` what they name.

    ``input`` are the declared input fields; ``fixed`` the roots whose fields are known here (`unit`, `response`,
    `output`); ``columns`` the types of the dataset's declared columns. Inside the `each` steps ``groups``, ``entries`` are the
    types of their entries by name, and of `index`; ``entries_of`` gives those inside other `each` steps.
    """

    place: Place
    upstream: Sequence[Upstream]
    parents: Indices
    columns: Fields
    input: Fields | None = None
    fixed: Mapping[str, RecordType] = {}
    uses: Uses = field(default_factory=Uses)
    groups: Indices = ()
    entries: Fields = {}
    entries_of: EntriesOf = lambda _: {}

    def resolve(self, path: ExpressionPath) -> Resolved:
        """What the path means. ExpressionError when it cannot be resolved."""
        root = str(path[0])
        resolvers = {
            "source": self._source,
            "previous": self._previous,
            "input": self._input,
            "outputs": self._outputs,
        }
        if root in resolvers:
            return resolvers[root](path)
        kind = self.entries.get(root) or self.fixed.get(root)
        if kind is None:
            return Resolved((path,))
        return resolved_below((root,), kind, path[1:], root)

    def seen(self, unit: Upstream) -> RecordType:
        """The unit's output as this node sees it: lists, where the unit is inside an `each` and the node is not."""
        return listed(unit.output, self.depth(unit))

    def parent_units(self) -> list[Upstream]:
        """The units that this one depends on, in order of definition."""
        return [self.upstream[index] for index in self.parents]

    def at_row(self, previous: RowValues) -> NodeScope:
        """The same scope with the fields that only a row shows, from the outputs of the row."""
        if not any(unit.output.unknown for unit in self.parent_units()):
            return self
        upstream = list(self.upstream)
        for unit in self.upstream:
            if unit.output.unknown and not self.depth(unit):
                fields: Fields = dict.fromkeys(previous.get(unit.id) or (), UnknownType())
                upstream[unit.index] = replace(unit, output=RecordType(fields))
        return replace(self, upstream=upstream)

    def depth(self, unit: Upstream) -> int:
        """How many `each` steps the unit is inside that the node is not."""
        return len(below(unit.groups, self.groups))

    def behind(self) -> NodeScope:
        """The same scope as an expression for each of the entries before this node sees it: with their names."""
        entries = dict(self.entries)
        for unit in reversed(self.parent_units()):
            if self.depth(unit):
                entries |= self.entries_of(unit.groups)
        return replace(self, entries=entries | {"index": INTEGER})

    def note_tested(self, paths: Iterable[ExpressionPath]) -> None:
        """Note the units of which an expression tests whether they have an output."""
        for path in paths:
            if path[0] == "previous" and len(path) > 1:
                ids = {target[1] for target in self.resolve(path).paths}
                self.uses.tested.update(unit.index for unit in self.upstream if unit.id in ids)

    def expression(self, text: str, roots: Sequence[str], *keys: str | int) -> Expression | None:
        """The compiled expression at a key; None, and reported, when it can never be evaluated."""
        compiled = self.place.expression(text, (*roots, *self.entries), self.resolve, *keys)
        if compiled is not None:
            self.note_tested(compiled.tested)
        return compiled

    def with_fields(self, **fixed: RecordType) -> NodeScope:
        """The same scope in which these roots are known too. What they use is remembered here as well."""
        return replace(self, fixed={**self.fixed, **fixed})

    def _source(self, path: ExpressionPath) -> Resolved:
        if len(path) == 1:
            self.uses.whole_row = True
            return Resolved((path,))
        column = path[1]
        if not isinstance(column, str):
            raise ExpressionError("the row is a mapping, not a list", "write `source.COLUMN`")
        self.uses.columns.add(column)
        if column not in self.columns:
            return Resolved((path,))
        where = f"source.{column}"
        return resolved_below(path[:2], self.columns[column], path[2:], where)

    def _previous(self, path: ExpressionPath) -> Resolved:
        direct = self.parent_units()
        if len(path) == 1:
            if len(direct) != 1:
                raise ExpressionError(
                    f"`previous` alone means one unit, here are {len(direct)}", self._known(direct)
                )
            return self.at(direct[0], ())
        word, tail = path[1], path[2:]
        units = [unit for unit in direct if unit.name == word]
        # A field comes before a unit of its name, but for a path that continues below a direct dependency of that name.
        if not units or not tail:
            self._check_certain(str(word), direct)
            fielded = [unit for unit in direct if unit.output.kind_of(word) is not None]
            if fielded:
                return self._field(fielded, path[1:])
        units = units or self._nearest(str(word))
        if units:
            return self._named(units, tail, path)
        names = {name for unit in direct for name in unit.output.fields} | {
            unit.name for unit in self.upstream
        }
        raise ExpressionError(
            f"no unit before this one gives {word!r}",
            nearest_spelling(str(word), names, most=0) or self._known(direct),
        )

    def _check_certain(self, word: str, direct: Sequence[Upstream]) -> None:
        """ExpressionError where a unit whose fields only a row shows may give the word, and something else has it too:
        which of them is meant would depend on the row."""
        unit = next(
            (unit for unit in direct if unit.output.unknown and word not in unit.output.fields),
            None,
        )
        if unit is None:
            return
        alternatives = [
            candidate
            for candidate in direct
            if candidate is not unit and (candidate.output.kind_of(word) or candidate.name == word)
        ]
        alternative = next(iter(alternatives or self._nearest(word)), None)
        if alternative is not None:
            raise ExpressionError(
                f"{word!r} may be a field of {unit.id}, whose fields are not known ({unit.output.unknown}), or mean "
                f"{alternative.id}",
                SAY_FIELDS,
            )

    def _field(self, units: list[Upstream], tail: ExpressionPath) -> Resolved:
        if len(units) == 1:
            return self.at(units[0], tail)
        first, separator = units[0], " and " if len(units) == 2 else ", "
        place = "[0]" if first.id.endswith("]") else ""
        raise ExpressionError(
            f"{len(units)} units give {tail[0]!r}: {separator.join(unit.id for unit in units)}",
            f"say which: `previous.{first.name}{place}.{tail[0]}`, or pool them first",
        )

    def _named(self, units: list[Upstream], tail: ExpressionPath, path: ExpressionPath) -> Resolved:
        if tail and isinstance(tail[0], int):
            if not -len(units) <= tail[0] < len(units):
                raise ExpressionError(
                    f"there are {len(units)} units named {path[1]!r} before this one, numbered from 0",
                    f"use [0] to [{len(units) - 1}]",
                )
            return self.at(units[tail[0]], tail[1:])
        if len(units) == 1:
            return self.at(units[0], tail)
        if tail:
            ids = ", ".join(unit.id for unit in units)
            raise ExpressionError(
                f"{len(units)} units are named {path[1]!r}: {ids}",
                f"say which: `previous.{path[1]}[0].{tail[0]}`",
            )
        for unit in units:
            self.uses.need(unit)
        kind = ItemsType(tuple(self._whole(unit) for unit in units))
        return Resolved(tuple(("previous", unit.id) for unit in units), kind, many=True)

    def _nearest(self, name: str) -> list[Upstream]:
        """The ancestors of that name that are fewest links away, in order of definition."""
        ancestors: set[int] = set(self.parents)
        ring = set(self.parents)
        while ring:
            matches = [
                self.upstream[index] for index in sorted(ring) if self.upstream[index].name == name
            ]
            if matches:
                return matches
            ring = {parent for index in ring for parent in self.upstream[index].parents} - ancestors
            ancestors |= ring
        return []

    def at(self, unit: Upstream, tail: ExpressionPath) -> Resolved:
        """What a path below a unit's output means."""
        self.uses.need(unit)
        base = ("previous", unit.id)
        if not self.depth(unit):
            return resolved_below(base, unit.output, tail, unit.id, trusted=unit.pinned)
        is_field = bool(tail) and not isinstance(tail[0], int)
        if unit.output.unknown and is_field:
            message = (
                f"{unit.id} is inside `each`, and its fields are not known: {unit.output.unknown}"
            )
            raise ExpressionError(message, SAY_FIELDS)
        if not is_field:
            return resolved_below(base, self._whole(unit), tail, unit.id)
        name = str(tail[0])
        if name not in unit.output.fields:
            return resolved_below(base, unit.output, tail, unit.id)
        lists = self.seen(unit).fields[name]
        where = f"{unit.id}.{name}"
        return resolved_below(("previous", where), lists, tail[1:], where)

    def _whole(self, unit: Upstream) -> FieldType:
        """The type of a unit's whole output; of a unit inside an `each`, of the list of its outputs."""
        whole: FieldType = unit.output
        for _ in range(self.depth(unit)):
            whole = list_of(whole)
        return whole

    def _input(self, path: ExpressionPath) -> Resolved:
        declared = self.input or {}
        if len(path) > 1 and path[1] in declared:
            self.uses.inputs.add(str(path[1]))
            kind = declared[str(path[1])]
            return resolved_below(path[:2], kind, path[2:], f"input.{path[1]}")
        if self.input is not None and len(path) == 1:
            self.uses.whole_input = True
            return Resolved((path,))
        if not self.parents:
            word = format_expression_path(path)
            raise ExpressionError(
                f"`{word}`: no unit precedes this one",
                f"the row's columns are `{word.replace('input', 'source', 1)}`",
            )
        return self._previous(("previous", *path[1:]))

    def _outputs(self, path: ExpressionPath) -> Resolved:
        self.uses.units.update(self.parents)
        if len(path) == 1:
            return Resolved((path,), ItemsType(tuple(unit.output for unit in self.parent_units())))
        index = path[1]
        if isinstance(index, int) and any(
            self.depth(self.upstream[parent]) for parent in self.parents
        ):
            return Resolved((path,))  # how many outputs there are depends on the row
        if not isinstance(index, int):
            raise ExpressionError(
                f"`outputs` is a list, it has no {index!r}",
                "write `outputs[0].score`, or `outputs | map(attribute='score')`",
            )
        if not -len(self.parents) <= index < len(self.parents):
            raise ExpressionError(
                f"there is no `outputs[{index}]`: {len(self.parents)} units precede this one",
                "they are numbered from 0",
            )
        unit = self.upstream[self.parents[index]]
        where = f"outputs[{index}] ({unit.id})"
        return resolved_below(path[:2], unit.output, path[2:], where)

    def _known(self, direct: list[Upstream]) -> str:
        if not direct:
            return "no unit precedes this one; the row's columns are `source.COLUMN`"
        fields = [f"{unit.id}: {', '.join(unit.output.fields) or 'nothing'}" for unit in direct[:6]]
        return f"what precedes it gives {'; '.join(fields)}"


RESULT_ROOTS = ("source", "output", "nodes")
EVALUATION_ROOTS = (*RESULT_ROOTS, "human")
"""Evaluations also see the human labels of a row, in `labels.jsonl` in the run's directory."""
HUMAN_FIELDS = ("label", "note", "inclusion")


class ResultScope(Struct):
    """Resolves paths into a pipeline's outputs; ``used`` are the places of the units that they name.

    For metrics of entries, ``item`` is the unit whose outputs they are of, and ``entries`` has the types of the entries'
    names.
    """

    nodes: Sequence[Node]
    outputs: Sequence[int]
    used: set[int] = set()
    item: Node | None = None
    entries: Fields = {}

    @property
    def roots(self) -> tuple[str, ...]:
        """The names that expressions can use."""
        return (*EVALUATION_ROOTS, *self.entries)

    def of_items(self, unit: str, entries: EntriesOf) -> ResultScope:
        """The scope of the entries of a unit inside `each`. ExpressionError where there is no such unit."""
        node = self._node(unit)
        if node is None:
            copies = [node.id for node in self.nodes if node.name == unit]
            ids = [node.id for node in self.nodes if node.groups]
            hint = f"say which: {', '.join(copies)}" if copies else nearest_spelling(unit, ids)
            raise ExpressionError(f"there is no unit {unit!r}", hint)
        if not node.groups:
            hint = (
                "metrics of rows need no `items`; `each` makes a unit run for every entry of a list"
            )
            raise ExpressionError(f"{unit!r} is not inside an `each`, so it has no entries", hint)
        self.used.add(node.index)
        return replace(self, item=node, entries=entries(node.groups))

    def resolve(self, path: ExpressionPath) -> Resolved:
        """What the path means. ExpressionError when it cannot be resolved."""
        root, tail = str(path[0]), path[1:]
        if root in self.entries:
            return resolved_below((root,), self.entries[root], tail, root)
        if root == "output":
            return resolved_below((root,), self._output(), tail, root)
        if root == "nodes" and tail:
            node = self._node(tail[0])
            if node is None:
                hint = nearest_spelling(str(tail[0]), [node.id for node in self.nodes])
                raise ExpressionError(f"there is no unit {tail[0]!r}", hint)
            self.used.add(node.index)
            return resolved_below((root, node.id), node.result, tail[1:], node.id)
        is_person = len(tail) == 2 and tail[0] == "labels"
        is_human_field = len(tail) == 1 and tail[0] in HUMAN_FIELDS
        if root == "human" and not is_person and not is_human_field:
            fields = "`human.label`, `human.note`, `human.inclusion`, or one person's label: `human.labels['NAME']`"
            raise ExpressionError("`human` has no such field", f"write {fields}")
        return Resolved((path,))

    def _node(self, unit: object) -> Node | None:
        return next((node for node in self.nodes if node.id == unit), None)

    def _output(self) -> RecordType:
        """The fields of an entry's output, or of the row's. ExpressionError where the pipeline gives several."""
        if self.item is not None:
            return self.item.output
        if len(self.outputs) != 1:
            ids = [self.nodes[index].id for index in self.outputs]
            raise ExpressionError(
                f"the pipeline gives on {len(ids)} units: {', '.join(ids)}",
                f"write `nodes['{ids[0]}']`, or pool them",
            )
        return self.nodes[self.outputs[0]].result


_NAMED = regex(r"([A-Za-z_][\w-]*)\.([A-Za-z_]\w*)")


def expand_panel(evaluation: Evaluation, nodes: Sequence[Node]) -> Evaluation:
    """The evaluation with an expression for each judge of its panel; `nodes` are all of the plan, in order."""
    if not isinstance(evaluation.panel, str):
        return evaluation
    return evaluation.model_copy(
        update={"panel": panel_expressions(evaluation.panel, [node.id for node in nodes])}
    )


def panel_expressions(panel: str, ids: Sequence[str]) -> tuple[str, ...]:
    """The expressions that `judge.score` abbreviates; empty where fewer than two units have the name."""
    match = _NAMED.fullmatch(panel)
    if match is None:
        return ()
    name, field = match.groups()
    matching = [
        node for node in ids if node == name or re.fullmatch(re.escape(name) + r"\[\d+\]", node)
    ]
    return tuple(f"nodes[{node!r}].{field}" for node in matching) if len(matching) > 1 else ()
