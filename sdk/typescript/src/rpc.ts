/**
 * One connection to a house: JSON-RPC 2.0, a line each.
 *
 * Invariant: every request is answered once, by the house or by the loss of the connection. Lines are bounded.
 */

import type { Socket } from "node:net";

import { dial } from "./dial.js";
import { ConnectionError, HouseError } from "./errors.js";
import { type Initialized, NATIVE_PROTOCOL } from "./models.js";
import { oneSpelling } from "./spelling.js";

/** The longest line that is read. */
const LINE_LIMIT = 64 * 1024 * 1024;
/** How long a house may take to greet. */
const GREETING_MS = 10_000;

/** Hears what the house says without being asked; `null` when it is gone. */
export type Listener = (note: { method: string; params: Record<string, unknown> } | null) => void;

interface Waiting {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

/** A connection that has been greeted. */
export class RpcConnection {
  readonly #socket: Socket;
  readonly #quiet: boolean;
  readonly #waiting = new Map<number, Waiting>();
  #listener: Listener | null = null;
  #pieces: Buffer[] = [];
  #held = 0;
  #next = 1;
  #lost: ConnectionError | null = null;
  #greeting: Initialized | null = null;

  private constructor(socket: Socket, quiet: boolean) {
    this.#socket = socket;
    this.#quiet = quiet;
    socket.on("data", (piece) => this.#heard(piece));
    socket.once("error", (error) => this.#lose(`the house went away: ${error.message}`));
    socket.once("close", () => this.#lose("the house closed the connection"));
  }

  /** Connects and says who we are. One that is `quiet` does not keep the program running while nothing is asked. */
  static async connect(path: string, quiet: boolean): Promise<RpcConnection> {
    const socket = dial(path);
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("error", (error) => {
        const text = `nobody answers on ${path}: ${error.message}`;
        reject(new ConnectionError("daemon_unreachable", text, { unsent: true, cause: error }));
      });
    });
    const connection = new RpcConnection(socket, quiet);
    const timer = setTimeout(() => connection.close("the house does not greet"), GREETING_MS);
    try {
      connection.#greeting = (await connection.call("initialize", { protocol_version: NATIVE_PROTOCOL })) as Initialized;
    } catch (error) {
      connection.close("it was refused");
      if (!(error instanceof ConnectionError)) throw error;
      throw new ConnectionError(error.code, error.message, { unsent: true, cause: error });
    } finally {
      clearTimeout(timer);
    }
    return connection;
  }

  /** What the house said about itself. */
  get greeting(): Initialized | null {
    return this.#greeting;
  }

  get isOpen(): boolean {
    return this.#lost === null;
  }

  /** Who hears notifications from now on. */
  listen(listener: Listener): void {
    this.#listener = listener;
    if (this.#lost !== null) listener(null);
  }

  /** Asks and waits for the answer. */
  call(method: string, params: unknown, signal?: AbortSignal): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(signal.reason);
        return;
      }
      if (this.#lost !== null) {
        reject(new ConnectionError("connection_lost", this.#lost.message, { unsent: true }));
        return;
      }
      const id = this.#next++;
      const ended = () => {
        this.#forget(id);
        reject(signal?.reason);
      };
      const settle = () => signal?.removeEventListener("abort", ended);
      signal?.addEventListener("abort", ended, { once: true });
      this.#socket.ref();
      this.#waiting.set(id, {
        resolve: (result) => (settle(), resolve(result)),
        reject: (error) => (settle(), reject(error)),
      });
      this.#socket.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    });
  }

  /** Stops and starts reading: a reader that is slow holds up its own connection and nobody else. */
  pause(paused: boolean): void {
    if (paused) this.#socket.pause();
    else this.#socket.resume();
  }

  close(reason = "the connection was closed"): void {
    this.#lose(reason);
  }

  #forget(id: number): void {
    this.#waiting.delete(id);
    if (this.#quiet && this.#waiting.size === 0) this.#socket.unref();
  }

  #lose(reason: string): void {
    if (this.#lost !== null) return;
    this.#lost = new ConnectionError("connection_lost", reason);
    this.#socket.destroy();
    this.#pieces = [];
    for (const waiting of this.#waiting.values()) waiting.reject(this.#lost);
    this.#waiting.clear();
    this.#listener?.(null);
  }

  #heard(piece: Buffer): void {
    let rest = piece;
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      this.#pieces.push(rest.subarray(0, end));
      const line = Buffer.concat(this.#pieces).toString("utf8");
      this.#pieces = [];
      this.#held = 0;
      rest = rest.subarray(end + 1);
      if (this.#lost === null) this.#line(line);
    }
    if (rest.length > 0) {
      this.#pieces.push(rest);
      this.#held += rest.length;
    }
    if (this.#held > LINE_LIMIT) this.#lose("the house sent a line that is too long to be one");
  }

  #line(line: string): void {
    let message: Record<string, unknown>;
    try {
      message = JSON.parse(line) as Record<string, unknown>;
    } catch {
      this.#lose("the house sent something that is no JSON");
      return;
    }
    if (typeof message["method"] === "string") {
      const params = oneSpelling(message["params"] ?? {}) as Record<string, unknown>;
      // A request of the house (a choice to be shown) is none of ours: it asks others as well, or again.
      if (message["id"] === undefined) this.#listener?.({ method: message["method"], params });
      return;
    }
    const error = message["error"] as { code?: unknown; message?: unknown } | undefined;
    if (message["id"] === null && error !== undefined) {
      this.#lose(String(error.message ?? "the house refused the connection"));
      return;
    }
    const waiting = this.#waiting.get(message["id"] as number);
    if (waiting === undefined) return;
    this.#forget(message["id"] as number);
    if (error !== undefined) waiting.reject(new HouseError(Number(error.code), String(error.message ?? "")));
    else waiting.resolve(oneSpelling(message["result"]));
  }
}
