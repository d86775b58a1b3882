"""What stands before an application over HTTP: its socket, who may come in, how much they may send."""

from verdict_cli.door.connection import connections
from verdict_cli.door.guarded import App, Door, Guarded
from verdict_cli.door.listening import Server, address, bound, needs_token

__all__ = ["App", "Door", "Guarded", "Server", "address", "bound", "connections", "needs_token"]
