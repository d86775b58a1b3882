"""A YAML 1.2 file as plain values that know their line and column."""
