"""Middleware around a provider, one concern a file; `chain.MIDDLEWARE` has them in order, with the reasons for it."""
