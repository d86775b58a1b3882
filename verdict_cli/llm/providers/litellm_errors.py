"""The one table that translates litellm's exceptions to errors of verdict."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from verdict_cli.errors import (
    ProviderError,
    Refused,
    Rejected,
    ReplyError,
    Retryable,
    failure_class,
)
from verdict_cli.llm.providers.http_errors import (
    Source,
    clean,
    error_body,
    error_detail,
    error_of,
)
from verdict_cli.llm.providers.price_book import model_names
from verdict_cli.llm.providers.secrets import redact_text
from verdict_cli.regex import regex

Ours = ProviderError | ReplyError


def _by_status(name: str, exception: Any) -> Ours:
    """litellm has classes for some statuses only and raises a similar one for the rest, so the status decides."""
    status = int(getattr(exception, "status_code", 0) or 0)
    if status < 300:
        return Retryable(
            f"model {name}: {error_text(exception)}", kind="unavailable", status=status
        )
    detail = getattr(exception, "body", None)
    code = str(detail.get("code") or "") if isinstance(detail, Mapping) else ""
    response = getattr(exception, "response", None)
    headers = (
        getattr(exception, "litellm_response_headers", None)
        or getattr(response, "headers", None)
        or {}
    )
    content = getattr(response, "content", None)
    words = content if isinstance(content, bytes) and content else _provider_words(exception)
    source = Source(name, f"the provider of {name}", headers)
    return error_of(status, error_text(exception), code, source, error_body(words))


def unknown_model(name: str) -> Refused:
    """The error for a model of which not even the provider is known, with the nearest name that is."""
    near = nearest_model(name)
    return Refused(
        f"no provider is known for the model {name!r}",
        hint=f"{f'did you mean {near}? ' if near else ''}write PROVIDER/NAME as litellm does, such as "
        "anthropic/claude-haiku-4-5, or openai/NAME with api_base for an OpenAI-compatible server",
    )


def nearest_model(name: str) -> str:
    """The nearest name of a model that litellm knows; "" if none is near."""
    if _OLLAMA_NAME.fullmatch(name):
        return f"ollama/{name}"
    bare = name.rpartition("/")[2]
    same = [model_name for model_name in model_names() if model_name.rpartition("/")[2] == bare]
    provider_models = [
        model_name for model_name in same if bare.startswith(model_name.partition("/")[0])
    ]
    close = provider_models or same or get_close_matches(bare, model_names(), n=1, cutoff=0.8)
    return close[0] if close else ""


_OLLAMA_NAME = regex(
    r"(?:(?:llama|codellama|qwen|gemma|phi|smollm|granite\d?|olmo)-?\d[\w.-]*|mistral|mixtral|deepseek-r1)(?::[\w.-]+)?"
)
"""Names of open models as Ollama writes them, such as `llama3.2` and `qwen2.5:7b`."""


TABLE = {
    "APIConnectionError": "unavailable",
    "APIResponseValidationError": "unavailable",
    "BlockedPiiEntityError": "content-filter",
    "BudgetExceededError": "refused-by-provider",
    "ContentPolicyViolationError": "content-filter",
    "ContextWindowExceededError": "context-too-long",
    "GuardrailRaisedException": "content-filter",
    "ImageFetchError": "rejected",
    "JSONSchemaValidationError": "unreadable",
    "MidStreamFallbackError": "unavailable",
    "ModelNotMappedError": "refused-by-provider",
    "ModifyResponseException": "content-filter",
    "PaymentRequiredError": "refused-by-provider",
    "RejectedRequestError": "rejected",
    "SensitiveDataRouteException": "content-filter",
    "Timeout": "timeout",
    "UnsupportedParamsError": "rejected",
    "VectorStoreSearchError": "rejected",
}
"""Class name in ``litellm.exceptions`` -> kind of failure. A class that is not listed, such as one of a later litellm, takes that
of its nearest listed parent, else that of its status."""
_HINTS = {
    "BudgetExceededError": "litellm's own budget is spent: raise it or remove it",
    "ContextWindowExceededError": "shorten the prompt or the row, or use a model with a larger context window",
    "ModelNotMappedError": "check the model's name",
    "PaymentRequiredError": "add credit, or use another key",
    "UnsupportedParamsError": "remove that argument from the model, or use a model that takes it",
}


def _of_class(name: str, exception: Any, class_name: str) -> Ours:
    """The error for a class of the table."""
    kind, hint = TABLE[class_name], _HINTS.get(class_name, "")
    text, status = error_text(exception), int(getattr(exception, "status_code", 0) or 0)
    error_class = failure_class(kind) or Refused
    message = f"model {name}: {text}"
    if class_name == "UnsupportedParamsError" and (match := _PARAMETERS.search(str(exception))):
        message = f"model {name} does not take {', '.join(_QUOTED.findall(match[1]))}"
    elif error_class is Rejected:
        message = f"model {name} rejected the request: {text}"
    elif kind == "timeout" and status != 504 and "timed out" in str(exception):
        message, status = f"model {name}: no reply within its timeout", 0
    error = error_class(message, kind=kind, hint=hint)
    if isinstance(error, ProviderError):
        error.status = 400 if isinstance(error, Rejected) else status
    return error


_PARAMETERS = regex(r"does not support parameters: ([\[{][^\]}]*)")
_QUOTED = regex(r"['\"](\w+)['\"]")


def translate(name: str, exception: BaseException, hidden: tuple[str, ...] = ()) -> Ours:
    """Our error for what litellm raised when it called the model of this name, in words without what is ``hidden``."""
    if isinstance(words := getattr(exception, "message", None), str):
        exception.message = redact_text(words, hidden)  # type: ignore[attr-defined]  # before it is cut to a length
    error = (
        _without_package(name, exception)
        or _without_settings(name, exception)
        or _translated(name, exception)
    )
    if isinstance(error, Retryable) and _failed_to_connect(exception):
        # litellm gives it status 500 although no server answered.
        error = Retryable(
            f"model {name}: no connection to its provider: {error_text(exception)}",
            kind="unavailable",
        )
        error.unreachable = True
    error.message = redact_text(error.message, hidden)
    return error


def _without_package(name: str, exception: BaseException) -> Refused | None:
    """The error for a package that is not installed, which litellm reports as a lost connection."""
    words = str(exception)
    module = _NO_MODULE.search(words)
    package = module[1] if module else ""
    if package == "google" or "Google Cloud SDK not found" in words:
        package = "google-auth"
    if not package:
        return None
    return Refused(
        f"model {name} needs the package {package}, which is not installed",
        hint=f"pip install {package}",
    )


_NO_MODULE = regex(r"No module named '(\w+)")


def _without_settings(name: str, exception: BaseException) -> Refused | None:
    """The error for credentials or a setting that litellm misses before it calls anyone, which it reports as an outage, a
    lost connection or a bad request."""
    words = str(exception)
    if _NO_CREDENTIALS.search(words):
        hint = "set them up: `gcloud auth application-default login` for Vertex AI, AWS's variables or profile for Bedrock"
        return Refused(f"model {name}: no credentials of its cloud were found", hint=hint)
    if _NO_SETTING.search(words):
        hint = "set it in the environment; `api_base` and `api_key_env` are keys of the model"
        return Refused(f"model {name} lacks a setting: {error_text(exception)}", hint=hint)
    if "values to unpack" in words:
        message = (
            f"the model's name {name!r} does not have the form that its provider's models have"
        )
        hint = "write all of its parts, such as huggingface/PROVIDER/ORGANISATION/MODEL"
        return Refused(message, hint=hint)
    return None


_NO_CREDENTIALS = regex(
    r"default credentials were not found|Unable to locate credentials", re.IGNORECASE
)
_NO_SETTING = regex(
    r"missing [\w ]*(credentials|api[_ ]?key|api[_ ]?base)|\b(api_base|api_key|\w*project\w*|\w*region\w*) (is|are) (required|not set)|"
    r"(url|base|key|token|credentials?)\b[^.]{0,40} (is|are) not set|set (the |in )?[^.]{0,60}environment variable|"
    r"[A-Z]+(_[A-Z]+)+ (is |are |must be |not )+(set|required|provided|found)",
    re.IGNORECASE,
)


def _translated(name: str, exception: BaseException) -> Ours:
    if (
        "LLM Provider NOT provided" in str(exception)
        or type(exception).__name__ == "LiteLLMUnknownProvider"
    ):
        return unknown_model(name)
    for parent in type(exception).__mro__:
        if parent.__name__ in TABLE:
            return _of_class(name, exception, parent.__name__)
    if hasattr(exception, "status_code") or any(
        kind.__name__ == "OpenAIError" for kind in type(exception).__mro__
    ):
        return _by_status(name, exception)
    if isinstance(exception, ImportError):
        return Refused(
            f"model {name}: {error_text(exception)}", hint="install the package that it names"
        )
    if isinstance(exception, OSError):
        kind = "timeout" if isinstance(exception, TimeoutError) else "unavailable"
        return Retryable(f"model {name}: {error_text(exception)}", kind=kind)
    return Rejected(f"model {name}: {type(exception).__name__}: {error_text(exception)}")


def error_text(exception: BaseException) -> str:
    """The provider's own message in an exception of litellm."""
    detail, _ = error_detail(_provider_words(exception))
    detail = _INTERNALS.sub("", detail).partition("\nTraceback (most recent call last)")[0]
    if "litellm" in detail.lower():
        sentences = [part for part in _SENTENCE_END.split(detail) if "litellm" not in part.lower()]
        detail = " ".join(" ".join(sentences).split()) or "the call failed"
    return clean(detail.strip())


def _provider_words(exception: BaseException) -> bytes:
    """What the provider sent, without the class names that litellm puts before it."""
    words = str(getattr(exception, "message", "") or exception)
    _, separator, provider_words = words.partition("Exception - ")
    return (provider_words if separator else _CLASS_NAMES.sub("", words)).encode("utf-8", "replace")


_INTERNALS = regex(r" ssl:(?:<[^>]*>|\w+)|\.? Handle with `litellm\.\w+`\.?")
"""What aiohttp and litellm add to a message, which only a programmer could use."""


_CLASS_NAMES = regex(r"^(?:litellm\.\w+: )+")
_SENTENCE_END = regex(r"(?<=[.!?])\s+|\n+")


def _failed_to_connect(exception: BaseException) -> bool:
    """Whether no connection was made. litellm has no class for it, but keeps its HTTP client's error as the cause."""
    cause: BaseException | None = exception
    while cause is not None and type(cause).__name__ not in _NO_CONNECTION:
        cause = cause.__cause__ or cause.__context__
    return cause is not None


_NO_CONNECTION = {
    "ConnectError",
    "ConnectTimeout",
    "ClientConnectorError",
    "ClientConnectorDNSError",
}
"""The classes of httpx and aiohttp for a connection that could not be made."""
