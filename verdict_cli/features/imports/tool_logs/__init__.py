"""Logs of other tools as rows of a dataset (language-2.md, section C2): one row a sample or trace.

A row has `id`, `input`, `output`, `messages` where there is a conversation, `target`, `scores` (the other tool's, by name),
`model` and `metadata`. What a log does not have is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from verdict_cli.errors import DataError, Problem
from verdict_cli.language.conversation import ConversationError, looks_like_conversation, read_conversation
from verdict_cli.language.transcript import content_text
from verdict_cli.registry import Registry

LogRow = dict[str, Any]
LogReader = Callable[[Path], Iterator[LogRow]]

LOG_FORMATS: Registry[LogReader] = Registry(
    __name__,
    {
        "inspect": "inspect_ai.inspect_samples",
        "promptfoo": "promptfoo.promptfoo_results",
        "deepeval": "deepeval.deepeval_cases",
        "lm-eval": "lm_eval.lm_eval_samples",
        "langfuse": "langfuse.langfuse_traces",
        "otlp": "otlp.otlp_traces",
        "openai-chat": "openai_chat.chat_lines",
    },
    "verdict_cli.importers",
)
"""The functions that read a file of each format."""


def read_logs(log_format: str, paths: Sequence[Path]) -> Iterator[LogRow]:
    """The rows of the files, streamed.

    Raises:
        DataError: a file is not of the format, with the place.
    """
    for path in paths:
        yield from LOG_FORMATS[log_format](path)


def log_row(
    path: Path,
    place: str,
    *,
    identity: Any,
    model: Any = None,
    input: Any = None,  # noqa: A002 - the column's name
    output: Any = None,
    messages: Any = None,
    target: Any = None,
    scores: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **more: Any,
) -> LogRow:
    """A row with the columns of every format. `messages` may be in any API's form; input and output that are missing
    are taken from them. `place` names the sample in an error."""
    conversation = None
    if messages:
        try:
            conversation = read_conversation(messages)
        except ConversationError as error:
            raise not_in_format(path, f"{place}: messages{error}") from None
        input = input if input is not None else _last_text(conversation, "user")  # noqa: A001
        output = output if output is not None else _last_text(conversation, "assistant")
    return {
        "id": identity if isinstance(identity, int | str) and not isinstance(identity, bool) else str(identity),
        "input": input,
        "output": output,
        "messages": conversation,
        "target": target,
        "scores": dict(scores or {}),
        "model": model,
        "metadata": dict(metadata or {}),
        **more,
    }


def _last_text(messages: Sequence[Mapping[str, Any]], role: str) -> str | None:
    return next((content_text(each["content"]) for each in reversed(messages) if each["role"] == role), None)


def conversation_or_text(value: Any) -> tuple[Any, Any]:
    """(messages, text) of an input that is either."""
    return (value, None) if looks_like_conversation(value) else (None, value)


def not_in_format(path: Path, message: str, hint: str = "", line: int = 0) -> DataError:
    """A file, or a place in it, that is not what the format says."""
    return DataError(Problem("bad-log", message, hint, str(path), line))


@contextmanager
def known_shape(path: Path, place: str) -> Iterator[None]:
    """Turn what goes wrong with a value of another kind than the format has into a DataError that names the place."""
    try:
        yield
    except (AttributeError, TypeError, ValueError, LookupError, ArithmeticError, RecursionError) as error:
        raise not_in_format(
            path, f"{place}: a value in it is not of the kind that the format has there: {error!s:.100}"
        ) from None


def required(path: Path, place: str, mapping: Any, key: str, kind: type | tuple[type, ...]) -> Any:
    """A required value of a log, checked for its kind. Raises DataError that names the place."""
    value = mapping.get(key) if isinstance(mapping, Mapping) else None
    if not isinstance(value, kind):
        names = " or ".join(
            _KIND_NAMES.get(each, each.__name__) for each in (kind if isinstance(kind, tuple) else (kind,))
        )
        found = "nothing" if value is None else f"{value!r:.60}"
        raise not_in_format(path, f"{place}.{key}: expected {names}, found {found}")
    return value


_KIND_NAMES = {dict: "an object", list: "a list", str: "a text", int: "a number"}


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, with `_2`, `_3` … behind those that came before."""
    seen: dict[str, int] = {}
    made = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        made.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return made
