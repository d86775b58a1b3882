"""How a request reaches a model: middleware, providers, hosts and tracing."""
