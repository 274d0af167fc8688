import assert from "node:assert/strict";
import { test } from "node:test";

import { Mesh, type MeshEvent, MeshError } from "../src/index.js";
import { Recent, readFrom } from "../src/recent.js";
import { BlockReader } from "../src/sse.js";
import { FakeDaemon, events, hangUp, json, message } from "./fakes.js";

async function take(stream: AsyncIterator<MeshEvent>, count: number): Promise<MeshEvent[]> {
  const taken: MeshEvent[] = [];
  while (taken.length < count) {
    const next = await stream.next();
    if (next.done === true) break;
    taken.push(next.value);
  }
  return taken;
}

const ids = (taken: MeshEvent[]) => taken.map((event) => (event.name === "message" ? event.data.id : event.name));

test("blocks come out whole, however their bytes are cut", () => {
  const text = ": connected\n\nid: a-1\nevent: message\ndata: {\"x\":\"ä\"}\n\n: keepalive\n\nid: a-2\n\ndata:one\ndata: two\r\n\r\n";
  const bytes = new TextEncoder().encode(text);
  for (let size = 1; size <= bytes.length; size++) {
    const reader = new BlockReader();
    const blocks = [];
    for (let at = 0; at < bytes.length; at += size) blocks.push(...reader.push(bytes.subarray(at, at + size)));
    assert.deepEqual(blocks, [
      { id: "a-1", name: "message", data: '{"x":"ä"}' },
      { id: "a-2", name: "message", data: null },
      { id: null, name: "message", data: "one\ntwo" },
    ], `in pieces of ${size}`);
  }
});

test("what was given out is remembered, up to a limit", () => {
  const recent = new Recent(2);
  assert.deepEqual([recent.add("a", "2026-01-01T00:00:01.000Z"), recent.add("a", ""), recent.forgotten], [true, false, null]);
  recent.add("b", "2026-01-01T00:00:02.000Z");
  recent.add("c", "2026-01-01T00:00:03.000Z");
  assert.equal(recent.forgotten, "2026-01-01T00:00:01.000Z");
  assert.equal(readFrom("/v1/inbox?since=2026-01-01T00%3A00%3A00.000Z", null), "2026-01-01T00:00:00.000Z");
  assert.equal(readFrom("/v1/inbox?since=2026-01-01T00:00:00.000Z", recent.forgotten), "2026-01-01T00:00:01.001Z");
  assert.equal(readFrom("/v1/inbox?since=2026-01-01T00:00:09.000Z", recent.forgotten), "2026-01-01T00:00:09.000Z");
  assert.equal(readFrom("/v1/inbox", null), null);
});

test("a lost stream goes on after the last event, also if there was none", async (t) => {
  const daemon = await new FakeDaemon(t).listen();
  const scripts = [
    (asked: Parameters<typeof hangUp>[0]) => (events(asked, "a-0"), setImmediate(() => hangUp(asked))),
    (asked: Parameters<typeof hangUp>[0]) => (events(asked, "a-0", message("a-1", "m1"), message("a-2", "m2")), setImmediate(() => hangUp(asked))),
    (asked: Parameters<typeof hangUp>[0]) => events(asked, "a-2", message("a-2", "m2"), message("b-3", "m3")),
  ];
  daemon.answer = (asked) => scripts.shift()?.(asked);
  const stream = new Mesh(daemon.options).events({ events: ["message"], topic: "alerts" });
  const taken = await take(stream[Symbol.asyncIterator](), 3);
  stream.close();
  assert.deepEqual(ids(taken), ["m1", "m2", "m3"]);
  assert.deepEqual(taken.map((event) => event.id), ["a-1", "a-2", "b-3"]);
  assert.equal(stream.lastEventId, "b-3");
  assert.deepEqual(daemon.asked.map((asked) => asked.headers["last-event-id"]), [undefined, "a-0", "a-2"]);
  assert.deepEqual(Object.fromEntries(daemon.asked[0]?.query ?? []), { events: "message", topic: "alerts" });
});

test("after a gap the inbox is read, and nothing comes twice", async (t) => {
  const daemon = await new FakeDaemon(t).listen();
  const row = (id: string) => ({ id, received_at: "2026-01-01T00:00:05.000Z", client_message_id: `c-${id}`, body: id, seen_at: null, idempotency_key: id });
  const gap = `event: gap\ndata: ${JSON.stringify({ from: "a-1", resume: "/v1/inbox?since=2026-01-01T00:00:00.000Z" })}\n\n`;
  let streams = 0;
  daemon.answer = (asked) => {
    if (asked.path === "/v1/inbox") {
      const second = asked.query.get("cursor") === "next";
      json(asked, 200, { items: second ? [row("m3")] : [row("m1"), row("m2")], marked_seen: 0, next: second ? null : "next" });
    } else if (streams++ === 0) {
      events(asked, "a-0", message("a-1", "m1"));
      setImmediate(() => hangUp(asked));
    } else if (streams === 2) {
      events(asked, "b-7", gap);
      asked.response.write(message("b-8", "m3"));
      asked.response.write(message("b-9", "m4"));
    }
  };
  const stream = new Mesh(daemon.options).events();
  const taken = await take(stream[Symbol.asyncIterator](), 5);
  stream.close();
  assert.deepEqual(ids(taken), ["m1", "gap", "m2", "m3", "m4"]);
  assert.deepEqual(taken.map((event) => [event.id, event.recovered]), [["a-1", false], [null, false], [null, true], [null, true], ["b-9", false]]);
  const inbox = daemon.asked.filter((asked) => asked.path === "/v1/inbox").map((asked) => Object.fromEntries(asked.query));
  assert.deepEqual(inbox[0], { order: "oldest", mark_seen: "false", limit: "200", since: "2026-01-01T00:00:00.000Z" });
  assert.equal(inbox[1]?.["cursor"], "next");
});

test("the first opening tells a refusal, later ones are patient with a full house", async (t) => {
  const daemon = await new FakeDaemon(t).listen();
  const full = { error: "too_many_streams", detail: "", field: null };
  daemon.answer = (asked) => json(asked, 429, full, { "retry-after": "0" });
  await assert.rejects(new Mesh(daemon.options).events().open(), (error: MeshError) => error.code === "too_many_streams");
  let streams = 0;
  daemon.answer = (asked) => {
    streams += 1;
    if (streams === 1) (events(asked, "a-0"), setImmediate(() => hangUp(asked)));
    else if (streams === 2) json(asked, 429, full, { "retry-after": "0" });
    else if (streams === 3) (events(asked, "a-0", message("a-1", "m1")), setImmediate(() => hangUp(asked)));
    else json(asked, 503, { error: "member_revoked", detail: "", field: null });
  };
  const stream = new Mesh(daemon.options).events()[Symbol.asyncIterator]();
  assert.deepEqual(ids(await take(stream, 1)), ["m1"]);
  await assert.rejects(take(stream, 1), (error: MeshError) => error.code === "member_revoked");
});

test("a signal ends the loop", async (t) => {
  const daemon = await new FakeDaemon(t).listen();
  daemon.answer = (asked) => events(asked, "a-0", message("a-1", "m1"));
  const abort = new AbortController();
  const seen = [];
  for await (const event of new Mesh(daemon.options).events({ signal: abort.signal })) {
    seen.push(event);
    abort.abort();
  }
  assert.equal(seen.length, 1);
});
