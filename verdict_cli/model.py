"""A model and how it is called."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag
from typing_extensions import TypeAliasType

from verdict_cli.config_model import (
    ConfigModel,
    Expected,
    MessageAndHint,
    NonEmptyText,
    PositiveInt,
    PositiveNumber,
    Uncounted,
    Whole,
    display_value,
    with_added_keys,
)

PLACEHOLDER_MODEL = "baseline/lexical"
"""The model of a file that names none, used to check and draw its graph. It is never called."""

EndpointKey = tuple[str, str | None, str | None]
"""A model's name, its `api_base` and its `api_key_env`."""


class RateLimit(ConfigModel):
    """What the endpoint allows."""

    requests_per_minute: Annotated[int, Field(gt=0), Whole] | None = None
    """Requests a minute."""
    tokens_per_minute: Annotated[int, Field(gt=0), Whole] | None = None
    """Tokens a minute, prompt and reply together."""
    concurrent: Annotated[int, Field(gt=0), Whole] | None = None
    """Calls in flight at once."""


class Cost(ConfigModel):
    """Prices in US dollars, for models whose price is not known."""

    input_per_million: Annotated[float, Field(ge=0)]
    """Dollars for a million prompt tokens."""
    output_per_million: Annotated[float, Field(ge=0)]
    """Dollars for a million reply tokens."""
    cached_per_million: Annotated[float, Field(ge=0)] | None = None
    """Dollars for a million prompt tokens read from the provider's cache; by default as `input_per_million`."""


_CONNECTION = Uncounted("it says how a model is reached, not what it is asked")


@with_added_keys
class Model(ConfigModel):
    """A model by its litellm name, or a built-in one: `baseline/lexical`, `baseline/random`, `baseline/echo`, `replay/PATH`."""

    name: NonEmptyText
    """The model's litellm name, such as `gpt-4o-mini` or `anthropic/claude-haiku-4-5`."""
    retries: Annotated[int, Field(ge=0), Whole] = 2
    """Extra attempts after a failed or unreadable call."""
    timeout: Annotated[PositiveNumber, _CONNECTION] = 60.0
    """Seconds that one call may take."""
    max_wait: Annotated[float, Field(ge=0), _CONNECTION] = 900.0
    """Seconds that a call may wait because of the provider's rate limit, in all; such waits do not use up `retries`."""
    api_base: Annotated[str | None, _CONNECTION] = None
    """Base URL of the endpoint; `${VAR}` is replaced from the environment where the user listed the host."""
    api_key_env: Annotated[NonEmptyText | None, _CONNECTION] = None
    """The name of the environment variable that holds the key (never the key itself). To an `api_base` that is neither its provider's nor this machine's it is sent only if the user listed the host: by `--allow-host`, in `VERDICT_ALLOW_HOSTS`, or as the value of a variable named `..._BASE_URL` or `..._API_BASE`."""
    rate_limit: Annotated[RateLimit | None, _CONNECTION] = None
    """What the endpoint allows."""
    cost: Annotated[Cost | None, _CONNECTION] = None
    """Prices, where the model's price is not known."""
    base_model: Annotated[NonEmptyText | None, _CONNECTION] = None
    """The model whose prices and capabilities hold, where the name is a deployment's or an alias."""
    structured: Literal["auto", "schema", "tool", "json", "words"] = "auto"
    """How a JSON reply is requested: by the provider's JSON-schema output, a forced tool call, its JSON output without a schema, or words in the prompt. `auto` tries schema, tool and words in turn, and remembers which the server takes."""
    top_logprobs: PositiveInt | None = None
    """How many alternatives of each token a token extractor requests, 20 by default; lowered where the server takes fewer."""
    prompt_cache: Annotated[Literal["auto", "off"], _CONNECTION] = "auto"
    """Whether calls are ordered for the provider's prompt cache: of calls whose prompts begin alike, the first is answered before the others are made, and prefixes are marked where the provider needs it (Anthropic)."""
    cache: Annotated[bool, _CONNECTION] = True
    """Whether replies to equal requests may be shared."""
    params: dict[str, Any] = Field(default_factory=dict)
    """More arguments of a request, by their names in litellm, such as `top_k` or `tools`; what only a server knows goes in `extra_body`."""
    temperature: Annotated[float, Field(ge=0)] | None = None
    """Sampling temperature."""
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Nucleus sampling."""
    max_tokens: Annotated[int, Field(gt=0), Whole] | None = None
    """The most tokens a reply may have."""
    seed: Annotated[int, Whole] | None = None
    """Sampling seed, where the provider takes one."""
    stop: str | list[str] | None = None
    """Texts that end the reply."""
    reasoning_effort: NonEmptyText | None = None
    """How long a reasoning model may think, in the provider's words."""

    @property
    def known_name(self) -> str:
        """The name by which prices and capabilities are looked up."""
        return self.base_model or self.name

    @property
    def endpoint_key(self) -> EndpointKey:
        """What the calls of one model at one endpoint with one key have in common."""
        return self.name, self.api_base, self.api_key_env

    def sampling(self) -> dict[str, Any]:
        """The sampling arguments that were set, as litellm and the OpenAI API name them."""
        names = ("temperature", "top_p", "max_tokens", "seed", "stop", "reasoning_effort")
        settings = {name: getattr(self, name) for name in names}
        return {name: value for name, value in settings.items() if value is not None} | self.params


def _spelling(value: Any) -> str | None:
    if isinstance(value, list | tuple):
        return "<policy>"
    if isinstance(value, str):
        return "<name>"
    return "<model>" if isinstance(value, dict | Model) else None


def _expected(value: Any) -> MessageAndHint:
    hint = "write its name, `{name: …, temperature: 0}`, or a list of these"
    return f"expected a model, found {display_value(value)}", hint


_One = Annotated[
    Annotated[NonEmptyText, Tag("<name>")] | Annotated[Model, Tag("<model>")],
    Discriminator(_spelling),
    Expected(_expected),
]
ModelKey = TypeAliasType(
    "ModelKey",
    Annotated[
        Annotated[NonEmptyText, Tag("<name>")]
        | Annotated[Model, Tag("<model>")]
        | Annotated[list[_One], Field(min_length=1), Tag("<policy>")],
        Discriminator(_spelling),
        Expected(_expected),
    ],
)
"""How a pipeline spells a model: a name, a mapping, or a list that is tried in order until one succeeds."""

Models = tuple[Model, ...]
"""Models in the order in which they are tried."""
