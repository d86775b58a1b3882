"""Models as a pipeline names them (language.md, section 4)."""

from verdict_cli.models.model import Cost, Model, ModelKey, RateLimit

__all__ = ["Cost", "Model", "ModelKey", "RateLimit"]
