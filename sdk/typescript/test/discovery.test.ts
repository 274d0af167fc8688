import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { loopback, speaker } from "../src/discovery.js";
import { ConnectionError, DiscoveryError, Mesh, findDaemon, findHouse } from "../src/index.js";
import { FakeDaemon, json, scratch } from "./fakes.js";

function code(of: () => unknown): string {
  try {
    of();
  } catch (error) {
    assert.ok(error instanceof DiscoveryError || error instanceof ConnectionError, String(error));
    return error.code;
  }
  return "found";
}

test("the only mesh needs no name, several do", (t) => {
  const root = scratch(t);
  const env = { CLAUDEMESH_DAEMON_DIR: root, HOME: "/nonexistent" };
  assert.equal(code(() => findDaemon({}, env)), "daemon_unreachable");
  mkdirSync(join(root, "lab"));
  assert.equal(code(() => findDaemon({}, env)), "daemon_unreachable");
  writeFileSync(join(root, "lab", "http.port"), "4711\n");
  assert.equal(findDaemon({}, env).mesh, "lab");
  assert.deepEqual(findDaemon({}, env).sockets, [join(root, "lab", "sock")]);
  mkdirSync(join(root, "home"));
  writeFileSync(join(root, "home", "sock"), "");
  assert.equal(code(() => findDaemon({}, env)), "ambiguous_mesh");
  assert.equal(findDaemon({}, { ...env, CLAUDEMESH_MESH: "home" }).mesh, "home");
  assert.equal(findDaemon({ mesh: "lab" }, { ...env, CLAUDEMESH_MESH: "home" }).mesh, "lab");
});

test("nothing but a name becomes part of a path", (t) => {
  const env = { CLAUDEMESH_DAEMON_DIR: scratch(t) };
  for (const mesh of ["../lab", ".", "..", "a/b", "", "-x", "a".repeat(200)]) {
    assert.notEqual(code(() => findDaemon({ mesh }, env)), "found", mesh);
  }
  assert.equal(code(() => findDaemon({ mesh: "lab" }, env)), "daemon_unreachable");
  assert.equal(code(() => findDaemon({}, {})), "no_home");
});

test("port and token are read from their files, or taken as given", (t) => {
  const root = scratch(t);
  mkdirSync(join(root, "lab"));
  const place = findDaemon({ daemonDir: root, mesh: "lab" }, {});
  assert.equal(loopback(place), null);
  writeFileSync(join(root, "lab", "http.port"), "4711\n");
  writeFileSync(join(root, "lab", "local_token"), "secret\n");
  assert.deepEqual(loopback(place), { port: 4711, token: "secret" });
  assert.deepEqual(loopback(findDaemon({ port: 1, token: "t" }, {})), { port: 1, token: "t" });
  writeFileSync(join(root, "lab", "http.port"), "no number");
  assert.equal(loopback(place), null);
});

test("a session is known by its file, by its variable, or as one that has ended", (t) => {
  const file = join(scratch(t), "token");
  const [a, b] = ["a".repeat(64), "b".repeat(64)];
  const sessionToken = (env: Record<string, string>) => speaker(env)?.token ?? null;
  assert.equal(sessionToken({}), null);
  assert.equal(sessionToken({ CLAUDEMESH_IPC_TOKEN: b }), b);
  assert.equal(sessionToken({ CLAUDEMESH_IPC_TOKEN_FILE: file, CLAUDEMESH_IPC_TOKEN: b }), b);
  writeFileSync(file, `${a}\n`);
  assert.equal(sessionToken({ CLAUDEMESH_IPC_TOKEN_FILE: file, CLAUDEMESH_IPC_TOKEN: b }), a);
  assert.equal(sessionToken({ CLAUDEMESH_IPC_TOKEN: "short" }), null);
  assert.equal(sessionToken({ CLAUDEMESH_SESSION: "review" }), "0".repeat(64));
});

test("inside a hook it is the hook's socket and token", () => {
  const env = { CLAUDEMESH_MESH: "lab", CLAUDEMESH_DAEMON_SOCK: "/run/lab/sock", CLAUDEMESH_CAPABILITY_TOKEN: "cap" };
  assert.deepEqual(findDaemon({}, env).sockets, ["/run/lab/sock"]);
  assert.deepEqual(speaker(env), { scheme: "Bearer", token: "cap" });
  assert.deepEqual(speaker({ ...env, CLAUDEMESH_SESSION: "x" })?.scheme, "ClaudeMesh-Session");
});

test("a house is where HOSTEL_HOME says", () => {
  assert.equal(findHouse({}, { HOSTEL_HOME: "/h" }), "/h/run/hostel.sock");
  assert.equal(findHouse({}, { HOME: "/home/me" }), "/home/me/.hostel/run/hostel.sock");
  assert.equal(findHouse({ home: "/x" }, {}), "/x/run/hostel.sock");
  assert.equal(code(() => findHouse({}, {})), "no_home");
});

test("a socket with a long path is reached", { skip: process.platform !== "linux" }, async (t) => {
  const deep = join(scratch(t), "d".repeat(90));
  mkdirSync(deep);
  const near = new FakeDaemon(t);
  await near.listen();
  near.answer = (asked) => json(asked, 200, { ok: true, ts: "now" });
  const { symlinkSync } = await import("node:fs");
  symlinkSync(near.directory, join(deep, "lab"));
  const mesh = new Mesh({ daemonDir: deep, mesh: "lab", env: {} });
  assert.equal((await mesh.heartbeat()).ok, true);
});
