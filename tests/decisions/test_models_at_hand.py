"""Which decision model can be called right now: for `verdict init`."""

from __future__ import annotations

import http.server
import json
import threading

from verdict_cli.llm.model_families import is_decision_model
from verdict_cli.llm.providers.detect_models import DECISION_KEYS, decision_model_at_hand
from verdict_cli.llm.providers.price_book import entry_of
from verdict_cli.model import Model


def test_a_key_offers_its_decision_model():
    decision_model = decision_model_at_hand({"TYPESAFE_API_KEY": "x"}, {})
    assert decision_model is not None
    assert (decision_model.model, decision_model.reason) == (
        "typesafe/jev-latest",
        "TYPESAFE_API_KEY is set",
    )
    assert decision_model_at_hand({"TYPESAFE_API_KEY": " "}, {}) is None


def test_every_offered_model_is_a_decision_model_with_a_price():
    for name in DECISION_KEYS.values():
        assert is_decision_model(Model(name=name))
        assert entry_of(name) is not None


def _serving(name: str) -> http.server.ThreadingHTTPServer:
    class Models(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"data": [{"id": name}]}).encode())

        def log_message(self, *_: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Models)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def test_a_local_server_is_offered_for_a_decision_model_and_not_for_a_chat_model():
    for name, is_offered in (("openjev-4b", True), ("llama-3.1-8b", False)):
        server = _serving(name)
        try:
            decision_model = decision_model_at_hand({}, {server.server_address[1]: "Ollama"})
        finally:
            server.shutdown()
            server.server_close()
        assert (decision_model is not None) == is_offered
        if decision_model is not None:
            assert decision_model.model == "systemone/openjev-4b"
