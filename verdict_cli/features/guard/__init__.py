"""The middleware in front of both HTTP servers: binding, host, origin and token checks, request size and time limits."""
