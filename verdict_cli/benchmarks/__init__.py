"""Benchmarks by name: data cards, how their files are fetched, checked and converted, and recorded judges' figures."""
