import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { ConnectionError, Mesh, MeshError, VersionError } from "../src/index.js";
import { FakeDaemon, hangUp, json } from "./fakes.js";

const VERSION = {
  daemon_version: "0.1.0", ipc_api: "v1", ipc_minor: 1, schema_version: 1, broker_protocol_min: "2", broker_protocol_max: "2",
  mesh: "lab", ipc_features: [], broker_features_negotiated: {},
};

test("connect agrees on the smaller minor and refuses another major", async (t) => {
  const daemon = await new FakeDaemon(t).listen();
  daemon.answer = (asked) => json(asked, 200, VERSION);
  const mesh = await Mesh.connect(daemon.options);
  assert.deepEqual([mesh.ipcMinor, mesh.name], [1, "lab"]);
  daemon.answer = (asked) => json(asked, 200, { ...VERSION, ipc_minor: 99 });
  assert.ok((await Mesh.connect(daemon.options)).ipcMinor < 99);
  daemon.answer = (asked) => json(asked, 200, { ...VERSION, ipc_api: "v2" });
  await assert.rejects(Mesh.connect(daemon.options), VersionError);
  daemon.answer = (asked) => json(asked, 200, { ...VERSION, mesh: "other" });
  await assert.rejects(Mesh.connect(daemon.options), VersionError);
});

test("connect fails at once where nobody answers", async (t) => {
  const daemon = new FakeDaemon(t);
  await assert.rejects(Mesh.connect(daemon.options), (error: ConnectionError) => error.code === "daemon_unreachable" && error.unsent);
});

test("a message whose answer got lost is sent again under the same id", async (t) => {
  const daemon = await new FakeDaemon(t).listen();
  let left = 2;
  daemon.answer = (asked) => (left-- > 0 ? hangUp(asked) : json(asked, 202, { messageId: "m", client_message_id: asked.body.client_message_id, status: "queued" }));
  const sent = await new Mesh(daemon.options).send("bob", "hello", { priority: "now", meta: { a: 1 } });
  assert.equal(daemon.asked.length, 3);
  const bodies = daemon.asked.map((asked) => asked.body);
  assert.deepEqual(bodies[1], bodies[0]);
  assert.deepEqual(bodies[2], bodies[0]);
  assert.equal(sent.client_message_id, bodies[0].client_message_id);
  assert.deepEqual([bodies[0].to, bodies[0].message, bodies[0].priority, bodies[0].meta], ["bob", "hello", "now", { a: 1 }]);
});

test("a daemon that ends counts as one that is gone", async (t) => {
  const daemon = await new FakeDaemon(t).listen();
  let left = 1;
  daemon.answer = (asked) => (left-- > 0 ? json(asked, 503, { error: "closed", detail: "ending", field: null }) : json(asked, 200, { ok: true, marked_seen: 0 }));
  assert.equal((await new Mesh(daemon.options).markSeen(["a"])).ok, true);
});

test("what changes something and may have been done is not repeated", async (t) => {
  const daemon = await new FakeDaemon(t).listen();
  daemon.answer = hangUp;
  await assert.rejects(new Mesh(daemon.options).deleteMessage("a/b"), (error: ConnectionError) => error.code === "connection_lost");
  assert.deepEqual(daemon.asked.map((asked) => asked.path), ["/v1/inbox/a%2Fb"]);
});

test("a refusal says what, why and about which field, and is not repeated", async (t) => {
  const daemon = await new FakeDaemon(t).listen();
  daemon.answer = (asked) => json(asked, 409, { error: "idempotency_key_reused", detail: "taken", field: "client_message_id", conflict: "outbox_done_x" });
  await assert.rejects(new Mesh(daemon.options).send("bob", "x"), (error: MeshError) => {
    assert.ok(error instanceof MeshError);
    assert.deepEqual([error.status, error.code, error.detail, error.field, error.body["conflict"]], [409, "idempotency_key_reused", "taken", "client_message_id", "outbox_done_x"]);
    return true;
  });
  assert.equal(daemon.asked.length, 1);
});

test("who is told to come back later does", async (t) => {
  const daemon = await new FakeDaemon(t).listen();
  let left = 1;
  daemon.answer = (asked) => (left-- > 0 ? json(asked, 429, { error: "daemon_busy", detail: "", field: null }, { "retry-after": "0" }) : json(asked, 200, { peers: [] }));
  assert.deepEqual(await new Mesh(daemon.options).peers(), []);
  daemon.answer = (asked) => json(asked, 503, { error: "degraded", detail: "full", field: null }, { "retry-after": "1" });
  await assert.rejects(new Mesh(daemon.options).peers(), (error: MeshError) => error.code === "degraded" && error.retryAfter === 1);
});

test("without a socket the way is loopback, with the token as it is now", async (t) => {
  const daemon = await new FakeDaemon(t).listenLoopback("old");
  const path = join(daemon.directory, "local_token");
  daemon.answer = (asked) => {
    if (asked.headers.authorization === "Bearer new") {
      json(asked, 200, { topics: [] });
    } else {
      writeFileSync(path, "new\n");
      json(asked, 401, { error: "unauthorized", detail: "", field: "Authorization" });
    }
  };
  assert.deepEqual(await new Mesh(daemon.options).topics(), []);
  assert.deepEqual(daemon.asked.map((asked) => asked.headers.authorization), ["Bearer old", "Bearer new"]);
  assert.ok(daemon.asked[0]?.headers["user-agent"]?.startsWith("hostel-sdk-typescript/"));
  daemon.answer = (asked) => json(asked, 401, { error: "unauthorized", detail: "", field: null });
  await assert.rejects(new Mesh(daemon.options).topics(), (error: MeshError) => error.status === 401);
});

test("a session speaks on the socket and never over loopback", async (t) => {
  const token = "c".repeat(64);
  const daemon = await new FakeDaemon(t).listenLoopback("secret");
  const options = { ...daemon.options, env: { CLAUDEMESH_IPC_TOKEN: token } };
  // Which of the two it is depends on what it is at when its time is over.
  const inVain = (error: ConnectionError) => error.code === "daemon_unreachable" || error.code === "timeout";
  await assert.rejects(new Mesh(options).health({ timeoutMs: 200 }), inVain);
  assert.equal(daemon.asked.length, 0);
  await daemon.listen();
  await new Mesh(options).health();
  await new Mesh({ ...options, sessionToken: null }).health();
  assert.deepEqual(daemon.asked.map((asked) => asked.headers.authorization), [`ClaudeMesh-Session ${token}`, undefined]);
});

test("a call ends with its signal, and after its time", async (t) => {
  const daemon = await new FakeDaemon(t).listen();
  const abort = new AbortController();
  daemon.answer = () => abort.abort(new Error("enough"));
  await assert.rejects(new Mesh(daemon.options).health({ signal: abort.signal }), /enough/);
  daemon.answer = () => undefined;
  await assert.rejects(new Mesh(daemon.options).health({ timeoutMs: 50 }), (error: ConnectionError) => error.code === "timeout");
});

test("queries have the wire's names and leave out what is not given", async (t) => {
  const daemon = await new FakeDaemon(t).listen();
  daemon.answer = (asked) => json(asked, 200, { items: [], marked_seen: 0, next: null });
  const mesh = new Mesh(daemon.options);
  await mesh.inbox({ since: "2026-01-01T00:00:00+02:00", limit: 5, mark_seen: false, topic: undefined });
  await mesh.search("a & b", { limit: 2 });
  assert.deepEqual(daemon.asked.map((asked) => Object.fromEntries(asked.query)), [
    { since: "2026-01-01T00:00:00+02:00", limit: "5", mark_seen: "false" },
    { q: "a & b", limit: "2" },
  ]);
});

test("an answer that breaks off is no answer", async (t) => {
  const daemon = await new FakeDaemon(t).listen();
  let left = 1;
  daemon.answer = (asked) => {
    if (left-- > 0) {
      asked.response.writeHead(200, { "content-length": "100" });
      asked.response.write('{"files":');
      setImmediate(() => hangUp(asked));
    } else {
      json(asked, 200, { files: [] });
    }
  };
  assert.deepEqual(await new Mesh(daemon.options).files(), []);
  daemon.answer = (asked) => asked.response.end("<html>");
  await assert.rejects(new Mesh(daemon.options).files(), (error: ConnectionError) => error.code === "protocol_error");
});
