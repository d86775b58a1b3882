"""A model on this machine whose replies depend on the case, the prompt and how often the prompt was sent before."""

from __future__ import annotations

import ast
import json
import math
import re
import threading
import zlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from loopback_server import serving

VALUES: dict[str, list[Any]] = {
    "score": [4, 2, 5, 3, 4],
    "choice": ["A", "B"],
    "winner": ["B"],
    "grade": ["high"],
    "ranking": [["C", "A", "B"]],
    "facts": [["It is a bridge.", "It is old."]],
    "confidence": [0.75],
}
BY_CASE: dict[str, dict[str, list[Any]]] = {
    "expertqa": {"choice": ["yes", "yes", "no"]},
    "ensemble_verify_ready": {"choice": ["yes", "no", "yes"]},
    "categorical_with_explanation": {"choice": ["unsure"]},
    "judgebench_arguments": {"choice": ["B>A"]},
    "continuous": {"score": [7.5]},
    "model_ensemble_ready": {"score": [2.5]},
    "validate_retries": {"score": [1, 2, 5]},
    "categorical_off_scale": {"choice": ["perhaps", "safe", "maybe"]},
    "subclass_with_settings": {"score": [2]},
    "policy_of_two_models": {"score": [4]},
    "image": {"score": [4]},
    "jury_of_juries": {"score": [4]},
    "post_hoc": {"score": [3]},
    "max_of_distinct": {"score": [3, 4, 4, 2, 5]},
    "jury_of_figure_4": {"score": [1, 5]},
}
FAILURES = {"failing_server": 2, "policy_of_two_models": 1}
"""How many requests of a case the server refuses before it answers."""
TEXT = "I would say 4 of 5, because it opened in 1932."
TOKENS = {"A": 0.7, "B": 0.2, "4": 0.5, "5": 0.25, "10": 0.1, "yes": 0.6, "no": 0.2, " yes": 0.1}
MARKER = "--------------------------------"


@dataclass
class Sent:
    """A request: the roles, the text before the marker of token prompts (all of it, and without the turns of retries), the
    model, and how a value was requested."""

    roles: list[str]
    core: str
    first: str
    model: str
    form: str
    body: dict[str, Any]


@dataclass
class ModelServer:
    """`sent` are the requests of each case."""

    url: str = ""
    sent: dict[str, list[Sent]] = field(default_factory=lambda: defaultdict(list))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, case: str, body: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request."""
        messages = body["messages"]
        form = next(
            (key for key in ("tools", "response_format", "logprobs") if body.get(key)), "text"
        )
        roles = [message["role"] for message in messages]
        opening = messages[: roles.index("assistant")] if "assistant" in roles else messages
        sent = Sent(roles, core(messages), core(opening), body["model"], form, body)
        with self.lock:
            before = sum(
                (other.first, other.model) == (sent.first, sent.model) for other in self.sent[case]
            )
            self.sent[case].append(sent)
        return reply(case, sent, before)


def core(messages: list[dict[str, Any]]) -> str:
    """The text of the messages up to the marker, without the library's random first line, whitespace normalised."""
    texts = []
    for message in messages:
        text = message["content"]
        if isinstance(text, str) and (
            flattened := re.match(r"\s*(\[\{'type'.*\}\])\n" + MARKER, text, re.DOTALL)
        ):
            text = ast.literal_eval(flattened[1])
        if isinstance(text, list):
            text = " ".join(part.get("text", "<image>") for part in text)
        texts.append(re.sub(r"^[A-Za-z]{10}\n", "", text.partition(MARKER)[0]))
    return " | ".join(" ".join(text.split()) for text in texts)


def reply(case: str, sent: Sent, before: int) -> dict[str, Any]:
    """The reply in the form that was requested."""
    place = zlib.crc32(sent.first.encode()) + before
    message: dict[str, Any] = {"role": "assistant", "content": TEXT}
    more: dict[str, Any] = {}
    if sent.form == "logprobs":
        support = [name for name in TOKENS if f'"{name.strip()}"' in str(sent.body["messages"])]
        message["content"] = max(support, key=TOKENS.__getitem__)
        top = [
            {"token": name, "logprob": math.log(share), "bytes": None}
            for name, share in TOKENS.items()
            if name in support
        ]
        more["logprobs"] = {
            "content": [
                {**top[[t["token"] for t in top].index(message["content"])], "top_logprobs": top}
            ]
        }
    elif sent.form == "tools":
        called = sent.body["tools"][0]["function"]
        arguments = json.dumps(filled(case, called["parameters"], place))
        call = {
            "id": "call_1",
            "type": "function",
            "function": {"name": called["name"], "arguments": arguments},
        }
        message |= {"content": None, "tool_calls": [call]}
    elif sent.form == "response_format":
        message["content"] = json.dumps(
            filled(case, sent.body["response_format"]["json_schema"]["schema"], place)
        )
    choice = {"index": 0, "message": message, "finish_reason": "stop", **more}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": sent.model,
        "choices": [choice],
        "usage": usage,
    }


def filled(case: str, schema: dict[str, Any], place: int) -> dict[str, Any]:
    """A value for each field, by its name: both libraries' schemas get the same one."""
    values = {**VALUES, **BY_CASE.get(case, {})}
    filled_values: dict[str, Any] = {}
    for name, kind in schema["properties"].items():
        if kind.get("type") == "boolean":
            filled_values[name] = place % 3 > 0
        else:
            choices = values.get(name, [f"{name} {place % 1000}"])
            filled_values[name] = choices[place % len(choices)]
    return filled_values


@contextmanager
def opened() -> Iterator[ModelServer]:
    """A server on a free port, until the block ends."""
    server = ModelServer()

    class _Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            case = self.path.split("/")[1]
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = server.answer(case, body)
            status = 500 if len(server.sent[case]) <= FAILURES.get(case, 0) else 200
            content = json.dumps(
                answer if status == 200 else {"error": {"message": "busy", "type": "server_error"}}
            ).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with serving(_Handler) as server.url:
        yield server
