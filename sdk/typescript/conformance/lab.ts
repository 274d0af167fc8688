/** What the harness has started, and the clients for it. */

import { readFileSync } from "node:fs";

import { House, Mesh } from "../src/index.js";

export interface Lab {
  sdk: string;
  dir: string;
  house: string;
  members: Record<string, { daemon_dir: string; mesh: string; pubkey: string }>;
}

export function readLab(path: string): Lab {
  return JSON.parse(readFileSync(path, "utf8")) as Lab;
}

export function meshOf(lab: Lab, member: string): Mesh {
  const place = lab.members[member];
  if (place === undefined) throw new Error(`the lab has no member ${member}`);
  return new Mesh({ daemonDir: place.daemon_dir, mesh: place.mesh });
}

export function houseOf(lab: Lab): House {
  return new House({ home: lab.house });
}

/** Writes a line of JSON for the harness. */
export function say(line: unknown): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
