"""A loopback server with the batch interfaces of OpenAI, Anthropic, Gemini and Mistral, which counts what it is paid for."""

from __future__ import annotations

import json
import random
import re
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, urlparse

from jsonl import jsonl


@dataclass
class ServedBatch:
    """A batch as the server keeps it."""

    id: str
    lines: list[dict[str, Any]]
    tag: str = ""
    made: float = field(default_factory=time.time)
    status: str = "in_progress"
    files: tuple[str, str] = ("", "")


@dataclass
class BatchServer:
    """Its behaviour: ``latency_s`` of a batch, shares of requests that fail or expire, ``lost`` creations that are not
    acknowledged, how many requests at once ``queue`` admits, the text that it ``rejects``, and the one that ``expires``. `paid` counts answers by custom id, `live` ordinary calls."""

    latency_s: float = 0.0
    fail: float = 0.0
    expire: float = 0.0
    lost: int = 0
    queue: int = 10**9
    rejects_schema: bool = False
    rejects: str = ""
    expires: str = ""
    hangs: bool = False
    on_create: Callable[[], None] = lambda: None
    paid: Counter[str] = field(default_factory=Counter)
    live: int = 0
    polls: int = 0
    created: list[ServedBatch] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    prompts: list[str] = field(default_factory=list)
    draw: random.Random = field(default_factory=lambda: random.Random(1))
    lock: threading.RLock = field(default_factory=threading.RLock)

    def __enter__(self) -> BatchServer:
        handler = type("Handler", (_Handler,), {"state": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def sizes(self) -> list[int]:
        return [len(batch.lines) for batch in self.created]

    def settle(self, batch: ServedBatch) -> None:
        if batch.status != "in_progress" or self.hangs or time.time() < batch.made + self.latency_s:
            return
        good, bad = [], []
        for line in batch.lines:
            name, draw = line.get("custom_id") or line.get("key"), self.draw.random()
            if draw < self.fail:
                bad.append(self._error(name, 500, "The server had an error"))
            elif draw < self.fail + self.expire or (
                self.expires and self.expires in json.dumps(line)
            ):
                bad.append(
                    {
                        "custom_id": name,
                        "response": None,
                        "error": {"code": "batch_expired", "message": "late"},
                    }
                )
            elif self.rejects and self.rejects in json.dumps(line):
                bad.append(self._error(name, 400, "this text is not allowed"))
            elif self.rejects_schema and "json_schema" in json.dumps(line):
                bad.append(self._error(name, 400, "response_format json_schema is not supported"))
            else:
                self.paid[str(name)] += 1
                body = line.get("body") or line.get("params") or line.get("request")
                reply = reply_to(body)
                good.append(
                    {
                        "custom_id": name,
                        "key": name,
                        "response": {"status_code": 200, "body": reply},
                        "line": line,
                    }
                )
        self.draw.shuffle(good)
        self.end(batch, "completed", good, bad)

    def _error(self, name: Any, status: int, message: str) -> dict[str, Any]:
        body = {"error": {"message": message, "type": "server_error", "code": None}}
        return {"custom_id": name, "response": {"status_code": status, "body": body}, "error": None}

    def end(self, batch: ServedBatch, status: str, good: list[Any], bad: list[Any]) -> None:
        batch.status = status
        batch.files = (self.keep(good), self.keep(bad))

    def keep(self, rows: list[Any]) -> str:
        if not rows:
            return ""
        name = f"file-{len(self.files)}"
        self.files[name] = jsonl(rows).encode()
        return name

    def cancel(self, batch: ServedBatch) -> None:
        names = [line.get("custom_id") or line.get("key") for line in batch.lines]
        error = {"code": "batch_cancelled", "message": "cancelled"}
        self.end(
            batch,
            "cancelled",
            [],
            [{"custom_id": name, "response": None, "error": error} for name in names],
        )

    def shown(self, batch: ServedBatch) -> dict[str, Any]:
        self.settle(batch)
        return {
            "id": batch.id,
            "status": batch.status,
            "created_at": int(batch.made),
            "metadata": {"verdict": batch.tag},
            "output_file_id": batch.files[0] or None,
            "error_file_id": batch.files[1] or None,
            "request_counts": {"total": len(batch.lines), "completed": 0},
            "errors": None,
        }


def reply_to(body: dict[str, Any]) -> dict[str, Any]:
    """A chat completion whose score follows from the messages."""
    messages = json.dumps(body.get("messages") or body["contents"], sort_keys=True)
    score = 1 + zlib.crc32(messages.encode()) % 5
    form = body.get("response_format") or {}
    names = (
        form["json_schema"]["schema"]["properties"]
        if "json_schema" in form
        else ("explanation", "score")
    )
    content = json.dumps({name: score if name == "score" else f"because {score}" for name in names})
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if body.get("tools"):
        message = {
            "content": None,
            "tool_calls": [{"function": {"name": "reply", "arguments": content}}],
        }
    usage = {"prompt_tokens": len(messages) // 4, "completion_tokens": 20}
    return {
        "model": body.get("model"),
        "choices": [{"message": message, "finish_reason": "stop"}],
        "usage": usage,
    }


def rows_of(state: BatchServer, batch: ServedBatch) -> list[dict[str, Any]]:
    """The results of a batch, those with errors last."""
    return [
        json.loads(line) for name in batch.files if name for line in state.files[name].splitlines()
    ]


def anthropic_batch(state: BatchServer, batch: ServedBatch) -> dict[str, Any]:
    state.settle(batch)
    status = "in_progress" if batch.status == "in_progress" else "ended"
    created_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(batch.made))
    return {
        "id": batch.id,
        "processing_status": status,
        "created_at": created_at,
        "request_counts": {"processing": len(batch.lines)},
    }


def anthropic_results(state: BatchServer, batch: ServedBatch) -> bytes:
    rows = []
    for row in rows_of(state, batch):
        if row["response"] is None:
            result: dict[str, Any] = {"type": "expired"}
        elif row["response"]["status_code"] != 200:
            result = {
                "type": "errored",
                "error": {"type": "error", "error": {"type": "api_error", "message": "no"}},
            }
        else:
            chat = row["response"]["body"]
            usage = {"input_tokens": chat["usage"]["prompt_tokens"], "output_tokens": 20}
            content = [{"type": "text", "text": chat["choices"][0]["message"]["content"]}]
            message = {
                "type": "message",
                "model": chat["model"],
                "content": content,
                "stop_reason": "end_turn",
                "usage": usage,
            }
            result = {"type": "succeeded", "message": message}
        rows.append(json.dumps({"custom_id": row["custom_id"], "result": result}) + "\n")
    return "".join(rows).encode()


def mistral_job(state: BatchServer, batch: ServedBatch) -> dict[str, Any]:
    state.settle(batch)
    done = batch.status != "in_progress"
    files = {"output_file": batch.files[0] or None, "error_file": batch.files[1] or None}
    about = {
        "created_at": int(batch.made),
        "metadata": {"verdict": batch.tag},
        "total_requests": len(batch.lines),
    }
    return {
        "id": batch.id,
        "status": "SUCCESS" if done else "RUNNING",
        "errors": [],
        **files,
        **about,
    }


def gemini_batch(state: BatchServer, batch: ServedBatch) -> dict[str, Any]:
    state.settle(batch)
    about: dict[str, Any] = {"displayName": batch.tag, "state": "BATCH_STATE_RUNNING"}
    if batch.status != "in_progress":
        name = f"files/{batch.id.partition('/')[2]}-results"
        rows = []
        for row in rows_of(state, batch):
            if row["response"] is None or row["response"]["status_code"] != 200:
                rows.append({"key": row["custom_id"], "error": {"code": 14, "message": "no"}})
                continue
            chat = row["response"]["body"]
            parts = [{"text": chat["choices"][0]["message"]["content"]}]
            usage = {"promptTokenCount": chat["usage"]["prompt_tokens"], "candidatesTokenCount": 20}
            candidate = {"content": {"parts": parts}, "finishReason": "STOP"}
            rows.append(
                {
                    "key": row["custom_id"],
                    "response": {"candidates": [candidate], "usageMetadata": usage},
                }
            )
        state.files[name] = jsonl(rows).encode()
        about |= {"state": "BATCH_STATE_SUCCEEDED", "output": {"responsesFile": name}}
    return {"name": batch.id, "metadata": about, "done": batch.status != "in_progress"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    state: BatchServer

    def log_message(self, *_: object) -> None:
        pass

    def answer(
        self, data: Any, status: int = 200, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def create(self, batch: ServedBatch, describe: Any) -> None:
        state = self.state
        waiting = sum(
            len(batch_.lines) for batch_ in state.created if batch_.status == "in_progress"
        )
        if waiting + len(batch.lines) > state.queue:
            return self.answer(
                {
                    "error": {
                        "message": "Enqueued token limit reached",
                        "code": "token_limit_exceeded",
                    }
                },
                400,
            )
        state.created.append(batch)
        state.prompts += [json.dumps(line) for line in batch.lines]
        state.on_create()
        if state.lost:
            state.lost -= 1
            self.close_connection = True
            self.connection.shutdown(2)
            return None
        return self.answer(describe(batch))

    def do_POST(self) -> None:
        body, path, state = (
            self.rfile.read(int(self.headers.get("content-length") or 0)),
            urlparse(self.path).path,
            self.state,
        )
        with state.lock:
            if path in ("/v1/files", "/v1/files/upload"):
                match = re.search(rb'name="file".*?\r\n\r\n(.*?)\r\n--', body, re.S)
                assert match is not None
                name = f"file-{len(state.files)}"
                state.files[name] = match[1]
                return self.answer({"id": name})
            data = json.loads(body or b"{}") if path != "/upload/here" else {}
            if path.endswith("/chat/completions"):
                state.live += 1
                return self.answer(reply_to(data))
            if path == "/v1/batches":
                lines = [
                    json.loads(line) for line in state.files[data["input_file_id"]].splitlines()
                ]
                tag = data.get("metadata", {}).get("verdict", "")
                opened_batch = ServedBatch(f"batch-{len(state.created)}", lines, tag)
                return self.create(
                    opened_batch, state.shown if tag else lambda batch: {"job": state.shown(batch)}
                )
            if path == "/v1/messages/batches":
                opened_batch = ServedBatch(f"msgbatch-{len(state.created)}", data["requests"])
                return self.create(opened_batch, lambda batch: anthropic_batch(state, batch))
            if path == "/v1/batch/jobs":
                text = state.files[data["input_files"][0]]
                lines = [json.loads(line) for line in text.splitlines()]
                for line in lines:
                    line["body"]["model"] = data["model"]
                opened_batch = ServedBatch(
                    f"job-{len(state.created)}", lines, data["metadata"]["verdict"]
                )
                return self.create(opened_batch, lambda batch: mistral_job(state, batch))
            if path == "/upload/v1beta/files":
                return self.answer({}, headers={"x-goog-upload-url": f"{state.url}/upload/here"})
            if path == "/upload/here":
                name = f"files/f{len(state.files)}"
                state.files[name] = body
                return self.answer({"file": {"name": name}})
            if path.endswith(":batchGenerateContent"):
                about = data["batch"]
                lines = [
                    json.loads(line)
                    for line in state.files[about["inputConfig"]["fileName"]].splitlines()
                ]
                opened_batch = ServedBatch(
                    f"batches/b{len(state.created)}", lines, about["displayName"]
                )
                return self.create(opened_batch, lambda batch: gemini_batch(state, batch))
            if path.endswith("/cancel"):
                batch = next(
                    created for created in state.created if created.id == path.split("/")[-2]
                )
                state.cancel(batch)
                return self.answer(state.shown(batch))
        return self.answer({"error": {"message": "no such path"}}, 404)

    def do_GET(self) -> None:
        parsed, state = urlparse(self.path), self.state
        with state.lock:
            state.polls += 1
            if parsed.path == "/v1/batches":
                after = (parse_qs(parsed.query).get("after") or [""])[0]
                chosen = [*reversed(state.created)]
                chosen = chosen[
                    next((i + 1 for i, created in enumerate(chosen) if created.id == after), 0) :
                ]
                page = [state.shown(created) for created in chosen[:2]]
                if not any(created.tag for created in chosen):  # Together's
                    return self.answer([state.shown(created) for created in chosen])
                return self.answer({"data": page, "has_more": len(chosen) > 2})
            if match := re.fullmatch(r"/v1/files/([^/]+)/content", parsed.path):
                return self.answer(state.files[match[1]])
            by_id = {created.id: created for created in state.created}
            if parsed.path == "/v1/messages/batches":
                batches = [anthropic_batch(state, created) for created in reversed(state.created)]
                return self.answer({"data": batches, "has_more": False})
            if match := re.fullmatch(r"/v1/messages/batches/([^/]+)(/results)?", parsed.path):
                if match[2]:
                    return self.answer(anthropic_results(state, by_id[match[1]]))
                return self.answer(anthropic_batch(state, by_id[match[1]]))
            if parsed.path == "/v1/batch/jobs":
                return self.answer(
                    {"data": [mistral_job(state, created) for created in state.created]}
                )
            if match := re.fullmatch(r"/v1/batch/jobs/([^/]+)", parsed.path):
                return self.answer(mistral_job(state, by_id[match[1]]))
            if parsed.path == "/v1beta/batches":
                return self.answer(
                    {"operations": [gemini_batch(state, created) for created in state.created]}
                )
            if match := re.fullmatch(r"/v1beta/(batches/[^/]+)", parsed.path):
                return self.answer(gemini_batch(state, by_id[match[1]]))
            if match := re.fullmatch(r"/download/v1beta/(files/[^/:]+):download", parsed.path):
                return self.answer(state.files[match[1]])
            if match := re.fullmatch(r"/v1/batches/([^/]+)", parsed.path):
                return self.answer(
                    state.shown(
                        next(created for created in state.created if created.id == match[1])
                    )
                )
        return self.answer({"error": {"message": "no such path"}}, 404)
