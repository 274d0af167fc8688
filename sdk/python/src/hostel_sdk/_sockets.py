"""Unix sockets, also those whose path does not fit into a socket address."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

LONGEST = 107


async def connect_unix(path: Path, limit: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connects to a socket."""
    if len(os.fsencode(path)) <= LONGEST:
        return await asyncio.open_unix_connection(str(path), limit=limit)
    directory = os.open(path.parent, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY)
    try:
        return await asyncio.open_unix_connection(f"/proc/self/fd/{directory}/{path.name}", limit=limit)
    finally:
        os.close(directory)
