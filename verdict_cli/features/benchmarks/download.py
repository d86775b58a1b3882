"""Files of benchmarks over HTTP: verified, and in place only when they are complete.

A card's file is checked against the card. A split of a dataset of the Hugging Face hub, `hf:OWNER/NAME[:SPLIT]` (extra `hf`), is
fetched once as the Parquet files that the hub generates, then read from disk.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from random import Random
from string import punctuation
from time import sleep
from typing import Any, Literal
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from verdict_cli.cli.progress import show_steps
from verdict_cli.errors import DataError, FetchError, OutputError, UsageError
from verdict_cli.features.benchmarks.card import UNKNOWN, Card, CardFile, data_directory, local_path
from verdict_cli.llm.backoff import delay_s
from verdict_cli.messages import NamedValues
from verdict_cli.plural import plural
from verdict_cli.regex import regex
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.read import stream_rows

Pause = Callable[[float], None]
Show = Callable[[int, int | None], None]
"""Called with the bytes that were received, and those of the whole file where that is known."""

ATTEMPTS = 6
"""How many requests may fail before a download is given up."""
SILENCE_S = 60.0
"""How long a server may send nothing."""
MOST_REDIRECTS = 10
_CHUNK = 1 << 20
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_RETRYABLE = frozenset({408, 425, 429, 500, 502, 503, 504})
_STATUS_TEXTS = {
    401: "requires a login",
    403: "denies access",
    404: "does not have it",
    410: "no longer has it",
}


class DownloadTarget(Struct, frozen=True):
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


class _InterruptedError(Exception):
    """An attempt that failed and may be retried; ``retry_after_s`` is the server's wish."""

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


def _silence() -> _InterruptedError:
    return _InterruptedError(f"the server sent nothing for {SILENCE_S:g} s")


def download(
    target: DownloadTarget, check: Callable[[Path], None] | None = None, *, pause: Pause = sleep
) -> str:
    """Download the file and return the SHA-256 of its bytes. ``check`` may refuse it before it is moved into place.

    Raises FetchError when the server does not have the file, when it is too large, when the download keeps breaking off
    or when the file is not the expected one, and OutputError when it cannot be written.
    """
    try:
        target.path.parent.mkdir(parents=True, exist_ok=True)
        with show_steps(f"fetching {target.path.name}", "bytes") as show:
            _receive(target, show, pause)
        with target.part.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        _verify(target, digest)
        if check is not None:
            check(target.part)
        target.part.replace(target.path)
    except OSError as error:
        raise OutputError(
            f"{target.path} cannot be written: {error.strerror or error}",
            hint="free space, or choose a writable --out",
        ) from None
    finally:
        with suppress(OSError):  # nothing was written, or it is in place by now
            target.part.unlink()
    return digest


def _receive(target: DownloadTarget, show: Show, pause: Pause) -> None:
    """Write the file's bytes to the part, with retries."""
    random = Random(0)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _attempt(target, show)
            return
        except _InterruptedError as error:
            reason, retry_after_s = str(error), error.retry_after_s
        if attempt < ATTEMPTS:
            pause(delay_s(attempt, retry_after_s, random))
    raise FetchError(
        f"{target.url} could not be fetched in {ATTEMPTS} attempts: {reason}",
        hint="try again later",
    )


def _attempt(target: DownloadTarget, show: Show) -> None:
    with _open(target) as response:
        _check_response(target, response)
        length = response.headers.get("Content-Length") or ""
        total = int(length) if length.isdigit() else None
        _check_size(target, total)
        received = 0
        with target.part.open("wb") as file:
            while chunk := _next_chunk(response):
                received += len(chunk)
                _check_size(target, received)
                file.write(chunk)
                show(received, total)
    if chunk is None or (total is not None and received < total):
        of_total = "" if total is None else f" of {total:,}"
        raise _InterruptedError(f"{received:,}{of_total} bytes received")


def _next_chunk(response: HTTPResponse) -> bytes | None:
    """The next bytes; empty where the server ends the response, None where it breaks it off."""
    try:
        return response.read(_CHUNK)
    except TimeoutError:
        raise _silence() from None
    except (OSError, HTTPException):
        return None


def _plain_opener() -> OpenerDirector:
    """Opens addresses as they are: a redirect or an error is a response like others."""
    opener = OpenerDirector()
    for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler()):
        opener.add_handler(handler)
    return opener


def _open(target: DownloadTarget) -> HTTPResponse:
    """The response to the request, after redirects."""
    opener, url = _plain_opener(), _http_address(target.url, target.url)
    for _ in range(MOST_REDIRECTS + 1):
        target_headers = target.headers if urlsplit(url)[:2] == urlsplit(target.url)[:2] else {}
        headers = {"User-Agent": "verdict", "Accept-Encoding": "identity", **target_headers}
        try:
            response: HTTPResponse = opener.open(Request(url, headers=headers), timeout=SILENCE_S)
        except TimeoutError:
            raise _silence() from None
        except (OSError, HTTPException) as error:
            raise _InterruptedError(str(getattr(error, "reason", error))) from None
        location = response.headers.get("Location")
        if response.status not in _REDIRECTS or location is None:
            return response
        response.close()
        url = _redirected(target, url, location)
    hint = "check whether the file's page still has this address"
    raise FetchError(f"{target.url} is redirected in a circle", hint=hint)


def _http_address(url: str, subject: str, base: str = "") -> str:
    """The address as it is sent. Raises FetchError for one that is not valid, or not of HTTP."""
    try:
        address = urlsplit(urljoin(base, url))
        # A port that is not a number raises ValueError.
        is_http = address.scheme in ("http", "https") and address.port != 0
    except ValueError as error:
        message = f"{subject} is not a valid address: {error}"
        raise FetchError(message, hint="give an http address") from None
    if not is_http:
        raise FetchError(f"{subject} is not an http address", hint="give an http address")
    path, query = (quote(part, safe=punctuation) for part in (address.path, address.query))
    return address._replace(path=path, query=query).geturl()


def _redirected(target: DownloadTarget, url: str, location: str) -> str:
    """The address that a redirect leads to. Raises FetchError for one that may not be followed."""
    subject = f"{target.url} is redirected to {location}, which"
    # The bytes of a header are read as Latin-1.
    following = _http_address(quote(location, punctuation, "latin-1"), subject, base=url)
    if following.startswith("http:") and url.startswith("https:"):
        raise FetchError(f"{subject} is not encrypted", hint="it was not fetched")
    return following


def _check_response(target: DownloadTarget, response: HTTPResponse) -> None:
    """Raises for a response that is not the file."""
    status, headers = response.status, response.headers
    if status in _RETRYABLE:
        delay = headers.get("Retry-After") or ""
        raise _InterruptedError(f"status {status}", float(delay) if delay.isdigit() else None)
    if status != 200:
        status_text = _STATUS_TEXTS.get(status, f"responds with status {status}")
        hint = "check whether the file's page still has this address"
        if status in (401, 403):
            hint = "a gated dataset needs HF_TOKEN, and its terms accepted on its page"
        raise FetchError(
            f"{response.url}: the server {status_text} (status {status})",
            hint=f"{hint}; a local copy is read by `verdict datasets import NAME PATH`",
        )
    is_page = headers.get_content_type() == "text/html"
    if is_page and target.path.suffix not in (".html", ".htm"):
        message = f"{response.url} returns a web page, not the file"
        raise FetchError(message, hint="does the address require a login?")


def _check_size(target: DownloadTarget, size: int | None) -> None:
    if size is not None and size > target.limit:
        raise FetchError(
            f"{target.url} is larger than the limit of {target.limit:,} bytes",
            hint="give a larger --max-size, in MiB",
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


REVISION = "refs/convert/parquet"
_NAME = regex(r"(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)(?::(?P<split>[\w./-]+))?")


class HubSplit(Struct, frozen=True):
    """A split of a dataset: `folder` is a name for its files on disk, which are Parquet files."""

    folder: str
    shards: tuple[DownloadTarget, ...]


def split_of(reference: str) -> HubSplit:
    """The files of `OWNER/NAME[:SPLIT]`, where SPLIT is `split` or `config/split`; optional if there is only one.

    `HF_ENDPOINT` names another hub, `HF_TOKEN` a token for gated datasets. Raises UsageError for an
    unknown name or split, FetchError if the hub does not provide the files.
    """
    match = _NAME.fullmatch(reference)
    if match is None:
        raise UsageError(
            f"{reference!r} is not a dataset of the hub",
            hint="write hf:OWNER/NAME or hf:OWNER/NAME:SPLIT",
        )
    repository = f"{match['owner']}/{match['name']}"
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    files = f"{endpoint}/datasets/{repository}/resolve/{REVISION.replace('/', '%2F')}"
    splits: dict[str, list[DownloadTarget]] = {}
    for entry in sorted(_listed(repository, endpoint), key=lambda entry: str(entry.path)):
        split, _, name = str(entry.path).rpartition("/")
        if name.endswith(".parquet") and split.count("/") == 1:
            sha256 = entry.lfs.sha256 if entry.lfs is not None else ""
            shard = DownloadTarget(f"{files}/{entry.path}", Path(name), sha256, entry.size)
            splits.setdefault(split, []).append(shard)
    chosen = _chosen(repository, match["split"], splits)
    return HubSplit(f"{repository}/{chosen}".replace("/", "--"), tuple(splits[chosen]))


def _listed(repository: str, endpoint: str) -> list[Any]:
    """The dataset's Parquet files, as the hub lists them."""
    try:
        from huggingface_hub import HfApi, constants
        from huggingface_hub.errors import (
            GatedRepoError,
            HfHubHTTPError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )
    except ImportError:
        raise UsageError(
            "datasets of the hub need the package huggingface_hub",
            hint="pip install huggingface-hub",
        ) from None
    constants.HF_HUB_DISABLE_TELEMETRY = True  # verdict sends no telemetry
    try:
        tree = HfApi(endpoint=endpoint).list_repo_tree(
            repository, recursive=True, revision=REVISION, repo_type="dataset"
        )
        return list(tree)
    except GatedRepoError:
        raise FetchError(
            f"{repository} is gated: its terms must be accepted at {endpoint}/datasets/{repository}",
            hint="then set HF_TOKEN to a token of that account",
        ) from None
    except RevisionNotFoundError:
        raise FetchError(
            f"the hub has no Parquet files of {repository}",
            hint="fetch its own files by their addresses",
        ) from None
    except RepositoryNotFoundError:
        raise FetchError(
            f"there is no dataset {repository} at {endpoint}, or it is private",
            hint="check its name; a private one needs HF_TOKEN",
        ) from None
    except (HfHubHTTPError, OSError, _transport_error()) as error:
        raise FetchError(
            f"{endpoint} does not list {repository}: {error}", hint="try again later"
        ) from None


def _transport_error() -> type[Exception]:
    """The error of huggingface_hub's HTTP client."""
    from httpx import HTTPError

    return HTTPError


def _headers() -> dict[str, str]:
    from huggingface_hub import get_token

    token = get_token()
    return {"Authorization": f"Bearer {token}"} if token else {}


def _chosen(repository: str, split: str | None, splits: NamedValues) -> str:
    fitting = [name for name in splits if split in (None, name, name.rpartition("/")[2])]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(splits) or "none"
    if not fitting:
        raise UsageError(
            f"{repository} has no split {split or ''}".rstrip(), hint=f"its splits are {names}"
        )
    raise UsageError(
        f"{repository} has several splits: {', '.join(fitting)}",
        hint=f"write hf:{repository}:{fitting[0]}",
    )


@dataclass(frozen=True, slots=True)
class Finding:
    """One property of a file, compared with its card; `unknown`: the card does not state it."""

    what: str
    verdict: Literal["same", "differs", "unknown"]
    detail: str


def card_file_of(card: Card, path: Path) -> CardFile:
    """The card's entry for a path: by its name, else by its columns. Raises UsageError if there is none."""
    match = next((file for file in card.files if file.name == path.name), None)
    if match is not None:
        return match
    columns = set(_first(path))
    fitting = [file for file in card.files if file.columns and set(file.columns) <= columns]
    if not fitting:
        raise UsageError(
            f"{path} is not a file of {card.name}: its columns are {', '.join(sorted(columns)) or 'missing'}",
            hint=f"its files are {', '.join(file.name for file in card.files)}",
        )
    return fitting[0]


def findings(file: CardFile, path: Path) -> list[Finding]:
    """The properties of the file, compared with the card. Raises DataError for a file that cannot be read."""
    try:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise UsageError(message, hint="give the benchmark's own file") from None
    checksum = _finding("SHA-256", None if file.sha256 == UNKNOWN else file.sha256, digest)
    if file.holds == "results":
        return [checksum]
    count = 0
    counted: dict[str, Counter[str]] = {column: Counter() for column in file.labels}
    for row in stream_rows(Dataset((path,))):
        count += 1
        for column, counter in counted.items():
            counter[str(row.source.get(column))] += 1
    rows = _finding("rows", None if file.rows is None else f"{file.rows:,}", f"{count:,}")
    labels = [
        _finding(f"labels of {column}", _counts(stated), _counts(counted[column]))
        for column, stated in file.labels.items()
    ]
    return [checksum, _columns(file, set(_first(path))), rows, *labels]


def _finding(aspect: str, stated: str | None, actual: str) -> Finding:
    """What the card states of a property, and what the file has."""
    if stated is None:
        return Finding(aspect, "unknown", f"{actual}; the card does not state it")
    if stated == actual:
        return Finding(aspect, "same", actual)
    return Finding(aspect, "differs", f"{actual}; the card says {stated}")


def _first(path: Path) -> NamedValues:
    first = next(stream_rows(Dataset((path,))), None)
    return {} if first is None else first.source


def _columns(file: CardFile, columns: set[str]) -> Finding:
    if not file.columns:
        return Finding("columns", "unknown", ", ".join(sorted(columns)))
    lacking = [column for column in file.columns if column not in columns]
    if lacking:
        return Finding("columns", "differs", f"{', '.join(lacking)} missing")
    return Finding("columns", "same", ", ".join(file.columns))


def _counts(labels: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {label}" for label, count in sorted(labels.items()))


HUB_PREFIX = "hf:"
DOWNLOAD_LIMIT = 1 << 30
"""Bytes of a split that a command fetches without being asked for more."""


class Fetched(Struct, frozen=True):
    """The fetched file, or folder of Parquet files, and what proves that it is the right one."""

    path: Path
    note: str


def fetchable(card: Card, name: str | None) -> CardFile:
    """The file of that name, else the first that has an address. Raises UsageError if it has none."""
    candidates = card.files if name is None else [card.file(name)]
    for file in candidates:
        if file.derived is None:
            return file
    message = f"{card.name} has no address to fetch it from"
    if name is not None:
        message = f"{name} has no address to fetch it from: it is {candidates[0].derived}"
    raise UsageError(
        message,
        hint=f"its authors' page is {card.source}; a copy of yours is read by `verdict datasets import {card.name} PATH`",
    )


def fetch_file(card: Card, file: CardFile, out: Path | None, sha256: str, limit: int) -> Fetched:
    """Download a file of a card to `out`, by default to where `verdict bench` finds it. Raises as `download` does."""
    if sha256 and not re.fullmatch(r"[0-9a-f]{64}", sha256):
        message = f"--sha256 {sha256!r} is not a SHA-256"
        raise UsageError(message, hint="it has 64 hexadecimal digits")
    if file.hub is not None:
        if sha256:
            message = "a dataset of the hub takes no --sha256"
            raise UsageError(message, hint="the hub states its checksums")
        return fetch_split(file.hub, out or local_path(card, file), limit)
    stated = "" if file.sha256 == UNKNOWN else file.sha256
    if stated and sha256 not in ("", stated):
        message = f"the card gives {file.name} another SHA-256: {stated}"
        raise UsageError(message, hint="leave --sha256 out")
    target = (out / file.name) if out else local_path(card, file)
    expected = stated or sha256
    check = None if stated else partial(_check_against_card, file)
    wanted = DownloadTarget(file.url or "", target, expected, file.bytes, limit)
    digest = download(wanted, check)
    note = f"SHA-256 as expected: {digest}"
    if not expected:
        note = (
            f"the checksum is not known, so nothing proves that this is the file; SHA-256 {digest}"
        )
    return Fetched(target, note)


def fetch_split(reference: str, out: Path | None, limit: int, *, pause: Pause = sleep) -> Fetched:
    """Download a split to a folder of its own, each file checked by the checksum that the hub states."""
    split = split_of(reference)
    sizes = {shard.path.name: shard.size or 0 for shard in split.shards}
    size = sum(sizes.values())
    if size > limit:
        raise FetchError(
            f"hf:{reference} has {size:,} bytes, more than {limit:,}",
            hint=f"verdict datasets fetch hf:{reference} --max-size MIB, with a larger size in MiB",
        )
    folder = out or data_directory() / split.folder
    headers = _headers()
    for shard in split.shards:
        path = folder / shard.path
        download(replace(shard, path=path, limit=limit, headers=headers), pause=pause)
    if out is None:
        _keep_split(reference, folder, sizes)
    unproven = sum(not shard.sha256 for shard in split.shards)
    proof = "SHA-256 as the hub states"
    if unproven:
        proof = f"the hub states no checksum of {unproven} of them"
    return Fetched(folder, f"{plural(len(split.shards), 'Parquet file')}: {proof}")


def _check_against_card(file: CardFile, path: Path) -> None:
    """Refuse a file without a known checksum that cannot be read, or does not have the card's columns, rows or labels."""
    hint = "it was changed at its source or on its way, and was deleted"
    try:
        wrong = [finding for finding in findings(file, path) if finding.verdict == "differs"]
    except DataError as error:
        message = f"{file.url} is not a readable {file.name}: {error.problem.message}"
        raise FetchError(message, hint=hint) from None
    if wrong:
        details = "; ".join(f"{finding.what}: {finding.detail}" for finding in wrong)
        message = f"{file.url} is not the file that the card describes: {details}"
        raise FetchError(message, hint=hint)


def hub_dataset(data: str, tell: Callable[[str], None]) -> Path:
    """The folder with the split's files. Only the first use needs the network; `tell` says what was fetched.

    Raises:
        UsageError: the name or the split is unknown.
        FetchError: the hub cannot be reached, or does not have the files.
    """
    reference = data.removeprefix(HUB_PREFIX)
    cached_dataset = _kept(reference)
    if cached_dataset is not None:
        return cached_dataset
    fetched = fetch_split(reference, None, DOWNLOAD_LIMIT)
    tell(f"{data}: {fetched.note}; kept in {fetched.path}")
    return fetched.path


def _keep_split(reference: str, folder: Path, sizes: dict[str, int]) -> None:
    """Record that the folder has the split, with the size of each file."""
    path = _record(reference)
    part = path.with_suffix(".part")
    part.write_bytes(orjson.dumps({"folder": folder.name, "files": sizes}))
    part.replace(path)


def _kept(reference: str) -> Path | None:
    try:
        record = orjson.loads(_record(reference).read_bytes())
        folder = data_directory() / record["folder"]
        whole = all(
            (folder / name).stat().st_size == size for name, size in record["files"].items()
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return folder if whole else None


def _record(reference: str) -> Path:
    return data_directory() / f"{reference.replace('/', '--').replace(':', '---')}.hub.json"
