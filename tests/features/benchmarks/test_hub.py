"""Datasets of the Hugging Face hub, from a hub on this machine."""

from __future__ import annotations

import hashlib
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from loopback_site import Site, cut_off, send, whole

from verdict_cli.errors import FetchError, UsageError
from verdict_cli.features.benchmarks.download import fetch_split, split_of
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.files import find_files
from verdict_cli.storage.datasets.read import stream_rows

pytest.importorskip("huggingface_hub")


def parquet(*values: int) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"value": list(values)}), buffer)
    return buffer.getvalue()


SHARDS = {"default/test/0000.parquet": parquet(1, 2), "default/test/0001.parquet": parquet(3)}


def no_pause(_: float) -> None:
    """Waits that take no time."""


@pytest.fixture
def hub(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("HF_ENDPOINT", site.url)
    monkeypatch.setenv("HF_TOKEN", "hf_made_up")
    site.answers = [tree(*SHARDS)]
    return site


def tree(*paths: str, **bodies: bytes):
    listed = [
        {
            "type": "file",
            "path": path,
            "oid": "0" * 40,
            "size": len(SHARDS.get(path, b"")),
            "lfs": {
                "oid": hashlib.sha256(SHARDS.get(path, b"")).hexdigest(),
                "size": len(SHARDS.get(path, b"")),
                "pointerSize": 130,
            },
        }
        for path in paths
    ]
    return whole(json.dumps(listed).encode(), Content_Type="application/json")


def test_every_file_of_a_split_comes_with_the_token_and_its_checksum(hub, tmp_path):
    first, second = SHARDS.values()
    hub.answers += [cut_off(first, 100), whole(first), whole(second)]
    fetched = fetch_split("them/things:test", tmp_path / "out", 1 << 20, pause=no_pause)
    assert [row.source["value"] for row in stream_rows(Dataset(find_files(str(fetched.path))))] == [
        1,
        2,
        3,
    ]
    assert "/api/datasets/them/things/tree/refs%2Fconvert%2Fparquet" in hub.requests[0]["path"]
    resolved = "/datasets/them/things/resolve/refs%2Fconvert%2Fparquet/default/test"
    assert [request["path"] for request in hub.requests[1:]] == [f"{resolved}/0000.parquet"] * 2 + [
        f"{resolved}/0001.parquet"
    ]
    assert {request["authorization"] for request in hub.requests} == {"Bearer hf_made_up"}


def test_another_file_than_the_hub_states_is_refused(hub, tmp_path):
    hub.answers += [whole(parquet(9, 9))]
    with pytest.raises(FetchError, match="SHA-256"):
        fetch_split("them/things", tmp_path / "out", 1 << 20, pause=no_pause)


def test_more_than_the_limit_is_not_begun(hub, tmp_path):
    with pytest.raises(FetchError, match="more than 10"):
        fetch_split("them/things", tmp_path / "out", 10)
    assert len(hub.requests) == 1


def test_one_of_several_splits_must_be_named(hub):
    hub.answers = [tree("a/test/0000.parquet", "b/test/0000.parquet", "b/train/0000.parquet")]
    assert split_of("them/things:b/test").folder == "them--things--b--test"
    assert split_of("them/things:train").folder == "them--things--b--train"
    with pytest.raises(UsageError, match=r"several splits: a/test, b/test"):
        split_of("them/things:test")
    with pytest.raises(UsageError, match="has no split dev"):
        split_of("them/things:dev")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("GatedRepo", "its terms must be accepted"),
        ("RepoNotFound", "there is no dataset them/things"),
        ("RevisionNotFound", "no Parquet files"),
    ],
)
def test_what_the_hub_refuses_is_reported_with_the_cure(hub, code, message):
    status = 403 if code == "GatedRepo" else 404
    hub.answers = [lambda handler: send(handler, status, b"{}", X_Error_Code=code)]
    with pytest.raises(FetchError, match=message) as caught:
        split_of("them/things")
    assert caught.value.hint


def test_a_hub_that_is_not_there_is_reported(monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(FetchError, match="does not list"):
        split_of("them/things")


def test_an_invalid_name_is_reported():
    with pytest.raises(UsageError, match="hf:OWNER/NAME"):
        split_of("things")
