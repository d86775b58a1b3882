"""Middleware around a provider, one concern each: journal, cache, limits, log-probability check, traces."""
