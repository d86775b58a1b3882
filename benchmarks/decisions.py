"""Decision models: `verdict run` on 1,000 rows with five criteria, in one request a row, against a bare client.

    python benchmarks/decisions.py [REPETITIONS] [LATENCY_MS] [CONCURRENT]

The server is the loopback server of decision models of the shared folder (VERDICT_SHARED, else `../shared`). The bare client
(`python benchmarks/decisions.py client URL ROWS CONCURRENT`) sends the same 1,000 requests over the same HTTP library, with their
bodies written from the same rows, and reads the replies. Whole processes, in turn, the cache off; prints a Markdown table of medians.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from urllib.request import urlopen

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("VERDICT_SHARED", ROOT.parent / "shared"))
ROWS, CRITERIA = 1_000, 5
WORDS = "the answer names a source and a date that the document has and the question asks for " * 8
PIPELINE = """verdict: 1
name: criteria
model: {{name: systemone/jev, api_base: "{url}"}}
pipeline:
  - unit: JudgeUnit
    name: judge
    each: source.criteria
    as: criterion
    scale: boolean
    prompt: |
      @system
      Is it met? {{criterion}}
      @user
      {{source.answer}}
"""


def rows(count: int) -> list[dict[str, object]]:
    """Rows of some 200 tokens with five criteria."""
    criteria = [f"criterion {number}: the text is clear" for number in range(CRITERIA)]
    return [
        {"id": number, "answer": f"{number} {WORDS}", "criteria": criteria}
        for number in range(count)
    ]


async def send(url: str, count: int, concurrent: int) -> None:
    """Send a request for each row."""
    import orjson
    from pyreqwest.client import ClientBuilder
    from pyreqwest.http import Url

    timeout = timedelta(seconds=60)
    client = ClientBuilder().follow_redirects(False).pool_idle_timeout(timeout).no_proxy().build()
    target, headers = Url(f"{url}/v1/systemone"), {"Content-Type": "application/json"}
    remaining = iter(rows(count))

    async def work() -> None:
        for row in remaining:
            criteria = row["criteria"]
            assert isinstance(criteria, list)
            questions = {
                f"q{number}": {"type": "noul", "instructions": f"Is it met? {criterion}"}
                for number, criterion in enumerate(criteria, 1)
            }
            body = orjson.dumps({"model": "jev", "state": row["answer"], "questions": questions})
            sending = (
                client.post(target)
                .headers(headers)
                .body_bytes(body)
                .timeout(timeout)
                .build_streamed()
            )
            async with sending as response:
                answers = orjson.loads(bytes(await response.bytes()))["answers"]
            assert len(answers) == CRITERIA

    await asyncio.gather(*(work() for _ in range(concurrent)))
    os._exit(0)  # the library does not take an interpreter that ends


def serve(latency_ms: float) -> tuple[subprocess.Popen[bytes], str]:
    """The server and its root URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = SHARED / "bench" / "mock_decisions.py"
    if not script.is_file():
        raise SystemExit(f"there is no {script.name} in the shared folder; set VERDICT_SHARED")
    command = [
        sys.executable,
        str(script),
        "--port",
        str(port),
        "--latency-ms",
        str(latency_ms),
        "--keep",
        "1",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    for _ in range(100):
        try:
            urlopen(f"{url}/stats").close()
            break
        except OSError:
            time.sleep(0.05)
    return process, url


def seconds(command: list[str], folder: Path) -> float:
    """How long a process takes. RuntimeError where it fails."""
    started = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return time.perf_counter() - started


def main(repetitions: int, latency_ms: float, concurrent: int) -> None:
    """Print the table."""
    server, url = serve(latency_ms)
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "pipeline.yaml").write_text(PIPELINE.format(url=url), encoding="utf-8")
            (folder / "data.jsonl").write_text(
                "".join(json.dumps(row) + "\n" for row in rows(ROWS)), encoding="utf-8"
            )
            run = [
                sys.executable,
                "-m",
                "verdict_cli",
                "run",
                "pipeline.yaml",
                "data.jsonl",
                "--no-cache",
                "--fresh",
                "--yes",
            ]
            run += ["--quiet", "--out", "out", "--concurrency", str(concurrent)]
            bare = [sys.executable, str(Path(__file__)), "client", url, str(ROWS), str(concurrent)]
            ours, theirs = [], []
            for _ in range(repetitions):
                theirs.append(seconds(bare, folder))
                ours.append(seconds(run, folder))
            with urlopen(f"{url}/stats") as answer:
                stats = json.load(answer)
    finally:
        server.terminate()
        server.wait()
    own, other = statistics.median(ours), statistics.median(theirs)
    requests = stats["requests"] / (2 * repetitions)
    print(
        "| rows | questions | requests | latency ms | concurrent | bare client s | verdict s | ratio |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    print(
        f"| {ROWS:,} | {ROWS * CRITERIA:,} | {requests:,.0f} | {latency_ms:g} | {concurrent} | {other:.2f} | {own:.2f} | {own / other:.2f} |"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["client"]:
        asyncio.run(send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    else:
        given = [float(text) for text in sys.argv[1:]]
        main(
            int(given[0]) if given else 3,
            given[1] if len(given) > 1 else 250,
            int(given[2]) if len(given) > 2 else 32,
        )
