"""`--untrusted`: the command itself, in a process that has nothing which a stranger's files could misuse.

The process has the environment and the files that the command line names, and calls the hosts that it names. On Linux the kernel
(Landlock) enforces the rules for files and ports. Elsewhere an audit hook of the interpreter does, which native code does not
pass.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import typer
from msgspec import Struct

from verdict_cli.cli.console import print_error
from verdict_cli.errors import UsageError
from verdict_cli.language.model_address import ALLOWED, ONLY, OWNERS, host_and_port

MEMORY_BYTES = 4 << 30
"""The address space. A run takes about 1 GiB of it, most of that for the stacks of threads and unused."""
CPU_S = 900
"""Processor time."""

_STARTED_PROGRAMS = frozenset(
    (
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
        "os.system",
        "pty.spawn",
    )
)
_SOCKETS = frozenset(
    ("socket.bind", "socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.sendmsg")
)
"""Events of Python's sockets. The client of the models has its own, whose hosts `may_call` checks."""


class Confinement(Struct, frozen=True):
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
                _PARENT_DEATH_SIGNAL,
                ctypes.c_ulong(signal.SIGTERM),
                *map(ctypes.c_ulong, (0, 0, 0)),
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
    # Version 4 added ports, version 6 signals and sockets.
    handled = words(every, *[0b11] * sum(version >= since for since in (4, 6)))
    ruleset = call(
        _CREATE_RULESET, handled, ctypes.c_size_t(ctypes.sizeof(handled)), ctypes.c_uint32(0)
    )
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
        call(
            _ADD_RULE,
            ctypes.c_int(ruleset),
            ctypes.c_int(2),
            words(_CONNECT, port),
            ctypes.c_uint32(0),
        )
    libc.prctl(_NO_NEW_PRIVILEGES, *map(ctypes.c_ulong, (1, 0, 0, 0)))
    restricted = call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)) == 0
    os.close(ruleset)
    return restricted


_CHILD = "import sys; sys.path.insert(0, sys.argv.pop(1)); from verdict_cli.features.untrusted.untrusted import run_confined; run_confined()"
_KEPT = """
    LANG LANGUAGE TERM COLUMNS LINES NO_COLOR FORCE_COLOR TZ HOME XDG_CACHE_HOME VERDICT_CACHE_DIR GITHUB_STEP_SUMMARY
    SSL_CERT_FILE SSL_CERT_DIR HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy
"""
"""The variables that the process keeps, besides those that begin with LC_: none holds a key of a model."""
_SYSTEM = """
    /usr /lib /lib64 /etc/ssl /etc/pki /etc/ca-certificates /etc/crypto-policies /etc/resolv.conf /etc/hosts /etc/host.conf
    /etc/nsswitch.conf /etc/gai.conf /etc/services /etc/protocols /etc/localtime /etc/mime.types /etc/ld.so.cache
    /dev/null /dev/zero /dev/random /dev/urandom /proc/self /proc/cpuinfo /proc/meminfo /proc/stat /proc/sys/vm
    /sys/devices/system/cpu /sys/fs/cgroup /System /Library /private/etc/ssl
"""
"""What the interpreter, its libraries and the look-up of hosts read. Not among them: other processes, homes, /etc itself."""
_DNS = 53


class _Process:
    confined = False


def confine(
    paths: Iterable[Path | str],
    *,
    out: Path | str | None = None,
    fresh: bool = False,
    model: str | None = None,
    allow_host: Sequence[str] | None = None,
    forbidden: Mapping[str, object] | None = None,
) -> None:
    """Run this command in a confined process and exit with its code; return at once in that process.

    ``paths`` are the files and folders that the user named, ``out`` is the directory to write to, if any; a ``fresh`` one must
    not exist yet, because what is in it may be the stranger's. ``forbidden`` has the values of the options that would let the files have more. Raises UsageError for those, and where nothing can be confined.
    """
    if _Process.confined:
        return
    if sys.platform == "win32":
        raise UsageError(
            "--untrusted needs the limits of a POSIX system",
            hint="run it on Linux or macOS, or in a container",
        )
    for option, value in (forbidden or {}).items():
        if value:
            raise UsageError(
                f"--untrusted and {option} cannot be combined", hint=f"leave {option} out"
            )
    environ, hosts = _environment(model, allow_host or ())
    directory = None if out is None else Path(out)
    existed = directory is None or directory.exists()
    if fresh and directory is not None and os.path.lexists(directory):
        raise UsageError(
            f"--untrusted starts a new run, and {directory} exists: its replies may be a stranger's",
            hint="name an --out that does not exist, or remove it",
        )
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    cache = _cache_directory()
    temporary = tempfile.mkdtemp(prefix="verdict-untrusted-")
    environ["TMPDIR"] = temporary
    summary = environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        Path(summary).touch()
    rules = Confinement(
        read=tuple(sorted({*_SYSTEM.split(), *_program_folders(), *_folders_of(paths)})),
        write=tuple(
            str(path)
            for path in (directory and directory.resolve(), cache, temporary, summary)
            if path
        ),
        ports=(_DNS, *sorted({port for _, port in hosts} | _proxy_ports(environ))),
        memory_bytes=MEMORY_BYTES,
        cpu_s=CPU_S,
    )
    code = 70
    try:
        code = _run_child(rules, environ)
    finally:
        if code != 70:  # the crash report is there
            shutil.rmtree(temporary, ignore_errors=True)
        if directory is not None and not existed:
            with suppress(OSError):  # it is not empty
                directory.rmdir()
    raise typer.Exit(code)


def run_confined() -> None:
    """Confine this process as its first argument says, and run the command in the other ones."""
    from verdict_cli.cli.app import main

    msgspec.json.decode(sys.argv.pop(1), type=Confinement).apply()
    _Process.confined = True
    main()


def _environment(
    model: str | None, allow_host: Sequence[str]
) -> tuple[dict[str, str], set[tuple[str, int]]]:
    """The environment of the process, and the hosts with their ports that it may call."""
    from verdict_cli.llm.model_families import base_url, family, is_local
    from verdict_cli.model import Model

    environ = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT.split() or name.startswith("LC_")
    }
    hosts = {host_and_port(part) for text in allow_host for part in text.split(",")}
    hosted_model = None if model is None or is_local(model) else Model(name=model)
    if hosted_model is not None:
        own_family = family(hosted_model)
        base = base_url(hosted_model, own_family, os.environ) if own_family else ""
        if own_family is None or not base:
            raise UsageError(
                f"--untrusted: the host of the model {model} is not known",
                hint="name a model that verdict calls itself (openai/…, anthropic/…, gemini/…), with the variable of its base URL set",
            )
        hosts.add(host_and_port(base))
        for name in (*own_family.base_variables, own_family.key_variable, own_family.other_key):
            if name in os.environ:
                environ[name] = os.environ[name]
    names = {host for host, _ in hosts}
    environ |= {
        name: os.environ[name]
        for name, owner in OWNERS.items()
        if owner in names and name in os.environ
    }
    environ[ALLOWED] = ",".join(allow_host)
    environ[ONLY] = ",".join(f"{host}:{port}" for host, port in sorted(hosts))
    return environ, hosts


def _program_folders() -> Iterator[str]:
    from verdict_cli.language.package_files import folder

    yield from (sys.prefix, sys.base_prefix, str(Path(__file__).parents[2]))
    yield from (str(folder(kind)) for kind in ("configs", "datasets", "schemas"))
    yield from (path for path in sys.path if Path(path).name in ("site-packages", "dist-packages"))


def _folders_of(paths: Iterable[Path | str]) -> Iterator[str]:
    """The folder of each file, a folder itself, and for a glob the folder before the first pattern.

    Standard input and the names of samples are no paths: the working directory may hold anything.
    """
    for path in paths:
        plain = Path(path)
        is_glob = any(letter in str(plain) for letter in "*?[")
        if not is_glob and not plain.exists():
            continue
        while any(letter in str(plain) for letter in "*?["):
            plain = plain.parent
        yield str((plain if plain.is_dir() else plain.parent).resolve())


def _cache_directory() -> Path:
    from verdict_cli.llm.middleware.cache_store import cache_directory

    path = cache_directory()
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path.resolve()


def _proxy_ports(environ: Mapping[str, str]) -> set[int]:
    folders = set()
    for name, value in environ.items():
        if name.lower().endswith("_proxy") and name.lower() != "no_proxy":
            with suppress(ValueError):
                folders.add(host_and_port(value.rpartition("@")[2] if "@" in value else value)[1])
    return folders


def _run_child(rules: Confinement, environ: Mapping[str, str]) -> int:
    # -P keeps the working directory, which may be a stranger's, out of the import path; -E ignores PYTHON… variables.
    root = str(Path(__file__).parents[3])
    command = [
        sys.executable,
        "-P",
        "-E",
        "-c",
        _CHILD,
        root,
        msgspec.json.encode(rules).decode(),
        *sys.argv[1:],
    ]
    with (
        subprocess.Popen(command, env=dict(environ), start_new_session=True) as child,
        _forwarding(child),
    ):
        code = child.wait()
    if code >= 0:
        return code
    ended = signal.Signals(-code)
    if ended is signal.SIGXCPU or ended is signal.SIGKILL:
        reason = f"took more than the {CPU_S} s of processor time"
    else:
        reason = f"ended by {ended.name}; they probably took more than the {MEMORY_BYTES >> 30} GiB of memory"
    print_error(
        f"the pipeline and its dataset {reason} that --untrusted allows\n"
        "    answered calls are in the cache: the same command with another --out does not pay for them again"
    )
    return 2


@contextmanager
def _forwarding(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass signals on: the child is in a session of its own, so that it cannot write to the terminal's input."""

    def forward(number: int, frame: FrameType | None) -> None:
        child.send_signal(number)

    names = ("SIGINT", "SIGTERM", "SIGHUP")
    former = {
        number: signal.signal(number, forward)
        for number in (getattr(signal, name) for name in names)
    }
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
