"""The HTTP API of `verdict serve`. Needs the extra `serve`."""
