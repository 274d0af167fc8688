/** Runs the shared vectors: calls the SDK and writes down what it gave. It knows no expectations. */

import { readFileSync } from "node:fs";
import type { Interface } from "node:readline";

import { ConnectionError, HostelError, House, Mesh, MeshError, HouseError, TurnFailed } from "../src/index.js";
import { type Lab, houseOf, meshOf, say } from "./lab.js";
import { HOUSE, MESH } from "./operations.js";

type Json = any; // eslint-disable-line -- whatever the vectors hold

interface Step {
  as?: string;
  call?: string;
  open?: string;
  stream?: string;
  take?: string;
  count?: number;
  until?: Record<string, unknown>;
  close?: string;
  prompt?: boolean | string;
  control?: string;
  with?: Json;
  capture?: Record<string, string>;
  only?: string[];
}

interface Stream {
  items: AsyncIterator<Json>;
  close(): void;
}

const TAKE_MS = 60_000;

export async function runVectors(path: string, lab: Lab, input: Interface): Promise<void> {
  const { vectors } = JSON.parse(readFileSync(path, "utf8")) as { vectors: { steps: Step[]; only?: string[] }[] };
  const lines = input[Symbol.asyncIterator]();
  const clients = new Map<string, Mesh | House>();
  for (const [index, vector] of vectors.entries()) {
    const run = new Run(lab, clients, lines);
    for (const [number, step] of vector.steps.entries()) {
      const only = step.only ?? vector.only;
      if (only !== undefined && !only.includes(lab.sdk)) continue;
      if (step.control !== undefined) {
        say({ vector: index, step: number, control: run.filled(step.control) });
        const answer = await lines.next();
        if (answer.done === true) throw new Error("nobody answers a control");
        continue;
      }
      say({ vector: index, step: number, ...(await run.outcome(step)) });
    }
    run.end();
  }
  for (const client of clients.values()) {
    if (client instanceof House) client.close();
  }
}

class Run {
  readonly #lab: Lab;
  readonly #clients: Map<string, Mesh | House>;
  readonly #known: Record<string, unknown>;
  readonly #streams = new Map<string, Stream>();

  constructor(lab: Lab, clients: Map<string, Mesh | House>, _lines: AsyncIterator<string>) {
    this.#lab = lab;
    this.#clients = clients;
    this.#known = { dir: lab.dir, sdk: lab.sdk };
    for (const [name, member] of Object.entries(lab.members)) this.#known[name] = member.pubkey;
  }

  async outcome(step: Step): Promise<object> {
    try {
      const ok = (await this.#do(step)) ?? null;
      for (const [name, pointer] of Object.entries(step.capture ?? {})) this.#known[name] = at(ok, pointer);
      return { ok };
    } catch (error) {
      return { error: written(error) };
    }
  }

  end(): void {
    for (const stream of this.#streams.values()) stream.close();
  }

  async #do(step: Step): Promise<Json> {
    const filled = this.#filledIn(step.with ?? {}) as Record<string, Json>;
    const args: Json = Object.fromEntries(Object.entries(filled).filter(([, value]) => value !== null));
    if (step.call !== undefined) {
      const client = this.#client(step.as);
      const operation = client instanceof House ? HOUSE[step.call] : MESH[step.call];
      if (operation === undefined) throw new Error(`there is no operation ${step.call}`);
      return operation(client as never, args);
    }
    if (step.open !== undefined) return this.#open(step, args);
    if (step.take !== undefined) return this.#take(step);
    if (step.close !== undefined) {
      this.#streams.get(step.close)?.close();
      this.#streams.delete(step.close);
      return null;
    }
    if (step.prompt !== undefined) {
      const client = this.#client(step.as ?? "house") as House;
      return (await client.session(args.session_id).prompt(args.prompt)).content;
    }
    throw new Error(`a step does nothing: ${JSON.stringify(step)}`);
  }

  async #open(step: Step, args: Json): Promise<null> {
    const client = this.#client(step.as);
    let stream;
    if (client instanceof House) {
      const options = { sinceSeq: args.since_seq, follow: args.follow };
      stream = client.session(args.session_id).stream(defined(options));
    } else {
      const options = { events: args.events, topic: args.topic, lastEventId: args.last_event_id };
      stream = client.events(defined(options));
    }
    const opened = await stream.open();
    this.#streams.set(step.stream ?? step.open ?? "", { items: opened[Symbol.asyncIterator](), close: () => opened.close() });
    return null;
  }

  async #take(step: Step): Promise<Json[]> {
    const stream = this.#streams.get(step.take ?? "");
    if (stream === undefined) throw new Error(`there is no stream ${step.take}`);
    const until = step.until === undefined ? null : (this.#filledIn(step.until) as Record<string, unknown>);
    const taken: Json[] = [];
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new ConnectionError("timeout", "nothing more came")), TAKE_MS);
    });
    try {
      while (until !== null || taken.length < (step.count ?? 1)) {
        const next = await Promise.race([stream.items.next(), late]);
        if (next.done === true) break;
        const item = next.value;
        taken.push("name" in item && "data" in item ? { id: item.id ?? "", name: item.name, data: item.data } : item);
        if (until !== null && Object.entries(until).every(([key, value]) => item[key] === value)) break;
      }
    } finally {
      clearTimeout(timer);
    }
    return taken;
  }

  #client(name: string | undefined): Mesh | House {
    const who = name ?? "alice";
    const known = this.#clients.get(who) ?? (who === "house" ? houseOf(this.#lab) : meshOf(this.#lab, who));
    this.#clients.set(who, known);
    return known;
  }

  filled(text: string): string {
    return String(this.#filledIn(text));
  }

  #filledIn(value: Json): unknown {
    if (typeof value === "string") {
      const whole = /^\$\{(\w+)\}$/.exec(value);
      if (whole !== null) return this.#value(whole[1] ?? "");
      return value.replace(/\$\{(\w+)\}/g, (_, name: string) => String(this.#value(name)));
    }
    if (Array.isArray(value)) return value.map((item) => this.#filledIn(item));
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value.$repeat)) return String(value.$repeat[0]).repeat(value.$repeat[1]);
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, this.#filledIn(inner)]));
  }

  #value(name: string): unknown {
    if (!Object.hasOwn(this.#known, name)) throw new Error(`nothing is called ${name}`);
    return this.#known[name];
  }
}

function defined<T extends object>(options: T): { [Key in keyof T]: Exclude<T[Key], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as never;
}

/** The value a JSON pointer leads to. */
function at(value: Json, pointer: string): unknown {
  let here = value;
  for (const part of pointer.split("/").slice(1)) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    here = Array.isArray(here) ? here.at(Number(name)) : here?.[name];
  }
  return here ?? null;
}

function written(error: unknown): object {
  if (error instanceof MeshError) return { status: error.status, code: error.code, field: error.field };
  if (error instanceof HouseError) return { code: error.code, message: error.message };
  if (error instanceof TurnFailed) return { code: error.code, message: error.message };
  if (error instanceof HostelError) return { code: error.code };
  throw error;
}
