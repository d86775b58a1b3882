"""The names of haizelabs' library (PyPI `verdict` 0.2.7): `from verdict_cli.compat import …` runs code written for it."""

from verdict_cli.features.compat import names as _names
from verdict_cli.features.compat.names import *  # noqa: F403

__all__ = _names.__all__
