"""The shards of a run as tasks of a Ray cluster: `verdict run --engine ray`."""
