"""Keys from the environment, else from the system's keyring."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from verdict_cli.errors import Refused
from verdict_cli.llm.model_families import family
from verdict_cli.llm.providers import secrets as own
from verdict_cli.llm.providers.endpoint import endpoint
from verdict_cli.llm.providers.litellm import _key
from verdict_cli.llm.providers.model_checks import check_model
from verdict_cli.llm.providers.secrets import model_secrets
from verdict_cli.model import Model

keyring = pytest.importorskip("keyring", reason="the extra `keyring` is not installed")

KEY = "kept-in-the-keyring"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[tuple[str, str], Any]]:
    """The keyring's entries, by service and name."""
    from keyring.backend import KeyringBackend

    entries: dict[tuple[str, str], Any] = {}

    class Planted(KeyringBackend):
        priority = 9  # type: ignore[assignment]

        def get_password(self, service: str, username: str) -> str | None:
            found = entries.get((service, username))
            if isinstance(found, Exception):
                raise found
            return found

        def set_password(self, service: str, username: str, password: str) -> None:
            raise NotImplementedError

        def delete_password(self, service: str, username: str) -> None:
            raise NotImplementedError

    before = keyring.get_keyring()
    keyring.set_keyring(Planted())
    monkeypatch.setattr(own, "_keyring_keys", {})
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OWN"):
        monkeypatch.delenv(name, raising=False)
    yield entries
    keyring.set_keyring(before)


def key_of(model: Model, environ: dict[str, str]) -> str | None:
    kind = family(model)
    assert kind is not None
    return endpoint(model, kind, environ).key


def test_the_environment_comes_first_and_then_the_keyring(kept: Any) -> None:
    kept["verdict", "OPENAI_API_KEY"] = f" {KEY}\n"
    assert key_of(Model(name="gpt-4o"), {"OPENAI_API_KEY": "of-the-environment"}) == "of-the-environment"
    assert not own.keyring_keys()
    assert key_of(Model(name="gpt-4o"), {}) == KEY
    kept.clear()
    assert key_of(Model(name="gpt-4o"), {}) == KEY  # it is asked once


def test_a_named_variable_and_a_provider_of_litellm_are_looked_up_too(kept: Any) -> None:
    kept["verdict", "OWN"] = KEY
    kept["verdict", "ANTHROPIC_API_KEY"] = "anthropic's"
    model = Model(name="openai/m", api_base="http://127.0.0.1/v1", api_key_env="OWN")
    assert (check_model(model), key_of(model, {})) == (None, KEY)
    assert _key(Model(name="anthropic/claude-haiku-4-5")) == "anthropic's"
    assert _key(Model(name="mistral/x")) is None


def test_a_file_names_no_other_entry_and_sends_none_to_its_author(kept: Any) -> None:
    kept["github.com", "OWN"] = KEY
    with pytest.raises(Refused, match="is not set"):
        key_of(Model(name="openai/m", api_base="http://127.0.0.1/v1", api_key_env="OWN"), {})
    own._keyring_keys.clear()
    kept["verdict", "OWN"] = KEY
    with pytest.raises(Refused, match="is not sent to"):
        key_of(Model(name="openai/m", api_base="https://evil.example/v1", api_key_env="OWN"), {})
    assert key_of(Model(name="openai/m", api_base="https://evil.example/v1"), {}) is None


def test_a_server_that_needs_no_key_asks_for_none(kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "_read_keyring", lambda _: pytest.fail("the keyring was asked"))
    assert key_of(Model(name="openai/m", api_base="http://127.0.0.1/v1"), {}) is None


@pytest.mark.parametrize("fault", ["KeyringLocked", "NoKeyringError", "InitError"])
def test_a_keyring_that_cannot_be_read_has_no_key(kept: Any, fault: str) -> None:
    import keyring.errors

    kept["verdict", "OPENAI_API_KEY"] = getattr(keyring.errors, fault)("planted fault")
    with pytest.raises(Refused, match="OPENAI_API_KEY is not set"):
        key_of(Model(name="gpt-4o"), {})


def test_without_the_extra_there_is_no_key(kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kept["verdict", "OPENAI_API_KEY"] = KEY
    monkeypatch.setattr(own, "find_spec", lambda _: None)
    with pytest.raises(Refused):
        key_of(Model(name="gpt-4o"), {})


def test_what_the_keyring_gave_is_a_secret(kept: Any) -> None:
    kept["verdict", "OPENAI_API_KEY"] = KEY
    assert model_secrets(Model(name="gpt-4o"), {}) == ()
    key_of(Model(name="gpt-4o"), {})
    assert model_secrets(Model(name="gpt-4o"), {}) == (KEY,)


def test_it_is_not_imported_where_the_environment_has_the_key() -> None:
    code = (
        "import sys\nfrom verdict_cli.llm.providers.secrets import key_in\n"
        "assert key_in('A', {'A': 'x'}) == 'x' and not key_in('', {})\nassert 'keyring' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
