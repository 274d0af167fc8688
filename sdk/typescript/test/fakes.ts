/** Daemons and houses that say what a test tells them to. */

import { once } from "node:events";
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { type IncomingMessage, type Server, type ServerResponse, createServer } from "node:http";
import { type AddressInfo, type Server as NetServer, type Socket, createServer as createNetServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { TestContext } from "node:test";

/** A directory that is gone after the test. */
export function scratch(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), "hostel-sdk-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

export interface Asked {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: IncomingMessage["headers"];
  body: any;
  response: ServerResponse;
}

/** A daemon of the mesh `lab`, on a socket and, if wanted, on loopback. */
export class FakeDaemon {
  readonly daemonDir: string;
  readonly directory: string;
  readonly asked: Asked[] = [];
  answer: (asked: Asked) => void = (asked) => json(asked, 200, {});
  #servers: Server[] = [];
  #sockets = new Set<Socket>();

  constructor(t: TestContext, daemonDir = scratch(t)) {
    this.daemonDir = daemonDir;
    this.directory = join(daemonDir, "lab");
    mkdirSync(this.directory, { recursive: true });
    t.after(() => this.stop());
  }

  get options() {
    return { daemonDir: this.daemonDir, mesh: "lab", env: {} };
  }

  async listen(): Promise<this> {
    await this.#start(join(this.directory, "sock"));
    return this;
  }

  async listenLoopback(token: string): Promise<this> {
    const server = await this.#start({ host: "127.0.0.1", port: 0 });
    writeFileSync(join(this.directory, "http.port"), `${(server.address() as AddressInfo).port}\n`);
    writeFileSync(join(this.directory, "local_token"), `${token}\n`);
    return this;
  }

  /** Ends every connection and listens no more. */
  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    const servers = this.#servers;
    this.#servers = [];
    await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  }

  async #start(where: string | { host: string; port: number }): Promise<Server> {
    const server = createServer((request, response) => {
      const pieces: Buffer[] = [];
      request.on("data", (piece: Buffer) => pieces.push(piece));
      request.on("end", () => {
        const url = new URL(request.url ?? "/", "http://localhost");
        const text = Buffer.concat(pieces).toString();
        const asked: Asked = {
          method: request.method ?? "", path: url.pathname, query: url.searchParams, headers: request.headers,
          body: text === "" ? null : JSON.parse(text), response,
        };
        this.asked.push(asked);
        this.answer(asked);
      });
    });
    server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
    this.#servers.push(server);
    server.listen(where);
    await once(server, "listening");
    return server;
  }
}

export function json(asked: Asked, status: number, body: unknown, headers: Record<string, string> = {}): void {
  asked.response.writeHead(status, { "content-type": "application/json", ...headers });
  asked.response.end(JSON.stringify(body));
}

/** Ends the connection without an answer. */
export function hangUp(asked: Asked): void {
  asked.response.socket?.destroy();
}

/** Begins an event stream. */
export function events(asked: Asked, begin: string | null, ...blocks: string[]): void {
  asked.response.writeHead(200, { "content-type": "text/event-stream", ...(begin === null ? {} : { "last-event-id": begin }) });
  asked.response.write(": connected\n\n");
  for (const block of blocks) asked.response.write(block);
}

export function message(place: string, id: string, ts = "2026-01-01T00:00:00.000Z"): string {
  return `id: ${place}\nevent: message\ndata: ${JSON.stringify({ ts, id, client_message_id: `c-${id}`, body: id })}\n\n`;
}

export interface Called {
  connection: number;
  method: string;
  params: any;
  answer(result: unknown): void;
  refuse(code: number, text: string): void;
  note(params: object): void;
  hangUp(): void;
}

/** A house that greets by itself and leaves the rest to the test. */
export class FakeHouse {
  readonly home: string;
  readonly called: Called[] = [];
  answer: (called: Called) => void = (called) => called.answer({});
  #server: NetServer | null = null;
  #sockets = new Set<Socket>();
  #connections = 0;

  constructor(t: TestContext) {
    this.home = scratch(t);
    t.after(() => this.stop());
  }

  async listen(): Promise<this> {
    const path = join(this.home, "run", "hostel.sock");
    mkdirSync(dirname(path), { recursive: true });
    this.#server = createNetServer((socket) => this.#serve(socket));
    this.#server.listen(path);
    await once(this.#server, "listening");
    return this;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    const server = this.#server;
    this.#server = null;
    if (server !== null) await new Promise((resolve) => server.close(resolve));
  }

  #serve(socket: Socket): void {
    const connection = this.#connections++;
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    socket.on("error", () => undefined);
    let rest = "";
    socket.on("data", (piece) => {
      const lines = (rest + piece.toString()).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const { id, method, params } = JSON.parse(line);
        const say = (what: object) => socket.write(`${JSON.stringify({ jsonrpc: "2.0", ...what })}\n`);
        const called: Called = {
          connection, method, params,
          answer: (result) => say({ id, result }),
          refuse: (code, text) => say({ id, error: { code, message: text } }),
          note: (update) => say({ method: "session/update", params: { session_id: params.session_id, sessionId: params.session_id, ...update } }),
          hangUp: () => socket.destroy(),
        };
        if (method === "initialize") {
          called.answer({ protocol_version: 1, protocolVersion: 1, server_version: "0", server_pid: 1, tui_id: "tui_0", capabilities: [], commands: [] });
        } else {
          this.called.push(called);
          this.answer(called);
        }
      }
    });
  }
}
