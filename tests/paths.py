"""Folders that tests read."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The project's own folder."""
SHARED = Path(os.environ.get("VERDICT_SHARED", ROOT.parent / "shared"))
"""The specification, recorded data and seeds, where they are there."""
