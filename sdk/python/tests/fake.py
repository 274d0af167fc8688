"""A mesh daemon that says what a test tells it to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VERSION = {
    "daemon_version": "0.1.0",
    "ipc_api": "v1",
    "ipc_minor": 99,
    "schema_version": 1,
    "broker_protocol_min": "2",
    "broker_protocol_max": "2",
    "mesh": "lab",
    "ipc_features": [],
    "broker_features_negotiated": {},
    "a_later_minor_adds": True,
}


@dataclass
class Request:
    """What was asked."""

    method: str
    target: str
    headers: dict[str, str]
    body: Any
    writer: asyncio.StreamWriter

    async def answer(self, status: int, body: Any, **headers: str) -> None:
        """Answers."""
        content = json.dumps(body).encode()
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = f"HTTP/1.1 {status} x\r\nContent-Length: {len(content)}\r\n{more}\r\n"
        self.writer.write(head.encode() + content)
        await self.writer.drain()

    async def stream(self, begins: str, *blocks: str) -> None:
        """Answers with events."""
        head = f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nLast-Event-ID: {begins}\r\n\r\n"
        self.writer.write(head.encode())
        for text in (": connected\n\n", *blocks):
            piece = text.encode()
            self.writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        await self.writer.drain()


Handler = Callable[[Request], Awaitable[None]]


@dataclass
class Fake:
    """The daemon."""

    root: Path
    handlers: list[Handler] = field(default_factory=list)
    asked: list[Request] = field(default_factory=list)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            method, target, _ = first.split(" ")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            request = Request(method, target, headers, json.loads(body) if body else None, writer)
            if target == "/v1/version":
                await request.answer(200, VERSION)
            else:
                self.asked.append(request)
                await self.handlers.pop(0)(request)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self.serve(reader, writer))
        self.tasks.add(task)
        task.add_done_callback(lambda _: writer.close())


@contextlib.asynccontextmanager
async def daemon(*handlers: Handler) -> AsyncIterator[Fake]:
    """A daemon that answers its requests with these, one after the other."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        (root / "lab").mkdir()
        fake = Fake(root, list(handlers))
        server = await asyncio.start_unix_server(fake.accept, str(root / "lab" / "sock"))
        try:
            yield fake
        finally:
            server.close()
            for task in fake.tasks:
                task.cancel()
            await asyncio.gather(*fake.tasks, return_exceptions=True)
            await asyncio.sleep(0)


def answers(status: int, body: Any, **headers: str) -> Handler:
    async def handler(request: Request) -> None:
        await request.answer(status, body, **headers)

    return handler


def streams(begins: str, *blocks: str) -> Handler:
    async def handler(request: Request) -> None:
        await request.stream(begins, *blocks)

    return handler


async def hangs_up(request: Request) -> None:
    """Says nothing."""
