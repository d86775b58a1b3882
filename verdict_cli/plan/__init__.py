"""The plan: a pipeline's units expanded, linked, compiled and checked into a frozen graph. Nothing is awaited here."""
