"""Conversations: the message forms of OpenAI (chat and Responses), Anthropic, Gemini, Bedrock, LangChain, ShareGPT and
OpenTelemetry's GenAI conventions as one, and its transcript (language-2.md, section C1).

The one form is OpenAI's: `{role, content, name?, tool_calls?, tool_call_id?}`. Content is text, a list of parts
(`{"type": "text", "text"}`, `{"type": "image_url", "image_url": {"url"}}`, or a part of another type), or null beside tool calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from verdict_cli.messages import JsonObject, NamedValues

MessageData = JsonObject
"""A message or a part in the one form."""
Part = NamedValues
"""A message or a part in any form."""

_ROLES = {
    "model": "assistant", "human": "user", "ai": "assistant", "function": "tool", "gpt": "assistant", "chatgpt": "assistant",
    "bing": "assistant", "bard": "assistant", "observation": "tool", "function_call": "assistant",
}  # fmt: skip
"""Roles of other APIs and of data sets (Gemini, LangChain, ShareGPT) by those of OpenAI."""
_LANGCHAIN = ("human", "ai", "system", "tool", "function")
CHAT_ROLES = {"user", "assistant", "system", "developer", "tool"}
"""Roles of chat APIs. Other roles are the names of speakers."""


class ConversationError(ValueError):
    """A value that is not a conversation, with the number of the message that is wrong."""


def looks_like_conversation(value: Any) -> bool:
    """Whether the value is a list of messages: each a mapping with a role, and with a content or parts."""
    return (
        isinstance(value, list | tuple)
        and len(value) > 0
        and all(
            isinstance(message, Mapping) and _looks_like_message(_with_role(message))
            for message in value
        )
    )


def _looks_like_message(message: Part) -> bool:
    has_content = "content" in message or isinstance(message.get("parts"), list | tuple)
    return has_content and isinstance(message.get("role"), str)


def _with_role(message: Part) -> Part:
    """The message with a role and content: from ShareGPT's `from` and `value`, from LangChain's `type`, and from the items
    of OpenAI's Responses API."""
    if message.get("role") is not None:
        return message
    kind, identity = message.get("type"), message.get("id")
    if (
        isinstance(message.get("kwargs"), Mapping)
        and identity
        and isinstance(identity, list | tuple)
    ):
        name = str(identity[-1]).partition("Message")[0].lower()
        message = {**message["kwargs"], "role": name}
    elif str(kind).endswith("_call_output"):
        message = {"role": "tool", "content": [message]}
    elif str(kind).endswith("_call") or kind == "reasoning":
        message = {"role": "assistant", "content": [message]}
    elif kind in _LANGCHAIN:
        data = message.get("data")
        message = {**(data if isinstance(data, Mapping) else message), "role": kind}
    elif isinstance(message.get("from"), str) and "value" in message:
        message = {**message, "role": message["from"], "content": message["value"]}
    return message


def read_conversation(value: Any) -> list[MessageData]:
    """The messages in the one form. Optional keys that are null, as Parquet fills them in, are left out.

    A message whose content has several tool results becomes one message for each.

    Raises:
        ConversationError: the value is not a list of messages, or a message has no content.
    """
    if not isinstance(value, list | tuple):
        raise ConversationError(
            f"{value!r:.200} is not a list of messages with a `role` and a `content`"
        )
    messages: list[MessageData] = []
    called: dict[str, str] = {}
    for index, message in enumerate(value):
        try:
            for read in _read(message):
                for call in read.get("tool_calls", ()):
                    called[call.get("id") or ""] = call["function"]["name"]
                if (
                    read["role"] == "tool"
                    and "name" not in read
                    and read.get("tool_call_id") in called
                ):
                    read["name"] = called[read["tool_call_id"]]
                messages.append(read)
        except ConversationError as error:
            raise ConversationError(f"[{index}]: {error}") from None
        except (AttributeError, TypeError, LookupError):
            raise ConversationError(
                f"[{index}]: {message!r:.80} has a part of an unknown form"
            ) from None
    return messages


def _read(message: Any) -> Iterator[MessageData]:
    if isinstance(message, Mapping):
        message = _with_role(message)
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise ConversationError(f"{message!r:.200} is not a message with a `role` and a `content`")
    head = {"role": role_name(message["role"])}
    head |= {
        key: message[key] for key in ("name", "tool_call_id") if isinstance(message.get(key), str)
    }
    parts = message.get("parts")
    content = parts if isinstance(parts, list | tuple) else message.get("content")
    more = message.get("additional_kwargs")  # LangChain's
    more = more if isinstance(more, Mapping) else {}
    calls = [
        read_tool_call(call) for call in message.get("tool_calls") or more.get("tool_calls") or ()
    ]
    if isinstance(message.get("function_call"), Mapping):  # OpenAI's form before tools
        calls.append(read_tool_call(message["function_call"]))
    if not content:
        content = _words_beside(message, more) or content
    if content is None and not calls:
        raise ConversationError("its content is null, and it calls no tool")
    if content is None or isinstance(content, str):
        yield _message(head, content, calls)
    elif isinstance(content, list | tuple):
        yield from _parts(head, content, calls)
    else:
        raise ConversationError(f"its content {content!r:.80} is neither text nor a list of parts")


def _message(head: MessageData, content: Any, calls: list[MessageData]) -> MessageData:
    message = {**head, "content": content}
    return {**message, "tool_calls": calls} if calls else message


def _words_beside(message: Part, more: Part) -> str:
    """What was said outside an empty content: a refusal, or the transcript of what was spoken."""
    audio = message.get("audio") or more.get("audio")
    spoken = audio.get("transcript") if isinstance(audio, Mapping) else None
    words = (message.get("refusal"), more.get("refusal"), spoken)
    return next((text for text in words if isinstance(text, str) and text), "")


def role_name(word: str) -> str:
    """The role of a chat API that is written in any case and under any API's name; a speaker's name as it is."""
    role = word.strip().lower()
    return _ROLES.get(role, role if role in CHAT_ROLES else word)


def _parts(
    head: MessageData, content: Sequence[Any], calls: list[MessageData]
) -> Iterator[MessageData]:
    parts: list[MessageData] = []
    results: list[MessageData] = []
    for part in content:
        read = _part(part)
        if "function" in read:
            calls.append(read)
        elif read.get("role") == "tool":
            name = {"name": head["name"]} if "name" in head else {}
            results.append({**name, **read})
        else:
            parts.append(read)
    if results and calls:  # of a tool that the provider ran: its call comes before its result
        yield _message(head, None, calls)
        calls = []
    yield from results
    if results and not parts and not calls:
        return
    texts = [part["text"] for part in parts if part.get("type") == "text"]
    message_content: Any = "\n".join(texts) if len(texts) == len(parts) else parts
    if calls and not parts:
        message_content = None
    yield _message(head, message_content, calls)


def _part(part: Any) -> MessageData:
    """A part of a content in the one form; a call and a result of a tool are those of messages."""
    if isinstance(part, str):
        return _text(part)
    if not isinstance(part, Mapping):
        raise ConversationError(f"the part {part!r:.80} of its content is not a mapping")
    if isinstance(part.get("transcript"), str):
        return _text(part["transcript"])
    kind = part.get("type")
    if kind is None:
        return _untyped(part)
    ending = next((ending for ending in _ENDINGS if str(kind).endswith(ending)), "")
    reader = _TYPED.get(str(kind)) or _ENDINGS.get(ending)
    if reader is None:
        raise _unread(part)
    return reader(part)


def _untyped(part: Part) -> MessageData:
    if part.get("thought") is True:
        return _thought(part.get("text", ""))
    key = next((key for key in _UNTYPED if part.get(key) is not None), None)
    if key is None:
        raise _unread(part)
    return _UNTYPED[key](part[key])


def _unread(part: Any) -> ConversationError:
    return ConversationError(f"its content has a part that is not read, {part!r:.80}")


def _first(mapping: Part, *keys: str) -> Any:
    """The value of the first of the keys that has one."""
    return next((mapping[key] for key in keys if mapping.get(key) is not None), None)


def _first_text(mapping: Part, *keys: str) -> str | None:
    """The first text of these keys that is not empty."""
    texts = (mapping.get(key) for key in keys)
    return next((text for text in texts if isinstance(text, str) and text), None)


def _text(text: Any) -> MessageData:
    if not isinstance(text, str):
        raise ConversationError(f"the text {text!r:.80} is not a text")
    return {"type": "text", "text": text}


def read_tool_call(call: Any) -> MessageData:
    """A call of a tool in the one form, from any API's. Raises ConversationError for what is not a call."""
    if not isinstance(call, Mapping):
        raise ConversationError(f"the tool call {call!r:.80} is not a mapping")
    function = call["function"] if isinstance(call.get("function"), Mapping) else call
    name = _first_text(function, "name", "toolName", "function")
    if name is None:
        raise ConversationError(f"the tool call {call!r:.80} has no name")
    arguments = _first(function, *_ARGUMENTS)
    if not isinstance(arguments, str):
        arguments = _json({} if arguments is None else arguments)
    normalized: MessageData = {
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
    identity = _first_text(call, "call_id", "toolUseId", "toolCallId", "id")
    return normalized if identity is None else {"id": identity, **normalized}


_ARGUMENTS = (
    "arguments", "args", "input", "input_parameters", "inputParameters", "action", "queries", "code",
)  # fmt: skip


def _tool_result(part: Part) -> MessageData:
    """A tool's result as a message of its own."""
    result = _first(part, "content", "response", "result", "output")
    if isinstance(result, list | tuple) and all(map(_is_part, result)):
        try:
            (message,) = _parts({"role": "tool"}, result, [])
            result = message["content"]
        except ConversationError:  # a form of the tool's own
            result = _json(result)
    elif not isinstance(result, str):
        result = "" if result is None else _json(result)
    normalized: MessageData = {"role": "tool", "content": result}
    name = _first_text(part, "name", "toolName")
    identity = _first_text(
        part, "tool_use_id", "tool_call_id", "toolUseId", "toolCallId", "call_id", "id"
    )
    if name is not None:
        normalized["name"] = name
    if identity is not None:
        normalized["tool_call_id"] = identity
    return normalized


def _is_part(item: Any) -> bool:
    return isinstance(item, Mapping) and (
        "type" in item or isinstance(item.get("text"), str) or "json" in item
    )


def _item_call(part: Part) -> MessageData:
    """A call among the items of the Responses API; one of a tool of the provider's has no name of its own."""
    name = part.get("name") or str(part["type"]).removesuffix("_call")
    arguments: Any = next((part[key] for key in _ARGUMENTS if part.get(key)), {})
    return read_tool_call({**part, "name": name, "arguments": arguments})


def _thought(text: Any) -> MessageData:
    """What a model thought: a part of its own type, never its words."""
    return {"type": "thinking", "thinking": text}


def _image(url: Any) -> MessageData:
    if not isinstance(url, str):
        raise ConversationError(f"the image {url!r:.80} has no address")
    return {"type": "image_url", "image_url": {"url": url}}


def _data(kind: Any, data: Any) -> MessageData:
    return _image(f"data:{kind};base64,{data}")


def _typed_image(part: Part) -> MessageData:
    """`source` of Anthropic, `image_url` of chat completions and of responses, `image` of a tool's log."""
    source = _first(part, "source", "image_url", "image")
    if not isinstance(source, Mapping):
        return _image(source)
    if "url" in source:
        return _image(source["url"])
    return _data(source.get("media_type"), source["data"])


def _is_image(part: Part) -> bool:
    return part.get("modality") == "image"


_Reader = Callable[[Any], MessageData]

_UNTYPED: dict[str, _Reader] = {
    "reasoningContent": lambda content: _thought(content.get("reasoningText", {}).get("text", "")),
    "toolUse": read_tool_call,
    "toolResult": _tool_result,
    "json": lambda value: _text(_json(value)),
    "text": _text,
    "functionCall": read_tool_call,
    "functionResponse": _tool_result,
    "inlineData": lambda data: _data(data.get("mimeType"), data.get("data")),
    "fileData": lambda data: _image(data.get("fileUri")),
    "executableCode": lambda code: read_tool_call({"name": "code_execution", "arguments": code}),
    "codeExecutionResult": lambda result: _tool_result({**result, "name": "code_execution"}),
    "image": lambda image: _data(f"image/{image.get('format')}", image["source"].get("bytes")),
}
"""Gemini's and Bedrock's parts, which have no type, by the key that each has alone. The first one decides."""
_NAMED_PARTS = (
    "thinking", "redacted_thinking", "reasoning", "audio", "input_audio", "output_audio", "file", "input_file", "document",
    "video", "video_url", "search_result",
)  # fmt: skip
"""Parts that stay as they are, and that a transcript names without their content. Others are refused: what is not understood is not
left out of what a judge reads."""
_TYPED: dict[str, _Reader] = {
    **dict.fromkeys(
        ("text", "input_text", "output_text"), lambda part: _text(_first(part, "text", "content"))
    ),
    "refusal": lambda part: _text(part["refusal"]),
    **dict.fromkeys(("tool_call", "tool-call"), read_tool_call),
    **dict.fromkeys(("tool_call_response", "tool-result"), _tool_result),
    **dict.fromkeys(("image", "image_url", "input_image"), _typed_image),
    "blob": lambda part: (
        _data(part.get("mime_type"), _first(part, "content", "data"))
        if _is_image(part)
        else dict(part)
    ),
    "uri": lambda part: _image(part.get("uri")) if _is_image(part) else dict(part),
    **dict.fromkeys(_NAMED_PARTS, dict),
}
"""Parts of OpenAI, Anthropic and OpenTelemetry by their type."""
_ENDINGS: dict[str, _Reader] = {
    "tool_use": read_tool_call,
    "tool_result": _tool_result,
    "_call_output": _tool_result,
    "_call": _item_call,
}
"""Parts of OpenAI and Anthropic whose type begins with the name of a tool."""


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


class NumberedMessages(list[MessageData]):
    """Messages in the one form, with their numbers in the conversation that they were taken from."""

    def __init__(self, messages: Sequence[MessageData], numbers: Sequence[int]) -> None:
        super().__init__(messages)
        self.numbers = numbers

    def part(self, indices: slice) -> NumberedMessages:
        """Some of the messages; they keep their numbers."""
        return NumberedMessages(self[indices], self.numbers[indices])


class Transcript(str):
    """The text of a conversation, with the addresses of the images in it."""

    images: tuple[str, ...] = ()


def number_messages(value: Any) -> NumberedMessages:
    """The messages of a conversation in any form, numbered from 1. Raises ConversationError."""
    if isinstance(value, NumberedMessages):
        return value
    messages = read_conversation(value)
    return NumberedMessages(messages, range(1, len(messages) + 1))


def filter_messages(value: Any, name: str, argument: int | str) -> NumberedMessages:
    """Some messages of a conversation, by one of MESSAGE_FILTERS; they keep their numbers. Raises ConversationError."""
    messages = number_messages(value)
    if name in ("last", "first"):
        count = min(int(argument), len(messages))
        return messages.part(slice(len(messages) - count, None) if name == "last" else slice(count))
    role, wanted = role_name(str(argument)), name == "only"
    indices = [
        index for index, message in enumerate(messages) if (message["role"] == role) == wanted
    ]
    return NumberedMessages(
        [messages[index] for index in indices], [messages.numbers[index] for index in indices]
    )


MESSAGE_FILTERS: dict[str, type] = {"last": int, "first": int, "without": str, "only": str}
"""Filters of a conversation, and the type of their argument: a number of messages, or a role."""


def transcript(value: Any) -> Transcript:
    """The messages as numbered turns: `[1] user: …`. A debate, whose speakers all have names of their own, has tags of
    these names instead, as in the ancestor's library: `<Proponent>`, unless a speech has such a tag of its own. Raises
    ConversationError."""
    messages = number_messages(value)
    pairs = zip(messages.numbers, messages, strict=True)
    if all(map(_is_speech, messages)) and not _writes_tags(messages):
        tagged = (
            f"<{message['role']}>\n{message['content']}\n</{message['role']}>"
            for message in messages
        )
        return Transcript("\n\n".join(tagged))
    lines = (
        _indented(line) for number, message in pairs for line in _lines(f"[{number}]", message)
    )
    text = Transcript("\n".join(lines))
    text.images = conversation_images(messages)
    return text


def _indented(text: str) -> str:
    """The text with its further lines indented, so that none of them can pass for a turn."""
    return "\n    ".join(text.splitlines())


def _is_speech(message: MessageData) -> bool:
    return (
        message.keys() == {"role", "content"}
        and message["role"] not in CHAT_ROLES
        and isinstance(message["content"], str)
    )


def _writes_tags(messages: Sequence[MessageData]) -> bool:
    """Whether a speech contains a speaker's tag, with which it could end its own turn and write one of another speaker."""
    tags = {
        tag for message in messages for tag in (f"<{message['role']}>", f"</{message['role']}>")
    }
    return any(tag in message["content"] for message in messages for tag in tags)


def message_text(value: Any) -> Transcript:
    """One message in any form, as a turn without a number. Raises ConversationError."""
    messages = read_conversation([value])
    text = Transcript(
        "\n".join(line.strip() for message in messages for line in _lines("", message))
    )
    text.images = conversation_images(messages)
    return text


def _lines(number: str, message: MessageData) -> Iterator[str]:
    role, name = message["role"], message.get("name")
    speaker = f"{role} {name}" if name else role
    if message.get("content") not in (None, "") or not message.get("tool_calls"):
        yield f"{number} {speaker}: {content_text(message.get('content'))}"
    for call in _calls(message):
        yield f"{number} {role} {call}"


def calls_text(message: MessageData) -> str:
    """The tool calls of a message, one a line: `called search({"q": "x"})`."""
    return "\n".join(_calls(message))


def _calls(message: MessageData) -> Iterator[str]:
    for call in message.get("tool_calls", ()):
        yield f"called {call['function']['name']}({arguments_text(call['function']['arguments'])})"


def content_text(content: Any) -> str:
    """The text of a message's content. Images and other parts are named, not printed."""
    if content is None or isinstance(content, str):
        return content or ""
    return " ".join(
        part["text"] if part.get("type") == "text" else f"({_part_name(part)})" for part in content
    )


def answer_text(content: Any) -> str | None:
    """What was said in a message's content: its texts, without thoughts and without names of other parts."""
    if content is None or isinstance(content, str):
        return content
    texts = [part["text"] for part in content if part.get("type") == "text"]
    return "\n".join(texts) if texts else None


def _part_name(part: Part) -> str:
    kind = part.get("type")
    return "image" if kind == "image_url" else str(kind or "part").replace("_", " ")


def conversation_images(messages: Sequence[MessageData]) -> tuple[str, ...]:
    """The addresses of the images in the messages, in order."""
    return tuple(
        part["image_url"]["url"]
        for message in messages
        if isinstance(message.get("content"), list)
        for part in message["content"]
        if part.get("type") == "image_url"
    )


def arguments_text(text: str) -> str:
    """A tool's arguments in JSON's usual spelling; as they are where they are not JSON."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False) if text.strip() else "{}"
    except (ValueError, RecursionError):
        return text
