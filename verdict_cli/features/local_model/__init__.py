"""`local/…` models: GGUF files that llama.cpp runs in this process (extra `local`)."""

from verdict_cli.registry import PartSpec

PARTS = {"providers": {"local": PartSpec("provider.LocalProvider")}}
