"""Judges and runs over HTTP: the guard in front, the API of `verdict serve`, the viewer of `verdict view`."""
