"""The events of a mesh daemon, without an end, a loss or a double.

The daemon says where a stream begins and gives every event an id; after a lost connection the stream goes on behind the
last one. If the daemon no longer knows that place (it says `gap`), the messages of the time between are read from the
inbox and given as events without an id; what came before is left out by the message's own id.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from . import _http
from ._errors import DaemonUnreachable, HostelError, MeshError, ProtocolError
from .models import EVENTS, AnyEvent, GapEvent, InboxItem, MessageEvent

if TYPE_CHECKING:
    from ._mesh import Mesh

REMEMBERED = 10_000
"""Messages that are known to have been given."""
SILENCE_S = 45.0
"""The daemon says something every 15 s; after so long without a word the connection is taken for dead."""
ANSWER_S = 30.0
FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 2.0
BLOCK_LIMIT = 4 * 1024 * 1024
PAGE = 200


@dataclass(frozen=True)
class Event:
    """Something that happened."""

    id: str
    """Its id, to go on after it; empty for a `gap` and for what was read from the inbox."""
    name: str
    """`message`, `peer_join`, …"""
    data: AnyEvent | dict[str, Any]
    """Typed by its name; of an event that this package does not know, the object itself."""
    recovered: bool = False
    """It was read from the inbox after a gap."""

    @property
    def message(self) -> MessageEvent | None:
        """The message, if it is one."""
        return self.data if isinstance(self.data, MessageEvent) else None


class EventStream:
    """Events as they come. Close it, or use it with `async with`, when it is left before its end."""

    def __init__(self, mesh: Mesh, events: list[str] | None, topic: str | None, last_event_id: str | None) -> None:
        self._mesh = mesh
        self._names = events
        self._topic = topic
        self._place = last_event_id
        self._last_given = last_event_id
        self._connection: _http.Connection | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        self._text = b""
        self._waiting: deque[Event] = deque()
        self._given: OrderedDict[str, str] = OrderedDict()
        self._forgotten: str | None = None
        self._gap: str | None = None
        self._cursor: str | None = None
        self._behind_gap: str | None = None
        self._pause = FIRST_WAIT_S
        self._opened = False
        self._closed = False

    async def __aenter__(self) -> EventStream:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def last_event_id(self) -> str | None:
        """Where the stream is: give it to `Mesh.events` to go on later."""
        return self._last_given if self._waiting else self._place

    async def open(self) -> None:
        """Opens the stream; from here on nothing is missed. The first event asked for does it too."""
        if not self._opened:
            await self._connect()
            self._opened = True

    async def close(self) -> None:
        """Ends it."""
        self._closed = True
        await self._hang_up()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while not self._closed:
            if self._waiting:
                event = self._waiting.popleft()
                self._last_given = event.id or self._last_given
                return event
            if self._gap is not None:
                await self._recover()
                continue
            await self.open()
            if self._connection is None:
                await self._reconnect()
                continue
            try:
                is_over = await asyncio.wait_for(self._pull(), SILENCE_S)
            except (_http.Lost, asyncio.TimeoutError):
                is_over = True
            if is_over:
                await self._hang_up()
        raise StopAsyncIteration

    # ---- the connection

    async def _connect(self) -> None:
        from ._mesh import refusal, target

        mesh = self._mesh
        if not mesh._greeted:
            await mesh.version()
        query = {"events": ",".join(self._names) if self._names else None, "topic": self._topic}
        headers = {"Last-Event-ID": self._place} if self._place else {}
        try:
            connection = await _http.Connection.open(mesh._doors())
        except _http.NotSent as error:
            raise DaemonUnreachable(f"nobody answers: {error}") from error
        try:
            await asyncio.wait_for(connection.ask("GET", target("/v1/events", query), headers, None), ANSWER_S)
            if connection.status != 200:
                raise refusal(connection.status, connection.headers, await connection.body())
        except BaseException:
            connection.close()
            raise
        begins = connection.headers.get("last-event-id")
        if self._place is None:
            self._place = begins
        self._behind_gap = begins
        self._connection, self._pieces, self._text = connection, connection.pieces(), b""

    async def _reconnect(self) -> None:
        """Tries once, and waits if that was in vain."""
        try:
            await self._connect()
            return
        except MeshError as error:
            # What will be refused the next time too is the end.
            if error.status not in (429, 503) or error.code == "member_revoked":
                raise
        except (DaemonUnreachable, _http.Lost, asyncio.TimeoutError):
            pass
        await asyncio.sleep(self._pause * random.uniform(1.0, 1.25))
        self._pause = min(self._pause * 2, LONGEST_WAIT_S)

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        pieces, self._pieces = self._pieces, None
        if pieces is not None and hasattr(pieces, "aclose"):
            # Somebody may be waiting for the next one: that ends with the connection.
            with contextlib.suppress(RuntimeError):
                await pieces.aclose()

    async def _pull(self) -> bool:
        """Reads until something waits to be given; true when the stream is over.

        What was read is noted before anything is waited for: a caller that stops waiting loses nothing.
        """
        while not self._waiting and self._gap is None:
            block, separator, rest = self._text.partition(b"\n\n")
            if separator:
                self._text = rest
                event = read_block(block)
                if event is not None:
                    self._take(event)
                continue
            if len(self._text) > BLOCK_LIMIT:
                raise ProtocolError("an event is too long to be one")
            if self._pieces is None:
                return True
            try:
                self._text += await self._pieces.__anext__()
            except StopAsyncIteration:
                return True
            self._pause = FIRST_WAIT_S
        return False

    # ---- once each

    def _take(self, event: Event) -> None:
        """Notes an event, and leaves it to be given unless it was."""
        if isinstance(event.data, GapEvent):
            # What came before the oldest that is remembered was given.
            self._gap, self._cursor = max(since(event.data), after(self._forgotten)), None
        else:
            self._place = event.id
        if event.message is None or self._is_new(event.message):
            self._waiting.append(event)

    def _is_new(self, message: MessageEvent) -> bool:
        if message.id in self._given:
            return False
        self._given[message.id] = message.ts
        if len(self._given) > REMEMBERED:
            self._forgotten = self._given.popitem(last=False)[1]
        return True

    async def _recover(self) -> None:
        """Reads a page of what was missed; behind the last page the stream goes on where it was opened."""
        behind = self._behind_gap
        if self._names is None or "message" in self._names:
            try:
                page = await self._mesh.inbox(
                    since=self._gap, topic=self._topic, order="oldest", cursor=self._cursor, limit=PAGE, mark_seen=False
                )
            except MeshError as error:
                if error.status not in (429, 503) or error.code == "member_revoked":
                    raise
                page = None
            except HostelError:
                page = None
            if page is None:
                await asyncio.sleep(self._pause)
                return
            news = (message_of(item) for item in page.items)
            self._waiting.extend(
                Event(id="", name="message", data=message, recovered=True) for message in news if self._is_new(message)
            )
            self._cursor = page.next
        if self._cursor is None:
            self._gap = None
            self._place = behind


def since(gap: GapEvent) -> str:
    """From when on something may be missing."""
    found = parse_qs(urlsplit(gap.resume).query).get("since")
    return found[0] if found else "1970-01-01T00:00:00Z"


def after(ts: str | None) -> str:
    """The first moment behind one; the beginning of time for none."""
    if ts is None:
        return ""
    moment = datetime.fromisoformat(ts.replace("Z", "+00:00")) + timedelta(milliseconds=1)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"


def message_of(item: InboxItem) -> MessageEvent:
    """A message of the inbox as the event it would have been."""
    return MessageEvent(
        ts=item.received_at,
        id=item.id,
        mesh=item.mesh,
        kind=item.kind,
        client_message_id=item.client_message_id,
        broker_message_id=item.broker_message_id,
        sender_pubkey=item.sender_pubkey,
        sender_member_pubkey=item.sender_pubkey,
        sender_member_id=item.sender_member_id,
        sender_name=item.sender_name,
        topic=item.topic,
        reply_to_id=item.reply_to_id,
        priority=item.priority,
        body=item.body,
        meta=item.meta,
        mentions=item.mentions,
        mention=item.mention,
        created_at=item.created_at,
        recipient_pubkey=item.recipient_pubkey,
        recipient_kind=item.recipient_kind,
        recipient_session=item.recipient_session,
        decrypt_error=item.decrypt_error,
        file=item.file,
    )


def read_block(block: bytes) -> Event | None:
    """One block of the stream; none for a comment."""
    fields = {"id": "", "event": "message", "data": ""}
    for line in block.decode("utf-8", "replace").split("\n"):
        name, _, value = line.partition(":")
        if name in fields:
            fields[name] = value[1:] if value.startswith(" ") else value
    if not fields["data"]:
        return None
    try:
        data = json.loads(fields["data"])
    except ValueError as error:
        raise ProtocolError(f"the data of an event is no JSON: {error}") from error
    read = EVENTS.get(fields["event"])
    return Event(id=fields["id"], name=fields["event"], data=read(data) if read else data)
