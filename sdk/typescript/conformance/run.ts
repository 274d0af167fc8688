/** `run VECTORS LAB` runs the shared vectors, `run soak LAB` the soak's client; see sdk/vectors and sdk/conformance. */

import { createInterface } from "node:readline";

import { readLab } from "./lab.js";
import { runSoak } from "./soak.js";
import { runVectors } from "./vectors.js";

const [what, where] = process.argv.slice(2);
if (what === undefined || where === undefined) {
  process.stderr.write("usage: run VECTORS.json LAB.json | run soak LAB.json\n");
  process.exit(2);
}
const input = createInterface({ input: process.stdin });
try {
  await (what === "soak" ? runSoak(readLab(where), input) : runVectors(what, readLab(where), input));
  input.close();
} catch (error) {
  process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  process.exit(1);
}
