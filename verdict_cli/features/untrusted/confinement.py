"""What a process with a stranger's files may use: memory, processor time, files, ports, and no other programs.

On Linux the kernel (Landlock) enforces the rules for files and ports. Elsewhere an audit hook of the interpreter does, which
native code does not pass.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEMORY_BYTES = 4 << 30
"""The address space. A run takes about 1 GiB of it, most of that for the stacks of threads and unused."""
CPU_S = 900
"""Processor time. A run that reaches it is resumed by the same command."""

_STARTED_PROGRAMS = frozenset(
    ("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile", "os.system", "pty.spawn")
)
_SOCKETS = frozenset(("socket.bind", "socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.sendmsg"))
"""Events of Python's sockets. The client of the models has its own, whose hosts `egress_hosts` checks."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """The files and folders that may be read, those that may also be written, and the TCP ports that may be called."""

    read: tuple[str, ...]
    write: tuple[str, ...]
    ports: tuple[int, ...]
    memory_bytes: int
    cpu_s: int

    def apply(self) -> None:
        """Confine this process, for good. It must have one thread only."""
        _limit_resources(self.memory_bytes, self.cpu_s)
        enforced = False
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(
                _PARENT_DEATH_SIGNAL, ctypes.c_ulong(signal.SIGTERM), *map(ctypes.c_ulong, (0, 0, 0))
            )
            enforced = _restrict_by_kernel(self)
        sys.addaudithook(_audit_hook(None if enforced else self))


def _limit_resources(memory_bytes: int, cpu_s: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold the key
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    with suppress(ValueError, OSError):  # macOS does not limit the address space
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def _audit_hook(files: Confinement | None) -> Callable[[str, tuple[Any, ...]], None]:
    """A hook that refuses other programs and Python's sockets, and with ``files`` other files."""
    readable = tuple(map(os.path.realpath, (*files.read, *files.write))) if files else ()
    writable = tuple(map(os.path.realpath, files.write)) if files else ()

    def is_below(path: str, roots: Iterable[str]) -> bool:
        return any(path == root or path.startswith(root.rstrip(os.sep) + os.sep) for root in roots)

    def check(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _STARTED_PROGRAMS or event == "subprocess.Popen":
            raise PermissionError(f"--untrusted starts no other program ({event})")
        if event in _SOCKETS:
            raise PermissionError(f"--untrusted opens no such connection ({event})")
        if files is not None and event == "open" and isinstance(arguments[0], str | bytes):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            writes = bool((arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            if not is_below(path, writable if writes and path != os.devnull else readable):
                raise PermissionError(13, "outside the folders that --untrusted allows", path)

    return check


_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ_FILE, _READ_DIR, _EXECUTE = 1 << 2, 1 << 3, 1 << 0
_ON_FILES = 1 << 1 | _READ_FILE | 1 << 14
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14}
"""The rights that each version of Landlock added: to execute, write, read, create and remove; to move; to truncate."""
_CONNECT = 1 << 1
_NO_NEW_PRIVILEGES = 38
_PARENT_DEATH_SIGNAL = 1


def _restrict_by_kernel(rules: Confinement) -> bool:
    """Restrict files, programs and ports by Landlock; False if the kernel does not have it (Linux before 5.13)."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(number: int, *arguments: Any) -> int:
        return int(libc.syscall(ctypes.c_long(number), *arguments))

    def words(*values: int) -> Any:
        return (ctypes.c_uint64 * len(values))(*values)

    version = call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return False
    every = sum(rights for since, rights in _FILE_RIGHTS.items() if since <= version)
    handled = words(*(every, 0b11, 0b11)[: 1 if version < 4 else 2 if version < 6 else 3])
    ruleset = call(_CREATE_RULESET, handled, ctypes.c_size_t(ctypes.sizeof(handled)), ctypes.c_uint32(0))
    if ruleset < 0:
        return False
    for paths, rights in ((rules.read, _READ_FILE | _READ_DIR), (rules.write, every & ~_EXECUTE)):
        for path in paths:
            with suppress(FileNotFoundError, PermissionError):
                opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
                of_path = rights & every if Path(path).is_dir() else rights & every & _ON_FILES
                rule = ctypes.create_string_buffer(
                    of_path.to_bytes(8, sys.byteorder) + opened.to_bytes(4, sys.byteorder), 12
                )
                call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint32(0))
                os.close(opened)
    for port in rules.ports if version >= 4 else ():
        call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(2), words(_CONNECT, port), ctypes.c_uint32(0))
    libc.prctl(_NO_NEW_PRIVILEGES, *map(ctypes.c_ulong, (1, 0, 0, 0)))
    restricted = call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)) == 0
    os.close(ruleset)
    return restricted
