"""Datasets and runs at URLs, in any store that fsspec has a filesystem for."""
