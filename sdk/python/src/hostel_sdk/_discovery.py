"""Where daemons are, and what opens them.

Everything is read anew for each connection: a daemon that was restarted has another port, a rotated token is another.
"""

from __future__ import annotations

import hashlib
import os
import re
import string
from dataclasses import dataclass, field
from pathlib import Path

from ._errors import AmbiguousMesh, BadMesh, DaemonUnreachable

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
START = "start one with `hostel mesh daemon up`"


@dataclass(frozen=True)
class Door:
    """One way to a daemon."""

    socket: Path | None = None
    port: int | None = None
    authorization: str | None = field(default=None, repr=False)


def _home() -> Path:
    return Path(os.environ.get("HOME") or Path.home())


def daemon_root(option: str | os.PathLike[str] | None = None) -> Path:
    """The directory with one directory for each mesh."""
    chosen = option or os.environ.get("CLAUDEMESH_DAEMON_DIR")
    return Path(chosen) if chosen else _home() / ".claudemesh" / "daemon"


def house_socket(home: str | os.PathLike[str] | None = None) -> Path:
    """The socket of the house."""
    chosen = home or os.environ.get("HOSTEL_HOME")
    return (Path(chosen) if chosen else _home() / ".hostel") / "run" / "hostel.sock"


def _ephemeral_root(root: Path) -> Path | None:
    """Where ephemeral daemons have their sockets; only if it is ours."""
    base = os.environ.get("XDG_RUNTIME_DIR") or os.environ.get("TMPDIR") or "/tmp"
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:12]
    place = Path(base) / f"claudemesh-{os.geteuid()}-{digest}"
    try:
        found = place.lstat()
    except OSError:
        return None
    return place if found.st_uid == os.geteuid() and not found.st_mode & 0o077 else None


def _has_daemon(place: Path) -> bool:
    return (place / "sock").exists() or (place / "http.port").exists()


def mesh_name(root: Path, option: str | None = None) -> str:
    """The mesh that is meant: the one named, else the only one with a daemon here."""
    chosen = option or os.environ.get("CLAUDEMESH_MESH")
    if chosen:
        # It becomes a part of a path.
        if not NAME.fullmatch(chosen):
            raise BadMesh(f"`{chosen}` is no name of a mesh")
        return chosen
    names: set[str] = set()
    for place in (root, _ephemeral_root(root)):
        if place is not None and place.is_dir():
            names.update(entry.name for entry in place.iterdir() if entry.is_dir() and _has_daemon(entry))
    if len(names) == 1:
        return names.pop()
    if names:
        raise AmbiguousMesh(f"several meshes have a daemon here, name one: {', '.join(sorted(names))}")
    raise DaemonUnreachable(f"no mesh has a daemon below {root}: {START}")


def session_token(option: str | None = None) -> str | None:
    """The token of the session this program runs in, if it runs in one."""
    if option is not None:
        return option
    text = os.environ.get("CLAUDEMESH_IPC_TOKEN") or ""
    path = os.environ.get("CLAUDEMESH_IPC_TOKEN_FILE")
    if path:
        try:
            text = Path(path).read_text()
        except (OSError, UnicodeDecodeError):
            pass
    text = text.strip()
    if len(text) == 64 and all(digit in string.hexdigits for digit in text):
        return text
    # Who was launched inside a session does not become the host because that session is over.
    return "0" * 64 if os.environ.get("CLAUDEMESH_SESSION") else None


def hook_socket() -> Path | None:
    """The socket of the daemon whose hook this program is."""
    named = os.environ.get("CLAUDEMESH_DAEMON_SOCK")
    return Path(named) if named else None


def shown(option: str | None = None) -> str | None:
    """What is shown on a socket: the session's token, else what a hook was given; none for the member."""
    token = session_token(option)
    if token:
        return f"ClaudeMesh-Session {token}"
    capability = os.environ.get("CLAUDEMESH_CAPABILITY_TOKEN")
    return f"Bearer {capability}" if capability else None


def doors(root: Path, mesh: str, authorization: str | None) -> list[Door]:
    """The ways to a mesh's daemon, the best first. Who is not the member is served on the socket alone."""
    place = root / mesh
    found = [Door(socket=place / "sock", authorization=authorization)]
    ephemeral = _ephemeral_root(root)
    if ephemeral is not None:
        found.append(Door(socket=ephemeral / mesh / "sock", authorization=authorization))
    if authorization is None:
        try:
            port = int((place / "http.port").read_text())
            bearer = (place / "local_token").read_text().strip()
        except (OSError, ValueError):
            return found
        found.append(Door(port=port, authorization=f"Bearer {bearer}"))
    return found
