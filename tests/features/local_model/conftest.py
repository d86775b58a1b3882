"""The fixtures of the providers' tests."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_SPEC = spec_from_file_location(
    "provider_fixtures", Path(__file__).parents[2] / "llm" / "providers" / "conftest.py"
)
assert _SPEC is not None and _SPEC.loader is not None
_MODULE = sys.modules[_SPEC.name] = module_from_spec(_SPEC)
_SPEC.loader.exec_module(_MODULE)
request_for = _MODULE.request_for
