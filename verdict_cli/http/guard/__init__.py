"""What stands before an application over HTTP: its socket, who may come in, how much they may send."""
