"""The HTTP API of `verdict serve`."""
