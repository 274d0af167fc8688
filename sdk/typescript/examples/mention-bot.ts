/**
 * Answers whoever mentions it with what an agent says.
 *
 *     node mention-bot.js [AGENT]        (default: echo)
 *
 * The place in the stream is kept in a file, so that what comes while the bot is down is answered when it is back. An
 * answer has an id made of the question's: one that was sent before the bot was killed is not sent again.
 */

import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";

import { House, Mesh, MeshError, type MessageEvent, TurnFailed } from "hostel-sdk";

const PLACE = process.env["BOT_PLACE"] ?? "mention-bot.place";
const [agent = "echo"] = process.argv.slice(2);

const mesh = await Mesh.connect();
const house = await House.connect();
// The same name each time: the session is made once and found again.
const session = await house.createSession(agent, { session_id: `mention-bot-${mesh.name}`, name: "mention bot", mode: "plan" });

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());

function isForUs(message: MessageEvent): boolean {
  // What is for a session of ours, or could not be opened, is not ours to answer.
  return message.mention && message.body !== null && message.recipient_kind === "member";
}

async function answer(message: MessageEvent): Promise<void> {
  let text: string;
  try {
    const turn = await session.prompt(`${message.sender_name} writes:\n\n${message.body}`, {
      // It may talk; what it wants to do on this machine is refused.
      onApproval: () => "reject",
      signal: stop.signal,
    });
    text = turn.content;
  } catch (error) {
    if (!(error instanceof TurnFailed)) throw error;
    text = `I could not answer that: ${error.message}`;
  }
  const options = { replyToId: message.id, client_message_id: `answer-${message.id}` };
  try {
    if (message.topic === null) await mesh.send(message.sender_pubkey, text, options);
    else await mesh.post(message.topic, text, options);
  } catch (error) {
    // It was answered before, in other words.
    if (!(error instanceof MeshError && error.code === "idempotency_key_reused")) throw error;
  }
  console.log(`answered ${message.sender_name}`);
}

const lastEventId = existsSync(PLACE) ? readFileSync(PLACE, "utf8").trim() : "";
const stream = mesh.events({ events: ["message"], signal: stop.signal, ...(lastEventId === "" ? {} : { lastEventId }) });
console.log(`listening in ${mesh.name}`);
try {
  for await (const event of stream) {
    if (event.name === "message" && isForUs(event.data)) await answer(event.data);
    if (event.id !== null) {
      writeFileSync(`${PLACE}.new`, event.id);
      renameSync(`${PLACE}.new`, PLACE);
    }
  }
} catch (error) {
  if (!stop.signal.aborted) throw error;
}
house.close();
