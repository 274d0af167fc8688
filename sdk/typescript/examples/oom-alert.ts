/**
 * Runs a worker and tells the mesh when the kernel has killed it for want of memory.
 *
 *     node oom-alert.js alerts -- ./worker --queue mail
 *
 * The alert has an id made of what it is about: however often it is tried, it is posted once. The daemon keeps it until
 * it is delivered, so this program may end at once.
 */

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { hostname } from "node:os";

import { HostelError, Mesh } from "hostel-sdk";

const dashes = process.argv.indexOf("--");
const [topic = "alerts"] = process.argv.slice(2, dashes);
const [command, ...args] = process.argv.slice(dashes + 1);
if (dashes < 0 || command === undefined) {
  console.error("usage: oom-alert [TOPIC] -- COMMAND [ARGUMENT...]");
  process.exit(2);
}

/** How often the kernel has killed something in our control group; `null` where that is not told. */
function oomKills(): number | null {
  try {
    const group = /^0::(.*)$/m.exec(readFileSync("/proc/self/cgroup", "utf8"))?.[1] ?? "/";
    const found = /^oom_kill (\d+)$/m.exec(readFileSync(`/sys/fs/cgroup${group}/memory.events`, "utf8"));
    return found === null ? null : Number(found[1]);
  } catch {
    return null;
  }
}

const mesh = await Mesh.connect();
await mesh.subscribe(topic);
const before = oomKills();
const worker = spawn(command, args, { stdio: "inherit" });
const [code, signal] = await new Promise<[number | null, string | null]>((resolve, reject) => {
  worker.once("error", reject);
  worker.once("close", (code, signal) => resolve([code, signal]));
});

const after = oomKills();
const killed = before !== null && after !== null ? after > before : signal === "SIGKILL";
if (killed) {
  try {
    const sent = await mesh.post(topic, `${hostname()}: ${command} (pid ${worker.pid}) ran out of memory`, {
      priority: "now",
      meta: { host: hostname(), command, pid: worker.pid, signal },
      client_message_id: `oom-${hostname()}-${worker.pid}-${Date.now()}`,
    });
    console.error(`told #${topic} (${sent.client_message_id})`);
  } catch (error) {
    if (!(error instanceof HostelError)) throw error;
    console.error(`#${topic} was not told: ${error.message} (${error.code})`);
  }
}
process.exit(code ?? 1);
