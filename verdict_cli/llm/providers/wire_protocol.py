"""A wire protocol: how a request is written for a kind of server, and how its reply is turned into a chat completion.

Every protocol is pure functions. The client, the retries and what makes a reply usable are the same for all of them
(`native.py`, `read_reply.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import orjson
from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import Refused
from verdict_cli.language.fields.types import image_url
from verdict_cli.llm.identity_cache import IdentityCache
from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.llm.providers.wire_values import object_at
from verdict_cli.messages import JsonObject, Message, NamedValues, Request
from verdict_cli.model import Model

T = TypeVar("T")
Envelope = NamedValues
"""A decoded reply body."""


class WireProtocol(Struct, frozen=True):
    """One provider's API.

    ``path`` gives what follows the base URL, from the model's name and whether the reply is streamed. ``settings`` writes
    what all requests of a unit have in common; it raises Refused for what the API cannot do. ``content`` writes what a request
    says. ``to_chat`` turns a decoded reply into the form of a chat completion, with all prompt tokens under ``usage.prompt_tokens``. ``assemble`` puts the events of a
    streamed reply together to the body that the same call gives unstreamed, and ``text_of`` is the text that an event
    adds. ``version`` is the path segment that a base URL may lack, ``absent`` the settings that the API does not have;
    ``json_mode`` gives the mode that the API takes from the model in place of another.
    """

    name: str
    version: str
    path: Callable[[str, bool], str]
    headers: Callable[[str], Mapping[str, str]]
    settings: Callable[[Request, str, JsonMode], JsonObject]
    content: Callable[[Request], JsonObject]
    to_chat: Callable[[Envelope], JsonObject]
    assemble: Callable[[Iterable[Envelope]], JsonObject]
    text_of: Callable[[Envelope], str]
    absent: tuple[str, ...] = ()
    json_mode: Callable[[Model, JsonMode], JsonMode] = lambda _, mode: mode

    def check(self, model: Model) -> None:
        """Raise Refused for a setting that the API does not have."""
        for key in self.absent:
            if key in model.sampling():
                hint = f"remove `{key}` from the model"
                raise Refused(f"model {model.name} takes no {key}", hint=hint)


class RequestBodies:
    """Writes request bodies. What the requests of one unit have in common is written once."""

    def __init__(self) -> None:
        self._settings: IdentityCache[tuple[JsonObject, str]] = IdentityCache()

    def get(
        self, request: Request, protocol: WireProtocol, name: str, mode: JsonMode
    ) -> tuple[bytes, str]:
        """The request's body for a server that knows the model by this name, and its parameters as JSON.

        Raises TypeError for a request that cannot be written as JSON, Refused for a setting that the API does not have.
        """
        model, schema = request.model, request.json_schema
        mode = protocol.json_mode(model, mode)
        key = (request.top_logprobs, request.stream, mode, name)
        settings, sent = self._settings.get(
            (model, schema), key, _settings, protocol, request, name, mode
        )
        content = protocol.content(with_instruction(request, mode))
        return orjson.dumps(content | settings), sent


def _settings(
    protocol: WireProtocol, request: Request, name: str, mode: JsonMode
) -> tuple[JsonObject, str]:
    """The settings in the body of a request, and as they are recorded."""
    protocol.check(request.model)
    settings = protocol.settings(request, name, mode)
    return settings, parameters(settings)


INSTRUCTION = "\n\nReply with one JSON object, and nothing else, that satisfies this JSON Schema:\n"


def with_instruction(request: Request, mode: JsonMode) -> Request:
    """The request, whose last message ends with the schema in the modes in which the server takes none apart from it."""
    if request.json_schema is None or mode not in ("prompt", "json"):
        return request
    *before, last = request.messages
    schema = orjson.dumps(request.json_schema).decode()
    instructed = replace(last, content=f"{last.content}{INSTRUCTION}{schema}")
    return replace(request, messages=(*before, instructed))


TOOL = "reply"
"""The tool whose arguments are the reply where JSON is requested by a tool call."""
_IN_OTHER_COLUMNS = frozenset({"model", "api_base", "api_key", "messages"})
_SCHEMA_KEYS = frozenset(
    {"schema", "input_schema", "parameters", "responseJsonSchema", "parametersJsonSchema"}
)


def parameters(body: NamedValues) -> str:
    """The parameters as JSON for `calls.parquet`, without what has its own column, and without the JSON schemas."""
    sent = {key: value for key, value in body.items() if key not in _IN_OTHER_COLUMNS}
    form = object_at(sent, "response_format")
    if "json_schema" in form:
        sent["response_format"] = form.get("type")
    if sent.get("tool_choice") == {"type": "function", "function": {"name": TOOL}}:
        sent |= {"tools": [TOOL], "tool_choice": TOOL}
    return orjson.dumps(_without_schemas(sent), default=str).decode()


def _without_schemas(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _without_schemas(part) for key, part in value.items() if key not in _SCHEMA_KEYS
        }
    return [_without_schemas(part) for part in value] if isinstance(value, list) else value


def bearer(key: str) -> dict[str, str]:
    """The header of a key that most servers take."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def with_settings(body: JsonObject, settings: NamedValues) -> JsonObject:
    """The body with the settings that it has under no other name. Headers are sent apart."""
    more = dict(settings)
    more.pop("extra_headers", None)
    return body | (more.pop("extra_body", None) or {}) | more


def split_system(messages: Sequence[Message]) -> tuple[str, list[Message]]:
    """The system messages' text, and the others: for APIs that take the system prompt apart from the conversation."""
    system = "\n\n".join(message.content for message in messages if message.role == "system")
    return system, [message for message in messages if message.role != "system"]


def content_parts(message: Message, text: Callable[[str], T], image: Callable[[str], T]) -> list[T]:
    """The message's texts and images in order, each as the protocol writes it.

    Raises RowError for an image file that cannot be read.
    """
    if not message.images:
        return [text(message.content)]
    parts = []
    start = 0
    for end, url in (*message.images, (len(message.content), "")):
        between = message.content[start:end]
        if between.strip():
            parts.append(text(between))
        if url:
            parts.append(image(image_url(url)))
        start = end
    return parts


def data_url(url: str) -> tuple[str, str] | None:
    """(media type, base64 data) of a ``data:`` URL; None for another address."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return None
    return head.removeprefix("data:").removesuffix(";base64"), data


def count(value: Any) -> int:
    """A number of tokens; 0 for anything else."""
    return value if type(value) is int and value >= 0 else 0


def of_type(items: Iterable[NamedValues], kind: str) -> list[NamedValues]:
    """The items of this `type`."""
    return [item for item in items if item.get("type") == kind]


def own_arguments(calls: Iterable[NamedValues], key: str) -> Any:
    """The arguments of the first call of our own tool, which are under this key; None without one."""
    return next((call.get(key) for call in calls if call.get("name") == TOOL), None)


def joined(items: Iterable[NamedValues], key: str = "text") -> str:
    """The texts under a key of the items, one after the other."""
    return "".join(str(item.get(key) or "") for item in items)


def texts_of(setting: str | Sequence[str]) -> list[str]:
    """A setting that is one text or several, as a list."""
    return [setting] if isinstance(setting, str) else list(setting)


def chat_completion(
    text: str,
    finish_reason: str,
    usage: NamedValues | None,
    *,
    model: str = "",
    arguments: Any = None,
    refusal: str | None = None,
    logprobs: Sequence[NamedValues] | None = None,
    extra: NamedValues | None = None,
) -> JsonObject:
    """A reply in the form of a chat completion. ``arguments``: those of a call of our own tool."""
    message: JsonObject = {"content": text}
    if arguments is not None:
        message["tool_calls"] = [
            {"type": "function", "function": {"name": TOOL, "arguments": arguments}}
        ]
    if refusal:
        message["refusal"] = refusal
    choice = {
        "message": message,
        "finish_reason": finish_reason,
        "logprobs": {"content": logprobs} if logprobs else None,
    }
    return {"choices": [choice], "usage": usage, "model": model, **(extra or {})}
