"""Datasets of the Hugging Face hub, as the Parquet files that the hub generates for each (extra `hf`)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from verdict_cli.errors import FetchError, UsageError

REVISION = "refs/convert/parquet"
_NAME = re.compile(r"(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)(?::(?P<split>[\w./-]+))?")


@dataclass(frozen=True, slots=True)
class Shard:
    """One Parquet file of a split: its address, and the SHA-256 that the hub states, empty if it states none."""

    name: str
    url: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class HubSplit:
    """A split of a dataset: `folder` is a name for its files on disk; `headers` carry the token, if there is one."""

    folder: str
    shards: tuple[Shard, ...]
    headers: Mapping[str, str] = field(default_factory=dict)


def split_of(reference: str) -> HubSplit:
    """The files of `OWNER/NAME[:SPLIT]`, where SPLIT is `split` or `config/split`; optional if there is only one.

    `HF_ENDPOINT` names another hub, `HF_TOKEN` a token for gated datasets. Raises UsageError for an
    unknown name or split, FetchError if the hub does not provide the files.
    """
    match = _NAME.fullmatch(reference)
    if match is None:
        raise UsageError(
            f"{reference!r} is not a dataset of the hub", hint="write hf:OWNER/NAME or hf:OWNER/NAME:SPLIT"
        )
    repository = f"{match['owner']}/{match['name']}"
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    splits: dict[str, list[Any]] = {}
    for entry in _listed(repository, endpoint):
        path = str(entry.path)
        if path.endswith(".parquet") and path.count("/") == 2:
            splits.setdefault(path.rpartition("/")[0], []).append(entry)
    chosen = _chosen(repository, match["split"], splits)
    shards = []
    for entry in sorted(splits[chosen], key=lambda name: str(name.path)):
        revision = REVISION.replace("/", "%2F")
        url = f"{endpoint}/datasets/{repository}/resolve/{revision}/{entry.path}"
        sha256 = entry.lfs.sha256 if entry.lfs is not None else ""
        shards.append(Shard(str(entry.path).rpartition("/")[2], url, sha256, entry.size))
    return HubSplit(f"{repository}/{chosen}".replace("/", "--"), tuple(shards), _headers())


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
            "datasets of the hub need the package huggingface_hub", hint="in a checkout of verdict: pip install '.[hf]'"
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
            f"the hub has no Parquet files of {repository}", hint="fetch its own files by their addresses"
        ) from None
    except RepositoryNotFoundError:
        raise FetchError(
            f"there is no dataset {repository} at {endpoint}, or it is private",
            hint="check its name; a private one needs HF_TOKEN",
        ) from None
    except (HfHubHTTPError, OSError, _transport_error()) as error:
        raise FetchError(f"{endpoint} does not list {repository}: {error}", hint="try again later") from None


def _transport_error() -> type[Exception]:
    """The error of huggingface_hub's HTTP client."""
    from httpx import HTTPError

    return HTTPError


def _headers() -> dict[str, str]:
    from huggingface_hub import get_token

    token = get_token()
    return {"Authorization": f"Bearer {token}"} if token else {}


def _chosen(repository: str, split: str | None, splits: Mapping[str, Any]) -> str:
    fitting = [name for name in splits if split in (None, name, name.rpartition("/")[2])]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(splits) or "none"
    if not fitting:
        raise UsageError(f"{repository} has no split {split or ''}".rstrip(), hint=f"its splits are {names}")
    raise UsageError(
        f"{repository} has several splits: {', '.join(fitting)}", hint=f"write hf:{repository}:{fitting[0]}"
    )
