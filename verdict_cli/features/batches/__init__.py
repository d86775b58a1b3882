"""A run whose calls are sent through providers' batch interfaces, in waves."""
