"""Fields and their types: what a unit's response, input and output schemas are made of."""
