"""Access control and limits of the HTTP servers: sockets, connections, and the middleware that checks requests."""
