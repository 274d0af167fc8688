import assert from "node:assert/strict";
import { test } from "node:test";

import { ConnectionError, House, HouseError, TurnFailed } from "../src/index.js";
import { oneSpelling } from "../src/spelling.js";
import { type Called, FakeHouse } from "./fakes.js";

test("each key has one spelling, but what is the agent's own stays", () => {
  const given = { session_id: "a", sessionId: "a", usage: { inputTokens: 1, input_tokens: 1 }, list: [{ aB: 1, a_b: 1 }], onlyThis: 2, raw_input: { x_y: 1, xY: 2 } };
  assert.deepEqual(oneSpelling(given), { session_id: "a", usage: { input_tokens: 1 }, list: [{ a_b: 1 }], onlyThis: 2, raw_input: { x_y: 1, xY: 2 } });
});

test("a refusal has its number, and a lost prompt is not repeated", async (t) => {
  const house = await new FakeHouse(t).listen();
  house.answer = (called) => called.refuse(-32000, "there is no session `x`");
  const client = await House.connect({ home: house.home });
  await assert.rejects(client.session("x").send("hi"), (error: HouseError) => error.code === -32000 && /no session/.test(error.message));
  house.answer = (called) => called.hangUp();
  await assert.rejects(client.session("x").send("hi"), (error: ConnectionError) => error.code === "connection_lost" && !error.unsent);
  assert.equal(house.called.length, 2);
  let left = 1;
  house.answer = (called) => (left-- > 0 ? called.hangUp() : called.answer({ sessions: [] }));
  assert.deepEqual(await client.sessions({ all: true }), []);
  client.close();
});

test("nobody there is told at once", async (t) => {
  const house = new FakeHouse(t);
  await assert.rejects(House.connect({ home: house.home }), (error: ConnectionError) => error.code === "daemon_unreachable");
});

/** A session in which one turn of four updates happens; the connection is lost after the second. */
function script(house: FakeHouse, outcome: string): void {
  const updates = [
    { type: "turn_started", prompt: "p", door: "native", seq: 11, turn: 2 },
    { type: "approval_request", request_id: "r", tool_name: "bash", arguments_summary: "", timeout_secs: 9, raw_input: {}, seq: 12, turn: 2 },
    { type: "agent_message_chunk", text: "hi", seq: 13, turn: 2 },
    { type: "turn_complete", outcome, content: "hi", seq: 14, turn: 2, usage: {} },
  ];
  let attached: Called | null = null;
  house.answer = (called) => {
    if (called.method === "session/send") {
      called.answer({ session_id: "s", turn: 2, position: 0, after_seq: 10 });
    } else if (called.method === "session/approve") {
      called.answer({ session_id: "s", request_id: "r", acknowledged: true });
      attached?.hangUp();
    } else if (called.method === "session/attach") {
      const since = called.params.since_seq as number;
      called.answer({ session_id: "s", first_seq: 1, last_seq: 14, status: "busy" });
      const first = attached === null;
      attached = called;
      // Again after a restart: some of what was there, the question anew, and the rest.
      const shown = first ? updates.slice(0, 2) : updates.filter((update) => update.seq > since || update.type === "approval_request");
      for (const update of shown) called.note(update);
    } else {
      called.answer({});
    }
  };
}

test("a prompt is followed to its end across a lost connection, each update once", async (t) => {
  const house = await new FakeHouse(t).listen();
  script(house, "completed");
  const client = new House({ home: house.home });
  const seen: string[] = [];
  const asked: string[] = [];
  const turn = await client.session("s").prompt("p", {
    onUpdate: (update) => seen.push(update.type),
    onApproval: (request) => (asked.push(request.request_id), "allow_once" as const),
  });
  client.close();
  assert.equal(turn.content, "hi");
  assert.deepEqual(asked, ["r"]);
  assert.deepEqual(seen.filter((type) => type !== "approval_request"), ["turn_started", "agent_message_chunk", "turn_complete"]);
  const since = house.called.filter((called) => called.method === "session/attach").map((called) => called.params.since_seq);
  assert.deepEqual(since, [10, 12]);
  const approved = house.called.find((called) => called.method === "session/approve");
  assert.deepEqual(approved?.params, { session_id: "s", request_id: "r", decision: "allow_once" });
});

test("a turn that failed is an error that has it", async (t) => {
  const house = await new FakeHouse(t).listen();
  script(house, "failed");
  const client = new House({ home: house.home });
  const prompted = client.session("s").prompt("p", { onApproval: () => "reject" });
  await assert.rejects(prompted, (error: TurnFailed) => error.code === "turn_failed" && error.turn.seq === 14);
  client.close();
});

test("a replay ends by itself, a stream with its session", async (t) => {
  const house = await new FakeHouse(t).listen();
  house.answer = (called) => {
    called.answer({});
    called.note({ type: "notice", message: "x", seq: 1, turn: 1 });
    called.note({ type: called.params.follow === true ? "session_closed" : "replay_complete", last_seq: 1 });
  };
  const session = new House({ home: house.home }).session("s");
  for (const follow of [true, false]) {
    const types = [];
    for await (const update of session.stream({ follow })) types.push(update.type);
    assert.deepEqual(types, ["notice", follow ? "session_closed" : "replay_complete"]);
  }
  assert.deepEqual(house.called.map((called) => called.params.follow), [true, false]);
});
