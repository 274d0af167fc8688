/**
 * Where daemons and houses are found: directories, sockets, ports and tokens.
 *
 * Invariant: only files are looked at, nothing is started or written. A mesh's name becomes part of a path only if it is
 * a name. Tokens are read anew each time they are needed, because they rotate.
 */

import { createHash } from "node:crypto";
import { existsSync, lstatSync, readFileSync, readdirSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { isAbsolute, join, resolve } from "node:path";

import { ConnectionError, DiscoveryError } from "./errors.js";

/** What is looked up where the caller says nothing. */
export type Environment = Record<string, string | undefined>;

/** Where one daemon may be reached. */
export interface Place {
  /** The mesh, where it is known by name. */
  readonly mesh: string | null;
  /** Its sockets, the usual one first. */
  readonly sockets: readonly string[];
  /** The directory with `http.port` and `local_token`. */
  readonly directory: string | null;
  /** Given instead of the file. */
  readonly port: number | null;
  /** Given instead of the file. */
  readonly token: string | null;
}

/** How a daemon is chosen; everything is found by itself where it is left out. */
export interface DiscoveryOptions {
  /** The mesh's name; else `CLAUDEMESH_MESH`, else the only one there is. */
  mesh?: string;
  /** The directory of all daemons; else `CLAUDEMESH_DAEMON_DIR`, else `~/.claudemesh/daemon`. */
  daemonDir?: string;
  /** The daemon's socket itself. */
  socket?: string;
  /** The daemon's loopback port itself; `token` belongs to it. */
  port?: number;
  /** The token for the port. */
  token?: string;
}

const MESH_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const TOKEN_DIGITS = 64;

function set(environment: Environment, name: string): string | null {
  const value = environment[name];
  return value === undefined || value === "" ? null : value;
}

function home(environment: Environment, otherwise: string): string {
  const found = set(environment, "HOME");
  if (found === null) {
    throw new DiscoveryError("no_home", `HOME is not set: say where to look with ${otherwise}`);
  }
  return found;
}

/** The directory of all daemons. */
export function daemonDirectory(options: DiscoveryOptions, environment: Environment): string {
  const chosen = options.daemonDir ?? set(environment, "CLAUDEMESH_DAEMON_DIR");
  return resolve(chosen ?? join(home(environment, "CLAUDEMESH_DAEMON_DIR"), ".claudemesh", "daemon"));
}

/** Where ephemeral daemons have their sockets, if that directory is there and nobody else's. */
function runtimeDirectory(root: string, environment: Environment): string | null {
  const uid = process.geteuid?.();
  if (uid === undefined) return null;
  const base = set(environment, "XDG_RUNTIME_DIR") ?? tmpdir();
  const digest = createHash("sha256").update(root).digest("hex").slice(0, 12);
  const directory = join(base, `claudemesh-${uid}-${digest}`);
  try {
    const about = lstatSync(directory);
    return about.isDirectory() && about.uid === uid && (about.mode & 0o077) === 0 ? directory : null;
  } catch {
    return null;
  }
}

function names(directory: string, wanted: (path: string) => boolean): string[] {
  let entries: string[];
  try {
    entries = readdirSync(directory);
  } catch {
    return [];
  }
  return entries.filter((name) => MESH_NAME.test(name) && wanted(join(directory, name)));
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

/** Finds the daemon that is meant; whether it answers shows when it is asked. */
export function findDaemon(options: DiscoveryOptions = {}, environment: Environment = process.env): Place {
  const { port = null, token = null } = options;
  const mesh = options.mesh ?? set(environment, "CLAUDEMESH_MESH");
  if (options.socket !== undefined) {
    return { mesh, sockets: [resolve(options.socket)], directory: null, port, token };
  }
  if (port !== null && token !== null) {
    return { mesh, sockets: [], directory: null, port, token };
  }
  const hook = set(environment, "CLAUDEMESH_DAEMON_SOCK");
  if (hook !== null && options.mesh === undefined && options.daemonDir === undefined) {
    return { mesh, sockets: [resolve(hook)], directory: null, port, token };
  }
  const root = daemonDirectory(options, environment);
  const runtime = runtimeDirectory(root, environment);
  const slug = mesh ?? onlyMesh(root, runtime);
  if (!MESH_NAME.test(slug)) {
    throw new DiscoveryError("bad_mesh", `\`${slug}\` is no name of a mesh`);
  }
  const directory = join(root, slug);
  const ephemeral = runtime === null ? null : join(runtime, slug);
  const there = [directory, ephemeral].filter((path): path is string => path !== null && isDirectory(path));
  if (there.length === 0) {
    throw nobody(`there is no daemon of a mesh \`${slug}\` in ${root}`);
  }
  return { mesh: slug, sockets: there.map((path) => join(path, "sock")), directory, port, token };
}

function nobody(message: string): ConnectionError {
  return new ConnectionError("daemon_unreachable", message, { unsent: true });
}

function onlyMesh(root: string, runtime: string | null): string {
  const has = (...files: string[]) => (path: string) => files.some((file) => existsSync(join(path, file)));
  const found = new Set(names(root, has("sock", "http.port")));
  if (runtime !== null) {
    for (const name of names(runtime, has("sock"))) found.add(name);
  }
  const all = [...found].sort();
  const [first, second] = all;
  if (first === undefined) {
    throw nobody(`no daemon is up in ${root}: start one with \`claudemesh daemon up\``);
  }
  if (second !== undefined) {
    throw new DiscoveryError("ambiguous_mesh", `several meshes are here, say which is meant: ${all.join(", ")}`);
  }
  return first;
}

function read(path: string): string | null {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return null;
  }
}

/** The loopback port and token of a place, as they are now. */
export function loopback(place: Place): { port: number; token: string } | null {
  const inFile = (name: string) => (place.directory === null ? null : read(join(place.directory, name)));
  const port = place.port ?? Number(inFile("http.port") ?? Number.NaN);
  const token = place.token ?? inFile("local_token");
  return Number.isInteger(port) && port > 0 && port < 65536 && token !== null && token !== "" ? { port, token } : null;
}

/** Who speaks on the socket where the caller does not say. */
export type Speaker = { scheme: "ClaudeMesh-Session" | "Bearer"; token: string };

/**
 * The session or the hook this program runs in, if it does. Inside a session that has no token any more it is one that
 * nobody has: what was started there never speaks as the member.
 */
export function speaker(environment: Environment = process.env): Speaker | null {
  const file = set(environment, "CLAUDEMESH_IPC_TOKEN_FILE");
  const found = (file === null ? null : read(file)) ?? set(environment, "CLAUDEMESH_IPC_TOKEN")?.trim() ?? null;
  if (found !== null && /^[0-9a-fA-F]{64}$/.test(found)) return { scheme: "ClaudeMesh-Session", token: found };
  if (set(environment, "CLAUDEMESH_SESSION") !== null) return { scheme: "ClaudeMesh-Session", token: "0".repeat(TOKEN_DIGITS) };
  const capability = set(environment, "CLAUDEMESH_CAPABILITY_TOKEN");
  return capability === null ? null : { scheme: "Bearer", token: capability };
}

/** How a house is chosen. */
export interface HouseOptions {
  /** The house's directory; else `HOSTEL_HOME`, else `~/.hostel`. */
  home?: string;
  /** The house's socket itself. */
  socket?: string;
}

/** The socket of the house that is meant. */
export function findHouse(options: HouseOptions = {}, environment: Environment = process.env): string {
  if (options.socket !== undefined) return resolve(options.socket);
  const chosen = options.home ?? set(environment, "HOSTEL_HOME") ?? join(home(environment, "HOSTEL_HOME"), ".hostel");
  return join(isAbsolute(chosen) ? chosen : resolve(chosen), "run", "hostel.sock");
}
