"""Middleware around a provider, one concern a file; `chain.build_chain` has them in order, with the reasons for it."""
