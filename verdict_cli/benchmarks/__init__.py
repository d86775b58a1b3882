"""Benchmarks by name: data cards, downloads, importers, and the published values of recorded judges."""
