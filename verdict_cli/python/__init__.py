"""The Python API: the language's pipelines, steps, units, scales and extractors as immutable values.

Everything is exported by `verdict_cli` itself, and imported there on first use.
"""
