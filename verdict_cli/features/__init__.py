"""Features: each folder is one, whole, and can be deleted. They enter by the doors of `verdict_cli.registry`, or by its `feature_part`."""
