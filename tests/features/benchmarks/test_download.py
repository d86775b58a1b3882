"""Downloads that go wrong: each ends with the right file in its place, or with none and the reason."""

from __future__ import annotations

import hashlib
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from loopback_site import Handler, Site, cut_off, refused, unsaid, whole

from verdict_cli.errors import FetchError, OutputError
from verdict_cli.features.benchmarks.download import ATTEMPTS, DownloadTarget, _redirected, download

BODY = b"".join(b"row %d\n" % place for place in range(20_000))
SHA = hashlib.sha256(BODY).hexdigest()


class Clock:
    """Waits that take no time."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.waits.append(seconds)


def fetch(site: Site, folder: Path, clock: Clock | None = None, **expected: Any) -> Path:
    target = folder / "data.txt"
    wanted = DownloadTarget(f"{site.url}/data.txt", target, **{"sha256": SHA, **expected})
    assert (
        download(wanted, pause=clock or Clock()) == hashlib.sha256(target.read_bytes()).hexdigest()
    )
    assert [path.name for path in folder.iterdir()] == ["data.txt"]
    return target


def failure(site: Site, folder: Path, **expected: Any) -> str:
    """The error of a download that leaves no file at its target."""
    with pytest.raises(FetchError) as caught:
        fetch(site, folder, **expected)
    assert not (folder / "data.txt").exists()
    return str(caught.value)


def test_a_whole_file_is_in_place_and_nothing_else(site, tmp_path):
    site.answers = [whole(BODY)]
    assert fetch(site, tmp_path).read_bytes() == BODY


def test_a_download_that_breaks_off_begins_again(site, tmp_path):
    site.answers = [cut_off(b"old " * 30_000, 50_000), whole(BODY)]
    assert fetch(site, tmp_path).read_bytes() == BODY
    assert "range" not in site.requests[1]


def test_another_file_is_thrown_away_and_both_checksums_are_reported(site, tmp_path):
    site.answers = [whole(b"something else")]
    message = failure(site, tmp_path, size=len(BODY))
    assert SHA in message and hashlib.sha256(b"something else").hexdigest() in message
    assert f"14 bytes, not {len(BODY):,}" in message
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_always_breaks_off_is_never_in_place(site, tmp_path):
    site.answers = [cut_off(BODY, 10)]
    assert f"10 of {len(BODY):,} bytes received" in failure(site, tmp_path)
    assert len(site.requests) == ATTEMPTS


def test_a_chunked_file_that_breaks_off_is_never_in_place(site, tmp_path):
    site.answers = [unsaid(b"5\r\nhello\r\n", Transfer_Encoding="chunked")]
    assert "0 bytes received" in failure(site, tmp_path, sha256="")
    assert len(site.requests) == ATTEMPTS
    assert list(tmp_path.iterdir()) == []


def test_a_chunked_file_that_ends_is_in_place(site, tmp_path):
    site.answers = [unsaid(b"5\r\nhello\r\n0\r\n\r\n", Transfer_Encoding="chunked")]
    assert fetch(site, tmp_path, sha256="").read_bytes() == b"hello"


def test_a_short_file_of_unstated_length_is_detected_by_its_size(site, tmp_path):
    site.answers = [unsaid(BODY[:-1])]
    assert f"{len(BODY) - 1:,} bytes, not {len(BODY):,}" in failure(
        site, tmp_path, sha256="", size=len(BODY)
    )


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "does not have it"),
        (403, "denies access"),
        (401, "requires a login"),
        (410, "no longer"),
    ],
)
def test_what_the_server_will_not_give_is_reported_at_once(site, tmp_path, status, message):
    site.answers = [refused(status)]
    assert message in failure(site, tmp_path)
    assert len(site.requests) == 1


def test_a_busy_server_is_called_again_when_it_says(site, tmp_path):
    clock = Clock()
    site.answers = [refused(503, Retry_After="7"), refused(429), whole(BODY)]
    fetch(site, tmp_path, clock)
    assert clock.waits[0] == 7
    assert 0 <= clock.waits[1] <= 1


def test_a_redirect_is_followed(site, tmp_path):
    site.answers = [refused(302, Location="/elsewhere"), whole(BODY)]
    assert fetch(site, tmp_path).read_bytes() == BODY
    assert site.requests[1]["path"] == "/elsewhere"


def test_an_address_with_other_characters_is_sent_encoded(site, tmp_path):
    moved = "/a b/é%20.txt".encode().decode("latin-1")  # as the server's bytes are read
    site.answers = [refused(302, Location=moved), whole(BODY)]
    download(DownloadTarget(f"{site.url}/a b/é%20.txt?q=ü", tmp_path / "x"), pause=Clock())
    assert [request["path"] for request in site.requests] == [
        "/a%20b/%C3%A9%20.txt?q=%C3%BC",
        "/a%20b/%C3%A9%20.txt",
    ]


def test_a_circle_of_redirects_ends(site, tmp_path):
    site.answers = [refused(302, Location="/data.txt")]
    assert "redirected in a circle" in failure(site, tmp_path)


def test_a_redirect_to_another_origin_does_not_get_the_token(site, tmp_path):
    elsewhere = site.url.replace("127.0.0.1", "localhost") + "/elsewhere"
    site.answers = [refused(302, Location="/moved"), refused(302, Location=elsewhere), whole(BODY)]
    fetch(site, tmp_path, headers={"Authorization": "Bearer token"})
    assert [headers_sent.get("authorization") for headers_sent in site.requests] == [
        "Bearer token",
        "Bearer token",
        None,
    ]


@pytest.mark.parametrize("location", ["file:///etc/hostname", "ftp://127.0.0.1/x", "http://["])
def test_a_redirect_to_what_is_not_http_is_refused(site, tmp_path, location):
    site.answers = [refused(302, Location=location)]
    assert "is redirected to" in failure(site, tmp_path)
    assert len(site.requests) == 1


@pytest.mark.parametrize("location", ["http://host.test/x", "http://other.test/x"])
def test_a_redirect_from_https_to_http_is_refused(tmp_path, location):
    target = DownloadTarget("https://host.test/x", tmp_path / "x")
    with pytest.raises(FetchError, match="not encrypted"):
        _redirected(target, target.url, location)


@pytest.mark.parametrize("address", ["ftp://127.0.0.1/x", "no address", "http://[", "http://x:y/"])
def test_an_address_that_is_not_http_is_refused(tmp_path, address):
    with pytest.raises(FetchError, match="give an http address"):
        download(DownloadTarget(address, tmp_path / "x"), pause=Clock())


def test_a_web_page_is_not_taken_for_the_file(site, tmp_path):
    site.answers = [whole(b"<html>please log in</html>", Content_Type="text/html; charset=utf-8")]
    assert "a web page" in failure(site, tmp_path, sha256="")


@pytest.mark.parametrize("answer", [whole, unsaid])
def test_more_than_the_limit_is_not_fetched(site, tmp_path, answer):
    site.answers = [answer(BODY)]
    assert "--max-size" in failure(site, tmp_path, limit=1000)
    assert list(tmp_path.iterdir()) == []


def test_a_closed_port_is_reported(tmp_path):
    with pytest.raises(FetchError, match="could not be fetched in"):
        download(DownloadTarget("http://127.0.0.1:1/x", tmp_path / "x"), pause=Clock())


def test_a_server_that_falls_silent_within_a_file_is_reported(site, tmp_path, monkeypatch):
    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(BODY)))
        handler.end_headers()
        handler.wfile.write(BODY[:10])
        handler.wfile.flush()
        sleep(0.3)

    monkeypatch.setattr("verdict_cli.features.benchmarks.download.SILENCE_S", 0.05)
    site.answers = [answer]
    assert "the server sent nothing for 0.05 s" in failure(site, tmp_path)


def test_a_place_below_a_file_is_no_place_for_a_download(site, tmp_path):
    place = tmp_path / "file"
    place.write_text("")
    message = f"{place / 'data.txt'} cannot be written: (?s:.*) choose a writable --out"
    with pytest.raises(OutputError, match=message):
        download(DownloadTarget(f"{site.url}/data.txt", place / "data.txt"), pause=Clock())


def test_a_check_that_refuses_leaves_nothing(site, tmp_path):
    def check(path: Path) -> None:
        assert path.suffix == ".txt"
        raise FetchError("no")

    site.answers = [whole(BODY)]
    with pytest.raises(FetchError, match="no"):
        download(
            DownloadTarget(f"{site.url}/data.txt", tmp_path / "data.txt"), check, pause=Clock()
        )
    assert list(tmp_path.iterdir()) == []
