/**
 * The client of a house: agent sessions, their turns and their questions.
 *
 * Invariant: a prompt is never put to an agent twice: what may have reached the house is not repeated. What only asks is.
 */

import { type Environment, type HouseOptions, findHouse } from "./discovery.js";
import { ConnectionError, HostelError } from "./errors.js";
import type {
  Acknowledged, Agent, AgentList, ApprovalRequest, Cancelled, Closed, Decision, Initialized, Interrupted, Killed, PromptSent,
  SessionApproveParams, SessionDeleted, SessionInfo, SessionList, SessionListParams, SessionMade, SessionMessages,
  SessionMessagesParams, SessionNewParams, TurnComplete, Update,
} from "./models.js";
import { RpcConnection } from "./rpc.js";
import { type UpdateOptions, UpdateStream } from "./updates.js";
import { Backoff, sleep } from "./wait.js";

/** How a house is found and spoken to. */
export interface HouseConnectOptions extends HouseOptions {
  /** How long a request may take, repetitions included; default 30 s. */
  timeoutMs?: number;
  /** Instead of `process.env`. */
  env?: Environment;
}

/** What may be said about a new session. */
export type SessionOptions = Omit<SessionNewParams, "agent_alias" | "tui_id">;

/** What may be said beside a decision. */
export type ApproveOptions = Pick<SessionApproveParams, "replacement" | "answers" | "passphrase">;

/** What happens while a prompt is worked on. */
export interface PromptOptions {
  /** Hears every update of the turn. */
  onUpdate?: (update: Update) => void;
  /** Decides what the agent asks; without it somebody else has to. */
  onApproval?: (request: ApprovalRequest) => Decision | Promise<Decision>;
  /** Stops waiting; the turn goes on without us. */
  signal?: AbortSignal;
}

/** A turn did not come to its end; `code` is `turn_failed` or `turn_cancelled`. */
export class TurnFailed extends HostelError {
  declare readonly code: string;
  readonly turn: TurnComplete;

  constructor(turn: TurnComplete) {
    super(`turn_${turn.outcome}`, turn.content === "" ? `the turn was ${turn.outcome}` : turn.content);
    this.turn = turn;
  }
}

/** A house, through its socket on this machine. */
export class House {
  readonly #socket: string;
  readonly #timeoutMs: number;
  #connection: Promise<RpcConnection> | null = null;

  /** A client that asks nobody yet; `House.connect` also makes sure that a house answers. */
  constructor(options: HouseConnectOptions = {}) {
    this.#socket = findHouse(options, options.env ?? process.env);
    this.#timeoutMs = options.timeoutMs ?? 30_000;
  }

  /** Finds the house and greets it. */
  static async connect(options: HouseConnectOptions = {}): Promise<House> {
    const house = new House(options);
    await house.initialize();
    return house;
  }

  /** What the house says about itself. */
  async initialize(): Promise<Initialized> {
    const connection = await this.#connected();
    if (connection.greeting === null) throw new ConnectionError("protocol_error", "the house did not greet");
    return connection.greeting;
  }

  /** Ends the connection; the next request makes a new one. Sessions go on. */
  close(): void {
    this.#connection?.then((connection) => connection.close(), () => undefined);
    this.#connection = null;
  }

  /** The agents that can be asked for. */
  async agents(): Promise<Agent[]> {
    return ((await this.#ask("agents/list", {}, true)) as AgentList).agents;
  }

  /** Live sessions; with `all` also archived and killed ones. */
  async sessions(query: SessionListParams = {}): Promise<SessionInfo[]> {
    return ((await this.#ask("session/list", query, true)) as SessionList).sessions;
  }

  /** Makes a session, takes over a live one or brings an archived one back (`session_id`). */
  async createSession(agent: string, options: SessionOptions = {}): Promise<Session> {
    // With a name of its own it is the same session, however often it is asked for.
    const params: SessionNewParams = { agent_alias: agent, ...options };
    const made = (await this.#ask("session/new", params, options.session_id !== undefined)) as SessionMade;
    return new Session(this, made.session_id, made);
  }

  /** A session that is there, by its id. Nobody is asked. */
  session(id: string): Session {
    return new Session(this, id, null);
  }

  /** Any method of the house's protocol. It is repeated after a lost connection only if `repeatable`. */
  call(method: string, params: object = {}, repeatable = false): Promise<unknown> {
    return this.#ask(method, params, repeatable);
  }

  /** For `Session`. */
  updates(session: string, options: UpdateOptions): UpdateStream {
    return new UpdateStream(this.#socket, session, options);
  }

  async #connected(): Promise<RpcConnection> {
    const current = this.#connection;
    if (current !== null) {
      const connection = await current.catch(() => null);
      if (connection?.isOpen === true) return connection;
    }
    if (this.#connection === current) this.#connection = RpcConnection.connect(this.#socket, true);
    return this.#connection as Promise<RpcConnection>;
  }

  async #ask(method: string, params: object, repeatable: boolean): Promise<unknown> {
    const deadline = Date.now() + this.#timeoutMs;
    const backoff = new Backoff(50, 2_000);
    while (true) {
      const timer = new AbortController();
      const late = new ConnectionError("timeout", "the house did not answer in time");
      const timeout = setTimeout(() => timer.abort(late), Math.max(deadline - Date.now(), 1));
      try {
        const connection = await this.#connected();
        return await connection.call(method, params, timer.signal);
      } catch (error) {
        const again = error instanceof ConnectionError && error.code !== "timeout" && (repeatable || error.unsent);
        const pause = backoff.pause();
        if (!again || Date.now() + pause >= deadline) throw error;
        await sleep(pause);
      } finally {
        clearTimeout(timeout);
      }
    }
  }
}

/** One agent session. It lives in the house: leaving it alone does not end it. */
export class Session {
  readonly #house: House;
  readonly id: string;
  /** How it was made; `null` for one that was named by its id. */
  readonly made: SessionMade | null;

  constructor(house: House, id: string, made: SessionMade | null) {
    this.#house = house;
    this.id = id;
    this.made = made;
  }

  /** Puts a prompt in line. Once this returns it is on disk and is put to the agent exactly once. */
  async send(prompt: string): Promise<PromptSent> {
    return (await this.#ask("session/send", { prompt })) as PromptSent;
  }

  /** Puts a prompt in line and waits for the end of its turn, also across a restart of the house. */
  async prompt(prompt: string, options: PromptOptions = {}): Promise<TurnComplete> {
    const { turn, after_seq } = await this.send(prompt);
    const updates = this.stream({ sinceSeq: after_seq, ...(options.signal === undefined ? {} : { signal: options.signal }) });
    const asked = new Set<string>();
    for await (const update of updates) {
      if (!("turn" in update) || update.turn !== turn) {
        if (update.type === "session_closed" || update.type === "replay_failed") break;
        continue;
      }
      options.onUpdate?.(update);
      if (update.type === "approval_request" && options.onApproval !== undefined && !asked.has(update.request_id)) {
        asked.add(update.request_id);
        await this.approve(update.request_id, await options.onApproval(update));
      }
      if (update.type === "turn_complete") {
        if (update.outcome !== "completed") throw new TurnFailed(update);
        return update;
      }
    }
    options.signal?.throwIfAborted();
    throw new ConnectionError("connection_lost", "the session was closed before the turn was over");
  }

  /** What happens in the session, from any point on, also across restarts of the house. */
  stream(options: UpdateOptions = {}): UpdateStream {
    return this.#house.updates(this.id, options);
  }

  /** Answers an `approval_request`. */
  async approve(requestId: string, decision: Decision, options: ApproveOptions = {}): Promise<Acknowledged> {
    return (await this.#ask("session/approve", { request_id: requestId, decision, ...options }, true)) as Acknowledged;
  }

  /** Ends the running turn. */
  async cancel(): Promise<Cancelled> {
    return (await this.#ask("session/cancel", {})) as Cancelled;
  }

  /** Ends the running turn and all that waits. */
  async interrupt(): Promise<Interrupted> {
    return (await this.#ask("session/interrupt", {})) as Interrupted;
  }

  /** Questions and answers, a page counted from the end. */
  async messages(query: Omit<SessionMessagesParams, "session_id"> = {}): Promise<SessionMessages> {
    return (await this.#ask("session/messages", query, true)) as SessionMessages;
  }

  /** Archives the session; `createSession` with its id brings it back. */
  async close(): Promise<Closed> {
    return (await this.#ask("session/close", {})) as Closed;
  }

  /** Archives the session for good. */
  async kill(): Promise<Killed> {
    return (await this.#ask("session/kill", {})) as Killed;
  }

  /** Forgets the session with its history and files. */
  async delete(): Promise<SessionDeleted> {
    return (await this.#ask("session/delete", {})) as SessionDeleted;
  }

  #ask(method: string, params: object, repeatable = false): Promise<unknown> {
    return this.#house.call(method, { session_id: this.id, ...params }, repeatable);
  }
}
