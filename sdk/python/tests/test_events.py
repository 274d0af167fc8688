"""Streams: nothing is missed and nothing comes twice, whatever breaks."""

from __future__ import annotations

import asyncio
import json
import unittest
from typing import Any
from unittest import mock

from hostel_sdk import Mesh, MeshError
from hostel_sdk._events import read_block

from fake import Request, answers, daemon, hangs_up, streams

MESSAGE: dict[str, Any] = {
    "ts": "2026-01-01T00:00:00.000Z",
    "mesh": "lab",
    "kind": "dm",
    "broker_message_id": "b",
    "sender_pubkey": "p",
    "sender_member_pubkey": "p",
    "sender_member_id": "m",
    "sender_name": "bob",
    "topic": None,
    "reply_to_id": None,
    "priority": "next",
    "body": "x",
    "meta": None,
    "mentions": [],
    "mention": False,
    "created_at": None,
    "recipient_pubkey": None,
    "recipient_kind": "member",
}
GAP = 'event: gap\ndata: {"from":"a-1","resume":"/v1/inbox?since=2026-01-01T00:00:00.000Z"}\n\n'


def block(number: int) -> str:
    data = {**MESSAGE, "id": f"row-{number}", "client_message_id": f"c{number}"}
    return f"id: a-{number}\nevent: message\ndata: {json.dumps(data)}\n\n"


def item(number: int) -> dict[str, Any]:
    more = {"received_at": MESSAGE["ts"], "seen_at": None, "idempotency_key": f"c{number}"}
    return {**MESSAGE, **more, "id": f"row-{number}", "client_message_id": f"c{number}"}


async def take(mesh: Mesh, count: int) -> tuple[list[str], str | None]:
    names = []
    async with mesh.events(["message"]) as stream:
        for _ in range(count):
            event = await asyncio.wait_for(stream.__anext__(), 60)
            names.append(event.message.client_message_id if event.message else event.name)
        return names, stream.last_event_id


class Events(unittest.IsolatedAsyncioTestCase):
    async def test_a_broken_stream_goes_on_behind_the_last_event(self) -> None:
        handlers = [streams("a-0", block(1), block(2)), hangs_up, streams("a-2", block(3))]
        async with daemon(*handlers) as fake:
            names, last = await take(Mesh("lab", daemon_dir=fake.root), 3)
            self.assertEqual((names, last), (["c1", "c2", "c3"], "a-3"))
            places = [request.headers.get("last-event-id") for request in fake.asked]
            self.assertEqual(places, [None, "a-2", "a-2"])
            self.assertEqual(fake.asked[0].target, "/v1/events?events=message")

    async def test_one_that_breaks_before_its_first_event_goes_on_where_it_began(self) -> None:
        async with daemon(streams("a-7"), streams("a-7", block(8))) as fake:
            names, _ = await take(Mesh("lab", daemon_dir=fake.root), 1)
            self.assertEqual(names, ["c8"])
            self.assertEqual(fake.asked[1].headers.get("last-event-id"), "a-7")

    async def test_an_event_that_breaks_off_is_not_taken(self) -> None:
        half = block(2)[:-3]
        async with daemon(streams("a-0", block(1), half), streams("a-1", block(2))) as fake:
            names, _ = await take(Mesh("lab", daemon_dir=fake.root), 2)
            self.assertEqual(names, ["c1", "c2"])
            self.assertEqual(fake.asked[1].headers.get("last-event-id"), "a-1")

    async def test_a_gap_is_filled_from_the_inbox(self) -> None:
        first = {"items": [item(1), item(2)], "marked_seen": 0, "next": "more"}
        second = {"items": [item(3)], "marked_seen": 0, "next": None}

        async def live(request: Request) -> None:
            # Three came while the inbox was read, and stands in both.
            await request.stream("z-9", GAP, block(3), block(4))
            await asyncio.Event().wait()

        handlers = [streams("a-0", block(1)), live, answers(200, first), answers(200, second)]
        async with daemon(*handlers) as fake:
            names, last = await take(Mesh("lab", daemon_dir=fake.root), 5)
            self.assertEqual(names, ["c1", "gap", "c2", "c3", "c4"])
            self.assertEqual(last, "a-4")
            pages = [request.target for request in fake.asked[2:4]]
            self.assertIn("since=2026-01-01T00%3A00%3A00.000Z", pages[0])
            self.assertIn("mark_seen=false", pages[0])
            self.assertIn("cursor=more", pages[1])

    async def test_what_is_too_long_ago_to_be_remembered_is_not_given_again(self) -> None:
        late = {**item(5), "received_at": "2026-01-01T00:00:09.000Z"}
        page = {"items": [late], "marked_seen": 0, "next": None}
        with mock.patch("hostel_sdk._events.REMEMBERED", 2):
            async with daemon(streams("a-0", *map(block, range(1, 5))), streams("z-9", GAP), answers(200, page)) as fake:
                names, _ = await take(Mesh("lab", daemon_dir=fake.root), 6)
                self.assertEqual(names, ["c1", "c2", "c3", "c4", "gap", "c5"])
                self.assertIn("since=2026-01-01T00%3A00%3A00.001Z", fake.asked[2].target)

    async def test_behind_a_gap_the_daemons_place_counts(self) -> None:
        empty = {"items": [], "marked_seen": 0, "next": None}
        async with daemon(streams("z-9", GAP), answers(200, empty), streams("z-9", block(5))) as fake:
            names, _ = await take(Mesh("lab", daemon_dir=fake.root), 2)
            self.assertEqual(names, ["gap", "c5"])
            self.assertEqual(fake.asked[2].headers.get("last-event-id"), "z-9")

    async def test_the_first_refusal_is_told_and_later_ones_are_waited_out(self) -> None:
        full = answers(429, {"error": "too_many_streams", "detail": "", "field": None})
        async with daemon(full) as fake:
            with self.assertRaises(MeshError) as caught:
                await take(Mesh("lab", daemon_dir=fake.root), 1)
            self.assertEqual((caught.exception.status, caught.exception.code), (429, "too_many_streams"))
        async with daemon(streams("a-0", block(1)), full, streams("a-1", block(2))) as fake:
            names, _ = await take(Mesh("lab", daemon_dir=fake.root), 2)
            self.assertEqual(names, ["c1", "c2"])

    async def test_who_stops_waiting_loses_nothing(self) -> None:
        async def slowly(request: Request) -> None:
            await request.stream("a-0")
            for number in range(1, 20):
                piece = block(number).encode()
                request.writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                await asyncio.sleep(0.005)

        async def resume(request: Request) -> None:
            place = int(request.headers["last-event-id"].split("-")[1])
            await request.stream(f"a-{place}", *(block(number) for number in range(place + 1, 20)))
            await asyncio.sleep(0.01)

        # Who is slow waits in vain more often.
        async with daemon(slowly, *[resume] * 100_000) as fake:
            names: list[str] = []
            async with Mesh("lab", daemon_dir=fake.root).events(["message"]) as stream:
                while len(names) < 19:
                    try:
                        event = await asyncio.wait_for(stream.__anext__(), 0.003)
                    except asyncio.TimeoutError:
                        continue
                    assert event.message is not None
                    names.append(event.message.client_message_id)
            self.assertEqual(names, [f"c{number}" for number in range(1, 20)])

    async def test_a_stream_can_be_closed_while_somebody_waits(self) -> None:
        async def silent(request: Request) -> None:
            await request.stream("a-0")
            await asyncio.Event().wait()

        async with daemon(silent) as fake:
            stream = Mesh("lab", daemon_dir=fake.root).events()
            await stream.open()

            async def all_of_it() -> list[str]:
                return [event.name async for event in stream]

            waiting = asyncio.create_task(all_of_it())
            # It waits as soon as it has begun, and nothing comes.
            await asyncio.sleep(0.02)
            await stream.close()
            self.assertEqual(await asyncio.wait_for(waiting, 60), [])

    def test_blocks(self) -> None:
        self.assertIsNone(read_block(b": keepalive"))
        event = read_block(b'id: a-1\nevent: of_a_later_minor\ndata: {"x":1}')
        assert event is not None
        self.assertEqual((event.id, event.name, event.data, event.message), ("a-1", "of_a_later_minor", {"x": 1}, None))


if __name__ == "__main__":
    unittest.main()
