"""Judge LLM outputs with compound judges: small graphs of LLM calls."""

__version__ = "0.1.0"
