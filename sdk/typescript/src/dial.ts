/**
 * Connections to unix sockets, also to those whose path does not fit into a socket address.
 *
 * Invariant: a descriptor that was opened for the way is closed once the connection stands or has failed.
 */

import { closeSync, constants, openSync } from "node:fs";
import { Socket, connect } from "node:net";
import { basename, dirname } from "node:path";

/** The longest path a socket address holds. */
const LONGEST = process.platform === "darwin" ? 103 : 107;

/** Connects to a socket. What goes wrong comes as an event of the connection. */
export function dial(path: string): Socket {
  if (Buffer.byteLength(path) <= LONGEST || process.platform !== "linux") return connect(path);
  let descriptor: number;
  try {
    descriptor = openSync(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY);
  } catch (error) {
    return new Socket().destroy(error as Error);
  }
  const socket = connect(`/proc/self/fd/${descriptor}/${basename(path)}`);
  let open = true;
  const close = () => {
    if (open) closeSync(descriptor);
    open = false;
  };
  socket.once("connect", close).once("error", close).once("close", close);
  return socket;
}

/** Whether an error says that nobody could be reached, so that nothing was sent. */
export function isUnreachable(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && ["ENOENT", "ECONNREFUSED", "EACCES", "EPERM", "ENOTSOCK", "ENOTDIR"].includes(code);
}
