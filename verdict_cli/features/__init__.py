"""Features: each folder is one, whole, and enters the core by doors only. The core imports nothing of them."""
