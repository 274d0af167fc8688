/** The soak's client: sends what it is told to, and writes down what comes, while daemons are killed. */

import type { Interface } from "node:readline";

import { type Lab, meshOf, say } from "./lab.js";

const AT_ONCE = 8;

export async function runSoak(lab: Lab, input: Interface): Promise<void> {
  const [alice, bob] = [meshOf(lab, "alice"), meshOf(lab, "bob")];
  const stream = await bob.events({ events: ["message"] }).open();
  const listening = (async () => {
    for await (const event of stream) {
      if (event.name === "message") say({ event: event.id ?? "", client_message_id: event.data.client_message_id });
    }
  })();
  say({ ready: true });
  const sending = new Set<Promise<void>>();
  for await (const line of input) {
    const { send: id, to, message } = JSON.parse(line) as { send: string; to: string; message: string };
    if (sending.size >= AT_ONCE) await Promise.race(sending);
    const one: Promise<void> = alice
      .send(to, message, { client_message_id: id, timeoutMs: 120_000 })
      .then(() => say({ sent: id }), (error) => say({ failed: id, error: String(error) }))
      .finally(() => sending.delete(one));
    sending.add(one);
  }
  await Promise.all(sending);
  stream.close();
  await listening;
}
