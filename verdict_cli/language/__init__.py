"""The language: YAML text becomes a typed, frozen pipeline with line numbers (language.md)."""
