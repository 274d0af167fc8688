"""As much HTTP/1.1 as a mesh daemon speaks, over its socket or loopback.

One connection per request. Everything that is read is bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from ._discovery import Door
from ._errors import ProtocolError
from ._sockets import connect_unix
from .models import SDK_VERSION

CONNECT_S = 2.0
HEAD_LIMIT = 64 * 1024
BODY_LIMIT = 16 * 1024 * 1024


class NotSent(Exception):
    """No connection could be made: the request was not carried out."""


class Lost(Exception):
    """The connection broke: whether the request was carried out is not known."""


@dataclass(frozen=True)
class Answer:
    """An answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes


class Connection:
    """One connection for one request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, door: Door) -> None:
        self._reader = reader
        self._writer = writer
        self._door = door
        self.status = 0
        self.headers: dict[str, str] = {}

    @property
    def is_tcp(self) -> bool:
        return self._door.port is not None

    @classmethod
    async def open(cls, doors: list[Door]) -> Connection:
        """Connects to the first door that lets us in."""
        problems = []
        for door in doors:
            try:
                if door.socket is not None:
                    reader, writer = await asyncio.wait_for(connect_unix(door.socket, HEAD_LIMIT), CONNECT_S)
                else:
                    opening = asyncio.open_connection("127.0.0.1", door.port, limit=HEAD_LIMIT)
                    reader, writer = await asyncio.wait_for(opening, CONNECT_S)
                return cls(reader, writer, door)
            except (OSError, asyncio.TimeoutError) as error:
                problems.append(f"{door.socket or f'127.0.0.1:{door.port}'}: {error or 'no answer'}")
        raise NotSent("; ".join(problems))

    async def ask(self, method: str, target: str, headers: dict[str, str], body: bytes | None) -> None:
        """Sends a request and reads the head of its answer."""
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost", f"User-Agent: hostel-sdk-python/{SDK_VERSION}"]
        lines += ["Connection: close", "Accept: */*"]
        if self._door.authorization:
            lines.append(f"Authorization: {self._door.authorization}")
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        head = "\r\n".join(lines).encode() + b"\r\n\r\n"
        try:
            self._writer.write(head + (body or b""))
            try:
                await self._writer.drain()
            except OSError:
                # Refused before all of it was read: the answer may be there all the same.
                pass
            await self._read_head()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise Lost(str(error) or type(error).__name__) from error

    async def _read_head(self) -> None:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *rest = head.split("\r\n")
        parts = first.split(" ", 2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdigit():
            raise ProtocolError("the answer is no HTTP")
        self.status = int(parts[1])
        for line in rest:
            name, colon, value = line.partition(":")
            if colon:
                self.headers[name.strip().lower()] = value.strip()

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body, piece by piece, as it comes. A body that breaks off is `Lost`."""
        try:
            if self.headers.get("transfer-encoding", "").lower() == "chunked":
                while size := int((await self._reader.readuntil(b"\r\n")).split(b";")[0].strip(), 16):
                    if size > BODY_LIMIT:
                        raise ProtocolError("a piece of the answer is too large")
                    yield await self._reader.readexactly(size)
                    await self._reader.readexactly(2)
                return
            length = self.headers.get("content-length")
            left = int(length) if length is not None else BODY_LIMIT
            while left:
                piece = await self._reader.read(min(left, HEAD_LIMIT))
                if not piece:
                    if length is None:
                        return
                    raise Lost("the answer breaks off")
                left -= len(piece)
                yield piece
        except ValueError as error:
            raise ProtocolError(f"the answer is no HTTP: {error}") from error
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise Lost(str(error) or type(error).__name__) from error

    async def body(self) -> bytes:
        """All of the body."""
        body = bytearray()
        async for piece in self.pieces():
            body += piece
            if len(body) > BODY_LIMIT:
                raise ProtocolError("the answer is too large")
        return bytes(body)

    def close(self) -> None:
        self._writer.close()


async def request(
    doors: list[Door], method: str, target: str, headers: dict[str, str], body: bytes | None, timeout: float
) -> Answer:
    """A request and its answer."""
    connection = await Connection.open(doors)

    async def exchange() -> Answer:
        await connection.ask(method, target, headers, body)
        return Answer(connection.status, connection.headers, await connection.body())

    try:
        return await asyncio.wait_for(exchange(), timeout)
    except asyncio.TimeoutError as error:
        raise Lost("no answer in time") from error
    finally:
        connection.close()
