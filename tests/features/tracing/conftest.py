"""The bench of the engines' tests, which runs a job with scripted replies."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_SPEC = spec_from_file_location("engine_bench", Path(__file__).parents[2] / "run" / "engines" / "conftest.py")
assert _SPEC is not None and _SPEC.loader is not None
_MODULE = sys.modules[_SPEC.name] = module_from_spec(_SPEC)  # dataclasses look their module up there
_SPEC.loader.exec_module(_MODULE)
bench = _MODULE.bench
