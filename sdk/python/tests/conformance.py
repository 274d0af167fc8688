"""Runs the shared vectors (sdk/vectors/README.md) or the soak (sdk/conformance/README.md) with this SDK.

    conformance.py VECTORS LAB
    conformance.py soak LAB
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from hostel_sdk import Event, EventStream, HostelError, House, HouseError, Mesh, MeshError, OtherUpdate, UpdateStream  # noqa: E402

TAKE_S = 60.0

Arguments = dict[str, Any]
Call = Callable[[Arguments], Awaitable[Any]]


def written(value: Any) -> Any:
    """A typed result as JSON."""
    if isinstance(value, Event):
        return {"id": value.id, "name": value.name, "data": written(value.data)}
    if isinstance(value, OtherUpdate):
        return value.raw
    if isinstance(value, list):
        return [written(item) for item in value]
    return value.to_json() if hasattr(value, "to_json") else value


def error_of(error: BaseException) -> Arguments:
    if isinstance(error, MeshError):
        return {"status": error.status, "code": error.code, "field": error.field}
    if isinstance(error, HouseError):
        return {"code": error.code, "message": error.message}
    if isinstance(error, asyncio.TimeoutError):
        return {"code": "timeout"}
    if isinstance(error, HostelError):
        return {"code": error.code}
    raise error


def renamed(arguments: Arguments, **names: str) -> Arguments:
    return {names.get(name, name): value for name, value in arguments.items()}


def mesh_calls(mesh: Mesh) -> dict[str, Call]:
    """The operations of the schema as calls of the SDK."""

    async def seen(given: Arguments) -> Any:
        return {"ok": True, "marked_seen": await mesh.mark_seen(**given)}

    async def deleted(given: Arguments) -> Any:
        return {"ok": True, "deleted": await mesh.delete(**given)}

    async def deleted_before(given: Arguments) -> Any:
        return {"ok": True, "deleted": await mesh.delete_before(**given)}

    async def heartbeat(given: Arguments) -> Any:
        return {"ok": True, "ts": await mesh.heartbeat(**given)}

    return {
        "send": lambda given: mesh.send(**renamed(given, replyToId="reply_to")),
        "topic_post": lambda given: mesh.post(**renamed(given, replyToId="reply_to")),
        "topic_subscribe": lambda given: mesh.subscribe(**given),
        "topic_unsubscribe": lambda given: mesh.unsubscribe(**given),
        "topic_list": lambda given: mesh.topics(**given),
        "inbox": lambda given: mesh.inbox(**renamed(given, **{"from": "sender"})),
        "inbox_search": lambda given: mesh.search(**renamed(given, q="query")),
        "inbox_seen": seen,
        "inbox_delete": deleted,
        "inbox_delete_before": deleted_before,
        "peers": lambda given: mesh.peers(**given),
        "profile": lambda given: mesh.profile(**given),
        "file_share": lambda given: mesh.share_file(**given),
        "file_get": lambda given: mesh.get_file(**given),
        "file_list": lambda given: mesh.files(**given),
        "health": lambda given: mesh.health(**given),
        "version": lambda given: mesh.version(**given),
        "compat": lambda given: mesh.compat(**given),
        "metrics": lambda given: mesh.metrics(**given),
        "heartbeat": heartbeat,
    }


def house_calls(house: House) -> dict[str, Call]:
    """The same of the house."""

    async def new(given: Arguments) -> Any:
        return (await house.create_session(**renamed(given, agent_alias="agent"))).made

    def of_session(name: str, answer: str | None = None, says: bool = False) -> Call:
        async def call(given: Arguments) -> Any:
            session = house.session(given.pop("session_id"))
            result = await getattr(session, name)(**renamed(given, request_id="request"))
            if answer is None:
                return result
            return {"session_id": session.id, answer: result if says else True}

        return call

    return {
        "agents_list": lambda given: house.agents(**given),
        "session_new": new,
        "session_list": lambda given: house.sessions(**given),
        "session_send": of_session("send"),
        "session_approve": of_session("approve"),
        "session_messages": of_session("messages"),
        "session_cancel": of_session("cancel", "cancelled"),
        "session_interrupt": of_session("interrupt", "interrupted", says=True),
        "session_close": of_session("close", "closed"),
        "session_kill": of_session("kill", "killed"),
        "session_delete": of_session("delete", "deleted", says=True),
    }


class Runner:
    """Goes through the vectors and writes down what comes back."""

    def __init__(self, lab: Arguments, meshes: dict[str, Mesh], house: House) -> None:
        self.meshes = meshes
        self.house = house
        self.calls = {name: mesh_calls(mesh) for name, mesh in meshes.items()}
        self.calls["house"] = house_calls(house)
        self.known: Arguments = {"dir": lab["dir"], "sdk": lab["sdk"]}
        self.known.update({name: member["pubkey"] for name, member in lab["members"].items()})
        self.variables: Arguments = {}
        self.streams: dict[str, EventStream | UpdateStream] = {}

    def filled(self, value: Any) -> Any:
        """Arguments with their variables put in."""
        if isinstance(value, str):
            alone = value[2:-1] if value.startswith("${") and value.endswith("}") else ""
            if alone in self.variables:
                return self.variables[alone]
            for name, known in self.variables.items():
                value = value.replace("${" + name + "}", str(known))
            return value
        if isinstance(value, list):
            return [self.filled(item) for item in value]
        if isinstance(value, dict):
            if "$repeat" in value:
                text, times = value["$repeat"]
                return text * times
            return {name: self.filled(item) for name, item in value.items()}
        return value

    async def vector(self, number: int, vector: Arguments) -> None:
        self.variables = dict(self.known)
        for index, step in enumerate(vector["steps"]):
            place = {"vector": number, "step": index}
            if "control" in step:
                say({**place, "control": step["control"]})
                sys.stdin.readline()
                continue
            try:
                result = written(await self.step(step))
            except Exception as error:
                say({**place, "error": error_of(error)})
                continue
            say({**place, "ok": result})
            for name, pointer in step.get("capture", {}).items():
                self.variables[name] = pointed(result, pointer)
        for stream in self.streams.values():
            await stream.close()
        self.streams.clear()

    async def step(self, step: Arguments) -> Any:
        given = {name: item for name, item in self.filled(step.get("with", {})).items() if item is not None}
        if "call" in step:
            return await self.calls[step["as"]][step["call"]](given)
        if "open" in step:
            return await self.open(step, given)
        if "take" in step:
            return await asyncio.wait_for(self.take(step), TAKE_S)
        if "close" in step:
            await self.streams.pop(step["close"]).close()
            return None
        if "prompt" in step:
            return (await self.house.session(given["session_id"]).prompt(given["prompt"])).content
        raise SystemExit(f"this runner does not know the step {step}")

    async def open(self, step: Arguments, given: Arguments) -> None:
        stream: EventStream | UpdateStream
        if step["open"] == "events":
            stream = self.meshes[step["as"]].events(**given)
        else:
            stream = self.house.session(given.pop("session_id")).stream(**given)
        await stream.open()
        self.streams[step["stream"]] = stream

    async def take(self, step: Arguments) -> list[Any]:
        stream, taken = self.streams[step["take"]], []
        async for item in stream:
            taken.append(written(item))
            until = step.get("until")
            if len(taken) == step.get("count") or (until and until.items() <= taken[-1].items()):
                break
        return taken


def pointed(value: Any, pointer: str) -> Any:
    """What a JSON pointer leads to."""
    for part in pointer.split("/")[1:]:
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def say(line: Arguments) -> None:
    print(json.dumps(line), flush=True)


async def clients(lab: Arguments) -> tuple[dict[str, Mesh], House]:
    meshes = {
        name: await Mesh.connect(member["mesh"], daemon_dir=member["daemon_dir"])
        for name, member in lab["members"].items()
    }
    return meshes, await House.connect(lab["house"])


async def run(vectors: Path, lab: Arguments) -> None:
    meshes, house = await clients(lab)
    runner = Runner(lab, meshes, house)
    for number, vector in enumerate(json.loads(vectors.read_text())["vectors"]):
        await runner.vector(number, vector)
    house.close()


async def soak(lab: Arguments) -> None:
    meshes = (await clients(lab))[0]
    stream = meshes["bob"].events(["message"])
    await stream.open()
    say({"ready": True})

    async def listen() -> None:
        async for event in stream:
            if event.message is not None:
                say({"event": event.id, "client_message_id": event.message.client_message_id})

    slots = asyncio.Semaphore(8)

    async def send(order: Arguments) -> None:
        async with slots:
            try:
                await meshes["alice"].send(order["to"], order["message"], client_message_id=order["send"])
                say({"sent": order["send"]})
            except HostelError as error:
                say({"failed": order["send"], "error": str(error)})

    listening = asyncio.create_task(listen())
    sending: set[asyncio.Task[None]] = set()
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        task = asyncio.create_task(send(json.loads(line)))
        sending.add(task)
        task.add_done_callback(sending.discard)
        if listening.done():
            listening.result()
    await stream.close()
    listening.cancel()


def main() -> None:
    what, lab = sys.argv[1], json.loads(Path(sys.argv[2]).read_text())
    asyncio.run(soak(lab) if what == "soak" else run(Path(what), lab))


if __name__ == "__main__":
    main()
