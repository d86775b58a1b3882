"""Scales, models, schemas, conversations and prompts as haizelabs' library has them, over this project's own."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import UnionType
from typing import Any, ClassVar, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from verdict_cli.config_model import python_constructor
from verdict_cli.errors import UsageError
from verdict_cli.language.authoring.schema import Schema as OwnSchema
from verdict_cli.language.conversation import looks_like_conversation, transcript
from verdict_cli.language.extractors.bound_extractor import Extractor
from verdict_cli.language.extractors.post_hoc import PostHocExtractor as OwnPostHocExtractor
from verdict_cli.language.extractors.regex import RegexExtractor as OwnRegexExtractor
from verdict_cli.language.scales import Scale as OwnScale
from verdict_cli.language.scales.boolean import BooleanScale as OwnBooleanScale
from verdict_cli.language.scales.continuous import ContinuousScale as OwnContinuousScale
from verdict_cli.language.scales.discrete import Categories
from verdict_cli.language.scales.discrete import DiscreteScale as OwnDiscreteScale
from verdict_cli.model import Model


class RateLimitPolicy(dict[str, int]):
    """What an endpoint allows, for `ProviderModel(rate_limiter=…)`."""

    @classmethod
    def of(cls, rpm: int, tpm: int) -> RateLimitPolicy:
        """Requests and tokens a minute."""
        return cls(requests_per_minute=rpm, tokens_per_minute=tpm)


class ProviderModel:
    """A model of a provider by its litellm name."""

    def __init__(
        self, name: str, use_nonce: bool = False, rate_limiter: Mapping[str, int] | None = None
    ) -> None:
        self.name, self.rate_limiter = name, rate_limiter

    def keys(self) -> dict[str, Any]:
        """The keys of the model in a pipeline file."""
        return {"name": self.name} | (
            {"rate_limit": dict(self.rate_limiter)} if self.rate_limiter else {}
        )


class vLLMModel(ProviderModel):  # noqa: N801 - the library's name
    """A model on a vLLM server. Its key is read from the environment: `HOSTED_VLLM_API_KEY`."""

    def __init__(
        self,
        name: str,
        api_base: str,
        api_key: str = "",
        rate_limiter: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(name, rate_limiter=rate_limiter)
        self.api_base = api_base

    def keys(self) -> dict[str, Any]:
        return {**super().keys(), "name": f"hosted_vllm/{self.name}", "api_base": self.api_base}


class ModelSelectionPolicy(tuple[tuple[str | ProviderModel, int, dict[str, Any]], ...]):
    """Models that are tried in order, each so many times with its parameters."""

    @classmethod
    def from_name(
        cls, model: str | ProviderModel, retries: int = 1, **parameters: Any
    ) -> ModelSelectionPolicy:
        """One model."""
        return cls([(model, retries, parameters)])

    @classmethod
    def from_names(
        cls, models: Iterable[tuple[str | ProviderModel, int, dict[str, Any]]]
    ) -> ModelSelectionPolicy:
        """Several models, each with its attempts and parameters."""
        return cls(models)

    @classmethod
    def from_any(
        cls, policy_or_name: Any, retries: int = 1, **parameters: Any
    ) -> ModelSelectionPolicy:
        """A policy, a model, or a list of models or of (model, attempts, parameters)."""
        if isinstance(policy_or_name, ModelSelectionPolicy):
            return policy_or_name
        listed = policy_or_name if isinstance(policy_or_name, list) else [policy_or_name]
        return cls(
            item if isinstance(item, tuple) else (item, retries, parameters) for item in listed
        )

    def model_keys(self, defaults: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The models in a pipeline file: `retries` there does not count the first attempt."""
        models = []
        for model, attempts, parameters in self:
            given = model.keys() if isinstance(model, ProviderModel) else {"name": model}
            named = {
                name: value for name, value in parameters.items() if name in Model.model_fields
            }
            more = {name: value for name, value in parameters.items() if name not in named}
            models.append(
                {
                    **defaults,
                    **given,
                    "retries": attempts - 1,
                    **named,
                    **({"params": more} if more else {}),
                }
            )
        return models


DEFAULT_MODEL = ModelSelectionPolicy.from_name("gpt-4o-mini", retries=3)
"""The model of units for which nothing is set."""


class RegexExtractor(OwnRegexExtractor):
    """A pattern for each field."""

    @python_constructor
    def __init__(self, fields: Mapping[str, str] | None = None, pattern: str | None = None) -> None:
        super().__init__(pattern, fields=fields)


def PostHocExtractor(policy_or_name: Any = None, retries: int = 1, **parameters: Any) -> Extractor:  # noqa: N802
    """A second call that structures the first one's text, by the same model or another one."""
    if policy_or_name is None:
        return OwnPostHocExtractor()
    return OwnPostHocExtractor(
        ModelSelectionPolicy.from_any(policy_or_name, retries, **parameters).model_keys({})
    )


class Scale:
    """A scale: `own` is this project's, `values` and the text are those of the library."""

    values: list[Any]

    def __init__(self, own: OwnScale, values: Sequence[Any], text: str) -> None:
        self.own, self.values, self._text = own, list(values), text

    def value_mapping_fn(self, output: Any) -> Any:
        """The value that a reply's text means."""
        return self.own.read(output)

    def index(self, value: Any) -> int:
        """The place of a value on the scale."""
        return self.values.index(value)

    def __str__(self) -> str:
        return self._text


class DiscreteScale(Scale):
    """Listed values, or a range given as a tuple. A list of words is nominal: no word is the worst or the best."""

    def __init__(self, values: Sequence[Any], end_is_worst: bool = False) -> None:
        has_words = isinstance(values, list) and any(isinstance(value, str) for value in values)
        if has_words and not end_is_worst:
            own: OwnScale = Categories.model_validate({"values": values})
        else:
            own = OwnDiscreteScale(values, end_is_worst=end_is_worst)
        written = own.values()  # worst first
        super().__init__(
            own, written[::-1] if end_is_worst else written, ", ".join(map(str, written))
        )


class BooleanScale(Scale):
    """Yes or no."""

    def __init__(
        self, yes: Sequence[str] = ("yes", "Yes", "YES"), no: Sequence[str] = ("no", "No", "NO")
    ) -> None:
        own = OwnBooleanScale(yes=_each_once(yes), no=_each_once(no))
        super().__init__(own, [*no, *yes], f"{'/'.join(yes)},{'/'.join(no)}")


class ContinuousScale(Scale):
    """Any number between two ends."""

    def __init__(self, min_value: float, max_value: float, end_is_worst: bool = False) -> None:
        ends = (max_value, min_value) if end_is_worst else (min_value, max_value)
        own = OwnContinuousScale(min_value, max_value, end_is_worst=end_is_worst)
        super().__init__(own, [], f"{ends[0]} - {ends[1]}")


def LikertScale(end_is_worst: bool = False) -> Scale:  # noqa: N802 - the library's name
    """The integers from 1 to 5."""
    return DiscreteScale((1, 5), end_is_worst)


def _each_once(words: Sequence[str]) -> list[str]:
    """The words without those that differ in case alone: our scales ignore the case."""
    return list({word.casefold(): word for word in reversed(words)}.values())[::-1]


_PLACEHOLDER = re.compile(r"(?<!\{)\{([^{}]+?)\}(?!\})")
_PATH_PART = re.compile(r"\.(\w+)|\[(-?\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_SECTION = re.compile(r"@(\w+)(.*?)(?=@\w+|$)", re.DOTALL)
_OWN_PLACEHOLDER = re.compile(r"\{(?=(?:source|previous|input|unit)[.\[}])")
ROOTS = ("input", "previous", "source", "unit")


class Schema(OwnSchema):
    """Fields with types when subclassed, plain values when called; `of`, `infer`, `inline` and `empty` as in the library."""

    _scales: ClassVar[Mapping[str, Scale]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        try:
            annotations = inspect.get_annotations(cls, eval_str=True)
        except NameError:
            annotations = inspect.get_annotations(cls)
        scales = dict(cls._scales)
        kept: dict[str, Any] = {}
        for name, annotation in annotations.items():
            default = cls.__dict__.get(name)
            given = (
                default
                if isinstance(default, Scale)
                else annotation
                if isinstance(annotation, Scale)
                else None
            )
            if given is not None:
                scales[name] = given
                setattr(cls, name, given.own)
                kept[name] = OwnScale
            elif annotation not in (Conversation, "Conversation"):
                if isinstance(default, FieldInfo):
                    _set_default(cls, name, default)
                kept[name] = _plain_type(annotation)
        cls.__annotations__ = kept
        cls._scales = scales
        super().__init_subclass__(**options)

    @classmethod
    def get_scale(cls, field_name: str) -> Scale:
        """The scale of a field."""
        return cls._scales[field_name]

    @classmethod
    def of(cls, /, **values: Any) -> Schema:
        """A value with these fields."""
        return Schema(**values)

    @staticmethod
    def infer(**values: Any) -> type[Schema]:
        """A class whose fields have the scales given, and the types of the other values."""
        scales = {name: value for name, value in values.items() if isinstance(value, Scale)}
        types = {name: Scale if name in scales else type(value) for name, value in values.items()}
        return type(
            "InferredSchema",
            (Schema,),
            {**scales, "__module__": __name__, "__annotations__": types},
        )

    @staticmethod
    def inline(**types: Any) -> type[Schema]:
        """A class with fields of these types."""
        return type("InlineSchema", (Schema,), {"__module__": __name__, "__annotations__": types})

    @classmethod
    def prepend(cls, **types: Any) -> type[Schema]:
        """The class with more fields before its own."""
        schema = Schema.inline(**types)
        schema._declared = {**schema._declared, **cls._declared}
        schema._defaults, schema._scales = {**schema._defaults, **cls._defaults}, cls._scales
        return schema

    def add(self, **values: Any) -> Schema:
        """A value with these fields too."""
        return Schema(**{**dict(items(self)), **values})

    @classmethod
    def empty(cls) -> Schema:
        """A value without fields."""
        return Schema()

    def model_dump(self) -> dict[str, Any]:
        """The fields as a dictionary."""
        dumped: dict[str, Any] = plain(self)
        return dumped


def _set_default(cls: type[Schema], name: str, info: FieldInfo) -> None:
    if info.is_required():
        delattr(cls, name)
    else:
        setattr(cls, name, info.get_default(call_default_factory=True, validated_data={}))


def _plain_type(annotation: Any) -> Any:
    """A type of `typing` as the built-in one: `List[str]` as `list[str]`, `Optional[str]` as `str`."""
    if get_origin(annotation) in (Union, UnionType):
        present = [kind for kind in get_args(annotation) if kind is not type(None)]
        return _plain_type(present[0]) if len(present) == 1 else annotation
    return (
        list[str]
        if get_origin(annotation) is list and get_args(annotation) == (str,)
        else annotation
    )


class Message:
    """One turn."""

    def __init__(self, role_name: str, message: str) -> None:
        self.role_name, self.message = role_name, message

    def __str__(self) -> str:
        return f"<{self.role_name}>\n{self.message}\n</{self.role_name}>"

    __repr__ = __str__


class Conversation:
    """The turns so far. `history` begins with an empty `<START>` turn, as in the library."""

    def __init__(self, history: Sequence[Message] | None = None) -> None:
        self.history = list(history or [Message("<START>", "")])

    def get_roles(self) -> list[str]:
        """The roles in the order in which they first speak."""
        return list(dict.fromkeys(turn.role_name for turn in self.history[1:]))

    def with_roles(self, roles: Sequence[str]) -> Conversation:
        """The same turns under other names of the roles."""
        known = self.get_roles()
        if len(roles) != len(known):
            raise UsageError(f"{len(roles)} roles are given, the conversation has {len(known)}")
        renamed = dict(zip(known, roles, strict=True))
        turns = [Message(renamed[turn.role_name], turn.message) for turn in self.history[1:]]
        return Conversation([self.history[0], *turns])

    def turns(self) -> list[dict[str, str]]:
        """The turns as rows and models have them."""
        return [{"role": turn.role_name, "content": turn.message} for turn in self.history[1:]]

    def __str__(self) -> str:
        return transcript(self.turns())

    __repr__ = __str__


class Prompt:
    """A prompt: the docstring of a subclass, or `from_template`. A name that is not `input`, `previous`, `source` or
    `unit` in a placeholder is a variable where `.prompt()` is called."""

    def __init__(self, template: str | None = None) -> None:
        self.template = template if template is not None else type(self).__doc__ or ""

    @classmethod
    def from_template(cls, template: str) -> Prompt:
        """The prompt with this text."""
        return Prompt(template)

    def text(self, variables: Mapping[str, Any]) -> str:
        """The prompt in this project's form: lines without indentation, sections by markers, variables filled in."""
        sections = dict(_SECTION.findall(self.template))
        leading = self.template.split("@", 1)[0]
        user = sections.get("user", leading)
        if "no_format" not in sections:
            user = _unindented(user)
        user = _PLACEHOLDER.sub(lambda match: _filled(match, variables), user)
        if "system" not in sections:
            return user
        system = _unindented(sections["system"])
        return f"@system\n{_PLACEHOLDER.sub(lambda match: _filled(match, variables), system)}\n@user\n{user}"


def _unindented(text: str) -> str:
    return "\n".join(line.lstrip() for line in text.strip("\n").splitlines())


def _filled(match: re.Match[str], variables: Mapping[str, Any]) -> str:
    written = match[1].strip()
    root = re.match(r"[A-Za-z_]\w*", written)
    if root is None or root[0] in ROOTS:
        return match[0]
    if root[0] not in variables:
        raise UsageError(
            f"the prompt's {{{written}}}: there is no variable {root[0]!r} where .prompt() is called",
            hint=f"a row's column is {{source.{root[0]}}}, a field of the unit before is {{previous.{root[0]}}}",
        )
    return literal(followed(variables[root[0]], written[root.end() :], written))


def followed(value: Any, rest: str, written: str) -> Any:
    """The value at a path of attributes and keys. UsageError for any other expression."""
    position = 0
    while part := _PATH_PART.match(rest, position):
        name, index, *keys = part.groups()
        key = (
            int(index)
            if index is not None
            else next((text for text in keys if text is not None), None)
        )
        value = getattr(value, name) if name is not None else value[key]
        position = part.end()
    if rest[position:].strip():
        raise UsageError(
            f"the prompt's {{{written}}} is an expression",
            hint="compute it before, and name the variable",
        )
    return value


def literal(value: Any) -> str:
    """The text of a value in a prompt, in which no brace is read as a placeholder."""
    return _OWN_PLACEHOLDER.sub(r"\\{", str(value))


def shown(value: Any) -> Any:
    """A value as functions of the library take it: attributes for keys, a `Conversation` for turns."""
    if isinstance(value, Mapping):
        named = all(isinstance(name, str) and name.isidentifier() for name in value)
        return (
            Schema(**{str(name): shown(item) for name, item in value.items()})
            if named
            else dict(value)
        )
    if isinstance(value, list | tuple):
        if looks_like_conversation(value):
            return Conversation(
                [
                    Message("<START>", ""),
                    *(Message(turn["role"], turn["content"]) for turn in value),
                ]
            )
        return [shown(item) for item in value]
    return value


def plain(value: Any) -> Any:
    """A value of the library as dictionaries and lists."""
    if isinstance(value, Conversation):
        return value.turns()
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in items(value)}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def items(value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields of a mapping whose fields may be named like its methods."""
    return ((name, value[name]) for name in value)
