"""Sample sizes: how many rows and labels a wanted interval or difference needs."""
