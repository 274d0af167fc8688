/**
 * The client of a mesh daemon: the core of its `/v1`, typed.
 *
 * Invariant: what was taken by the daemon is never sent a second time. A message gets its id before the first attempt and
 * keeps it; other requests that change something are repeated only if they have reached nobody.
 */

import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";

import { type DiscoveryOptions, type Environment, findDaemon, loopback, speaker } from "./discovery.js";
import { ConnectionError, MeshError, VersionError } from "./errors.js";
import { type EventName, type EventOptions, type EventSource, EventStream } from "./events.js";
import {
  type Compat, type Deleted, type Fetched, type FileItem, type FileList, type Health, type Heartbeat, IPC_API, IPC_MINOR,
  type InboxPage, type InboxQuery, type Peer, type PeerList, type PeersQuery, type PostRequest, type ProfileApplied,
  type ProfileRequest, type SearchPage, type SearchQuery, type Seen, type SendRequest, type Sent, type ShareRequest,
  type Shared, type Subscribed, type Topic, type TopicList, type Version,
} from "./models.js";
import { type Answer, type Request, Transport, readAll, retryAfter } from "./transport.js";
import { Backoff, sleep } from "./wait.js";
import { USER_AGENT } from "./version.js";

/** How a daemon is found and spoken to; nothing has to be said. */
export interface MeshOptions extends DiscoveryOptions {
  /** Speak as this session (64 hex digits) instead of the one the environment names; `null`: as the member. */
  sessionToken?: string | null;
  /** How long a request may take, repetitions included; default 30 s. Files have 15 minutes. */
  timeoutMs?: number;
  /** Put before the package's own name in `User-Agent`. */
  userAgent?: string;
  /** Instead of `process.env`. */
  env?: Environment;
}

/** Ends a single call. */
export interface CallOptions {
  signal?: AbortSignal;
  timeoutMs?: number;
}

/** What may be said beside a message. */
export type SendOptions = Omit<SendRequest, "to" | "message" | "mesh"> & CallOptions;
/** What may be said beside a post. */
export type PostOptions = Omit<PostRequest, "topic" | "message" | "mesh"> & CallOptions;
/** What may be said beside a file's path. */
export type ShareOptions = Omit<ShareRequest, "path" | "mesh"> & CallOptions;

const TIMEOUT_MS = 30_000;
const TRANSFER_MS = 15 * 60_000;

interface Call extends Request {
  /** It may be repeated, whatever became of it. */
  repeatable: boolean;
  /** Nothing is repeated: who asks wants to know now. */
  once?: boolean;
  timeoutMs?: number | undefined;
}

/** A mesh, through the daemon on this machine. */
export class Mesh {
  readonly #transport: Transport;
  readonly #timeoutMs: number;
  #version: Version | null = null;

  /** A client that asks nobody yet; `Mesh.connect` also makes sure that a daemon answers. */
  constructor(options: MeshOptions = {}) {
    const environment = options.env ?? process.env;
    const given = options.sessionToken;
    const chosen = given === undefined || given === null ? null : { scheme: "ClaudeMesh-Session" as const, token: given };
    const speaks = given === undefined ? () => speaker(environment) : () => chosen;
    const agent = options.userAgent === undefined ? USER_AGENT : `${options.userAgent} ${USER_AGENT}`;
    this.#transport = new Transport(findDaemon(options, environment), speaks, agent);
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
  }

  /** Finds the daemon and agrees on a version with it. */
  static async connect(options: MeshOptions = {}): Promise<Mesh> {
    const mesh = new Mesh(options);
    await mesh.#negotiate();
    return mesh;
  }

  /** The mesh's name; `null` for a client that was given a socket or port and has not connected. */
  get name(): string | null {
    return this.#version?.mesh ?? this.#transport.place.mesh;
  }

  /** The additive version both sides know: the smaller of the daemon's and this package's; 0 before `connect`. */
  get ipcMinor(): number {
    return Math.min(this.#version?.ipc_minor ?? 0, IPC_MINOR);
  }

  async #negotiate(): Promise<void> {
    const version = await this.#ask<Version>({ method: "GET", path: "/v1/version", repeatable: true, once: true, plain: true });
    if (String(version.ipc_api).split(".")[0] !== IPC_API) {
      throw new VersionError(`the daemon speaks ${version.ipc_api}, this package ${IPC_API}`);
    }
    const wanted = this.#transport.place.mesh;
    if (wanted !== null && version.mesh !== wanted) {
      throw new VersionError(`the daemon serves the mesh \`${version.mesh}\` and not \`${wanted}\``);
    }
    this.#version = version;
  }

  // Messages

  /**
   * Sends a message. Once this returns it is on disk and will be delivered, whatever is killed.
   * `to` is a name, a public key or 16 digits of it, `#topic`, `@group`, `*` or `host/session`.
   */
  async send(to: string, message: string, options: SendOptions = {}): Promise<Sent> {
    return this.#taken("/v1/send", { to, message }, options);
  }

  /** Posts to a topic. */
  async post(topic: string, message: string, options: PostOptions = {}): Promise<Sent> {
    return this.#taken("/v1/topic/post", { topic, message }, options);
  }

  #taken(path: string, what: object, options: SendOptions | PostOptions): Promise<Sent> {
    const { signal, timeoutMs, ...rest } = options;
    const body = { ...what, ...rest, client_message_id: rest.client_message_id ?? randomUUID() };
    return this.#ask<Sent>({ method: "POST", path, body, repeatable: true, ...call({ signal, timeoutMs }) });
  }

  /** Subscribes to a topic, which is made if it is not there. */
  subscribe(topic: string, options: CallOptions = {}): Promise<Subscribed> {
    return this.#ask({ method: "POST", path: "/v1/topic/subscribe", body: { topic }, repeatable: true, ...call(options) });
  }

  unsubscribe(topic: string, options: CallOptions = {}): Promise<Subscribed> {
    return this.#ask({ method: "POST", path: "/v1/topic/unsubscribe", body: { topic }, repeatable: true, ...call(options) });
  }

  async topics(options: CallOptions = {}): Promise<Topic[]> {
    return (await this.#get<TopicList>("/v1/topic/list", {}, options)).topics;
  }

  /** A page of what was received, newest first. What is listed counts as seen, unless `mark_seen` is false. */
  inbox(query: InboxQuery = {}, options: CallOptions = {}): Promise<InboxPage> {
    // A page that counts as seen is not asked for twice: `unread_only` would pass over what got lost on the way.
    const repeatable = query.mark_seen === false || query.unread_only !== true;
    return this.#ask({ method: "GET", path: "/v1/inbox", query: { ...query }, repeatable, ...call(options) });
  }

  /** Looks for words in what was received (FTS5). */
  search(q: string, query: Omit<SearchQuery, "q"> = {}, options: CallOptions = {}): Promise<SearchPage> {
    return this.#get("/v1/inbox/search", { q, ...query }, options);
  }

  /** These messages count as seen. */
  markSeen(ids: readonly string[], options: CallOptions = {}): Promise<Seen> {
    return this.#ask({ method: "POST", path: "/v1/inbox/seen", body: { ids }, repeatable: false, ...call(options) });
  }

  deleteMessage(id: string, options: CallOptions = {}): Promise<Deleted> {
    return this.#ask({ method: "DELETE", path: `/v1/inbox/${encodeURIComponent(id)}`, repeatable: false, ...call(options) });
  }

  /** Deletes everything received before then (RFC 3339). */
  deleteBefore(before: string, options: CallOptions = {}): Promise<Deleted> {
    return this.#ask({ method: "DELETE", path: "/v1/inbox", query: { before }, repeatable: false, ...call(options) });
  }

  // Peers

  /** Who is there; with `all` also who is not. */
  async peers(query: PeersQuery = {}, options: CallOptions = {}): Promise<Peer[]> {
    return (await this.#get<PeerList>("/v1/peers", { ...query }, options)).peers;
  }

  /** Changes what peers see. */
  profile(change: ProfileRequest, options: CallOptions = {}): Promise<ProfileApplied> {
    return this.#ask({ method: "POST", path: "/v1/profile", body: change, repeatable: true, ...call(options) });
  }

  /** Says that whoever calls is at work; fades after a minute. */
  heartbeat(options: CallOptions = {}): Promise<Heartbeat> {
    return this.#ask({ method: "POST", path: "/v1/heartbeat", body: {}, repeatable: true, ...call(options) });
  }

  // Files

  /** Shares a file by its path on the daemon's machine. */
  shareFile(path: string, options: ShareOptions = {}): Promise<Shared> {
    const { signal, timeoutMs = TRANSFER_MS, ...rest } = options;
    const body = { path, ...rest };
    return this.#ask({ method: "POST", path: "/v1/file/share", body, repeatable: false, ...call({ signal, timeoutMs }) });
  }

  /** Fetches a file to a path on the daemon's machine. */
  getFile(id: string, out: string, options: CallOptions = {}): Promise<Fetched> {
    return this.#get("/v1/file/get", { id, out }, { timeoutMs: TRANSFER_MS, ...options });
  }

  async files(options: CallOptions = {}): Promise<FileItem[]> {
    return (await this.#get<FileList>("/v1/file/list", {}, options)).files;
  }

  // Events

  /** Events as they come, also across restarts of the daemon. It opens when it is looped over, or by `open()`. */
  events<Name extends EventName = EventName>(options: EventOptions<Name> = {}): EventStream<Name> {
    const source: EventSource = {
      open: (query, place, signal) => this.#stream(query, place, signal),
      inbox: (query, signal) => this.inbox(query, { signal }),
    };
    return new EventStream(source, options);
  }

  async #stream(query: Record<string, string | undefined>, place: string | null, signal: AbortSignal): Promise<IncomingMessage> {
    const timer = new AbortController();
    const timeout = setTimeout(() => timer.abort(late()), this.#timeoutMs);
    const headers: Record<string, string> = { accept: "text/event-stream" };
    if (place !== null) headers["last-event-id"] = place;
    const ends = AbortSignal.any([signal, timer.signal]);
    try {
      const { response } = await this.#transport.open({ method: "GET", path: "/v1/events", query, headers, signal: ends });
      if (response.statusCode !== 200) {
        const text = await readAll(response, timer.signal);
        throw asLoss(refusal({ status: response.statusCode ?? 0, text, retryAfter: retryAfter(response), loopback: false }));
      }
      return response;
    } finally {
      clearTimeout(timeout);
    }
  }

  // The daemon itself

  health(options: CallOptions = {}): Promise<Health> {
    return this.#get("/v1/health", {}, options);
  }

  version(options: CallOptions = {}): Promise<Version> {
    return this.#get("/v1/version", {}, options);
  }

  compat(options: CallOptions = {}): Promise<Compat> {
    return this.#get("/v1/compat", {}, options);
  }

  /** Prometheus' text. */
  async metrics(options: CallOptions = {}): Promise<string> {
    return (await this.#exchange({ method: "GET", path: "/v1/metrics", repeatable: true, ...call(options) })).text;
  }

  // Asking

  #get<T>(path: string, query: Request["query"], options: CallOptions): Promise<T> {
    return this.#ask<T>({ method: "GET", path, ...(query === undefined ? {} : { query }), repeatable: true, ...call(options) });
  }

  async #ask<T>(request: Call): Promise<T> {
    const answer = await this.#exchange(request);
    try {
      return JSON.parse(answer.text) as T;
    } catch (cause) {
      throw new ConnectionError("protocol_error", "the daemon's answer is no JSON", { cause });
    }
  }

  /** Asks until there is an answer, as far as the request may be repeated and there is time. */
  async #exchange(request: Call): Promise<Answer> {
    const deadline = Date.now() + (request.timeoutMs ?? this.#timeoutMs);
    const backoff = new Backoff(50, 2_000);
    while (true) {
      let failure: unknown;
      try {
        return await this.#accepted(request, deadline);
      } catch (error) {
        failure = error;
      }
      const pause = request.once === true ? null : patience(failure, request, backoff);
      if (pause === null || Date.now() + pause >= deadline) throw failure;
      await sleep(pause, request.signal);
    }
  }

  /** Asks once for something that has to work; a second time if the token was changed between reading and showing it. */
  async #accepted(request: Call, deadline: number): Promise<Answer> {
    const token = loopback(this.#transport.place)?.token;
    let answer = await this.#once(request, deadline);
    if (answer.status === 401 && answer.loopback && loopback(this.#transport.place)?.token !== token) {
      answer = await this.#once(request, deadline);
    }
    if (answer.status >= 400) throw asLoss(refusal(answer));
    return answer;
  }

  async #once(request: Call, deadline: number): Promise<Answer> {
    const timer = new AbortController();
    const timeout = setTimeout(() => timer.abort(late()), Math.max(deadline - Date.now(), 1));
    const signal = request.signal === undefined ? timer.signal : AbortSignal.any([request.signal, timer.signal]);
    try {
      return await this.#transport.exchange({ ...request, signal });
    } finally {
      clearTimeout(timeout);
    }
  }
}

function late(): ConnectionError {
  return new ConnectionError("timeout", "the daemon did not answer in time");
}

/** After how many milliseconds a request may be repeated; `null`: not at all. */
function patience(failure: unknown, request: Call, backoff: Backoff): number | null {
  if (failure instanceof MeshError) {
    return failure.status === 429 && failure.retryAfter !== null && request.repeatable ? failure.retryAfter * 1000 : null;
  }
  const lost = failure instanceof ConnectionError && failure.code !== "timeout" && failure.code !== "protocol_error";
  return lost && (request.repeatable || failure.unsent) ? backoff.pause() : null;
}

/** The daemon is ending: the same as if it was gone. */
function asLoss(refused: MeshError): MeshError | ConnectionError {
  if (refused.code !== "closed") return refused;
  return new ConnectionError("connection_lost", refused.detail, { unsent: true, cause: refused });
}

function refusal(answer: Answer): MeshError {
  let body: unknown;
  try {
    body = JSON.parse(answer.text);
  } catch {
    body = {};
  }
  const isObject = typeof body === "object" && body !== null && !Array.isArray(body);
  return new MeshError(answer.status, isObject ? (body as Record<string, unknown>) : {}, answer.retryAfter);
}

/** Only what was said: `undefined` is not put over a default. */
function call(options: { signal?: AbortSignal | undefined; timeoutMs?: number | undefined }): CallOptions {
  return {
    ...(options.signal === undefined ? {} : { signal: options.signal }),
    ...(options.timeoutMs === undefined ? {} : { timeoutMs: options.timeoutMs }),
  };
}
