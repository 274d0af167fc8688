/**
 * Events as they come, across lost connections and restarts of the daemon.
 *
 * Invariant: an event is given out once and in the daemon's order. The stream knows its place from the moment it is
 * open; a lost connection is made again and goes on after that place. Where the daemon no longer knows the place, it says
 * so (`gap`), and the messages that came meanwhile are read from the inbox, each once.
 */

import type { IncomingMessage } from "node:http";

import { ConnectionError, MeshError } from "./errors.js";
import type { EventData, GapEvent, InboxItem, InboxPage, InboxQuery, MessageEvent } from "./models.js";
import { Recent, readFrom } from "./recent.js";
import { type Block, BlockReader } from "./sse.js";
import { Backoff, sleep } from "./wait.js";

/** The names of events. Later daemons may send others: they are given out as they come. */
export type EventName = keyof EventData;

/** Something that happened. */
export type MeshEvent<Name extends EventName = EventName> = {
  [Key in Name]: {
    /** Its place; `null` for a `gap` and for what was read from the inbox. */
    readonly id: string | null;
    readonly name: Key;
    readonly data: EventData[Key];
    /** It was read from the inbox after a gap. */
    readonly recovered: boolean;
  };
}[Name];

/** What a stream is to give. */
export interface EventOptions<Name extends EventName = EventName> {
  /** Only these. */
  events?: readonly Name[];
  /** Only those of this topic. */
  topic?: string;
  /** Go on after this place: the `id` of the last event that was dealt with, kept from an earlier run. */
  lastEventId?: string;
  /** Ends the stream: the loop over it ends as if there was nothing more. */
  signal?: AbortSignal;
}

/** What a stream needs of its client. */
export interface EventSource {
  open(query: Record<string, string | undefined>, lastEventId: string | null, signal: AbortSignal): Promise<IncomingMessage>;
  inbox(query: InboxQuery, signal: AbortSignal): Promise<InboxPage>;
}

/** A keepalive comes every 15 s: after this long the connection is taken for dead. */
const SILENCE_MS = 45_000;
/** Messages of one page that are read after a gap. */
const PAGE = 200;

/** A stream of events. Loop over it with `for await`; leaving the loop closes it. */
export class EventStream<Name extends EventName = EventName> implements AsyncIterable<MeshEvent<Name | "gap">> {
  readonly #source: EventSource;
  readonly #query: Record<string, string | undefined>;
  readonly #wantsMessages: boolean;
  readonly #topic: string | undefined;
  readonly #end = new AbortController();
  readonly #recent = new Recent();
  readonly #backoff = new Backoff(100, 5_000);
  readonly #release: () => void;
  #place: string | null;
  /** Where this connection begins, until its first event is here. */
  #begin: string | null = null;
  #opening: Promise<IncomingMessage> | null = null;
  #response: IncomingMessage | null = null;
  #taken = false;

  constructor(source: EventSource, options: EventOptions<Name>) {
    const { events, topic, lastEventId, signal } = options;
    this.#source = source;
    this.#topic = topic;
    this.#query = { events: events === undefined || events.length === 0 ? undefined : events.join(","), topic };
    this.#wantsMessages = events === undefined || events.length === 0 || (events as readonly string[]).includes("message");
    this.#place = lastEventId ?? null;
    const close = () => this.close();
    signal?.addEventListener("abort", close, { once: true });
    this.#release = () => signal?.removeEventListener("abort", close);
    if (signal?.aborted === true) this.close();
  }

  /** Where the stream is: keep it to go on from here in another run. */
  get lastEventId(): string | null {
    return this.#place;
  }

  /** Opens the stream now: what happens from then on is not missed. A loop does this by itself. */
  async open(): Promise<this> {
    if (this.#end.signal.aborted) return this;
    this.#opening ??= this.#connect();
    await this.#opening;
    return this;
  }

  /** Ends the stream. */
  close(): void {
    this.#release();
    this.#end.abort(new ConnectionError("closed", "the stream was closed"));
    this.#response?.destroy();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<MeshEvent<Name | "gap">, void, undefined> {
    if (this.#taken) throw new ConnectionError("closed", "a stream is read once: open another one");
    this.#taken = true;
    try {
      await this.open();
      let response = await this.#opening;
      while (response !== null && !this.#end.signal.aborted) {
        yield* this.#follow(response);
        response = await this.#reconnect();
      }
    } catch (error) {
      if (!this.#end.signal.aborted) throw error;
    } finally {
      this.close();
    }
  }

  async #connect(): Promise<IncomingMessage> {
    const response = await this.#source.open(this.#query, this.#place, this.#end.signal);
    const begin = response.headers["last-event-id"];
    this.#begin = typeof begin === "string" && begin !== "" ? begin : null;
    this.#place ??= this.#begin;
    this.#response = response;
    if (this.#end.signal.aborted) response.destroy();
    return response;
  }

  /** Connects again, for as long as it takes; `null` once the stream is closed. */
  async #reconnect(): Promise<IncomingMessage | null> {
    while (!this.#end.signal.aborted) {
      let pause = this.#backoff.pause();
      await sleep(pause, this.#end.signal);
      try {
        return await this.#connect();
      } catch (error) {
        if (error instanceof MeshError && (error.status === 429 || error.status === 503) && error.code !== "member_revoked") {
          pause = (error.retryAfter ?? 0) * 1000;
          if (pause > 0) await sleep(pause, this.#end.signal);
        } else if (!(error instanceof ConnectionError)) {
          throw error;
        }
      }
    }
    return null;
  }

  /** Gives out what comes over one connection, until that is lost. */
  async *#follow(response: IncomingMessage): AsyncGenerator<MeshEvent<Name | "gap">, void, undefined> {
    const reader = new BlockReader();
    const pieces = response[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
    try {
      while (true) {
        const piece = await this.#piece(pieces, response);
        if (piece === null) return;
        this.#backoff.reset();
        for (const block of reader.push(piece)) {
          if (this.#end.signal.aborted) return;
          if (!(yield* this.#give(block))) return;
        }
      }
    } finally {
      response.destroy();
    }
  }

  /** The next bytes; `null` when the connection is lost or has been silent for too long. */
  async #piece(pieces: AsyncIterator<Uint8Array>, response: IncomingMessage): Promise<Uint8Array | null> {
    const silent = setTimeout(() => response.destroy(), SILENCE_MS);
    const ended = () => response.destroy();
    this.#end.signal.addEventListener("abort", ended, { once: true });
    try {
      const next = await pieces.next();
      return next.done === true ? null : next.value;
    } catch {
      return null;
    } finally {
      clearTimeout(silent);
      this.#end.signal.removeEventListener("abort", ended);
    }
  }

  /** Gives out what a block holds; `false` if the connection has to be made again. */
  async *#give(block: Block): AsyncGenerator<MeshEvent<Name | "gap">, boolean, undefined> {
    if (block.data === null) {
      this.#place = block.id ?? this.#place;
      return true;
    }
    const data = parse(block.data);
    if (block.name === "gap") {
      const begin = this.#begin;
      this.#begin = null;
      yield { id: null, name: "gap", data, recovered: false } as unknown as MeshEvent<Name | "gap">;
      if (!(yield* this.#recover((data as unknown as GapEvent).resume))) return false;
      // The old place is of no use any more; what came before this one has been read.
      this.#place = begin ?? this.#place;
      return true;
    }
    this.#begin = null;
    const known = block.name === "message" && !this.#isNew(data as unknown as MessageEvent);
    this.#place = block.id ?? this.#place;
    if (!known) yield { id: block.id, name: block.name, data, recovered: false } as unknown as MeshEvent<Name | "gap">;
    return true;
  }

  #isNew(message: { id: string; ts?: string; received_at?: string }): boolean {
    return this.#recent.add(message.id, message.ts ?? message.received_at ?? "");
  }

  /** Gives out the messages that were missed; `false` if the daemon went away meanwhile. */
  async *#recover(resume: string): AsyncGenerator<MeshEvent<Name | "gap">, boolean, undefined> {
    if (!this.#wantsMessages) return true;
    const since = readFrom(typeof resume === "string" ? resume : "", this.#recent.forgotten);
    let cursor: string | null = null;
    do {
      const query: InboxQuery = { order: "oldest", mark_seen: false, limit: PAGE };
      if (since !== null) query.since = since;
      if (this.#topic !== undefined) query.topic = this.#topic;
      if (cursor !== null) query.cursor = cursor;
      let page: InboxPage;
      try {
        page = await this.#source.inbox(query, this.#end.signal);
      } catch (error) {
        if (error instanceof ConnectionError) return false;
        throw error;
      }
      for (const item of page.items) {
        if (!this.#isNew(item)) continue;
        yield { id: null, name: "message", data: asEvent(item), recovered: true } as unknown as MeshEvent<Name | "gap">;
      }
      cursor = page.next;
    } while (cursor !== null);
    return true;
  }
}

function parse(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch (cause) {
    throw new ConnectionError("protocol_error", "an event is no JSON", { cause });
  }
}

/** A row of the inbox in the words of an event. The inbox does not say which member a session's key belongs to. */
function asEvent(item: InboxItem): MessageEvent {
  const { received_at, seen_at: _seen, idempotency_key: _key, snippet: _snippet, cursor: _cursor, ...rest } = item;
  return { ...rest, ts: received_at, sender_member_pubkey: "" };
}
