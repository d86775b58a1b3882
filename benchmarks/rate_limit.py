"""Judge rows by a server on loopback that refuses calls beyond a rate (429), without Retry-After or quota headers.

    python benchmarks/rate_limit.py --rows 250 --per-minute 120

The server is a token bucket that refills continuously and holds `--burst` seconds' worth. Printed are the failed rows, the
refused requests, and the share of the limit that was used: the shortest possible time for 99% of the rows over the actual
one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import sys
import tempfile
from pathlib import Path
from time import monotonic

CONFIG = """\
verdict: 1
name: limited
model: {{name: openai/limited, api_base: "http://127.0.0.1:{port}/v1"{keys}}}
pipeline:
  - unit: JudgeUnit
    prompt: "Rate: {{source.text}}"
    scale: {{type: discrete, range: [1, 5]}}
"""
REPLY = {"choices": [{"message": {"role": "assistant", "content": '{"score": 4}'}, "finish_reason": "stop"}]}


class LimitedServer:
    """Chat completions with log-normal latency, at most ``per_minute`` of them. ``answered`` holds their times."""

    def __init__(self, per_minute: float, burst_s: float = 5.0, median_s: float = 0.5, p99_s: float = 3.0) -> None:
        self.rate = per_minute / 60
        self.burst = max(1.0, self.rate * burst_s)
        self.median_s, self.p99_s = median_s, p99_s
        self.answered: list[float] = []
        self.refused = 0
        self.started: float | None = None
        self._level, self._at = self.burst, monotonic()
        self._random = random.Random(7)

    async def serve(self) -> tuple[asyncio.Server, int]:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        return server, server.sockets[0].getsockname()[1]

    def share_used(self) -> float:
        """The shortest time in which the limit allows 99% of the answers, over the time that they took."""
        assert self.started is not None
        count = int(0.99 * len(self.answered))
        return (count - self.burst) / self.rate / (sorted(self.answered)[count - 1] - self.started)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                await reader.readexactly(int(lengths[0].partition(b":")[2]))
                status, body = await self._answer()
                content = json.dumps(body).encode()
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n".encode()
                    + content
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self) -> tuple[str, object]:
        now = monotonic()
        self.started = now if self.started is None else self.started
        self._level, self._at = min(self.burst, self._level + (now - self._at) * self.rate), now
        if self._level < 1:
            self.refused += 1
            return "429 Too Many Requests", {"error": {"message": "Too many requests", "code": "rate_limit_exceeded"}}
        self._level -= 1
        sigma = math.log(self.p99_s / self.median_s) / 2.326
        await asyncio.sleep(self.median_s * math.exp(sigma * self._random.gauss(0, 1)))
        self.answered.append(monotonic())
        return "200 OK", REPLY


async def judge(server: LimitedServer, rows: int, folder: Path, keys: str = "") -> tuple[int, str]:
    """Judge so many rows by the server, with the command's defaults: the exit code, and what it printed."""
    listening, port = await server.serve()
    (folder / "limited.yaml").write_text(CONFIG.format(port=port, keys=keys))
    (folder / "rows.jsonl").write_text("".join(json.dumps({"text": f"text {n}"}) + "\n" for n in range(rows)))
    command = ["run", "limited.yaml", "rows.jsonl", "--out", "out", "--no-cache"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "verdict_cli",
        *command,
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    listening.close()
    assert process.returncode is not None
    return process.returncode, output.decode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=250)
    parser.add_argument("--per-minute", type=float, default=120)
    parser.add_argument("--burst", type=float, default=5.0)
    options = parser.parse_args()
    server = LimitedServer(options.per_minute, options.burst)
    with tempfile.TemporaryDirectory() as folder:
        code, output = asyncio.run(judge(server, options.rows, Path(folder)))
    if code:
        print(output)
    print(f"exit code {code}, answered {len(server.answered)} of {options.rows}, refused {server.refused}")
    if server.answered:
        print(f"share of the limit used: {server.share_used():.1%}")


if __name__ == "__main__":
    main()
