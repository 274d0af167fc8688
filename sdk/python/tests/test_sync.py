"""The facade for scripts: the same calls, without asyncio."""

from __future__ import annotations

import asyncio
import threading
import unittest
from pathlib import Path

from hostel_sdk import MeshError
from hostel_sdk.sync import Mesh

from fake import Handler, answers, daemon, streams
from test_events import block
from test_mesh import SENT


class Thread:
    """A daemon that runs beside the test."""

    def __init__(self, *handlers: Handler) -> None:
        self.handlers = handlers
        self.root = Path()
        self.ready = threading.Event()
        self.loop = asyncio.new_event_loop()
        self.done = asyncio.Event()
        self.thread = threading.Thread(target=lambda: self.loop.run_until_complete(self.serve()))

    async def serve(self) -> None:
        async with daemon(*self.handlers) as fake:
            self.root = fake.root
            self.ready.set()
            await self.done.wait()

    def __enter__(self) -> Path:
        self.thread.start()
        self.ready.wait(10)
        return self.root

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.done.set)
        self.thread.join(10)
        self.loop.close()


class Scripts(unittest.TestCase):
    def test_calls_wait_for_their_answers(self) -> None:
        refused = answers(404, {"error": "peer_not_found", "detail": "no such peer", "field": "to"})
        with Thread(answers(202, SENT), refused) as root, Mesh("lab", daemon_dir=root) as mesh:
            self.assertEqual(mesh.send("bob", "x").client_message_id, "a")
            with self.assertRaisesRegex(MeshError, "no such peer"):
                mesh.send("nobody", "x")

    def test_events_are_an_iterator(self) -> None:
        with Thread(streams("a-0", block(1)), streams("a-1", block(2))) as root, Mesh("lab", daemon_dir=root) as mesh:
            names = []
            for event in mesh.events(["message"]):
                assert event.message is not None
                names.append(event.message.client_message_id)
                if len(names) == 2:
                    break
            self.assertEqual(names, ["c1", "c2"])


if __name__ == "__main__":
    unittest.main()
