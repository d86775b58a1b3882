"""An S3 on this machine: moto's server, in a thread of the tests' process."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from verdict_cli.features.object_store.run_store import RemoteFolder

LACKING = [name for name in ("s3fs", "moto", "flask", "flask_cors") if find_spec(name) is None]


@dataclass
class S3:
    """A server whose objects outlive its being stopped; ``environ`` leads S3's clients to it."""

    environ: dict[str, str] = field(default_factory=dict)
    _server: Any = None
    _port: int = 0

    def start(self) -> None:
        from moto.server import ThreadedMotoServer

        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=self._port)
        self._server.start()
        host, self._port = self._server.get_host_and_port()
        self.environ = {
            "AWS_ENDPOINT_URL": f"http://{host}:{self._port}",
            "AWS_ACCESS_KEY_ID": "loopback",
            "AWS_SECRET_ACCESS_KEY": "loopback",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_MAX_ATTEMPTS": "1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def stop(self) -> None:
        """The server cannot be reached any more, until it is started again."""
        self._server.stop()
        self._server = None

    @property
    def running(self) -> bool:
        return self._server is not None

    def bucket(self, name: str) -> RemoteFolder:
        """A new bucket."""
        import fsspec

        from verdict_cli.features.object_store.run_store import RemoteFolder

        fsspec.filesystem("s3", use_listings_cache=False).mkdir(name)
        return RemoteFolder.at(f"s3://{name}")


@pytest.fixture(scope="session")
def store_server() -> Iterator[S3]:
    """The server, never started where what it needs is not installed."""
    server = S3()
    if not LACKING:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        server.start()
    yield server
    if server.running:
        server.stop()


@pytest.fixture
def s3(store_server: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    """The server, running, with the environment that leads there."""
    if LACKING:
        pytest.skip(f"{', '.join(LACKING)} cannot be imported: pip install '.[dev]'")
    if not store_server.running:
        store_server.start()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in store_server.environ.items():
        monkeypatch.setenv(name, value)
    return store_server
