"""Proxies are read from the environment as curl reads them."""

from __future__ import annotations

import pytest

from verdict_cli.errors import Refused
from verdict_cli.llm.http_client import HttpClients
from verdict_cli.llm.providers.endpoint import endpoint_problem
from verdict_cli.llm.proxies import proxy_for
from verdict_cli.model import Model

PROXY = "http://127.0.0.1:8742"
NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize(
    ("environ", "scheme", "proxy"),
    [
        ({}, "https", None),
        ({"ALL_PROXY": PROXY}, "http", PROXY),
        ({"all_proxy": PROXY}, "https", PROXY),
        ({"ALL_PROXY": "socks5://h:1", "HTTP_PROXY": PROXY}, "http", PROXY),
        ({"ALL_PROXY": "socks5h://h:1", "HTTP_PROXY": PROXY}, "https", "socks5h://h:1"),
        ({"HTTPS_PROXY": "http://upper:1", "https_proxy": PROXY}, "https", PROXY),
        ({"https_proxy": "", "HTTPS_PROXY": " ", "ALL_PROXY": PROXY}, "https", PROXY),
        ({"HTTP_PROXY": "127.0.0.1:8742"}, "http", PROXY),
        ({"ALL_PROXY": "user:pass@corp:3128"}, "http", "http://user:pass@corp:3128"),
        ({"HTTP_PROXY": PROXY, "REQUEST_METHOD": "GET"}, "http", None),
    ],
)
def test_the_variable_of_the_scheme_counts_and_then_all_proxy(environ, scheme, proxy):
    assert proxy_for(scheme, "models.example.test", 443, environ) == proxy


@pytest.mark.parametrize(
    "excepted",
    [
        "models.example.test",
        "MODELS.example.test.",
        "example.test",
        ".example.test",
        "*.example.test",
        "other.test, example.test",
        "other.test example.test",
        "models.example.test:443",
        "*",
    ],
)
def test_no_proxy_excepts_a_host_and_those_below_it(excepted):
    for name in ("NO_PROXY", "no_proxy"):
        environ = {"ALL_PROXY": PROXY, name: excepted}
        assert proxy_for("https", "models.example.test", 443, environ) is None


@pytest.mark.parametrize(
    "excepted",
    [
        "ample.test",
        "models.example.test:8443",
        "10.0.0.0/8",
        "",
        ",",
        "s.example.test",
        "*.models.example.test",
    ],
)
def test_no_proxy_excepts_no_other_host(excepted):
    environ = {"ALL_PROXY": PROXY, "NO_PROXY": excepted}
    assert proxy_for("https", "models.example.test", 443, environ) == PROXY


@pytest.mark.parametrize(
    ("host", "excepted", "is_excepted"),
    [
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", "10.1.2.3", True),
        ("11.1.2.3", "10.0.0.0/8", False),
        ("10.1.2.3", "10.0.0.0/99", False),
        ("[fd00::1]", "fd00::/8", True),
        ("[fd00::1]", "[fd00::1]", True),
        ("[fd00::1]", "[fd00::1]:443", True),
        ("[fd00::1]", "10.0.0.0/8", False),
    ],
)
def test_no_proxy_takes_addresses_and_networks(host, excepted, is_excepted):
    environ = {"ALL_PROXY": PROXY, "NO_PROXY": excepted}
    assert (proxy_for("https", host, 443, environ) is None) is is_excepted


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_this_machine_is_called_directly(host):
    assert proxy_for("http", host, 80, {"ALL_PROXY": PROXY, "HTTP_PROXY": "no address"}) is None


@pytest.mark.parametrize(
    "value", ["http://[bad", "foo://h:1", "h:99999", "http://", "a b:1", "://h", "http://s3cret@:1"]
)
def test_a_value_that_is_no_address_is_an_error_that_names_the_variable(value, monkeypatch):
    with pytest.raises(Refused, match="variable ALL_PROXY") as caught:
        proxy_for("http", "models.example.test", 80, {"ALL_PROXY": value})
    assert "s3cret" not in str(caught.value)
    monkeypatch.setenv("ALL_PROXY", value)
    problem = endpoint_problem(Model(name="openai/m", api_base="http://models.example.test/v1"))
    assert problem is not None and "ALL_PROXY" in problem


@pytest.mark.parametrize(
    "value",
    [PROXY, "127.0.0.1:8742", "socks5://127.0.0.1:1", "https://corp:1", "http://u:p%40@h:1"],
)
def test_the_client_takes_every_form(value, monkeypatch):
    from pyreqwest.http import Url

    monkeypatch.setenv("ALL_PROXY", value)
    assert HttpClients().get(Url("https://models.example.test/v1")) is not None
