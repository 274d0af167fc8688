/**
 * HTTP/1.1 to one daemon: over its socket, else over loopback with its token.
 *
 * Invariant: one connection per request. A session's token, or a hook's, is shown on the socket only: over loopback it
 * would be the member who speaks, so they never go there. Answers are bounded.
 */

import { type ClientRequest, type IncomingMessage, request as httpRequest } from "node:http";
import type { Socket } from "node:net";

import { dial, isUnreachable } from "./dial.js";
import { type Place, type Speaker, loopback } from "./discovery.js";
import { ConnectionError } from "./errors.js";

/** The most of an answer that is read; a daemon's are at most 10 MB. */
const ANSWER_LIMIT = 16 * 1024 * 1024;

/** A body longer than this is sent once the daemon wants it: of one that is too long it reads nothing. */
const LARGE = 256 * 1024;

/** What is asked for. */
export interface Request {
  method: "GET" | "POST" | "DELETE";
  path: string;
  query?: Record<string, string | number | boolean | null | undefined>;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** Whoever asks is of no matter: nothing is shown on the socket. */
  plain?: boolean;
}

/** An answer with its whole body. */
export interface Answer {
  status: number;
  retryAfter: number | null;
  text: string;
  /** Whether it came over loopback. */
  loopback: boolean;
}

/** The way to one daemon. */
export class Transport {
  readonly #place: Place;
  readonly #speaker: () => Speaker | null;
  readonly #userAgent: string;

  constructor(place: Place, speaker: () => Speaker | null, userAgent: string) {
    this.#place = place;
    this.#speaker = speaker;
    this.#userAgent = userAgent;
  }

  get place(): Place {
    return this.#place;
  }

  /** Asks once and reads the whole answer. */
  async exchange(request: Request): Promise<Answer> {
    const { response, overLoopback } = await this.open(request);
    const text = await readAll(response, request.signal);
    return { status: response.statusCode ?? 0, retryAfter: retryAfter(response), text, loopback: overLoopback };
  }

  /** Asks once; the body is the caller's to read or to destroy. */
  async open(request: Request): Promise<{ response: IncomingMessage; overLoopback: boolean }> {
    const speaker = this.#speaker();
    const authorization = speaker === null || request.plain === true ? null : `${speaker.scheme} ${speaker.token}`;
    let failure: unknown = null;
    for (const socket of this.#place.sockets) {
      try {
        return { response: await this.#send(request, authorization, () => dial(socket)), overLoopback: false };
      } catch (error) {
        if (!(error instanceof ConnectionError && error.unsent)) throw error;
        failure ??= error;
      }
    }
    const way = speaker === null ? loopback(this.#place) : null;
    if (way !== null) {
      const response = await this.#send(request, `Bearer ${way.token}`, null, way.port);
      return { response, overLoopback: true };
    }
    throw failure ?? new ConnectionError("daemon_unreachable", "the daemon has neither a socket nor a port", { unsent: true });
  }

  #send(request: Request, authorization: string | null, connect: (() => Socket) | null, port = 0): Promise<IncomingMessage> {
    const body = request.body === undefined ? null : JSON.stringify(request.body);
    const size = body === null ? 0 : Buffer.byteLength(body);
    const headers: Record<string, string | number> = {
      "user-agent": this.#userAgent,
      accept: "application/json",
      ...(body === null ? {} : { "content-type": "application/json", "content-length": size }),
      ...(size > LARGE ? { expect: "100-continue" } : {}),
      ...(authorization === null ? {} : { authorization }),
      ...request.headers,
    };
    const where = connect === null
      ? { host: "127.0.0.1", port, agent: false as const }
      : { host: "localhost", createConnection: connect };
    return new Promise((resolve, reject) => {
      if (request.signal?.aborted === true) {
        reject(request.signal.reason);
        return;
      }
      const options = { method: request.method, path: withQuery(request), headers, ...where };
      const asked: ClientRequest = httpRequest(options);
      let connected = false;
      const ended = () => asked.destroy();
      request.signal?.addEventListener("abort", ended, { once: true });
      const settle = () => request.signal?.removeEventListener("abort", ended);
      asked.once("socket", (socket) => {
        if (socket.connecting) socket.once("connect", () => (connected = true));
        else connected = true;
      });
      asked.once("response", (response) => {
        settle();
        // One that has not asked for the body does not want it.
        if (!asked.writableEnded) response.once("end", () => asked.destroy());
        resolve(response);
      });
      asked.on("error", (error) => {
        settle();
        if (request.signal?.aborted === true) {
          reject(request.signal.reason);
        } else {
          reject(lost(error, !connected || isUnreachable(error)));
        }
      });
      if (size > LARGE) {
        asked.once("continue", () => asked.end(body));
        asked.flushHeaders();
      } else {
        asked.end(body ?? undefined);
      }
    });
  }
}

function lost(error: Error, unsent: boolean): ConnectionError {
  return unsent
    ? new ConnectionError("daemon_unreachable", `nobody answers: ${error.message}`, { unsent, cause: error })
    : new ConnectionError("connection_lost", `the daemon went away: ${error.message}`, { cause: error });
}

/** The whole body of an answer. */
export function readAll(response: IncomingMessage, signal?: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = [];
    let size = 0;
    const ended = () => response.destroy();
    const settle = (then: () => void) => {
      signal?.removeEventListener("abort", ended);
      then();
    };
    signal?.addEventListener("abort", ended, { once: true });
    if (signal?.aborted === true) ended();
    response.on("data", (piece: Buffer) => {
      size += piece.length;
      if (size > ANSWER_LIMIT) {
        response.destroy();
        settle(() => reject(new ConnectionError("protocol_error", "the daemon's answer is too long to be one")));
      } else {
        pieces.push(piece);
      }
    });
    const failed = (error?: Error) =>
      settle(() => reject(signal?.aborted === true ? signal.reason : lost(error ?? new Error("its answer broke off"), false)));
    response.once("error", failed);
    response.once("close", () => (response.complete ? undefined : failed()));
    response.once("end", () => settle(() => resolve(Buffer.concat(pieces).toString("utf8"))));
  });
}

/** When the daemon says to come back, in seconds. */
export function retryAfter(response: IncomingMessage): number | null {
  const seconds = Number(response.headers["retry-after"] ?? Number.NaN);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds : null;
}

function withQuery(request: Request): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(request.query ?? {})) {
    if (value !== undefined && value !== null) query.append(name, String(value));
  }
  const text = query.toString();
  return text === "" ? request.path : `${request.path}?${text}`;
}
