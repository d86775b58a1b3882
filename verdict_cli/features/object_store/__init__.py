"""Datasets and runs at URLs, in any store that fsspec has a filesystem for."""

from verdict_cli.registry import PartSpec

PARTS = {"stores": {"*": PartSpec("run_store.ObjectStore")}}
