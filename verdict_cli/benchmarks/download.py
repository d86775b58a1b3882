"""One file over HTTP: resumed where it broke off, checked, and in place only when it is whole."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import orjson

from verdict_cli.errors import FetchError, OutputError
from verdict_cli.llm.backoff import delay_s

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

Pause = Callable[[float], Awaitable[None]]

ATTEMPTS = 6
"""How often a file is asked for before its download is given up."""
SILENCE_S = 60.0
"""How long a server may send nothing."""
_CHUNK = 1 << 16
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_SAYS = {401: "asks for a login", 403: "refuses it", 404: "does not have it", 410: "no longer has it"}


@dataclass(frozen=True, slots=True)
class DownloadTarget:
    """A file and what is known of it: None, or an empty `sha256`, for what is not. `limit` is the most bytes to take."""

    url: str
    target: Path
    sha256: str = ""
    size: int | None = None
    limit: int = 1 << 30
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def part(self) -> Path:
        """What has come so far. It keeps the file's ending, which tells its format, and no directory shows it as data."""
        return self.target.with_name(f".part-{self.target.name}")

    @property
    def state(self) -> Path:
        """From where, and of which version, it has come."""
        return self.target.with_name(f".part-{self.target.name}.json")


class _BrokenOff(Exception):
    """An attempt that failed in a way that passes; `after_s` is what the server asked to wait."""

    def __init__(self, reason: str, after_s: float | None = None) -> None:
        super().__init__(reason)
        self.after_s = after_s


def download(
    wanted: DownloadTarget, check: Callable[[Path], None] | None = None, *, pause: Pause = asyncio.sleep
) -> str:
    """Fetches the file and returns the SHA-256 of its bytes. `check` may refuse it before it is in its place.

    What has come stays beside the target when the download fails, and the next one goes on from there. Raises
    FetchError for what the server has not, a file that is too large, breaks off again and again or is not the one that
    is known, and OutputError when the disk refuses.
    """
    try:
        wanted.target.parent.mkdir(parents=True, exist_ok=True)
        return asyncio.run(_download(wanted, check, pause))
    except OSError as fault:
        raise OutputError(
            f"{wanted.target} cannot be written: {fault.strerror or fault}",
            hint="free space, or choose a writable --out",
        ) from None


async def _download(wanted: DownloadTarget, check: Callable[[Path], None] | None, pause: Pause) -> str:
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=SILENCE_S)
    # The bytes are wanted as they are stored: a range of a compressed transfer is a range of something else.
    async with aiohttp.ClientSession(
        timeout=timeout, auto_decompress=False, headers={"Accept-Encoding": "identity"}
    ) as session:
        resumed = await _come(session, wanted, pause)
        digest = _digest(wanted.part)
        if resumed and wanted.sha256 and digest != wanted.sha256:
            _forget(wanted)
            await _come(session, wanted, pause)
            digest = _digest(wanted.part)
    try:
        _known(wanted, digest)
        if check is not None:
            check(wanted.part)
    except FetchError:
        _forget(wanted)
        raise
    wanted.part.replace(wanted.target)
    wanted.state.unlink(missing_ok=True)
    return digest


async def _come(session: ClientSession, wanted: DownloadTarget, pause: Pause) -> bool:
    """Brings the part to its end; whether it holds bytes of several answers."""
    import aiohttp

    random, resumed = Random(0), False
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await _attempt(session, wanted) or resumed
        except aiohttp.TooManyRedirects:
            raise FetchError(
                f"{wanted.url} is redirected in a circle", hint="see whether its page still names this address"
            ) from None
        except aiohttp.InvalidURL as fault:
            raise FetchError(f"{fault} is no address that can be fetched", hint="give an http address") from None
        except (aiohttp.ClientError, TimeoutError, _BrokenOff) as fault:
            reason = str(fault) or type(fault).__name__
            after_s = fault.after_s if isinstance(fault, _BrokenOff) else None
            resumed = wanted.part.exists()
        if attempt < ATTEMPTS:
            await pause(delay_s(attempt, after_s, random))
    come = wanted.part.stat().st_size if wanted.part.exists() else 0
    raise FetchError(
        f"{wanted.url} could not be fetched in {ATTEMPTS} attempts: {reason}",
        hint=f"the same command goes on from the {come:,} bytes that have come" if come else "try again later",
    )


async def _attempt(session: ClientSession, wanted: DownloadTarget) -> bool:
    """Takes what the part lacks; whether it went on from an earlier answer."""
    from aiohttp import ClientPayloadError

    have, headers = _resumable(wanted)
    async with session.get(wanted.url, headers={**wanted.headers, **headers}) as answer:
        if answer.status == 416 and have:
            if _total(answer) == have:
                return True
            _forget(wanted)
            raise _BrokenOff("the server's file is another one than what has come")
        _refuse(wanted, answer)
        goes_on = answer.status == 206
        if goes_on and _start(answer) != have:
            _forget(wanted)
            raise _BrokenOff("the server sent another range than was asked for")
        start = have if goes_on else 0
        total = _total(answer) if goes_on else answer.content_length
        _fits(wanted, total)
        version = {"url": wanted.url, "etag": answer.headers.get("ETag"), "date": answer.headers.get("Last-Modified")}
        wanted.state.write_bytes(orjson.dumps(version))
        come = start
        with wanted.part.open("ab" if goes_on else "wb") as file:
            try:
                async for chunk in answer.content.iter_chunked(_CHUNK):
                    come += len(chunk)
                    _fits(wanted, come)
                    file.write(chunk)
            except ClientPayloadError:
                raise _BrokenOff(f"{come:,}{f' of {total:,}' if total else ''} bytes came") from None
        return start > 0


def _resumable(wanted: DownloadTarget) -> tuple[int, dict[str, str]]:
    """How many bytes have come, and the headers that ask for the rest of the same version; 0 to start anew."""
    try:
        have = wanted.part.stat().st_size
        version = orjson.loads(wanted.state.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return 0, {}
    if not have or version.get("url") != wanted.url:
        return 0, {}
    etag = version.get("etag") or ""
    same = etag if etag and not etag.startswith("W/") else version.get("date")
    if same is None and not wanted.sha256:
        return 0, {}
    return have, {"Range": f"bytes={have}-", **({"If-Range": same} if same else {})}


def _refuse(wanted: DownloadTarget, answer: ClientResponse) -> None:
    """Raises for an answer that is not the file."""
    if answer.status in _PASSING:
        asked = answer.headers.get("Retry-After", "")
        raise _BrokenOff(f"status {answer.status}", float(asked) if asked.isdigit() else None)
    if answer.status not in (200, 206):
        says = _SAYS.get(answer.status, f"answers with status {answer.status}")
        raise FetchError(
            f"{answer.url}: the server {says} (status {answer.status})",
            hint="see whether its page still names this address; a copy of yours is read by "
            "`verdict datasets import NAME PATH`",
        )
    if answer.url.scheme == "http" and wanted.url.startswith("https:"):
        raise FetchError(
            f"{wanted.url} is redirected to {answer.url}, which is not encrypted", hint="it was not fetched"
        )
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise FetchError(f"{answer.url} comes compressed although it was asked for as it is", hint="fetch it by hand")
    if answer.content_type == "text/html" and not wanted.target.name.endswith((".html", ".htm")):
        raise FetchError(
            f"{answer.url} answers with a web page, not with the file", hint="does the address ask for a login?"
        )


def _start(answer: ClientResponse) -> int | None:
    found = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
    return int(found[1]) if found else None


def _total(answer: ClientResponse) -> int | None:
    found = re.search(r"/(\d+)$", answer.headers.get("Content-Range", ""))
    return int(found[1]) if found else None


def _fits(wanted: DownloadTarget, size: int | None) -> None:
    if size is not None and size > wanted.limit:
        _forget(wanted)
        raise FetchError(
            f"{wanted.url} has more than the {wanted.limit:,} bytes that may be fetched",
            hint="give a larger --max-size, in MiB",
        )


def _known(wanted: DownloadTarget, digest: str) -> None:
    size = wanted.part.stat().st_size
    wrong = []
    if wanted.size not in (None, size):
        wrong.append(f"it has {size:,} bytes, not {wanted.size:,}")
    if wanted.sha256 and digest != wanted.sha256:
        wrong.append(f"its SHA-256 is {digest}, not {wanted.sha256}")
    if wrong:
        raise FetchError(
            f"{wanted.url} brought another file than the one that is known: {', and '.join(wrong)}",
            hint="it was changed at its source or on its way, and was thrown away",
        )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _forget(wanted: DownloadTarget) -> None:
    wanted.part.unlink(missing_ok=True)
    wanted.state.unlink(missing_ok=True)
