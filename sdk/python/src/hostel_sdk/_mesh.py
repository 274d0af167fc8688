"""A mesh daemon: messages, topics, the inbox, peers, files and events."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
import uuid
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Literal
from urllib.parse import quote, urlencode

from . import _discovery, _http
from ._errors import ConnectionLost, DaemonUnreachable, IncompatibleDaemon, MeshError, ProtocolError
from ._events import EventStream
from .models import (
    IPC_API,
    IPC_MINOR,
    Compat,
    Deleted,
    Fetched,
    FileItem,
    FileList,
    Health,
    Heartbeat,
    InboxPage,
    Peer,
    PeerList,
    Priority,
    ProfileApplied,
    SearchPage,
    Seen,
    Sent,
    Shared,
    Subscribed,
    Topic,
    TopicList,
    Version,
)

FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 1.0
TRANSFER_S = 900.0


class Mesh:
    """The daemon of one mesh.

    >>> async with await Mesh.connect() as mesh:
    ...     await mesh.send("bob", "hello")

    A request whose connection breaks is repeated for `timeout` seconds where that is safe: sends carry an id, so that one
    that arrived before is not sent again.
    """

    def __init__(
        self,
        mesh: str | None = None,
        *,
        daemon_dir: str | os.PathLike[str] | None = None,
        session_token: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._root = _discovery.daemon_root(daemon_dir)
        self._chosen = mesh
        # Inside a hook there is no question which daemon is meant.
        self._hook = None if mesh or daemon_dir else _discovery.hook_socket()
        self._session_token = session_token
        self._timeout = timeout
        self._greeted = False
        self.mesh = mesh or ""
        """The name of the mesh, once it is known."""
        self.ipc_minor = 0
        """What both sides understand: the smaller of the daemon's minor and ours."""

    @classmethod
    async def connect(
        cls,
        mesh: str | None = None,
        *,
        daemon_dir: str | os.PathLike[str] | None = None,
        session_token: str | None = None,
        timeout: float = 30.0,
    ) -> Mesh:
        """Finds the daemon and makes sure that it is understood."""
        client = cls(mesh, daemon_dir=daemon_dir, session_token=session_token, timeout=timeout)
        await client.version()
        return client

    async def __aenter__(self) -> Mesh:
        if not self._greeted:
            await self.version()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    # ---- messages

    async def send(
        self,
        to: str,
        message: str,
        *,
        priority: Priority | None = None,
        meta: Mapping[str, Any] | None = None,
        reply_to: str | None = None,
        mentions: Iterable[str] | None = None,
        client_message_id: str | None = None,
    ) -> Sent:
        """Sends to a name, a public key, `#topic`, `@group`, `*` or `host/session`. What is answered is on disk."""
        more = _message(priority, meta, reply_to, mentions, client_message_id)
        return Sent.from_json(await self._post("/v1/send", {"to": to, "message": message, **more}))

    async def post(
        self,
        topic: str,
        message: str,
        *,
        priority: Priority | None = None,
        meta: Mapping[str, Any] | None = None,
        reply_to: str | None = None,
        mentions: Iterable[str] | None = None,
        client_message_id: str | None = None,
    ) -> Sent:
        """Posts to a topic."""
        more = _message(priority, meta, reply_to, mentions, client_message_id)
        return Sent.from_json(await self._post("/v1/topic/post", {"topic": topic, "message": message, **more}))

    # ---- topics

    async def subscribe(self, topic: str) -> Subscribed:
        """Subscribes to a topic; makes one that is not there."""
        return Subscribed.from_json(await self._post("/v1/topic/subscribe", {"topic": topic}))

    async def unsubscribe(self, topic: str) -> Subscribed:
        """Leaves a topic."""
        return Subscribed.from_json(await self._post("/v1/topic/unsubscribe", {"topic": topic}))

    async def topics(self) -> list[Topic]:
        """The topics there are."""
        return TopicList.from_json(await self._get("/v1/topic/list")).topics

    # ---- inbox

    async def inbox(
        self,
        *,
        since: str | None = None,
        topic: str | None = None,
        sender: str | None = None,
        limit: int | None = None,
        unread_only: bool | None = None,
        mark_seen: bool | None = None,
        order: Literal["newest", "oldest"] | None = None,
        session: str | None = None,
        cursor: str | None = None,
    ) -> InboxPage:
        """A page of what was received; it counts as seen unless `mark_seen` is false."""
        query = {
            "since": since,
            "topic": topic,
            "from": sender,
            "limit": limit,
            "unread_only": unread_only,
            "mark_seen": mark_seen,
            "order": order,
            "session": session,
            "cursor": cursor,
        }
        return InboxPage.from_json(await self._get("/v1/inbox", query))

    async def search(self, query: str, *, limit: int | None = None) -> SearchPage:
        """Looks for words."""
        return SearchPage.from_json(await self._get("/v1/inbox/search", {"q": query, "limit": limit}))

    async def mark_seen(self, ids: Iterable[str]) -> int:
        """Marks messages as seen; how many were not."""
        return Seen.from_json(await self._post("/v1/inbox/seen", {"ids": list(ids)})).marked_seen

    async def delete(self, id: str) -> int:
        """Deletes a message."""
        # Not repeated once it was sent: the second time there is nothing to delete.
        answer = await self._call("DELETE", "/v1/inbox/" + quote(id, safe=""), again=False)
        return Deleted.from_json(answer).deleted

    async def delete_before(self, before: str) -> int:
        """Deletes what came before a time."""
        return Deleted.from_json(await self._call("DELETE", "/v1/inbox", {"before": before})).deleted

    # ---- people

    async def peers(self, *, all: bool | None = None) -> list[Peer]:
        """Who is there; with `all` also who is not."""
        return PeerList.from_json(await self._get("/v1/peers", {"all": all})).peers

    async def profile(
        self,
        *,
        summary: str | None = None,
        status: Literal["idle", "working", "dnd"] | None = None,
        visible: bool | None = None,
        avatar: str | None = None,
        title: str | None = None,
        bio: str | None = None,
        capabilities: Iterable[str] | None = None,
    ) -> ProfileApplied:
        """Changes what peers see."""
        change = {
            "summary": summary,
            "status": status,
            "visible": visible,
            "avatar": avatar,
            "title": title,
            "bio": bio,
            "capabilities": None if capabilities is None else list(capabilities),
        }
        return ProfileApplied.from_json(await self._post("/v1/profile", _present(change)))

    async def heartbeat(self) -> str:
        """Says that something works here; the daemon's time."""
        return Heartbeat.from_json(await self._post("/v1/heartbeat", {})).ts

    # ---- files

    async def share_file(
        self,
        path: str | os.PathLike[str],
        *,
        to: str | None = None,
        message: str | None = None,
        persistent: bool | None = None,
        tags: Iterable[str] | None = None,
    ) -> Shared:
        """Shares a file of the daemon's host."""
        body = {
            "path": os.path.abspath(path),
            "to": to,
            "message": message,
            "persistent": persistent,
            "tags": None if tags is None else list(tags),
        }
        # Shared twice it would be there twice.
        answer = await self._call("POST", "/v1/file/share", body=_present(body), again=False, timeout=TRANSFER_S)
        return Shared.from_json(answer)

    async def get_file(self, id: str, out: str | os.PathLike[str]) -> Fetched:
        """Fetches a file to a path on the daemon's host."""
        query = {"id": id, "out": os.path.abspath(out)}
        return Fetched.from_json(await self._call("GET", "/v1/file/get", query, timeout=TRANSFER_S))

    async def files(self) -> list[FileItem]:
        """The files there are."""
        return FileList.from_json(await self._get("/v1/file/list")).files

    # ---- events

    def events(
        self,
        events: Iterable[str] | None = None,
        *,
        topic: str | None = None,
        last_event_id: str | None = None,
    ) -> EventStream:
        """What happens from now on, or after an event: `async for event in mesh.events(["message"])`.

        It goes on by itself where it was when the daemon is restarted; nothing is missed and nothing comes twice.
        """
        return EventStream(self, None if events is None else list(events), topic, last_event_id)

    # ---- the daemon

    async def health(self) -> Health:
        """How it stands."""
        return Health.from_json(await self._get("/v1/health"))

    async def version(self) -> Version:
        """What it speaks; refuses a daemon of another major version."""
        version = Version.from_json(await self._get("/v1/version"))
        if version.ipc_api.split(".")[0] != IPC_API:
            raise IncompatibleDaemon(f"the daemon speaks {version.ipc_api}, this package {IPC_API}")
        self.mesh = version.mesh
        self.ipc_minor = min(version.ipc_minor, IPC_MINOR)
        self._greeted = True
        return version

    async def compat(self) -> Compat:
        """What it goes together with."""
        return Compat.from_json(await self._get("/v1/compat"))

    async def metrics(self) -> str:
        """Prometheus."""
        return (await self._ask("GET", "/v1/metrics", None, None, True, self._timeout)).decode()

    # ---- how it is asked

    def _doors(self, shown: bool = True) -> list[_discovery.Door]:
        authorization = _discovery.shown(self._session_token)
        if self._hook is not None:
            found = [_discovery.Door(socket=self._hook, authorization=authorization)]
        else:
            # Looked up once, and then it stays: another daemon that starts later is not meant.
            self._chosen = _discovery.mesh_name(self._root, self._chosen)
            found = _discovery.doors(self._root, self._chosen, authorization)
        if shown:
            return found
        return [_discovery.Door(socket=door.socket) if door.socket else door for door in found]

    async def _get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        return await self._call("GET", path, query)

    async def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        return await self._call("POST", path, body=body)

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        *,
        body: Mapping[str, Any] | None = None,
        again: bool = True,
        timeout: float | None = None,
    ) -> Any:
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        if not self._greeted and path != "/v1/version":
            await self.version()
        return _read(await self._ask(method, target(path, query), None, content, again, timeout or self._timeout))

    async def _ask(
        self,
        method: str,
        path: str,
        headers: dict[str, str] | None,
        body: bytes | None,
        again: bool,
        timeout: float,
    ) -> bytes:
        """Asks, and asks again where that is safe, until the time is over."""
        end = time.monotonic() + timeout
        pause = FIRST_WAIT_S
        while True:
            left = max(end - time.monotonic(), 0.1)
            try:
                # What the daemon speaks is for everybody who reaches it, whatever else they may.
                doors = self._doors(shown=path != "/v1/version")
                answer = await _http.request(doors, method, path, headers or {}, body, left)
            except _http.NotSent as error:
                if not self._greeted or time.monotonic() + pause > end:
                    raise DaemonUnreachable(f"nobody answers: {error}; {_discovery.START}") from error
            except _http.Lost as error:
                if not again or time.monotonic() + pause > end:
                    raise ConnectionLost(f"{method} {path.split('?')[0]}: {error}") from error
            else:
                if answer.status < 400:
                    return answer.body
                refused = refusal(answer.status, answer.headers, answer.body)
                wait = refused.retry_after
                if answer.status != 429 or not again or wait is None or time.monotonic() + wait > end:
                    raise refused
                pause = max(pause, wait)
            await asyncio.sleep(pause * random.uniform(1.0, 1.25))
            pause = min(pause * 2, LONGEST_WAIT_S)


def target(path: str, query: Mapping[str, Any] | None) -> str:
    """A path with its query; what is absent is left out."""
    pairs = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in (query or {}).items()
        if value is not None
    }
    return path + ("?" + urlencode(pairs) if pairs else "")


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> MeshError:
    """The error of an answer."""
    try:
        read = json.loads(body)
    except ValueError:
        read = None
    after = headers.get("retry-after", "")
    wait = float(after) if after.isdigit() else None
    return MeshError(status, read if isinstance(read, dict) else {"error": "unknown", "detail": f"status {status}"}, wait)


def _read(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise ProtocolError(f"the answer is no JSON: {error}") from error


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _message(
    priority: str | None,
    meta: Mapping[str, Any] | None,
    reply_to: str | None,
    mentions: Iterable[str] | None,
    client_message_id: str | None,
) -> dict[str, Any]:
    return _present(
        {
            "priority": priority,
            "meta": None if meta is None else dict(meta),
            "replyToId": reply_to,
            "mentions": None if mentions is None else list(mentions),
            # One id for all attempts.
            "client_message_id": uuid.uuid4().hex if client_message_id is None else client_message_id,
        }
    )
