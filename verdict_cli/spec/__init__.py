"""The language: YAML text becomes a typed, frozen pipeline with line numbers (language.md)."""

from verdict_cli.spec.load import Spec, load
from verdict_cli.spec.namespace import Namespace
from verdict_cli.spec.pipeline import PipelineFile

__all__ = ["Namespace", "PipelineFile", "Spec", "load"]
