"""Units, layers and blocks as haizelabs' library writes them, each of which becomes a step of a pipeline file."""

from __future__ import annotations

import copy
import inspect
import re
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from verdict_cli.errors import UsageError
from verdict_cli.features.compat.schema import (
    DEFAULT_MODEL,
    ModelSelectionPolicy,
    Prompt,
    Scale,
    Schema,
    followed,
    literal,
    plain,
    shown,
)
from verdict_cli.language.authoring.functions import (
    MAP_NAMES,
    OUTPUT_NAMES,
    RULE_NAMES,
    Function,
    FunctionsByPath,
    function,
    python_rule,
)
from verdict_cli.language.authoring.step import FileStep
from verdict_cli.language.extractors.bound_extractor import Extractor
from verdict_cli.python.pipeline import Pipeline as OwnPipeline

INNER, OUTER = ("none", "chain"), ("dense", "broadcast", "cumulative", "last")

AnyNode = TypeVar("AnyNode", bound="Node")
Fields = Mapping[str, Any] | Sequence[str] | None

_UNIT_PATH = re.compile(r"(?<![\\{])\{unit\.(\w+)([^{}]*)\}")
_INPUT_PATH = re.compile(r"(?<![\\{])\{input([.\[])(\w+)?")
TOKEN_EXTRACTORS = ("token_probability", "argmax_score", "sample_score", "weighted_summed_score")
TOKEN_PROMPT = "\n--------------------------------\n\nDo not explain your answer. "


class Node(ABC):
    """What `>>` links: units, layers and blocks. Methods change the object and return it."""

    name: str | None = None

    @abstractmethod
    def nodes(self) -> list[Unit]:
        """The units inside, in order of definition."""

    def __rshift__(self, other: Node) -> Node:
        return Block() >> self >> other

    def copied(self: AnyNode) -> AnyNode:
        """An independent copy."""
        return copy.copy(self)

    def via(
        self: AnyNode, policy_or_name: Any, retries: int = 1, **inference_parameters: Any
    ) -> AnyNode:
        """The model of the units inside that have none."""
        policy = ModelSelectionPolicy.from_any(policy_or_name, retries, **inference_parameters)
        for unit in self.nodes():
            unit.policy = unit.policy or policy
        return self

    def extract(self: AnyNode, extractor: Any) -> AnyNode:
        """How the responses are read from the replies."""
        reader = extractor() if callable(extractor) else extractor
        for unit in self.nodes():
            unit.extractor = reader
        return self

    def pin(self: AnyNode) -> AnyNode:
        """Run the units inside once for the whole dataset."""
        for unit in self.nodes():
            unit.pinned = True
        return self

    def stream(self: AnyNode) -> AnyNode:
        """Stream the replies."""
        for unit in self.nodes():
            unit.streamed = True
        return self


class Unit(Node):
    """A call of a model with a prompt, a response and an output."""

    _char: str = "Unit"
    _prompt: Any = None
    InputSchema: type[Schema] = Schema
    ResponseSchema: type[Schema] = Schema
    OutputSchema: type[Schema] = Schema

    step_type: ClassVar[str] = "Unit"
    calls_model: ClassVar[bool] = True
    default_extractor: ClassVar[str] = "structured"
    role_name: str = ""

    def __init__(self, name: str | None = None, **_: Any) -> None:
        self.name = name
        self.policy: ModelSelectionPolicy | None = None
        self.extractor: Extractor | None = None
        self.pinned = self.streamed = False
        self.propagator: Callable[..., Any] | None = None
        self.passed_fields: Fields = None

    def nodes(self) -> list[Unit]:
        return [self]

    @property
    def short_name(self) -> str:
        """How prompts of later units name it: `previous.judge`."""
        return type(self).__name__.replace("Unit", "").lower() or "unit"

    def prompt(self, prompt: str | Prompt) -> Unit:
        """What the model is asked."""
        frame = inspect.currentframe()
        assert frame is not None and frame.f_back is not None
        variables = {**frame.f_back.f_globals, **frame.f_back.f_locals}
        self._prompt = (Prompt(prompt) if isinstance(prompt, str) else prompt).text(variables)
        return self

    def propagate(self, function: Callable[..., Any], fields: Fields = None) -> Unit:
        """What is passed on: a function of `unit, previous, input, output` in this order, or of any of them by name.
        `fields` declares what it gives, where made-up values cannot show it (not in the library)."""
        self.propagator, self.passed_fields = function, fields
        return self

    def respond_with(self, schema: type[Schema]) -> None:
        """Give this unit a response of its own, in place of its class's."""
        self.__dict__["ResponseSchema"] = schema

    def idx(self, value: int) -> None:
        """Take the place in a layer, from 1."""

    def validate(self, input: Any, response: Any) -> Any:  # noqa: A002
        """Refuse a response by raising: the model is called again."""

    def process(self, input: Any, response: Any) -> Any:  # noqa: A002
        """The output, from a valid response."""
        return response

    def response_fields(self) -> dict[str, Any]:
        """The fields of the response as a pipeline file writes them."""
        return self.ResponseSchema.declared()

    def input_fields(self) -> dict[str, Any]:
        """The declared fields of the input."""
        return self.InputSchema.declared_input()

    def output_fields(self) -> dict[str, Any] | None:
        """The fields of what `process` gives; None where nothing is processed."""
        if type(self).process is Unit.process:
            return None
        return self.OutputSchema.declared() or self.response_fields()

    def document(self, *, root: bool) -> tuple[dict[str, Any], FunctionsByPath]:
        """The unit as a pipeline file has it, and its functions. `root`: it takes the row as its input."""
        inputs = self.input_fields()
        keys: dict[str, Any] = {
            "unit": self.step_type,
            "name": self.short_name,
            "prompt": self._prompt_text({*inputs, *self.own_inputs()}, root=root),
            "model": (self.policy or DEFAULT_MODEL).model_keys(self._model_defaults()),
            "extract": self._extractor_key(),
        }
        keys |= {"response": self.response_fields()} if self.step_type == "Unit" else {}
        keys |= {"input": inputs} if inputs else {}
        keys |= {"pin": True} if self.pinned else {}
        keys |= {"stream": True} if self.streamed else {}
        functions: FunctionsByPath = {}
        schemas = {"response": self.ResponseSchema, "input": self.InputSchema}
        own = type(self)
        if own.validate is not Unit.validate:
            functions["validate",] = python_rule(
                _by_place(self.validate, ("input", "response")),
                f"{own.__name__}.validate",
                RULE_NAMES,
                schemas,
            )
        fields = self.output_fields()
        if fields is not None:
            called = _by_place(self.process, ("input", "response"))
            functions["process",] = function(
                called, f"{own.__name__}.process", OUTPUT_NAMES, fields
            )
        if self.propagator is not None:
            functions["propagate",] = self._propagation(root=root and not inputs)
        return keys, functions

    def own_inputs(self) -> tuple[str, ...]:
        """Input fields that the unit's type has by itself."""
        return ()

    def _prompt_text(self, inputs: set[str], *, root: bool) -> str:
        written = type(self)._prompt if self._prompt is None else self._prompt
        if written is None:
            raise UsageError(
                f"{type(self).__name__} has no prompt", hint="give it one: `.prompt('…')`"
            )
        text = written.text({}) if isinstance(written, Prompt) else written

        def setting(match: re.Match[str]) -> str:
            if not hasattr(self, match[1]):
                raise UsageError(
                    f"the prompt's {match[0]}: {type(self).__name__} has no {match[1]!r}"
                )
            return literal(
                followed(getattr(self, match[1]), match[2], f"unit.{match[1]}{match[2]}")
            )

        text = _UNIT_PATH.sub(setting, text)
        if root:
            text = _INPUT_PATH.sub(
                lambda match: match[0] if match[2] in inputs else f"{{source{match[0][6:]}", text
            )
        scale = self.token_scale()
        return text if scale is None else f"{text}{TOKEN_PROMPT}{_ends(scale)}"

    def token_scale(self) -> Scale | None:
        """The scale whose tokens the extractor reads, None for other extractors."""
        if self.extractor is None or self.extractor.type not in TOKEN_EXTRACTORS:
            return None
        scales = self.ResponseSchema._scales
        return next(iter(scales.values()), None)

    def _model_defaults(self) -> dict[str, Any]:
        return {} if self.token_scale() is None else {"temperature": 0.0}

    def _extractor_key(self) -> Any:
        return self.default_extractor if self.extractor is None else self.extractor.key()

    def _propagation(self, *, root: bool) -> Function:
        assert self.propagator is not None
        propagator, what = self.propagator, f"{type(self).__name__}.propagate"
        names = list(inspect.signature(propagator).parameters)
        if len(names) != 4:
            return function(propagator, what, OUTPUT_NAMES, self.passed_fields)
        row = "source" if root else "input"

        def passed(**given: Any) -> Any:
            return plain(propagator(self, given["previous"], given[row], shown(given["output"])))

        return function(
            wrapped(passed, propagator, ("previous", row, "output")),
            what,
            OUTPUT_NAMES,
            self.passed_fields,
        )


def _ends(scale: Scale) -> str:
    """The sentence about a scale in the prompts of token extractors."""
    words = list(map(str, scale.values))
    ends = ("best", "worst") if getattr(scale.own, "end_is_worst", False) else ("worst", "best")
    listed = '", "'.join(words)
    first, last = (words[0], words[-1]) if scale.own.ordered else ("", "")
    where = f' where "{first}" is {ends[0]} and "{last}" is {ends[1]}' if first else ""
    return f'Respond with a single output value from "{listed}"{where}.'


def wrapped(
    wrapper: Callable[..., Any], original: Callable[..., Any], names: Sequence[str]
) -> Callable[..., Any]:
    """A function of these parameters whose source is that of the original."""
    kind = inspect.Parameter.KEYWORD_ONLY
    wrapper.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
    if inspect.isfunction(original) or inspect.ismethod(original):
        wrapper.__wrapped__ = original  # type: ignore[attr-defined]
    return wrapper


def _by_place(method: Callable[..., Any], names: tuple[str, str]) -> Callable[..., Any]:
    """The method with its two arguments given by these names, or in this order where it names them otherwise."""
    in_order = set(inspect.signature(method).parameters) != set(names)

    def called(**given: Any) -> Any:
        values = {name: shown(given[name]) for name in names}
        return plain(method(*values.values()) if in_order else method(**values))

    return wrapped(called, method, names)


class Layer(Node):
    """Copies of nodes side by side. Every leaf is linked to every root of the next layer, unless `outer` says otherwise."""

    def __init__(
        self,
        nodes: Node | Sequence[Node],
        repeat: int = 1,
        inner: str = "none",
        outer: str = "dense",
    ) -> None:
        given = [nodes] if isinstance(nodes, Node) else list(nodes)
        for name, value, allowed in (("inner", inner, INNER), ("outer", outer, OUTER)):
            if value not in allowed:
                raise UsageError(f"{name} is {value!r}, expected one of {', '.join(allowed)}")
        self.order = [node.copied() for _ in range(repeat) for node in given]
        for number, node in enumerate(self.order, start=1):
            if isinstance(node, Unit):
                node.idx(number)
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
        return [range(len(self.order))[index] for index in ([idx] if isinstance(idx, int) else idx)]

    def copied(self) -> Layer:
        layer = super().copied()
        layer.order = [node.copied() for node in self.order]
        return layer

    def nodes(self) -> list[Unit]:
        return [unit for node in self.order for unit in node.nodes()]

    def propagate(self, function: Callable[..., Any], fields: Fields = None) -> Layer:
        """What each leaf passes on."""
        for index in self.leaf_idx:
            _propagate(self.order[index], function, fields)
        return self


class Block(Node):
    """Steps one after another. `>>` gives a new block."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.steps: tuple[Node, ...] = ()

    def __rshift__(self, other: Node) -> Block:
        if not isinstance(other, Node):
            raise UsageError(f"`>>` links units, layers and blocks, not {other!r:.80}")
        block = Block(self.name)
        block.steps = (*self.steps, *(other.steps if isinstance(other, Block) else (other,)))
        return block

    def copied(self) -> Block:
        block = super().copied()
        block.steps = tuple(step.copied() for step in self.steps)
        return block

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
        return plot("Pipeline", self, display)


def _propagate(node: Node, function: Callable[..., Any], fields: Fields) -> None:
    assert isinstance(node, Unit | Layer | Block)
    node.propagate(function, fields)


def _step_keys(
    step: Node, following: Node | None, *, root: bool
) -> tuple[dict[str, Any], FunctionsByPath]:
    """A step as a pipeline file has it, before the next one. `root`: it takes the row as its input."""
    if isinstance(step, Unit):
        return step.document(root=root)
    functions: FunctionsByPath = {}
    documents: list[dict[str, Any]] = []
    inner: list[tuple[Node, Node | None, bool]]
    if isinstance(step, Layer):
        key = "layer"
        inner = [
            (node, None, root and (index == 0 or step.inner == "none"))
            for index, node in enumerate(step.order)
        ]
    else:
        assert isinstance(step, Block)
        key, inner = (
            "block",
            [(node, after, root and not before) for before, node, after in _neighbours(step.steps)],
        )
    for index, (node, after, is_root) in enumerate(inner):
        keys, inside = _step_keys(node, after, root=is_root)
        documents.append(keys)
        functions |= {
            (key, index, *rest): inner_function for rest, inner_function in inside.items()
        }
    document: dict[str, Any] = {key: documents}
    if isinstance(step, Layer):
        document |= _links(step, following)
    return document, functions


def own_pipeline(name: str, block: Block, images: Sequence[str] = ()) -> OwnPipeline:
    """The pipeline of this project that runs the block."""
    types = {"schema": dict.fromkeys(images, "image")} if images else None
    pipeline = OwnPipeline(name, dataset=types)
    for before, step, after in _neighbours(block.steps):
        pipeline = pipeline >> FileStep(*_step_keys(step, after, root=before is None))
    return pipeline


def plot(name: str, block: Block, display: bool) -> str:
    """The block's graph as text."""
    drawn: str = own_pipeline(name, block).graph("tree")
    if display:
        print(drawn)
    return drawn


def _neighbours(steps: Sequence[Node]) -> Iterator[tuple[Node | None, Node, Node | None]]:
    """Each step with the one before and the one after it."""
    return zip((None, *steps[:-1]), steps, (*steps[1:], None), strict=True)


def _links(layer: Layer, following: Node | None) -> dict[str, Any]:
    """How a layer is linked: pairs need a next layer of as many roots, else every leaf is linked to every root."""
    pairs = isinstance(following, Layer) and len(following.root_idx) == len(layer.leaf_idx)
    outer = layer.outer if pairs and layer.outer in ("broadcast", "cumulative") else "dense"
    keys: dict[str, Any] = {"outer": outer} | (
        {} if layer.inner == "none" else {"inner": layer.inner}
    )
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
        prefix = (*(first if index == 1 else base), "block")
        for node, inside in _placed(step, prefix):
            if isinstance(node, Block | Layer):
                yield from unit_prefixes(node.steps if isinstance(node, Block) else (node,), inside)
                continue
            assert isinstance(node, Unit)
            last = (*inside, f"unit[{node._char}{f' {node.name}' if node.name else ''}]")
            yield last
        if index == 0:
            first = prefix if isinstance(step, Layer) else last


def _placed(step: Node, prefix: tuple[str, ...]) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """The step, or a layer's nodes, each with the place of its name."""
    if not isinstance(step, Layer):
        yield step, prefix
        return
    for index, node in enumerate(step.order):
        yield node, (*prefix, f"layer[{index}]")


class MapUnit(Unit):
    """A function of the outputs before it: of the one output, or of their list. No model call."""

    _char = "Map"
    step_type: ClassVar[str] = "MapUnit"
    calls_model: ClassVar[bool] = False

    def __init__(
        self, map_func: Callable[[Any], Any], *, fields: Fields = None, **keys: Any
    ) -> None:
        """`fields` declares what the function gives, where made-up values cannot show it (not in the library)."""
        super().__init__(**keys)
        self.map_func, self.given_fields = map_func, fields

    def mapped(self, values: Any) -> Any:
        """What the unit gives for these outputs."""
        result = self.map_func(values)
        return plain(result) if isinstance(result, Mapping) else {"values": plain(result)}

    def document(self, *, root: bool) -> tuple[dict[str, Any], FunctionsByPath]:
        def called(**given: Any) -> Any:
            if root:
                return self.mapped(given["source"])
            outputs = [shown(output) for output in given["outputs"]]
            return self.mapped(outputs[0] if len(outputs) == 1 else outputs)

        wrapper = wrapped(called, self.map_func, ("source",) if root else ("outputs",))
        keys = {"unit": "MapUnit", "name": self.short_name, "map": {"value": "outputs"}}
        return keys, {("map",): function(wrapper, "MapUnit", MAP_NAMES, self.given_fields)}


class FieldMapUnit(MapUnit):
    """A function of each field's values."""

    def __init__(
        self, map_func: Callable[[Any], Any], fields: str | Sequence[str] = (), **keys: Any
    ) -> None:
        super().__init__(
            map_func, fields=None if isinstance(fields, str) or not fields else list(fields), **keys
        )
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

    def document(self, *, root: bool) -> tuple[dict[str, Any], FunctionsByPath]:
        return {"unit": self.pool_type, "name": self.short_name} | (
            {"fields": self.fields} if self.fields else {}
        ), {}


class MeanPoolUnit(_Pool):
    """The mean."""

    pool_type = "MeanPoolUnit"


class MaxPoolUnit(_Pool):
    """The most frequent value: the library's maximum is `statistics.mode`."""

    pool_type = "ModePoolUnit"


class MeanVariancePoolUnit(_Pool):
    """The mean and the sample variance."""

    pool_type = "MeanVariancePoolUnit"
