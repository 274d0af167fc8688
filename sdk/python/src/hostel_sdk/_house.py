"""The house: agent sessions over its own socket (JSON-RPC, one object per line)."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from . import _discovery
from ._errors import ConnectionLost, DaemonUnreachable, HouseError, IncompatibleDaemon, ProtocolError, TurnFailed
from ._sockets import connect_unix
from .models import (
    NATIVE_PROTOCOL,
    UPDATES,
    Acknowledged,
    Agent,
    AgentList,
    ApprovalRequest,
    Attached,
    Cancelled,
    Closed,
    Decision,
    Initialized,
    Interrupted,
    Killed,
    MeshPolicy,
    Mode,
    PromptSent,
    ReplayComplete,
    ReplayFailed,
    SessionClosed,
    SessionDeleted,
    SessionInfo,
    SessionList,
    SessionMade,
    SessionMessages,
    TurnComplete,
    Update,
    UpdateGap,
)

CONNECT_S = 2.0
LINE_LIMIT = 16 * 1024 * 1024
FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 2.0

Decide = Callable[[ApprovalRequest], "Decision | Awaitable[Decision]"]
"""Says what becomes of an agent's request."""


@dataclass(frozen=True)
class OtherUpdate:
    """An update that this package does not know."""

    type: str
    session_id: str
    raw: dict[str, Any]


class _Lost(Exception):
    """The connection broke."""


class _Line:
    """One connection to the house: requests one after the other, and what is told in between."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._number = 0
        self.greeting: Initialized | None = None

    @classmethod
    async def open(cls, socket: Path, identity: Mapping[str, str]) -> _Line:
        try:
            streams = await asyncio.wait_for(connect_unix(socket, LINE_LIMIT), CONNECT_S)
        except (OSError, asyncio.TimeoutError) as error:
            raise DaemonUnreachable(f"{socket}: {error or 'no answer'}; start the house with `hostel up`") from error
        line = cls(*streams)
        try:
            answer = await line.ask("initialize", {"protocol_version": NATIVE_PROTOCOL, **identity})
        except HouseError as error:
            line.close()
            if error.code == -32011:
                raise IncompatibleDaemon(error.message) from error
            raise
        except BaseException:
            line.close()
            raise
        line.greeting = Initialized.from_json(answer)
        return line

    async def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """A request and its answer; updates before it are passed over."""
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": dict(params)}
        try:
            self._writer.write(json.dumps(request, ensure_ascii=False).encode() + b"\n")
            await self._writer.drain()
        except OSError as error:
            raise _Lost(str(error)) from error
        while True:
            frame = await self.frame()
            if frame.get("id") != self._number:
                continue
            refused = frame.get("error")
            if isinstance(refused, dict):
                raise HouseError(int(refused.get("code", 0)), str(refused.get("message", "")))
            return frame.get("result")

    async def frame(self) -> dict[str, Any]:
        """The next line."""
        try:
            text = await self._reader.readuntil(b"\n")
        except (OSError, asyncio.IncompleteReadError) as error:
            raise _Lost("the house has hung up") from error
        except asyncio.LimitOverrunError as error:
            raise ProtocolError("a line is too long") from error
        try:
            frame = json.loads(text)
        except ValueError as error:
            raise ProtocolError(f"a line is no JSON: {error}") from error
        if not isinstance(frame, dict):
            raise ProtocolError("a line is no object")
        return frame

    def close(self) -> None:
        self._writer.close()


class House:
    """The house of this user.

    >>> async with await House.connect() as house:
    ...     session = await house.create_session("claude", cwd="/src")
    ...     print((await session.prompt("What is here?")).content)
    """

    def __init__(
        self,
        home: str | os.PathLike[str] | None = None,
        *,
        socket: str | os.PathLike[str] | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._socket = Path(socket) if socket else _discovery.house_socket(home)
        self._timeout = timeout
        self._line: _Line | None = None
        self._turn = asyncio.Lock()
        self._identity: dict[str, str] = {}

    @classmethod
    async def connect(
        cls,
        home: str | os.PathLike[str] | None = None,
        *,
        socket: str | os.PathLike[str] | None = None,
        timeout: float = 30.0,
    ) -> House:
        """Finds the house and makes sure that it is understood."""
        house = cls(home, socket=socket, timeout=timeout)
        async with house._turn:
            await house._connected()
        return house

    async def __aenter__(self) -> House:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hangs up; sessions and turns go on."""
        line, self._line = self._line, None
        if line is not None:
            line.close()

    # ---- sessions

    async def agents(self) -> list[Agent]:
        """The agents that can be asked for."""
        return AgentList.from_json(await self._call("agents/list", {})).agents

    async def sessions(
        self, *, all: bool | None = None, query: str | None = None, limit: int | None = None
    ) -> list[SessionInfo]:
        """Live sessions, newest first; with `all` also those that were closed."""
        params = {"all": all, "query": query, "limit": limit}
        return SessionList.from_json(await self._call("session/list", params)).sessions

    async def create_session(
        self,
        agent: str,
        *,
        cwd: str | os.PathLike[str] | None = None,
        name: str | None = None,
        mode: Mode | None = None,
        model: str | None = None,
        hosting: Literal["warm", "per-message"] | None = None,
        mesh: MeshPolicy | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Makes a session; with the id of one that exists, takes it over or brings it back."""
        params = {
            "agent_alias": agent,
            "cwd": None if cwd is None else os.path.abspath(cwd),
            "name": name,
            "mode": mode,
            "model": model,
            "hosting": hosting,
            "mesh": mesh,
            # One id for all attempts: none makes a second session.
            "session_id": session_id or str(uuid.uuid4()),
        }
        made = SessionMade.from_json(await self._call("session/new", params))
        return Session(self, made.session_id, made)

    def session(self, session_id: str) -> Session:
        """A session by its id; nothing is asked."""
        return Session(self, session_id, None)

    # ---- how it is asked

    async def _connected(self) -> _Line:
        if self._line is None:
            self._line = await _Line.open(self._socket, self._identity)
            greeting = self._line.greeting
            if greeting is not None:
                # Who comes back is who was here before.
                self._identity = {"tui_id": greeting.tui_id}
                if greeting.tui_sig is not None:
                    self._identity["tui_sig"] = greeting.tui_sig
        return self._line

    async def _call(self, method: str, params: Mapping[str, Any], *, again: bool = True) -> Any:
        """Asks; asks again after a lost connection where that is safe."""
        present = {name: value for name, value in params.items() if value is not None}
        end = asyncio.get_running_loop().time() + self._timeout
        pause = FIRST_WAIT_S
        met = self._line is not None or bool(self._identity)
        async with self._turn:
            if not again:
                # A line that nobody is at the other end of any more shows only when it is used: take a new one.
                self.close()
            while True:
                sent = False
                try:
                    line = await self._connected()
                    sent = True
                    return await asyncio.wait_for(line.ask(method, present), self._timeout)
                except DaemonUnreachable:
                    if not met or asyncio.get_running_loop().time() + pause > end:
                        raise
                except (_Lost, asyncio.TimeoutError) as error:
                    self.close()
                    if (sent and not again) or asyncio.get_running_loop().time() + pause > end:
                        raise ConnectionLost(f"{method}: {error or 'no answer in time'}") from error
                except BaseException as error:
                    if not isinstance(error, HouseError):
                        # Whatever comes on this line next is not known.
                        self.close()
                    raise
                await asyncio.sleep(pause * random.uniform(1.0, 1.25))
                pause = min(pause * 2, LONGEST_WAIT_S)


class Session:
    """An agent session of the house."""

    def __init__(self, house: House, session_id: str, made: SessionMade | None) -> None:
        self._house = house
        self.id = session_id
        self.made = made
        """What the house said when it was made."""

    async def send(self, prompt: str) -> PromptSent:
        """Puts a prompt to the agent, once; it is on disk when this returns. Not repeated when the connection breaks."""
        answer = await self._house._call("session/send", {"session_id": self.id, "prompt": prompt}, again=False)
        return PromptSent.from_json(answer)

    async def prompt(self, prompt: str, *, approve: Decide | None = None) -> TurnComplete:
        """Puts a prompt to the agent and waits for the end of its turn.

        `approve` is asked about what the agent wants to do; without it somebody else has to decide. A turn that fails or
        is stopped is a `TurnFailed`.
        """
        sent = await self.send(prompt)
        stream = self.stream(since_seq=sent.after_seq)
        try:
            async for update in stream:
                if isinstance(update, ApprovalRequest) and approve is not None and update.turn == sent.turn:
                    decision = approve(update)
                    await self.approve(update, await decision if inspect.isawaitable(decision) else decision)
                if isinstance(update, TurnComplete) and update.turn == sent.turn:
                    if update.outcome != "completed":
                        raise TurnFailed(update)
                    return update
                if isinstance(update, SessionClosed):
                    break
        finally:
            await stream.close()
        raise ConnectionLost(f"session {self.id} was closed before the turn was over")

    def stream(self, *, since_seq: int = 0, follow: bool = True) -> UpdateStream:
        """What happened after a number and what happens: `async for update in session.stream()`.

        It goes on by itself where it was when the house is restarted.
        """
        return UpdateStream(self._house, self.id, since_seq, follow)

    async def approve(
        self,
        request: ApprovalRequest | str,
        decision: Decision = "allow_once",
        *,
        replacement: str | None = None,
        answers: Mapping[str, str] | None = None,
        passphrase: str | None = None,
    ) -> Acknowledged:
        """Decides what an agent asks for."""
        params = {
            "session_id": self.id,
            "request_id": request if isinstance(request, str) else request.request_id,
            "decision": decision,
            "replacement": replacement,
            "answers": None if answers is None else dict(answers),
            "passphrase": passphrase,
        }
        return Acknowledged.from_json(await self._house._call("session/approve", params))

    async def deny(self, request: ApprovalRequest | str, reason: str | None = None) -> Acknowledged:
        """Refuses what an agent asks for."""
        return await self.approve(request, "reject", replacement=reason)

    async def messages(self, *, limit: int | None = None, before_index: int | None = None) -> SessionMessages:
        """Questions and answers, paged from the end."""
        params = {"session_id": self.id, "limit": limit, "before_index": before_index}
        return SessionMessages.from_json(await self._house._call("session/messages", params))

    async def cancel(self) -> None:
        """Stops the running turn."""
        Cancelled.from_json(await self._house._call("session/cancel", {"session_id": self.id}, again=False))

    async def interrupt(self) -> bool:
        """Stops the running turn and takes back what waits; whether there was anything."""
        return Interrupted.from_json(await self._house._call("session/interrupt", {"session_id": self.id})).interrupted

    async def close(self) -> None:
        """Closes it; its history stays, and it can be brought back."""
        Closed.from_json(await self._house._call("session/close", {"session_id": self.id}, again=False))

    async def kill(self) -> None:
        """Closes it for good."""
        Killed.from_json(await self._house._call("session/kill", {"session_id": self.id}, again=False))

    async def delete(self) -> bool:
        """Closes it and forgets its history; whether there was one."""
        answer = await self._house._call("session/delete", {"session_id": self.id}, again=False)
        return SessionDeleted.from_json(answer).deleted


class UpdateStream:
    """The updates of a session, on a connection of its own."""

    def __init__(self, house: House, session_id: str, since_seq: int, follow: bool) -> None:
        self._house = house
        self._session = session_id
        self._follow = follow
        self.seq = since_seq
        """Where the stream is: give it to `Session.stream` to go on later."""
        self._line: _Line | None = None
        self._opened = False
        self._closed = False
        self._pause = FIRST_WAIT_S

    async def __aenter__(self) -> UpdateStream:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Opens the stream; the first update asked for does it too."""
        if not self._opened:
            try:
                await self._attach()
            except _Lost as error:
                raise DaemonUnreachable(str(error)) from error
            self._opened = True

    async def close(self) -> None:
        """Ends it."""
        self._closed = True
        self._hang_up()

    def __aiter__(self) -> AsyncIterator[Update | OtherUpdate]:
        return self

    async def __anext__(self) -> Update | OtherUpdate:
        while not self._closed:
            await self.open()
            try:
                if self._line is None:
                    await self._attach()
                assert self._line is not None
                frame = await self._line.frame()
            except (_Lost, DaemonUnreachable, asyncio.TimeoutError):
                self._hang_up()
                await asyncio.sleep(self._pause * random.uniform(1.0, 1.25))
                self._pause = min(self._pause * 2, LONGEST_WAIT_S)
                continue
            self._pause = FIRST_WAIT_S
            update = self._read(frame)
            if update is not None:
                return update
        raise StopAsyncIteration

    def _read(self, frame: dict[str, Any]) -> Update | OtherUpdate | None:
        params = frame.get("params")
        if frame.get("method") != "session/update" or not isinstance(params, dict):
            return None
        if params.get("session_id") != self._session:
            return None
        kind = params.get("type")
        read = UPDATES.get(kind) if isinstance(kind, str) else None
        if read is None:
            return OtherUpdate(str(kind), self._session, params)
        update = read(params)
        seq = update.to_seq if isinstance(update, UpdateGap) else getattr(update, "seq", None)
        if seq is not None:
            if seq <= self.seq:
                return None
            self.seq = seq
        if isinstance(update, (ReplayComplete, ReplayFailed, SessionClosed)):
            self._closed = True
            self._hang_up()
        return update

    async def _attach(self) -> None:
        line = await _Line.open(self._house._socket, {})
        try:
            params = {"session_id": self._session, "since_seq": self.seq, "follow": self._follow}
            Attached.from_json(await asyncio.wait_for(line.ask("session/attach", params), self._house._timeout))
        except BaseException:
            line.close()
            raise
        self._line = line

    def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()
