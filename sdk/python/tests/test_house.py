"""Sessions: requests one after the other, and streams that go on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import unittest
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hostel_sdk import ConnectionLost, DaemonUnreachable, House, HouseError, OtherUpdate
from hostel_sdk.models import ApprovalRequest, MessageChunk, TurnComplete

GREETING = {
    "protocol_version": 1,
    "protocolVersion": 1,
    "server_version": "0.1.0",
    "server_pid": 1,
    "tui_id": "tui_1",
    "capabilities": [],
    "commands": [],
}
USAGE = {"input_tokens": 1, "output_tokens": 2, "cached_tokens": 0, "cost_usd": 0.0}

Lines = list[dict[str, Any] | None]


def result(value: dict[str, Any]) -> dict[str, Any]:
    return {"result": value}


def update(kind: str, seq: int, **more: Any) -> dict[str, Any]:
    return {"method": "session/update", "params": {"type": kind, "session_id": "s", "seq": seq, "turn": 1, **more}}


class Fake:
    """A house that answers each request with the next lines; `None` hangs up."""

    def __init__(self, *scripts: Lines) -> None:
        self.scripts = list(scripts)
        self.asked: list[dict[str, Any]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            request = json.loads(line)
            if request["method"] == "initialize":
                script: Lines = [result(GREETING)]
            else:
                self.asked.append(request)
                script = self.scripts.pop(0)
            for frame in script:
                if frame is None:
                    writer.close()
                    return
                more = {} if "method" in frame else {"id": request["id"]}
                writer.write(json.dumps({"jsonrpc": "2.0", **more, **frame}).encode() + b"\n")
        writer.close()


@contextlib.asynccontextmanager
async def house(*scripts: Lines) -> AsyncIterator[tuple[Fake, House]]:
    with TemporaryDirectory() as place:
        (Path(place) / "run").mkdir()
        fake = Fake(*scripts)
        server = await asyncio.start_unix_server(fake.serve, str(Path(place) / "run" / "hostel.sock"))
        client = await House.connect(place)
        try:
            yield fake, client
        finally:
            client.close()
            server.close()
            await asyncio.sleep(0)


MADE = result({"session_id": "s", "agent_alias": "echo", "message_count": 0, "workspace_dir": "/"})
SENT = result({"session_id": "s", "turn": 1, "position": 0, "after_seq": 4})
ATTACHED = result({"session_id": "s", "first_seq": 1, "last_seq": 4, "status": "idle"})
END = update("turn_complete", 9, outcome="completed", content="done", usage=USAGE)
QUESTION = update("approval_request", 6, request_id="r", tool_name="t", arguments_summary="", timeout_secs=1, raw_input={})


class Sessions(unittest.IsolatedAsyncioTestCase):
    async def test_a_turn_goes_on_over_a_restart_and_what_is_asked_is_decided(self) -> None:
        acknowledged = result({"session_id": "s", "request_id": "r", "acknowledged": True})
        chunk = update("agent_message_chunk", 5, text="a", rawInput={}, sessionId="s")
        first: Lines = [ATTACHED, chunk, None]
        again: Lines = [ATTACHED, chunk, QUESTION, {"method": "logs/event", "params": {}}, END]
        async with house([MADE], [SENT], first, again, [acknowledged]) as (fake, client):
            session = await client.create_session("echo")
            asked: list[ApprovalRequest] = []

            async def decide(request: ApprovalRequest) -> Any:
                asked.append(request)
                return "allow_once"

            answer = await asyncio.wait_for(session.prompt("x", approve=decide), 60)
            self.assertEqual((answer.content, answer.usage.output_tokens), ("done", 2))
            self.assertEqual([request.request_id for request in asked], ["r"])
            methods = [request["method"] for request in fake.asked]
            expected = ["session/new", "session/send", "session/attach", "session/attach", "session/approve"]
            self.assertEqual(methods, expected)
            places = [request["params"]["since_seq"] for request in fake.asked[2:4]]
            self.assertEqual(places, [4, 5])

    async def test_making_a_session_is_repeated_under_one_id_and_a_prompt_is_not(self) -> None:
        async with house([None], [MADE], [None]) as (fake, client):
            session = await client.create_session("echo")
            ids = {request["params"]["session_id"] for request in fake.asked}
            self.assertEqual(len(ids), 1)
            with self.assertRaises(ConnectionLost):
                await session.send("x")

    async def test_refusals_keep_their_numbers(self) -> None:
        refused: dict[str, Any] = {"error": {"code": -32000, "message": "no such session"}}
        async with house([update("notice", 1, message="x"), refused]) as (_, client):
            with self.assertRaises(HouseError) as caught:
                await client.session("s").send("x")
            self.assertEqual((caught.exception.code, caught.exception.message), (-32000, "no such session"))

    async def test_each_update_comes_once_and_unknown_ones_too(self) -> None:
        script: Lines = [ATTACHED, update("agent_message_chunk", 5, text="a"), update("agent_message_chunk", 5, text="a")]
        script += [update("of_a_later_minor", 6, what=1), END]
        script += [{"method": "session/update", "params": {"type": "session_closed", "session_id": "s", "last_seq": 9}}]
        async with house(script) as (_, client):
            kinds = [type(update) async for update in client.session("s").stream(since_seq=4)]
            self.assertEqual([kind.__name__ for kind in kinds[:3]], ["MessageChunk", "OtherUpdate", "TurnComplete"])
            self.assertEqual(len(kinds), 4)
            self.assertTrue(MessageChunk in kinds and OtherUpdate in kinds and TurnComplete in kinds)

    async def test_nobody_at_home(self) -> None:
        with self.assertRaisesRegex(DaemonUnreachable, "hostel up"):
            await House.connect("/nonexistent")


if __name__ == "__main__":
    unittest.main()
