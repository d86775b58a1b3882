"""HTTP servers on loopback for benchmarks of calls: every provider's reply in its own wire format, after a delay.

python benchmarks/loopback.py --latency-s 0.2       prints its port, and serves until it is ended
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
from collections.abc import Mapping
from time import monotonic
from typing import Any

TEXT = '{"score": 4}'
CHAT = {
    "model": "m",
    "choices": [{"message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 120, "completion_tokens": 8},
}
WIRES: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "openai": ("openai/gpt-4o-mini", "/chat/completions", CHAT),
    "groq": ("groq/openai/gpt-oss-20b", "/chat/completions", CHAT),
    "azure": ("azure/gpt-4o-mini", "/chat/completions", CHAT),
    "anthropic": (
        "anthropic/claude-haiku-4-5",
        "/messages",
        {
            "type": "message",
            "model": "m",
            "content": [{"type": "text", "text": TEXT}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 120, "output_tokens": 8},
        },
    ),
    "gemini": (
        "gemini/gemini-2.5-flash",
        ":generateContent",
        {
            "candidates": [{"content": {"parts": [{"text": TEXT}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 120, "candidatesTokenCount": 8},
        },
    ),
    "responses": (
        "openai/gpt-5-pro",
        "/responses",
        {
            "status": "completed",
            "model": "m",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": TEXT}]}],
            "usage": {"input_tokens": 120, "output_tokens": 8},
        },
    ),
}
"""Provider -> a model, the end of the path of its calls, and a reply."""


def lognormal(random: random.Random, median_s: float, p99_s: float) -> float:
    """A latency with this median and 99th percentile."""
    return median_s * math.exp(math.log(p99_s / median_s) / 2.326 * random.gauss(0, 1))


class LoopbackServer:
    """Answers each request with what `answer` returns: a status, headers and a body of JSON.

    ``sent`` holds the times of the replies whose client still waited for them.
    """

    def __init__(self) -> None:
        self.sent: list[float] = []

    async def serve(self, port: int = 0) -> tuple[asyncio.Server, int]:
        server = await asyncio.start_server(self._connection, "127.0.0.1", port, backlog=1024)
        return server, server.sockets[0].getsockname()[1]

    async def answer(self, path: str) -> tuple[str, Mapping[str, str], object]:
        raise NotImplementedError

    async def answer_to(self, path: str, body: bytes) -> tuple[str, Mapping[str, str], object]:
        """As `answer`, for servers that read the request's body."""
        return await self.answer(path)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.lower().split(b"\r\n")
                length = next(line for line in lines if line.startswith(b"content-length:"))
                sent = await reader.readexactly(int(length.partition(b":")[2]))
                status, headers, body = await self.answer_to(head.split(b" ", 2)[1].decode(), sent)
                if reader.at_eof():
                    return
                self.sent.append(monotonic())
                content = json.dumps(body).encode()
                named = {
                    "Content-Type": "application/json",
                    "Content-Length": str(len(content)),
                    **headers,
                }
                lines_sent = "".join(f"{name}: {value}\r\n" for name, value in named.items())
                writer.write(f"HTTP/1.1 {status}\r\n{lines_sent}\r\n".encode() + content)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client or this server is gone; asyncio reports a handler that was cancelled
        finally:
            writer.close()


class WireServer(LoopbackServer):
    """Replies of every provider of `WIRES` after ``latency_s`` seconds."""

    def __init__(self, latency_s: float) -> None:
        super().__init__()
        self.latency_s = latency_s

    async def answer(self, path: str) -> tuple[str, Mapping[str, str], object]:
        await asyncio.sleep(self.latency_s)
        path = path.partition("?")[0]
        return "200 OK", {}, next(reply for _, end, reply in WIRES.values() if path.endswith(end))


async def _serve(latency_s: float) -> None:
    server, port = await WireServer(latency_s).serve()
    print(port, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--latency-s", type=float, default=0.2)
    asyncio.run(_serve(parser.parse_args().latency_s))
