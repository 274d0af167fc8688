"""The same for scripts that do not use asyncio: every call waits for its answer.

>>> from hostel_sdk.sync import Mesh
>>> Mesh().send("bob", "the build is green")

One thread at a time: an object belongs to the thread that made it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from . import _house, _mesh
from ._events import Event
from ._house import OtherUpdate
from .models import SessionMade, Update

_P = ParamSpec("_P")
_T = TypeVar("_T")
_U = TypeVar("_U")


class _Loop:
    """An event loop that runs only while somebody waits."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Awaitable[_T]) -> _T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()

        async def wait() -> _T:
            return await work

        return self._loop.run_until_complete(wait())

    def iterate(self, items: AsyncIterator[_T], end: Callable[[], Awaitable[None]]) -> Iterator[_T]:
        try:
            while True:
                try:
                    item = self.run(items.__anext__())
                except StopAsyncIteration:
                    return
                yield item
        finally:
            self.run(end())

    def close(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()


def _same(_: Any, value: Any) -> Any:
    return value


@overload
def _blocking(
    method: Callable[Concatenate[Any, _P], Awaitable[_T]],
) -> Callable[Concatenate[Any, _P], _T]: ...


@overload
def _blocking(
    method: Callable[Concatenate[Any, _P], Awaitable[_T]], into: Callable[[Any, _T], _U]
) -> Callable[Concatenate[Any, _P], _U]: ...


def _blocking(
    method: Callable[Concatenate[Any, _P], Awaitable[Any]], into: Callable[[Any, Any], Any] = _same
) -> Callable[Concatenate[Any, _P], Any]:
    """A method of the asynchronous class as one that waits."""

    @wraps(method)
    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> Any:
        return into(self, self._loop.run(method(self._inner, *args, **kwargs)))

    return call


class Mesh:
    """The daemon of one mesh; see `hostel_sdk.Mesh`."""

    def __init__(
        self,
        mesh: str | None = None,
        *,
        daemon_dir: str | os.PathLike[str] | None = None,
        session_token: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._loop = _Loop()
        self._inner = _mesh.Mesh(mesh, daemon_dir=daemon_dir, session_token=session_token, timeout=timeout)

    @property
    def mesh(self) -> str:
        """The name of the mesh, once it is known."""
        return self._inner.mesh

    @property
    def ipc_minor(self) -> int:
        """What both sides understand, once it is known."""
        return self._inner.ipc_minor

    send = _blocking(_mesh.Mesh.send)
    post = _blocking(_mesh.Mesh.post)
    subscribe = _blocking(_mesh.Mesh.subscribe)
    unsubscribe = _blocking(_mesh.Mesh.unsubscribe)
    topics = _blocking(_mesh.Mesh.topics)
    inbox = _blocking(_mesh.Mesh.inbox)
    search = _blocking(_mesh.Mesh.search)
    mark_seen = _blocking(_mesh.Mesh.mark_seen)
    delete = _blocking(_mesh.Mesh.delete)
    delete_before = _blocking(_mesh.Mesh.delete_before)
    peers = _blocking(_mesh.Mesh.peers)
    profile = _blocking(_mesh.Mesh.profile)
    heartbeat = _blocking(_mesh.Mesh.heartbeat)
    share_file = _blocking(_mesh.Mesh.share_file)
    get_file = _blocking(_mesh.Mesh.get_file)
    files = _blocking(_mesh.Mesh.files)
    health = _blocking(_mesh.Mesh.health)
    version = _blocking(_mesh.Mesh.version)
    compat = _blocking(_mesh.Mesh.compat)
    metrics = _blocking(_mesh.Mesh.metrics)

    def events(
        self, events: Iterable[str] | None = None, *, topic: str | None = None, last_event_id: str | None = None
    ) -> Iterator[Event]:
        """What happens from now on; see `hostel_sdk.Mesh.events`."""
        stream = self._inner.events(events, topic=topic, last_event_id=last_event_id)
        # From here on nothing is missed, also before the first one is asked for.
        self._loop.run(stream.open())
        return self._loop.iterate(stream, stream.close)

    def close(self) -> None:
        """Ends it."""
        self._loop.close()

    def __enter__(self) -> Mesh:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class House:
    """The house of this user; see `hostel_sdk.House`."""

    def __init__(
        self,
        home: str | os.PathLike[str] | None = None,
        *,
        socket: str | os.PathLike[str] | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._loop = _Loop()
        self._inner = self._loop.run(_house.House.connect(home, socket=socket, timeout=timeout))

    agents = _blocking(_house.House.agents)
    sessions = _blocking(_house.House.sessions)
    create_session = _blocking(_house.House.create_session, lambda self, made: Session(self, made))

    def session(self, session_id: str) -> Session:
        """A session by its id; nothing is asked."""
        return Session(self, self._inner.session(session_id))

    def close(self) -> None:
        """Hangs up; sessions and turns go on."""
        self._inner.close()
        self._loop.close()

    def __enter__(self) -> House:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Session:
    """An agent session of the house; see `hostel_sdk.Session`."""

    def __init__(self, house: House, inner: _house.Session) -> None:
        self._loop = house._loop
        self._inner = inner

    @property
    def id(self) -> str:
        """Its id."""
        return self._inner.id

    @property
    def made(self) -> SessionMade | None:
        """What the house said when it was made."""
        return self._inner.made

    send = _blocking(_house.Session.send)
    prompt = _blocking(_house.Session.prompt)
    approve = _blocking(_house.Session.approve)
    deny = _blocking(_house.Session.deny)
    messages = _blocking(_house.Session.messages)
    cancel = _blocking(_house.Session.cancel)
    interrupt = _blocking(_house.Session.interrupt)
    close = _blocking(_house.Session.close)
    kill = _blocking(_house.Session.kill)
    delete = _blocking(_house.Session.delete)

    def stream(self, *, since_seq: int = 0, follow: bool = True) -> Iterator[Update | OtherUpdate]:
        """What happened after a number and what happens; see `hostel_sdk.Session.stream`."""
        stream = self._inner.stream(since_seq=since_seq, follow=follow)
        return self._loop.iterate(stream, stream.close)
