/**
 * What happens in a session, across lost connections and restarts of the house.
 *
 * Invariant: updates are given out once and in the order of their numbers. Each stream has a connection of its own, which
 * is held up while nobody takes what came.
 */

import { ConnectionError, HouseError } from "./errors.js";
import type { Update } from "./models.js";
import { RpcConnection } from "./rpc.js";
import { Backoff, sleep } from "./wait.js";

/** What a stream of updates is to give. */
export interface UpdateOptions {
  /** Only what comes after this number; default 0: everything. */
  sinceSeq?: number;
  /** Default true; false: end with what was there at the moment of the call. */
  follow?: boolean;
  /** Ends the stream: the loop over it ends as if there was nothing more. */
  signal?: AbortSignal;
}

/** Updates that may lie here untaken before the house is held up. */
const MOST_UNTAKEN = 256;
/** How long a house may take to attach us. */
const ANSWER_MS = 30_000;
/** The last update of a stream. */
const LAST = new Set(["replay_complete", "replay_failed", "session_closed"]);
/** Refusals after which looking again does not help: no such session, wrong parameters. */
const FINAL = new Set([-32000, -32602]);

/** The updates of one session. Loop over it with `for await`; leaving the loop closes it. */
export class UpdateStream implements AsyncIterable<Update> {
  readonly #socket: string;
  readonly #session: string;
  readonly #follow: boolean;
  readonly #end = new AbortController();
  readonly #release: () => void;
  readonly #backoff = new Backoff(100, 5_000);
  #seq: number;
  #opening: Promise<Attachment> | null = null;
  #taken = false;

  constructor(socket: string, session: string, options: UpdateOptions = {}) {
    this.#socket = socket;
    this.#session = session;
    this.#follow = options.follow ?? true;
    this.#seq = options.sinceSeq ?? 0;
    const { signal } = options;
    const close = () => this.close();
    signal?.addEventListener("abort", close, { once: true });
    this.#release = () => signal?.removeEventListener("abort", close);
    if (signal?.aborted === true) this.close();
  }

  /** The number of the last update that was given out: `sinceSeq` of a later stream. */
  get lastSeq(): number {
    return this.#seq;
  }

  /** Attaches now. A loop does this by itself. */
  async open(): Promise<this> {
    if (this.#end.signal.aborted) return this;
    this.#opening ??= this.#attach();
    await this.#opening;
    return this;
  }

  /** Ends the stream. */
  close(): void {
    this.#release();
    this.#end.abort(new ConnectionError("closed", "the stream was closed"));
    this.#opening?.then((attachment) => attachment.close(), () => undefined);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Update, void, undefined> {
    if (this.#taken) throw new ConnectionError("closed", "a stream is read once: open another one");
    this.#taken = true;
    let attachment: Attachment | null = null;
    try {
      await this.open();
      attachment = await this.#opening;
      while (attachment !== null && !this.#end.signal.aborted) {
        for (let update = await attachment.next(); update !== null; update = await attachment.next()) {
          const seq = "seq" in update ? update.seq : undefined;
          if (seq !== undefined) {
            // An approval that is asked again has the number it had.
            if (seq <= this.#seq && update.type !== "approval_request") continue;
            this.#seq = Math.max(seq, this.#seq);
          }
          if (update.type === "gap") this.#seq = Math.max(this.#seq, update.to_seq);
          this.#backoff.reset();
          yield update;
          if (LAST.has(update.type)) return;
        }
        attachment.close();
        attachment = await this.#reattach();
      }
    } catch (error) {
      if (!this.#end.signal.aborted) throw error;
    } finally {
      attachment?.close();
      this.close();
    }
  }

  #attach(): Promise<Attachment> {
    return Attachment.open(this.#socket, this.#session, this.#seq, this.#follow, this.#end.signal);
  }

  async #reattach(): Promise<Attachment | null> {
    while (!this.#end.signal.aborted) {
      await sleep(this.#backoff.pause(), this.#end.signal);
      try {
        return await this.#attach();
      } catch (error) {
        const passes = error instanceof HouseError ? !FINAL.has(error.code) : error instanceof ConnectionError;
        if (!passes) throw error;
      }
    }
    return null;
  }
}

/** One connection that is attached. */
class Attachment {
  readonly #connection: RpcConnection;
  readonly #untaken: Update[] = [];
  #wake: (() => void) | null = null;
  #over = false;

  private constructor(connection: RpcConnection, session: string, signal: AbortSignal) {
    this.#connection = connection;
    const ended = () => this.close();
    signal.addEventListener("abort", ended, { once: true });
    connection.listen((note) => {
      if (note === null) {
        this.#over = true;
        signal.removeEventListener("abort", ended);
      } else if (note.method === "session/update" && note.params["session_id"] === session) {
        this.#untaken.push(note.params as unknown as Update);
        if (this.#untaken.length >= MOST_UNTAKEN) connection.pause(true);
      }
      this.#wake?.();
    });
  }

  static async open(socket: string, session: string, since: number, follow: boolean, signal: AbortSignal): Promise<Attachment> {
    const connection = await RpcConnection.connect(socket, false);
    const attachment = new Attachment(connection, session, signal);
    const late = setTimeout(() => connection.close("the house does not answer"), ANSWER_MS);
    try {
      await connection.call("session/attach", { session_id: session, since_seq: since, follow }, signal);
      return attachment;
    } catch (error) {
      attachment.close();
      throw error;
    } finally {
      clearTimeout(late);
    }
  }

  /** The next update; `null` when the connection is lost and nothing is left. */
  async next(): Promise<Update | null> {
    while (true) {
      const update = this.#untaken.shift();
      if (update !== undefined) {
        if (this.#untaken.length === 0 && !this.#over) this.#connection.pause(false);
        return update;
      }
      if (this.#over) return null;
      await new Promise<void>((resolve) => (this.#wake = resolve));
      this.#wake = null;
    }
  }

  close(): void {
    this.#connection.close();
  }
}
