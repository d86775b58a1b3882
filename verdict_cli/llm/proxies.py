"""The proxy of an address by the environment, as curl reads it: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from fnmatch import fnmatchcase
from ipaddress import ip_address, ip_network

from verdict_cli.errors import Refused
from verdict_cli.language.model_address import LOOPBACK, load_http_client

_SCHEMES = ("http", "https", "socks4", "socks4a", "socks5", "socks5h")
_HINT = "write http://HOST:PORT, or socks5://HOST:PORT"


def proxy_for(scheme: str, host: str, port: int, environ: Mapping[str, str]) -> str | None:
    """The URL of the proxy for this address; None for a direct connection, which this machine always has.

    The scheme's own variable counts before ALL_PROXY, and names in lower case before those in upper case. Raises Refused,
    naming the variable, for a value that is no address of a proxy.
    """
    if host in LOOPBACK:
        return None
    # A server that runs CGI scripts sets HTTP_PROXY from a request's header `Proxy`.
    is_cgi = "REQUEST_METHOD" in environ
    names = [
        f"{scheme}_proxy",
        *([] if is_cgi and scheme == "http" else [f"{scheme}_proxy".upper()]),
    ]
    name = next(
        (name for name in (*names, "all_proxy", "ALL_PROXY") if environ.get(name, "").strip()), None
    )
    if name is None:
        return _system_proxy(scheme, host) if sys.platform in ("darwin", "win32") else None
    excepted = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    return None if _is_excepted(host, port, excepted) else _proxy_url(name, environ[name].strip())


def _proxy_url(name: str, value: str) -> str:
    url = value if "://" in value else f"http://{value}"
    load_http_client()
    from pyreqwest.http import Url

    try:
        parsed = Url(url)
        is_address = parsed.scheme in _SCHEMES and bool(parsed.host_str)
    except ValueError:
        is_address = False
    if not is_address:
        # Without the value, which may hold a password.
        raise Refused(f"the environment variable {name} is not the address of a proxy", hint=_HINT)
    return url


def _is_excepted(host: str, port: int, excepted: str) -> bool:
    """Whether NO_PROXY names the host: by its name or a domain above it (``.corp.test``, ``*.corp.test``), by an address or a
    network (``10.0.0.0/8``), with or without a port; ``*`` names every host."""
    name = host.strip("[]").rstrip(".").lower()
    return any(
        _is_named(name, port, entry) for entry in re.split(r"[,\s]+", excepted.lower()) if entry
    )


def _is_named(name: str, port: int, entry: str) -> bool:
    with_port = re.fullmatch(r"(\[[^\]]*\]|[^:]*):(\d+)", entry)
    if with_port is not None:
        entry = with_port[1]
        if int(with_port[2]) != port:
            return False
    entry = entry.strip("[]").rstrip(".")
    try:
        return ip_address(name) in ip_network(entry, strict=False)
    except ValueError:  # a name, or not a network
        domain = entry.removeprefix(".")
        return fnmatchcase(name, entry) or (
            bool(domain) and (name == domain or name.endswith(f".{domain}"))
        )


def _system_proxy(scheme: str, host: str) -> str | None:
    """The proxy of the system's settings, where the environment has none."""
    from urllib.request import getproxies, proxy_bypass

    return None if proxy_bypass(host.strip("[]")) else getproxies().get(scheme)
