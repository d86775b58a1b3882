"""Whether a path is on a network file system, where SQLite's log cannot be used."""

from __future__ import annotations

from pathlib import Path

MOUNTS = Path("/proc/mounts")
_NETWORK = ("nfs", "cifs", "smb", "fuse", "9p", "lustre", "afs", "ceph", "gpfs", "beegfs")


def network_file_system(path: Path) -> str:
    """The type of the network file system that the path is on, "" on a local one or where nothing says so."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    resolved = path.resolve()
    best, kind = -1, ""
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        mount = Path(fields[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\"))
        if len(mount.parts) >= best and resolved.is_relative_to(mount):
            best, kind = len(mount.parts), fields[2]
    return kind if kind.startswith(_NETWORK) and kind != "fuseblk" else ""
