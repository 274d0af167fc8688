"""Requests: what is sent, what is repeated, what is refused."""

from __future__ import annotations

import hashlib
import os
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from hostel_sdk import AmbiguousMesh, BadMesh, ConnectionLost, DaemonUnreachable, Mesh, MeshError, ProtocolError
from hostel_sdk import _discovery as discovery

from fake import answers, daemon, hangs_up

SENT = {"messageId": "a", "client_message_id": "a", "status": "queued", "unknown": {"x": 1}}


class Requests(unittest.IsolatedAsyncioTestCase):
    async def test_versions_are_negotiated(self) -> None:
        async with daemon() as fake:
            mesh = await Mesh.connect(daemon_dir=fake.root)
            self.assertEqual((mesh.mesh, mesh.ipc_minor), ("lab", 4))

    async def test_a_lost_send_is_repeated_with_the_same_id(self) -> None:
        async with daemon(hangs_up, hangs_up, answers(200, {**SENT, "duplicate": True})) as fake:
            sent = await Mesh("lab", daemon_dir=fake.root).send("bob", "hällo", meta={"a": [1]})
            self.assertTrue(sent.duplicate)
            bodies = [request.body for request in fake.asked]
            self.assertEqual(len(bodies), 3)
            self.assertEqual(bodies[0], bodies[2])
            self.assertEqual((bodies[0]["to"], bodies[0]["message"], bodies[0]["meta"]), ("bob", "hällo", {"a": [1]}))
            self.assertTrue(bodies[0]["client_message_id"])

    async def test_what_must_not_be_done_twice_is_not_repeated(self) -> None:
        async with daemon(hangs_up) as fake:
            with self.assertRaises(ConnectionLost):
                await Mesh("lab", daemon_dir=fake.root).share_file("/x")
            self.assertEqual(len(fake.asked), 1)

    async def test_a_busy_daemon_is_asked_again(self) -> None:
        busy = answers(429, {"error": "daemon_busy", "detail": "", "field": None}, Retry_After="0")
        async with daemon(busy, answers(202, SENT)) as fake:
            await Mesh("lab", daemon_dir=fake.root).send("bob", "x", client_message_id="a")
            self.assertEqual(len(fake.asked), 2)

    async def test_a_refusal_keeps_its_words(self) -> None:
        body = {"error": "idempotency_key_reused", "detail": "taken", "field": None, "conflict": "outbox_done_x"}
        async with daemon(answers(409, body)) as fake:
            with self.assertRaises(MeshError) as caught:
                await Mesh("lab", daemon_dir=fake.root).send("bob", "x")
            error = caught.exception
            self.assertEqual((error.status, error.code, error.detail, error.field), (409, body["error"], "taken", None))
            self.assertEqual(error.body["conflict"], "outbox_done_x")

    async def test_an_answer_of_another_shape_is_told(self) -> None:
        async with daemon(answers(202, {**SENT, "status": 7})) as fake:
            with self.assertRaisesRegex(ProtocolError, "status"):
                await Mesh("lab", daemon_dir=fake.root).send("bob", "x")

    async def test_queries_hold_what_was_given(self) -> None:
        page = {"items": [], "marked_seen": 0, "next": None}
        async with daemon(answers(200, page), answers(200, page)) as fake:
            mesh = Mesh("lab", daemon_dir=fake.root)
            await mesh.inbox(limit=1, mark_seen=False, sender="a b&c")
            await mesh.inbox()
            targets = [request.target for request in fake.asked]
            self.assertEqual(targets, ["/v1/inbox?from=a+b%26c&limit=1&mark_seen=false", "/v1/inbox"])

    async def test_a_session_shows_its_token(self) -> None:
        async with daemon(answers(202, SENT)) as fake:
            await Mesh("lab", daemon_dir=fake.root, session_token="ab" * 32).send("bob", "x")
            self.assertEqual(fake.asked[0].headers["authorization"], "ClaudeMesh-Session " + "ab" * 32)


    async def test_a_hook_speaks_to_the_daemon_that_started_it(self) -> None:
        async with daemon(answers(202, SENT)) as fake:
            hook = {"CLAUDEMESH_DAEMON_SOCK": str(fake.root / "lab" / "sock"), "CLAUDEMESH_CAPABILITY_TOKEN": "cap"}
            with mock.patch.dict(os.environ, hook):
                mesh = await Mesh.connect()
                await mesh.send("bob", "x")
            self.assertEqual((mesh.mesh, fake.asked[0].headers["authorization"]), ("lab", "Bearer cap"))


class Discovery(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        place = TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = Path(place.name)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("CLAUDEMESH")}
        patch = mock.patch.dict(os.environ, {**clean, "XDG_RUNTIME_DIR": place.name}, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def mesh(self, name: str) -> Path:
        place = self.root / name
        place.mkdir()
        (place / "http.port").write_text("1\n")
        return place

    async def test_without_a_daemon_it_says_how_to_start_one(self) -> None:
        with self.assertRaisesRegex(DaemonUnreachable, "daemon up"):
            await Mesh.connect(daemon_dir=self.root)
        with self.assertRaises(DaemonUnreachable):
            await Mesh.connect("lab", daemon_dir=self.root)

    async def test_one_mesh_is_found_and_two_are_not(self) -> None:
        self.mesh("lab")
        (self.root / "empty").mkdir()
        self.assertEqual(discovery.mesh_name(self.root), "lab")
        self.mesh("work")
        with self.assertRaisesRegex(AmbiguousMesh, "lab, work"):
            discovery.mesh_name(self.root)
        os.environ["CLAUDEMESH_MESH"] = "work"
        self.assertEqual(discovery.mesh_name(self.root), "work")
        self.assertEqual(discovery.mesh_name(self.root, "lab"), "lab")
        for wrong in ("../lab", ".", "..", "a/b", "-x", "a" * 200):
            with self.assertRaises(BadMesh):
                discovery.mesh_name(self.root, wrong)

    async def test_an_ephemeral_daemon_is_looked_for_only_where_nobody_else_may_write(self) -> None:
        base = self.root / "run"
        base.mkdir()
        os.environ["XDG_RUNTIME_DIR"] = str(base)
        digest = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]
        place = base / f"claudemesh-{os.geteuid()}-{digest}"
        place.mkdir()
        for mode, count in ((0o755, 1), (0o700, 2)):
            place.chmod(mode)
            self.assertEqual(len(discovery.doors(self.root, "lab", "ClaudeMesh-Session 0")), count)

    async def test_loopback_comes_last_and_never_for_a_session(self) -> None:
        (self.mesh("lab") / "local_token").write_text("secret\n")
        found = discovery.doors(self.root, "lab", None)
        self.assertEqual((found[0].socket, found[-1].port), (self.root / "lab" / "sock", 1))
        self.assertEqual(found[-1].authorization, "Bearer secret")
        self.assertNotIn("secret", repr(found))
        self.assertTrue(all(door.port is None for door in discovery.doors(self.root, "lab", "Bearer x")))

    async def test_the_token_of_the_environment(self) -> None:
        self.assertIsNone(discovery.session_token())
        os.environ["CLAUDEMESH_IPC_TOKEN"] = "cd" * 32
        self.assertEqual(discovery.session_token(), "cd" * 32)
        (self.root / "token").write_text("ab" * 32 + "\n")
        os.environ["CLAUDEMESH_IPC_TOKEN_FILE"] = str(self.root / "token")
        self.assertEqual(discovery.session_token(), "ab" * 32)
        del os.environ["CLAUDEMESH_IPC_TOKEN"]
        (self.root / "token").unlink()
        self.assertIsNone(discovery.session_token())
        os.environ["CLAUDEMESH_CAPABILITY_TOKEN"] = "cap"
        self.assertEqual(discovery.shown(), "Bearer cap")
        os.environ["CLAUDEMESH_SESSION"] = "review"
        self.assertEqual(discovery.shown(), "ClaudeMesh-Session " + "0" * 64)
        self.assertEqual(discovery.session_token(), "0" * 64)


if __name__ == "__main__":
    unittest.main()
