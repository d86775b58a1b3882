"""Units as haizelabs' library writes them, each of which becomes a step of a pipeline file."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from verdict_cli.errors import UsageError
from verdict_cli.features.compat.models import DEFAULT_MODEL, ModelSelectionPolicy
from verdict_cli.features.compat.scales import Scale
from verdict_cli.features.compat.schema import Prompt, Schema, followed, literal, plain, shown
from verdict_cli.language.authoring.functions import OUTPUT_NAMES, RULE_NAMES, Function, function, python_rule
from verdict_cli.language.authoring.step import StepPath
from verdict_cli.language.extractors.bound_extractor import Extractor

AnyNode = TypeVar("AnyNode", bound="Node")
Functions = dict[StepPath, Function]
Fields = Mapping[str, Any] | Sequence[str] | None

_UNIT_PATH = re.compile(r"(?<![\\{])\{unit\.(\w+)([^{}]*)\}")
_INPUT_PATH = re.compile(r"(?<![\\{])\{input([.\[])(\w+)?")
TOKEN_EXTRACTORS = ("token_probability", "argmax_score", "sample_score", "weighted_summed_score")
TOKEN_PROMPT = "\n--------------------------------\n\nDo not explain your answer. "


class Node:
    """What `>>` links: units, layers and blocks. Methods change the object and return it."""

    name: str | None = None

    def nodes(self) -> list[Unit]:
        """The units inside, in order of definition."""
        raise NotImplementedError

    def __rshift__(self, other: Node) -> Node:
        from verdict_cli.features.compat.graph import Block

        return Block() >> self >> other

    def copied(self: AnyNode) -> AnyNode:
        """An independent copy."""
        return copy.copy(self)

    def via(self: AnyNode, policy_or_name: Any, retries: int = 1, **inference_parameters: Any) -> AnyNode:
        """The model of the units inside that have none."""
        policy = ModelSelectionPolicy.from_any(policy_or_name, retries, **inference_parameters)
        for unit in self.nodes():
            unit.policy = unit.policy or policy
        return self

    def extract(self: AnyNode, extractor: Any) -> AnyNode:
        """How the responses are read from the replies."""
        made = extractor() if callable(extractor) else extractor
        for unit in self.nodes():
            unit.extractor = made
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

    def document(self, *, root: bool) -> tuple[dict[str, Any], Functions]:
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
        functions: Functions = {}
        schemas = {"response": self.ResponseSchema, "input": self.InputSchema}
        own = type(self)
        if own.validate is not Unit.validate:
            functions["validate",] = python_rule(
                _by_place(self.validate, ("input", "response")), f"{own.__name__}.validate", RULE_NAMES, schemas
            )
        fields = self.output_fields()
        if fields is not None:
            made = _by_place(self.process, ("input", "response"))
            functions["process",] = function(made, f"{own.__name__}.process", OUTPUT_NAMES, fields)
        if self.propagator is not None:
            functions["propagate",] = self._propagation(root=root and not inputs)
        return keys, functions

    def own_inputs(self) -> tuple[str, ...]:
        """Input fields that the unit's type has by itself."""
        return ()

    def _prompt_text(self, inputs: set[str], *, root: bool) -> str:
        written = type(self)._prompt if self._prompt is None else self._prompt
        if written is None:
            raise UsageError(f"{type(self).__name__} has no prompt", hint="give it one: `.prompt('…')`")
        text = written.text({}) if isinstance(written, Prompt) else written

        def setting(found: re.Match[str]) -> str:
            if not hasattr(self, found[1]):
                raise UsageError(f"the prompt's {found[0]}: {type(self).__name__} has no {found[1]!r}")
            return literal(followed(getattr(self, found[1]), found[2], f"unit.{found[1]}{found[2]}"))

        text = _UNIT_PATH.sub(setting, text)
        if root:
            text = _INPUT_PATH.sub(lambda found: found[0] if found[2] in inputs else f"{{source{found[0][6:]}", text)
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
        names = [name for name in self.response_fields() if name != "explanation"]
        return self.default_extractor if self.extractor is None else self.extractor.key(names)

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
            wrapped(passed, propagator, ("previous", row, "output")), what, OUTPUT_NAMES, self.passed_fields
        )


def _ends(scale: Scale) -> str:
    """The sentence about a scale in the prompts of token extractors."""
    words = list(map(str, scale.values))
    ends = ("best", "worst") if getattr(scale.own, "end_is_worst", False) else ("worst", "best")
    listed = '", "'.join(words)
    first, last = (words[0], words[-1]) if scale.own.ordered else ("", "")
    where = f' where "{first}" is {ends[0]} and "{last}" is {ends[1]}' if first else ""
    return f'Respond with a single output value from "{listed}"{where}.'


def wrapped(made: Callable[..., Any], original: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """A function of these parameters whose source is that of the original."""
    kind = inspect.Parameter.KEYWORD_ONLY
    made.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
    if inspect.isfunction(original) or inspect.ismethod(original):
        made.__wrapped__ = original  # type: ignore[attr-defined]
    return made


def _by_place(method: Callable[..., Any], names: tuple[str, str]) -> Callable[..., Any]:
    """The method with its two arguments given by these names, or in this order where it names them otherwise."""
    in_order = set(inspect.signature(method).parameters) != set(names)

    def called(**given: Any) -> Any:
        values = {name: shown(given[name]) for name in names}
        return plain(method(*values.values()) if in_order else method(**values))

    return wrapped(called, method, names)
