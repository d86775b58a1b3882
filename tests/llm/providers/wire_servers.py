"""A loopback server with the wire forms of Anthropic, Gemini and OpenAI's Responses API."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[int, dict[str, Any]], tuple[int, dict[str, Any]]]
"""From the call's number and its body to a status and a reply."""


@dataclass
class Wire:
    """The server's address, and the requests it received."""

    url: str
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def serve(answer: Answer) -> Iterator[Wire]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                wire.paths.append(self.path)
                wire.headers.append({name.lower(): value for name, value in self.headers.items()})
                wire.bodies.append(body)
                number = len(wire.bodies)
            status, reply = answer(number, body)
            content = json.dumps(reply).encode()
            if body.get("stream"):
                content = b"".join(
                    b"data: %b\n\n" % json.dumps(event).encode() for event in reply["events"]
                )
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            if status == 429:
                self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    wire = Wire(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield wire
    finally:
        server.shutdown()
        server.server_close()


def anthropic(text: str, stop_reason: str = "end_turn") -> dict[str, Any]:
    """1,000 prompt tokens, 700 of them read from the cache and 200 written to it, and 50 tokens of reply."""
    usage = {
        "input_tokens": 100,
        "cache_read_input_tokens": 700,
        "cache_creation_input_tokens": 200,
        "output_tokens": 50,
    }
    content = [{"type": "text", "text": text}]
    return {
        "type": "message",
        "content": content,
        "stop_reason": stop_reason,
        "usage": usage,
        "model": "claude",
    }


def gemini(text: str, finish: str = "STOP") -> dict[str, Any]:
    """100 prompt tokens, 20 of reply and 30 of thinking."""
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 20, "thoughtsTokenCount": 30}
    candidate = {"content": {"parts": [{"text": text}]}, "finishReason": finish}
    return {"candidates": [candidate], "usageMetadata": usage}


def responses(text: str) -> dict[str, Any]:
    output = [{"type": "message", "content": [{"type": "output_text", "text": text}]}]
    return {
        "status": "completed",
        "output": output,
        "usage": {"input_tokens": 100, "output_tokens": 10},
    }
