"""Layers and blocks as haizelabs' library has them, and the units that map and pool their outputs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from verdict_cli.errors import UsageError
from verdict_cli.features.compat.schema import plain, shown
from verdict_cli.features.compat.units import Fields, Functions, Node, Unit, wrapped
from verdict_cli.language.authoring.functions import MAP_NAMES, function
from verdict_cli.language.authoring.step import FunctionsByPath, Step, StepPath
from verdict_cli.python.pipeline import FileStep

INNER, OUTER = ("none", "chain"), ("dense", "broadcast", "cumulative", "last")


class Layer(Node):
    """Copies of nodes side by side. Every leaf is linked to every root of the next layer, unless `outer` says otherwise."""

    def __init__(
        self, nodes: Node | Sequence[Node], repeat: int = 1, inner: str = "none", outer: str = "dense"
    ) -> None:
        given = [nodes] if isinstance(nodes, Node) else list(nodes)
        for name, value, allowed in (("inner", inner, INNER), ("outer", outer, OUTER)):
            if value not in allowed:
                raise UsageError(f"{name} is {value!r}, expected one of {', '.join(allowed)}")
        self.order = [node.copied() for _ in range(repeat) for node in given]
        for place, node in enumerate(self.order, start=1):
            if isinstance(node, Unit):
                node.idx(place)
        self.inner, self.outer = inner, outer
        self.root_idx = list(range(len(self.order)))
        self.leaf_idx = [len(self.order) - 1] if outer == "last" else list(self.root_idx)

    def with_root(self, idx: int | Sequence[int]) -> Layer:
        """The places of the nodes that take the input."""
        self.root_idx = self._places(idx)
        return self

    def with_leaf(self, idx: int | Sequence[int]) -> Layer:
        """The places of the nodes that give the output."""
        self.leaf_idx = self._places(idx)
        return self

    def _places(self, idx: int | Sequence[int]) -> list[int]:
        return [range(len(self.order))[place] for place in ([idx] if isinstance(idx, int) else idx)]

    def copied(self) -> Layer:
        made = super().copied()
        made.order = [node.copied() for node in self.order]
        return made

    def nodes(self) -> list[Unit]:
        return [unit for node in self.order for unit in node.nodes()]

    def propagate(self, function: Callable[..., Any], fields: Fields = None) -> Layer:
        """What each leaf passes on."""
        for place in self.leaf_idx:
            _propagate(self.order[place], function, fields)
        return self


class Block(Node):
    """Steps one after another. `>>` gives a new block."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.steps: tuple[Node, ...] = ()

    def __rshift__(self, other: Node) -> Block:
        if not isinstance(other, Node):
            raise UsageError(f"`>>` links units, layers and blocks, not {other!r:.80}")
        made = Block(self.name)
        made.steps = (*self.steps, *(other.steps if isinstance(other, Block) else (other,)))
        return made

    def copied(self) -> Block:
        made = super().copied()
        made.steps = tuple(step.copied() for step in self.steps)
        return made

    def nodes(self) -> list[Unit]:
        return [unit for step in self.steps for unit in step.nodes()]

    def propagate(self, function: Callable[..., Any], fields: Fields = None) -> Block:
        """What the last step passes on."""
        _propagate(self.steps[-1], function, fields)
        return self

    def materialize(self) -> Block:
        """The block itself: the plan is made when it runs."""
        return self

    def plot(self, display: bool = False) -> str:
        """The graph as text."""
        from verdict_cli.features.compat.pipeline import Pipeline

        return (Pipeline() >> self).plot(display)


def _propagate(node: Node, function: Callable[..., Any], fields: Fields) -> None:
    assert isinstance(node, Unit | Layer | Block)
    node.propagate(function, fields)


class CompatStep(FileStep):
    """A step of a pipeline file with the functions in it."""

    functions: dict[Any, Any]

    def __init__(self, keys: Mapping[str, Any], functions: Functions) -> None:
        Step.__init__(self, keys=keys, functions=functions)

    def to_document(self, path: StepPath, functions: FunctionsByPath) -> dict[str, Any]:
        functions |= {(*path, *place): made for place, made in self.functions.items()}
        return super().to_document(path, functions)


def step_keys(step: Node, following: Node | None, *, root: bool) -> tuple[dict[str, Any], Functions]:
    """A step as a pipeline file has it, before the next one. `root`: it takes the row as its input."""
    if isinstance(step, Unit):
        return step.document(root=root)
    functions: Functions = {}
    documents: list[dict[str, Any]] = []
    inner: list[tuple[Node, Node | None, bool]]
    if isinstance(step, Layer):
        key = "layer"
        inner = [(node, None, root and (place == 0 or step.inner == "none")) for place, node in enumerate(step.order)]
    else:
        assert isinstance(step, Block)
        key, inner = "block", [(node, after, root and not before) for before, node, after in neighbours(step.steps)]
    for place, (node, after, is_root) in enumerate(inner):
        keys, inside = step_keys(node, after, root=is_root)
        documents.append(keys)
        functions |= {(key, place, *rest): made for rest, made in inside.items()}
    document: dict[str, Any] = {key: documents}
    if isinstance(step, Layer):
        document |= _links(step, following)
    return document, functions


def neighbours(steps: Sequence[Node]) -> Iterator[tuple[Node | None, Node, Node | None]]:
    """Each step with the one before and the one after it."""
    return zip((None, *steps[:-1]), steps, (*steps[1:], None), strict=True)


def _links(layer: Layer, following: Node | None) -> dict[str, Any]:
    """How a layer is linked: pairs need a next layer of as many roots, else every leaf is linked to every root."""
    pairs = isinstance(following, Layer) and len(following.root_idx) == len(layer.leaf_idx)
    outer = layer.outer if pairs and layer.outer in ("broadcast", "cumulative") else "dense"
    keys: dict[str, Any] = {"outer": outer} | ({} if layer.inner == "none" else {"inner": layer.inner})
    everything = list(range(len(layer.order)))
    return (
        keys
        | ({} if layer.leaf_idx == everything else {"leaves": layer.leaf_idx})
        | ({} if layer.root_idx == everything else {"roots": layer.root_idx})
    )


def unit_prefixes(steps: Sequence[Node], base: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The library's name of each unit, in order of definition: only the second step's name continues the first one's."""
    first = base
    for index, step in enumerate(steps):
        place = (*(first if index == 1 else base), "block")
        for node, inside in _placed(step, place):
            if isinstance(node, Block | Layer):
                yield from unit_prefixes(node.steps if isinstance(node, Block) else (node,), inside)
                continue
            assert isinstance(node, Unit)
            last = (*inside, f"unit[{node._char}{f' {node.name}' if node.name else ''}]")
            yield last
        if index == 0:
            first = place if isinstance(step, Layer) else last


def _placed(step: Node, place: tuple[str, ...]) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """The step, or a layer's nodes, each with the place of its name."""
    if not isinstance(step, Layer):
        yield step, place
        return
    for index, node in enumerate(step.order):
        yield node, (*place, f"layer[{index}]")


class MapUnit(Unit):
    """A function of the outputs before it: of the one output, or of their list. No model call."""

    _char = "Map"
    step_type: ClassVar[str] = "MapUnit"
    calls_model: ClassVar[bool] = False

    def __init__(self, map_func: Callable[[Any], Any], *, fields: Fields = None, **keys: Any) -> None:
        """`fields` declares what the function gives, where made-up values cannot show it (not in the library)."""
        super().__init__(**keys)
        self.map_func, self.given_fields = map_func, fields

    def mapped(self, values: Any) -> Any:
        """What the unit gives for these outputs."""
        made = self.map_func(values)
        return plain(made) if isinstance(made, Mapping) else {"values": plain(made)}

    def document(self, *, root: bool) -> tuple[dict[str, Any], Functions]:
        def called(**given: Any) -> Any:
            if root:
                return self.mapped(given["source"])
            outputs = [shown(output) for output in given["outputs"]]
            return self.mapped(outputs[0] if len(outputs) == 1 else outputs)

        made = wrapped(called, self.map_func, ("source",) if root else ("outputs",))
        keys = {"unit": "MapUnit", "name": self.short_name, "map": {"value": "outputs"}}
        return keys, {("map",): function(made, "MapUnit", MAP_NAMES, self.given_fields)}


class FieldMapUnit(MapUnit):
    """A function of each field's values."""

    def __init__(self, map_func: Callable[[Any], Any], fields: str | Sequence[str] = (), **keys: Any) -> None:
        super().__init__(map_func, fields=None if isinstance(fields, str) or not fields else list(fields), **keys)
        self.fields = [fields] if isinstance(fields, str) else list(fields)

    def mapped(self, values: Any) -> Any:
        outputs = values if isinstance(values, list) else [values]
        names = self.fields or list(outputs[0])
        return {name: plain(self.map_func([output[name] for output in outputs])) for name in names}


class _Pool(FieldMapUnit):
    """A pool of this project under the library's name."""

    pool_type: ClassVar[str]

    def __init__(self, fields: str | Sequence[str] = ()) -> None:
        super().__init__(statistics.mean, fields, name=type(self).__name__.removesuffix("Unit"))

    def document(self, *, root: bool) -> tuple[dict[str, Any], Functions]:
        return {"unit": self.pool_type, "name": self.short_name} | ({"fields": self.fields} if self.fields else {}), {}


class MeanPoolUnit(_Pool):
    """The mean."""

    pool_type = "MeanPoolUnit"


class MaxPoolUnit(_Pool):
    """The most frequent value: the library's maximum is `statistics.mode`."""

    pool_type = "ModePoolUnit"


class MeanVariancePoolUnit(_Pool):
    """The mean and the sample variance."""

    pool_type = "MeanVariancePoolUnit"
