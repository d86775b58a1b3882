"""Download one file over HTTP: resumed after interruptions, verified, and in place only when it is complete."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import orjson

from verdict_cli.errors import FetchError, OutputError
from verdict_cli.llm.backoff import delay_s

if TYPE_CHECKING:
    from pyreqwest.http import Url
    from pyreqwest.response import Response

    from verdict_cli.llm.http_client import HttpClients, ResponseHeaders

Pause = Callable[[float], Awaitable[None]]

ATTEMPTS = 6
"""How many requests may fail before a download is given up."""
SILENCE_S = 60.0
"""How long a server may send nothing."""
MOST_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_RETRYABLE = frozenset({408, 425, 429, 500, 502, 503, 504})
_STATUS_TEXTS = {401: "requires a login", 403: "denies access", 404: "does not have it", 410: "no longer has it"}


@dataclass(frozen=True, slots=True)
class DownloadTarget:
    """A file to download and what is known of it: None, or an empty ``sha256``, where unknown.

    ``limit`` is the maximum size in bytes. ``headers`` may hold a token: they are sent to the URL's own origin only.
    """

    url: str
    path: Path
    sha256: str = ""
    size: int | None = None
    limit: int = 1 << 30
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def part(self) -> Path:
        """The bytes received so far. The name keeps the file's ending, which tells its format, and starts with a dot, so
        that directories are not read with it."""
        return self.path.with_name(f".part-{self.path.name}")

    @property
    def state(self) -> Path:
        """The address and version that the bytes in `part` came from."""
        return self.path.with_name(f".part-{self.path.name}.json")

    def discard(self) -> None:
        """Remove the received bytes."""
        self.part.unlink(missing_ok=True)
        self.state.unlink(missing_ok=True)


class _InterruptedError(Exception):
    """An attempt that failed and may be retried; ``retry_after_s`` is the server's wish."""

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


def download(
    target: DownloadTarget, check: Callable[[Path], None] | None = None, *, pause: Pause = asyncio.sleep
) -> str:
    """Download the file and return the SHA-256 of its bytes. ``check`` may refuse it before it is moved into place.

    The bytes of a failed download are kept beside the target, and the next one resumes from them. Raises FetchError when
    the server does not have the file, when it is too large, when the download keeps breaking off or when the file is
    not the expected one, and OutputError when it cannot be written.
    """
    try:
        target.path.parent.mkdir(parents=True, exist_ok=True)
        return asyncio.run(_download(target, check, pause))
    except OSError as error:
        raise OutputError(
            f"{target.path} cannot be written: {error.strerror or error}", hint="free space, or choose a writable --out"
        ) from None


async def _download(target: DownloadTarget, check: Callable[[Path], None] | None, pause: Pause) -> str:
    from verdict_cli.llm.http_client import HttpClients

    # A range of a compressed transfer is not a range of the file, so nothing is decompressed on the way.
    clients = HttpClients(decode=False)
    try:
        resumed = await _complete_part(clients, target, pause)
        digest = _digest(target.part)
        if resumed and target.sha256 and digest != target.sha256:
            target.discard()
            await _complete_part(clients, target, pause)
            digest = _digest(target.part)
    finally:
        await clients.close()
    try:
        _verify(target, digest)
        if check is not None:
            check(target.part)
    except FetchError:
        target.discard()
        raise
    target.part.replace(target.path)
    target.state.unlink(missing_ok=True)
    return digest


async def _complete_part(clients: HttpClients, target: DownloadTarget, pause: Pause) -> bool:
    """Download the rest of the part, with retries. Returns whether it holds bytes of several responses."""
    from pyreqwest.exceptions import PyreqwestError

    from verdict_cli.llm.http_client import root_cause

    random, resumed = Random(0), False
    for attempt in range(1, ATTEMPTS + 1):
        retry_after_s = None
        try:
            return await _attempt(clients, target) or resumed
        except _InterruptedError as error:
            reason, retry_after_s = str(error), error.retry_after_s
        except TimeoutError:
            reason = f"the server sent nothing for {SILENCE_S:g} s"
        except PyreqwestError as error:
            reason = root_cause(error)
        resumed = target.part.exists()
        if attempt < ATTEMPTS:
            await pause(delay_s(attempt, retry_after_s, random))
    received = target.part.stat().st_size if target.part.exists() else 0
    raise FetchError(
        f"{target.url} could not be fetched in {ATTEMPTS} attempts: {reason}",
        hint=f"the same command resumes from the {received:,} bytes received" if received else "try again later",
    )


async def _attempt(clients: HttpClients, target: DownloadTarget) -> bool:
    """Download what the part lacks. Returns whether an earlier response was resumed."""
    from pyreqwest.exceptions import PyreqwestError

    from verdict_cli.llm.http_client import ResponseHeaders

    have, range_headers = _resume_headers(target)
    async with open_response(clients, target, range_headers) as (url, response):
        headers = ResponseHeaders(response)
        first_byte, size = _content_range(headers)
        if response.status == 416 and have:
            if size == have:
                return True
            target.discard()
            raise _InterruptedError("the file on the server differs from the bytes received")
        _check_response(target, url, response.status, headers)
        resumes = response.status == 206
        if resumes and first_byte != have:
            target.discard()
            raise _InterruptedError("the server sent another range than requested")
        start = have if resumes else 0
        length = headers.get("Content-Length") or ""
        total = size if resumes else int(length) if length.isdigit() else None
        _check_size(target, total)
        version = {"url": target.url, "etag": headers.get("ETag"), "date": headers.get("Last-Modified")}
        target.state.write_bytes(orjson.dumps(version))
        received = start
        with target.part.open("ab" if resumes else "wb") as file:
            try:
                while True:
                    async with asyncio.timeout(SILENCE_S):
                        chunk = await response.body_reader.read_chunk()
                    if chunk is None:
                        break
                    received += len(chunk)
                    _check_size(target, received)
                    file.write(chunk)
            except PyreqwestError:
                of_total = f" of {total:,}" if total else ""
                raise _InterruptedError(f"{received:,}{of_total} bytes received") from None
        return start > 0


@asynccontextmanager
async def open_response(
    clients: HttpClients, target: DownloadTarget, range_headers: Mapping[str, str]
) -> AsyncIterator[tuple[Url, Response]]:
    """The response to the request, after redirects, with the address that it came from."""
    from pyreqwest.http import Url

    from verdict_cli.llm.http_client import ResponseHeaders

    try:
        url = first = Url(target.url)
    except ValueError as error:
        raise FetchError(f"{target.url} is not a valid address: {error}", hint="give an http address") from None
    if url.scheme not in ("http", "https"):
        raise FetchError(f"{target.url} is not an http address", hint="give an http address")
    for _ in range(MOST_REDIRECTS + 1):
        own = target.headers if url.origin_ascii == first.origin_ascii else {}
        request = clients.get(url).get(url).headers({"Accept-Encoding": "identity", **own, **range_headers})
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(SILENCE_S):
                response = await stack.enter_async_context(request.streamed_read_buffer_limit(0).build_streamed())
            location = ResponseHeaders(response).get("Location")
            if response.status not in _REDIRECTS or location is None:
                yield url, response
                return
        url = _redirected(target, url, location)
    hint = "check whether the file's page still has this address"
    raise FetchError(f"{target.url} is redirected in a circle", hint=hint)


def _redirected(target: DownloadTarget, url: Url, location: str) -> Url:
    """The address that a redirect leads to. Raises FetchError for one that may not be followed."""
    try:
        following = url.join(location)
    except ValueError as error:
        message = f"{target.url} is redirected to an address that is not valid: {error}"
        raise FetchError(message, hint="it was not fetched") from None
    if following.scheme != "https" and (following.scheme != "http" or url.scheme == "https"):
        reason = "not encrypted" if following.scheme == "http" else "not an http address"
        raise FetchError(f"{target.url} is redirected to {following}, which is {reason}", hint="it was not fetched")
    return following


def _resume_headers(target: DownloadTarget) -> tuple[int, dict[str, str]]:
    """The number of bytes received, and the headers that request the rest of the same version; 0 to start again."""
    try:
        have = target.part.stat().st_size
        version = orjson.loads(target.state.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return 0, {}
    if not have or version.get("url") != target.url:
        return 0, {}
    etag = version.get("etag") or ""
    validator = etag if etag and not etag.startswith("W/") else version.get("date")
    if validator is None and not target.sha256:
        return 0, {}
    return have, {"Range": f"bytes={have}-", **({"If-Range": validator} if validator else {})}


def _check_response(target: DownloadTarget, url: Url, status: int, headers: ResponseHeaders) -> None:
    """Raises for a response that is not the file."""
    if status in _RETRYABLE:
        delay = headers.get("Retry-After") or ""
        raise _InterruptedError(f"status {status}", float(delay) if delay.isdigit() else None)
    if status not in (200, 206):
        status_text = _STATUS_TEXTS.get(status, f"responds with status {status}")
        raise FetchError(
            f"{url}: the server {status_text} (status {status})",
            hint="check whether the file's page still has this address; a local copy is read by "
            "`verdict datasets import NAME PATH`",
        )
    if (headers.get("Content-Encoding") or "identity") != "identity":
        raise FetchError(f"{url} sends the file compressed, although it must not", hint="download it by hand")
    media_type = (headers.get("Content-Type") or "").partition(";")[0].strip().lower()
    if media_type == "text/html" and not target.path.name.endswith((".html", ".htm")):
        raise FetchError(f"{url} returns a web page, not the file", hint="does the address require a login?")


def _content_range(headers: ResponseHeaders) -> tuple[int | None, int | None]:
    """The first byte of the range that was sent, and the size of the whole file; None where the server does not say."""
    match = re.match(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)$", headers.get("Content-Range") or "")
    first, size = match.groups() if match else (None, None)
    return int(first) if first else None, int(size) if size and size != "*" else None


def _check_size(target: DownloadTarget, size: int | None) -> None:
    if size is not None and size > target.limit:
        target.discard()
        raise FetchError(
            f"{target.url} is larger than the limit of {target.limit:,} bytes", hint="give a larger --max-size, in MiB"
        )


def _verify(target: DownloadTarget, digest: str) -> None:
    size = target.part.stat().st_size
    wrong = []
    if target.size not in (None, size):
        wrong.append(f"it has {size:,} bytes, not {target.size:,}")
    if target.sha256 and digest != target.sha256:
        wrong.append(f"its SHA-256 is {digest}, not {target.sha256}")
    if wrong:
        raise FetchError(
            f"{target.url} is not the expected file: {', and '.join(wrong)}",
            hint="it was changed at its source or on the way, and was deleted",
        )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
